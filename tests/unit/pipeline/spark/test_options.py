"""What is asked of a table is read, or refused in one line that names option and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.options import (
    COMMON,
    INT64_MAX,
    OPTIONS,
    ReadOptions,
    StorePattern,
    store_patterns,
)


def parse(**options: str) -> ReadOptions:
    """As a table reads them that takes all."""
    return ReadOptions.parse("timermq.t", options, set(OPTIONS) - set(COMMON))


def test_values() -> None:
    """Each option is of its kind; names may have any case."""
    found = parse(PATH="/s", Topics="a, b,", due_from="5", partitions="3", damage="report")

    assert ((StorePattern("/s"),), ("a", "b"), 5, 3) == (
        found.stores,
        found.topics,
        found.due_from,
        found.partitions,
    )
    assert "report" == found.damage
    assert ("refuse", INT64_MAX, ()) == (parse(path="/s").damage, found.due_to, found.columns)


@pytest.mark.parametrize(
    ("options", "wants_due", "wants_stored"),
    [
        ({}, False, False),
        ({"due_from": "1"}, True, False),
        ({"due_to": "9"}, True, False),
        ({"stored_from": "1"}, False, True),
        ({"stored_to": "9"}, False, True),
    ],
)
def test_ranges(options: dict[str, str], wants_due: bool, wants_stored: bool) -> None:
    """A range is wanted when one of its ends is given."""
    found = parse(path="/s", **options)

    assert (wants_due, wants_stored) == (found.wants_due(), found.wants_stored())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "timermq.t: option path: expected the store's directory, found none"),
        ({"path": "/s", "paths": '["/t"]'}, "option paths: expected it without path, found both"),
        ({"paths": "/s"}, "option paths: expected a list of texts as JSON, found '/s'"),
        ({"paths": "[1]"}, r"option paths: expected a list of texts as JSON, found '\[1\]'"),
        ({"paths": "[]"}, "option paths: expected a store's directory, found an empty list"),
        ({"path": "hdfs://a/b"}, "option path: hdfs://a/b: expected a directory of this machine"),
        ({"path": "file://host/s"}, "option path: file://host/s: expected a directory of this"),
        ({"path": "/s", "form": "x"}, r"timermq.t: option 'form': expected one of columns, damage"),
        ({"path": "/s", "due_to": "-1"}, r"option due_to: expected epoch milli.* found '-1'"),
        ({"path": "/s", "partitions": "0"}, r"option partitions: .* from 1 to 10000, found '0'"),
        ({"path": "/s", "timer_precision_ms": "7"}, r"one of 100, 200, 500, 1000, found '7'"),
        ({"path": "/s", "damage": "skip"}, r"damage: expected one of refuse, report, found 'skip'"),
    ],
)
def test_refusals(options: dict[str, str], text: str) -> None:
    """Unknown, missing, or no value of its kind."""
    with pytest.raises(SparkJobError, match=text):
        parse(**options)


def test_a_relative_directory_is_the_same_one_for_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads a part of it has a working directory of its own."""
    monkeypatch.chdir(tmp_path)

    assert (StorePattern(f"{tmp_path}/store"),) == parse(path="./store").stores


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data/*/store", StorePattern("/data/*/store")),
        ("a-1=/data/x", StorePattern("/data/x", "a-1")),
        ("/data/a=b", StorePattern("/data/a=b")),
        ("file:/data//x/", StorePattern("/data/x")),
        ("file:///data/x", StorePattern("/data/x")),
        ("a=file://localhost/x", StorePattern("/x", "a")),
        ("gs://b/*/x/", StorePattern("gs://b;/*/x")),
        ("a=gs://b/x?y=z=1", StorePattern("gs://b;y=z%3D1/x", "a")),
    ],
)
def test_stores(text: str, expected: StorePattern) -> None:
    """A pattern, an address of this machine, a broker's name; a path that holds = is a path."""
    assert (expected,) == parse(path=text).stores
    assert (expected,) == store_patterns(expected.text)


def test_a_list_of_stores() -> None:
    """Spark makes ``paths`` of what ``load`` is given."""
    found = parse(paths='["/s", "b=/t"]').stores

    assert (StorePattern("/s"), StorePattern("/t", "b")) == found
    assert found == ReadOptions(path=["/s", found[1]]).stores


def test_what_a_table_does_not_take() -> None:
    """An option that would have no effect is refused."""
    with pytest.raises(SparkJobError, match="option 'topics': expected one of columns, partitions"):
        ReadOptions.parse("timermq.t", {"path": "/s", "topics": "a"})
