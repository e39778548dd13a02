"""Tables of what stands in an object store: a copy of a store, and a backup."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs as arrow_fs
import pytest
import trio
from pyspark.sql.streaming.datasource import ReadMaxRows
from trio.testing import MockClock

from damaged_stores import LATER_MS, small_image
from object_store import BUCKET, access, object_store
from rebuild_by_hand import unpack
from simulation.staged_service import SMALL_FILES
from timermq.backup.directory_target import DirectoryTarget
from timermq.backup.shipper import Shipper
from timermq.pipeline.spark import SparkJobError, StoreView
from timermq.pipeline.spark.log_stream import LogStream
from timermq.pipeline.spark.log_stretches import stretches
from timermq.pipeline.spark.named_stores import named_stores
from timermq.pipeline.spark.options import ReadOptions, store_path
from timermq.pipeline.spark.places import ObjectFile
from timermq.pipeline.spark.tables.commit_log_table import CommitLogReader
from timermq.pipeline.spark.tables.declaration import BROKER
from timermq.pipeline.spark.tables.delivered_table import DeliveredReader
from timermq.pipeline.spark.tables.pending_table import PendingReader
from timermq.pipeline.spark.tables.registration import SOURCES
from timermq.pipeline.spark.tables.source import TableReader
from timermq.pipeline.spark.topic_names import topic_names
from timermq.timerlog.segment import CHUNK_COUNT
from timermq.timerlog.unit import UNIT
from timermq.timerstore.os_disk import OsDisk
from unit.pipeline.spark.outlined_store import STRETCHES, outlined_store
from unit.pipeline.spark.store_directories import Row, crashed_directory, rows_of, served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an object store in a process of its own, with one bucket."""
    with object_store(tmp_path_factory.mktemp("moto") / "log") as one:
        yield one


