"""The rows of an archive in an object store: its files shared out, days and topics from names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from object_store import BUCKET, access, object_store
from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.archive.archive_log import About, Book, commit
from timermq.pipeline.spark.archive.archived_rows import (
    FILES_PER_TASK,
    ArchivedReader,
    ddl,
    listed_files,
    shares,
)
from timermq.pipeline.spark.archive.batch import ArchivedFile
from timermq.pipeline.spark.archive.day_files import PARTITION_COLUMNS, DayFiles, values_of
from timermq.pipeline.spark.archive.lake_place import lake_of
from timermq.pipeline.spark.options import store_path
from timermq.pipeline.spark.tables.delivered_table import TABLE
from timermq.pipeline.spark.tables.source import SPAN_BYTES

COLUMNS = ("phy_offset", "topic")
TOPICS = ("orders", "%RETRY%group", "wëird=/topic", "")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an object store in a process of its own, with one bucket."""
    with object_store(tmp_path_factory.mktemp("moto") / "log") as one:
        yield one


@pytest.fixture
def place(port: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place in the object store that the environment leads to."""
    for name, value in access(port).items():
        monkeypatch.setenv(name, value)
    return store_path(f"s3://{BUCKET}/{request.node.name}")


def archived(place: str) -> None:
    """Make an archive of two batches: a message a topic and day, then one of yesterday's."""
    book = Book(place, About("delivered", internal=False))
    book.begin()
    for low, rows in enumerate(
        ([("2026-11-29", topic) for topic in TOPICS], [("2026-11-28", "orders")])
    ):
        run = book.begin_batch(low, low + 1)
        files = DayFiles(run, "0-one")
        for at, (day, topic) in enumerate(rows):
            columns: dict[str, Any] = {
                "topic": [topic],
                "phy_offset": [10 * low + at],
                "body": [b"x"],
                PARTITION_COLUMNS[0]: [day],
                PARTITION_COLUMNS[1]: [topic],
            }
            arrow: Any = pa
            files.write(arrow.RecordBatch.from_pydict(columns))
        files.close()
        commit(run, files.files)
        book.end_batch(run)
    book.close()


def rows_of(place: str, *names: str) -> list[dict[str, Any]]:
    """The rows of an archive, partition by partition."""
    reader = ArchivedReader(place, names)
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


@pytest.mark.slow
def test_rows(place: str) -> None:
    """Columns come as they are asked for; day and topic are those of the folder."""
    archived(place)

    found = rows_of(place, *PARTITION_COLUMNS, "phy_offset")

    assert {(row["date"], row["topic_name"], row["phy_offset"]) for row in found} == {
        *((date(2026, 11, 29), topic or None, at) for at, topic in enumerate(TOPICS)),
        (date(2026, 11, 28), "orders", 10),
    }
    assert {0, 1, 2, 3, 10} == {row["phy_offset"] for row in rows_of(place, "phy_offset")}
    assert 5 == len(rows_of(place, "topic_name"))


@pytest.mark.slow
def test_no_archive(place: str) -> None:
    """A place without a manifest is refused; an archive without files is empty."""
    with pytest.raises(SparkJobError, match=r"expected an archive, found no _archive/about\.json"):
        listed_files(place)

    Book(place, About("delivered", internal=False)).close()

    assert [] == rows_of(place, "phy_offset")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("remove", "expected the file that the manifest names, found none"),
        ("overwrite", "expected a file of Parquet, found"),
    ],
)
def test_a_file_that_is_not_there(place: str, change: str, found: str) -> None:
    """No row is left out silently."""
    archived(place)
    lake, name = lake_of(place), listed_files(place)[0].path
    if change == "remove":
        lake.remove(name)
    else:
        lake.put(name, b"no parquet")

    with pytest.raises(SparkJobError, match=found):
        rows_of(place, "phy_offset")


def test_names_of_folders(tmp_path: Path) -> None:
    """What a folder's name says is what it was made of."""
    archived(str(tmp_path))

    found = {values_of(file.path) for file in listed_files(str(tmp_path))}

    assert found == {
        *(("2026-11-29", topic or None) for topic in TOPICS),
        ("2026-11-28", "orders"),
    }


def test_shares() -> None:
    """A task reads some small files, or one that is large."""
    sizes = [10, SPAN_BYTES - 10, 1, 3 * SPAN_BYTES, 5, *[0] * FILES_PER_TASK]
    files = [ArchivedFile(str(at), size=size) for at, size in enumerate(sizes)]

    found = shares(files)

    assert files == [file for share in found for file in share]
    assert [2, 1, 1, FILES_PER_TASK, 1] == [len(share) for share in found]


def test_columns() -> None:
    """All are those of the table and the folders'; another one is refused."""
    assert ddl() == f"{TABLE.ddl()}, date date, topic_name string"
    assert ddl(["topic_name", "phy_offset"]) == "topic_name string, phy_offset long"
    with pytest.raises(SparkJobError, match="column 'nothing': expected one of"):
        ddl(["nothing"])
