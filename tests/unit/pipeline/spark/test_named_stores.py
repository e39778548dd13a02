"""The stores of a job are found by their patterns, and known by the names of their brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.named_stores import broker_name, named_stores, one_store


def store(directory: Path, **topics: tuple[int, int]) -> str:
    """A directory with a table of topics: perm and number of queues of each."""
    (directory / "config").mkdir(parents=True)
    table = {
        name: {"topicName": name, "perm": perm, "readQueueNums": nums, "writeQueueNums": nums}
        for name, (perm, nums) in topics.items()
    }
    (directory / "config/topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return str(directory)


USUAL = {"TBW102": (7, 1), "cluster": (7, 16), "orders": (6, 1), "rmq_sys_member": (1, 1)}


def test_the_name_that_a_store_tells(tmp_path: Path) -> None:
    """The topic of one queue that others may inherit from has the broker's name."""
    assert "one" == broker_name(store(tmp_path / "a", one=(7, 1), **USUAL))
    # Renamed, or not there: it does not say which.
    assert broker_name(store(tmp_path / "b", one=(7, 1), two=(7, 1))) is None
    assert broker_name(store(tmp_path / "c", **USUAL)) is None
    assert broker_name(str(tmp_path / "d")) is None


@pytest.mark.parametrize(
    "text", ["[]", '{"topicConfigTable": 5}', '{"topicConfigTable": {"a": 1}}', "{"]
)
def test_a_table_that_tells_nothing(tmp_path: Path, text: str) -> None:
    """The directory stands for the name, and what is wrong is not said here."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/topics.json").write_text(text)

    assert [str(tmp_path)] == [one.broker for one in named_stores(str(tmp_path))]


def test_patterns_and_names(tmp_path: Path) -> None:
    """Each directory that fits, by its path; a name that is given wins."""
    for name in ("b", "a"):
        store(tmp_path / name / "store", **{f"broker-{name}": (7, 1)})
    (tmp_path / "c").mkdir()
    (tmp_path / "a/file").touch()

    found = named_stores([f"{tmp_path}/*/*", f"other={tmp_path}/c"])

    assert [("broker-a", "a/store"), ("broker-b", "b/store"), ("other", "c")] == [
        (one.broker, one.root.removeprefix(f"{tmp_path}/")) for one in found
    ]
    assert [f"{tmp_path}/a/store", f"other={tmp_path}/c"] == [
        found[at].pattern.text for at in (0, 2)
    ]


def test_a_directory_that_looks_like_a_pattern(tmp_path: Path) -> None:
    """It is what it is called."""
    directory = store(tmp_path / "x[1]", one=(7, 1))
    store(tmp_path / "x1", other=(7, 1))

    assert ["one"] == [one.broker for one in named_stores(directory)]


def test_refusals(tmp_path: Path) -> None:
    """Nothing fits; one comes twice; two have one name; a job takes one."""
    for name in ("a", "b"):
        store(tmp_path / name, same=(7, 1))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    cases = {
        (f"{tmp_path}/n*",): "n*: expected directories of stores that fit, found none",
        (f"{tmp_path}/a", f"{tmp_path}/link"): "link: expected each store once, found it as",
        (f"{tmp_path}/[ab]",): "b: expected brokers of different names, found 'same' here and in",
        (f"x={tmp_path}/[ab]",): "[ab]: expected one store, found 2: ",
        (f"x={tmp_path}/a", f"{tmp_path}/b"): "archive: expected one store, found 2: ",
    }
    for given, text in cases.items():
        with pytest.raises(SparkJobError) as caught:
            one_store(given, "archive")
        assert text in str(caught.value)