@pytest.fixture(autouse=True)
def environment(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings that lead to it."""
    for name, value in access(port).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with timers in every state, stopped in order."""
    image = trio.run(small_image, clock=MockClock(autojump_threshold=0))
    return unpack(image, tmp_path_factory.mktemp("small") / "store")


async def ship_store(store: str, directory: str) -> str:
    """Back a stopped store up into a directory, in small pieces; returns it."""
    disk = OsDisk()
    shipper = Shipper(
        disk=disk,
        root=store,
        target=DirectoryTarget(disk, directory),
        now_ms=lambda: LATER_MS,
        is_served=lambda: False,
        keep_ms=0,
        queue_file_size=SMALL_FILES.mapped_file_size_consume_queue,
        piece_size=2000,
    )
    while not (await shipper.round()).is_settled:
        pass
    return directory


def put(directory: str, name: str, port: int) -> str:
    """Copy a directory into the object store; returns its URL."""
    options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    system, bucket = arrow_fs.FileSystem.from_uri(f"s3://{BUCKET}?{options}")
    # The stubs of pyarrow leave open what a file system is.
    arrow_fs.copy_files(  # pyright: ignore[reportUnknownMemberType]
        directory,
        f"{bucket}/{name}",
        source_filesystem=arrow_fs.LocalFileSystem(),
        destination_filesystem=system,
    )
    return f"s3://{BUCKET}/{name}"


def rows_by_broker(reader_type: type[TableReader[Any]], *places: str) -> dict[str, list[Row]]:
    """The rows of a table of several stores, of each by its broker."""
    names = reader_type.table.names
    reader = reader_type(ReadOptions(path=places), [*names, BROKER.name])
    found: dict[str, list[Row]] = {}
    for partition in reader.partitions():
        for batch in reader.read(partition):
            for row in batch.to_pylist():
                found.setdefault(row.pop(BROKER.name), []).append(row)
    return found


def test_two_stores_with_names(store: str, port: int, tmp_path: Path) -> None:
    """A name that is given, one that the store tells, and the URL where neither says it."""
    told = shutil.copytree(store, tmp_path / "told")
    usual = {"perm": 7, "readQueueNums": 1, "writeQueueNums": 1}
    table = {"topicConfigTable": {"broker-b": {"topicName": "broker-b", **usual}}}
    (told / "config").mkdir(exist_ok=True)
    (told / "config/topics.json").write_text(json.dumps(table))
    first = put(store, "named/a/store", port)
    second = put(str(told), "named/b/store", port)

    for reader in (CommitLogReader, PendingReader):
        expected = rows_of(reader, store)
        found = rows_by_broker(reader, f"broker-a={first}", second)
        assert {"broker-a": expected, "broker-b": expected} == found
        # Without names, by a pattern behind the bucket.
        pattern = f"s3://{BUCKET}/named/[ab]/*"
        assert {first: expected, "broker-b": expected} == rows_by_broker(reader, pattern)
    with pytest.raises(SparkJobError, match=r"expected each store once, found it as s3://"):
        named_stores([first, f"other={first}/"])
    with pytest.raises(SparkJobError, match="expected directories of stores that fit, found none"):
        named_stores(f"s3://{BUCKET}/named/c*/store")


def test_a_backup_in_a_list(store: str, tmp_path: Path) -> None:
    """It gives its log; a table that needs more says which one of the list has not got it."""
    backup = trio.run(ship_store, store, str(tmp_path / "backup"))
    places = f"a={store}", f"b={backup}"

    found = rows_by_broker(CommitLogReader, *places)

    assert ["a", "b"] == list(found)
    assert found["a"] == found["b"] == rows_of(CommitLogReader, store)
    with pytest.raises(SparkJobError, match=f"^{backup}: expected a store, .* found a backup"):
        rows_by_broker(PendingReader, *places)


def test_outlines_there(port: int, tmp_path: Path) -> None:
    """A plan is made by the outlines that were copied, as that of a store which is served."""
    root = outlined_store(tmp_path / "outlined")
    url = store_path(put(root, "stores/outlined", port))

    with served(root):
        expected = rows_of(PendingReader, root, "deliver_ms", "order_py")
        kept = [one.deletes is None for one in stretches(StoreView.of(root).timer_log)]
    found = [one.deletes is None for one in stretches(StoreView.of(url).timer_log)]

    assert kept == found
    assert kept.count(True) == STRETCHES
    assert expected == rows_of(PendingReader, url, "deliver_ms", "order_py")


def test_looks_at_outlines_there(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look a segment, whatever it holds; outlines of a log that was cut since are not taken."""
    root = outlined_store(tmp_path / "outlined")
    looks = count_reads(monkeypatch)
    url = store_path(put(root, "stores/looked_at", port))
    view = StoreView.of(url)
    looks.clear()
    fits = [one.deletes is None for one in stretches(view.timer_log)]
    for_outlines, of_log = (
        [size for path, size in looks if folder in path]
        for folder in ("/timermq-outlines/", "/timerlog/")
    )
    write_on_from(root, 1)
    with served(root):
        expected = [one.deletes is None for one in stretches(StoreView.of(root).timer_log)]
        rows = rows_of(PendingReader, root, "deliver_ms", "order_py")
    url = store_path(put(root, "stores/cut", port))

    assert [True] * STRETCHES == fits[:STRETCHES]
    segments = len(view.timer_log.starts)
    assert segments < STRETCHES
    assert [segments, segments] == [len(for_outlines), of_log.count(UNIT.size)]
    assert len(fits) - STRETCHES == len(of_log) - segments
    assert [True, *[False] * (len(fits) - 1)] == expected
    assert expected == [one.deletes is None for one in stretches(StoreView.of(url).timer_log)]
    assert rows == rows_of(PendingReader, url, "deliver_ms", "order_py")


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The reads of objects from now on: their paths, and how many bytes were asked for."""
    found, read_at = list[tuple[str, int]](), ObjectFile.read_at

    def counted(self: ObjectFile, size: int, offset: int) -> bytes:
        found.append((self.path, size))
        return read_at(self, size, offset)

    monkeypatch.setattr(ObjectFile, "read_at", counted)
    return found


def write_on_from(root: str, stretch: int) -> None:
    """Let a timer log be as one that was cut behind some stretches and written again since.

    Every unit behind them was written a second later, for the same slot.
    """
    behind = stretch * CHUNK_COUNT
    for path in sorted((Path(root) / "timerlog").iterdir()):
        units = np.memmap(path, UNIT.dtype, "r+", 0, path.stat().st_size // UNIT.size)
        again = units[behind:]
        are = again["size"] == UNIT.size
        again["write_ms"][are] += 1000
        again["delay_ms"][are] -= 1000
        units.flush()
        behind = max(behind - len(units), 0)


def test_a_copy_of_a_store(store: str, port: int) -> None:
    """Every table of a store that was stopped in order has the same rows there."""
    url = store_path(put(store, "stores/one", port))

    for source in SOURCES:
        expected = rows_of(source.reader_type, store)
        assert expected == rows_of(source.reader_type, url), source.name()
        assert expected or source.name() == "timermq.wheel"
    assert topic_names(store) == topic_names(url)


def test_a_copy_of_a_killed_store(port: int, tmp_path: Path) -> None:
    """What its checkpoints say is read, and no record behind it."""
    _, root = crashed_directory(tmp_path / "store")
    url = store_path(put(root, "stores/killed", port))

    all_rows = rows_of(CommitLogReader, root, "phy_offset", "body")
    found = rows_of(CommitLogReader, url, "phy_offset", "body")
    end = StoreView.of(url).log.end
    assert [row for row in all_rows if row["phy_offset"] < end] == found
    assert 0 < len(found) <= len(all_rows)


def test_the_place_in_full(store: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL may have the options of pyarrow; what it has counts more than the environment."""
    url = put(store, "stores/two", port)
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    full = f"{url}/?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"

    place = store_path(full)

    assert place == (
        f"s3://{BUCKET};endpoint_override=127.0.0.1:{port}&region=us-east-1&scheme=http/stores/two"
    )
    assert place == store_path(place)
    assert StoreView.of(full) == StoreView.of(place)
    assert rows_of(DeliveredReader, store, "phy_offset") == rows_of(
        DeliveredReader, place, "phy_offset"
    )


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://b", "s3://b;"),
        ("s3://b//a/x/../.c./", "s3://b;/a/.c."),
        ("s3://b/a?region=r", "s3://b;region=r/a"),
        ("gs://b/a", "gs://b;/a"),
    ],
)
def test_places(monkeypatch: pytest.MonkeyPatch, url: str, place: str) -> None:
    """A URL has one spelling for all processes, and that one stays as it is."""
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)

    assert [place] * 2 == [store_path(url), store_path(store_path(url))]


def test_a_place_with_credentials() -> None:
    """They would stand in messages and in Spark's plans."""
    with pytest.raises(SparkJobError, match="expected no credentials in it") as caught:
        store_path("s3://key:secret@bucket/store", "timermq.wheel: option path")

    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (f"s3://{BUCKET}/nothing", "expected a store, found no folder commitlog"),
        ("s3://no-such-bucket/store", "expected a store, found no folder commitlog"),
    ],
)
def test_no_store_there(url: str, found: str) -> None:
    """One line says what was expected."""
    with pytest.raises(Exception, match=found):
        StoreView.of(url)


def test_an_object_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says which one it is."""
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")

    with pytest.raises(SparkJobError, match="expected an object store that can be read, found"):
        StoreView.of(f"s3://{BUCKET}/store")


def test_a_backup(store: str, tmp_path: Path, port: int) -> None:
    """The commit log and what was delivered are read piece by piece, from both kinds of target."""
    directory = trio.run(ship_store, store, str(tmp_path / "backup"))
    url = store_path(put(directory, "backups/one", port))

    for place in (directory, url):
        for reader in (CommitLogReader, DeliveredReader):
            expected = rows_of(reader, store)
            assert expected == rows_of(reader, place)
            assert expected == rows_of(reader, place, partitions=3)
        view = StoreView.of(place)
        assert len(CommitLogReader(ReadOptions(path=place), ["topic"]).spans(view)) > 1


def test_a_backup_that_grows(store: str, tmp_path: Path) -> None:
    """A stream of it goes on where it was; what is not shipped yet comes with a later batch."""
    directory = trio.run(ship_store, store, str(tmp_path / "backup"))
    reader = CommitLogReader(ReadOptions(path=directory), ["phy_offset"])
    stream, found = LogStream(reader), list[int | None]()

    start = stream.initialOffset()
    while (end := stream.latestOffset(start, ReadMaxRows(30))) != start:
        for partition in stream.partitions(start, end):
            for batch in stream.read(partition):
                found += batch.column(0).to_pylist()
        start = end

    assert [row["phy_offset"] for row in rows_of(CommitLogReader, store, "phy_offset")] == found
    assert start == stream.reportLatestOffset()


def test_a_backup_of_a_damaged_store(store: str, tmp_path: Path) -> None:
    """Damage is shipped as it is: it is refused, or told, and reading goes on behind it."""
    root = shutil.copytree(store, tmp_path / "store")
    before = rows_of(CommitLogReader, store, "phy_offset", "total_size")
    at = before[len(before) // 2]["phy_offset"]
    with Path(root, "commitlog", f"{0:020d}").open("r+b") as segment:
        segment.seek(at)
        segment.write(b"\xff" * 40)
    directory = trio.run(ship_store, str(root), str(tmp_path / "backup"))

    with pytest.raises(SparkJobError, match=f"position {at}: "):
        rows_of(CommitLogReader, directory)
    rows = rows_of(
        CommitLogReader, directory, "phy_offset", "total_size", "damage", damage="report"
    )
    told = [row for row in rows if row["damage"] is not None]
    assert [at] == [row["phy_offset"] for row in told]
    assert before == [{name: row[name] for name in before[0]} for row in rows]


def test_what_a_backup_has_not(store: str, tmp_path: Path) -> None:
    """Tables of the timer log say what to do."""
    directory = trio.run(ship_store, store, str(tmp_path / "backup"))

    with pytest.raises(SparkJobError, match=r"found a backup, .*`timermq restore` makes a store"):
        PendingReader(ReadOptions(path=directory), ["topic"]).partitions()


@pytest.mark.parametrize(
    ("change", "found"),
    [("damage", "expected the digest"), ("remove", "expected an object of the backup, found none")],
)
def test_a_backup_that_is_damaged(store: str, tmp_path: Path, change: str, found: str) -> None:
    """No row comes of what is not as it was shipped."""
    directory = trio.run(ship_store, store, str(tmp_path / "backup"))
    piece = min(Path(directory, "log").iterdir())
    if change == "remove":
        piece.unlink()
    else:
        piece.write_bytes(piece.read_bytes()[:-1] + b"?")

    with pytest.raises(SparkJobError, match=found):
        rows_of(CommitLogReader, directory)
