"""A stream reads each record of a growing log once, in batches that can be read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from small_store import HOST, message, small_options
from timermq.pipeline.spark import log_stream
from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.log_stream import LogStream, Offset
from timermq.pipeline.spark.options import ReadOptions
from timermq.pipeline.spark.tables.commit_log_table import CommitLogReader
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk


def grow(root: Path, *bodies: str) -> None:
    """Store messages, as a broker that starts and stops."""
    store = MessageStore.open(
        OsDisk(), str(root), small_options(), now_ms=lambda: 1_700_000_000_000, store_host=HOST
    )
    for body in bodies:
        (result,) = store.put([message(body)])
        assert result.status.is_stored
    trio.run(store.aclose)


def stream_of(root: Path, **options: Any) -> LogStream:  # noqa: ANN401 - passed on
    """A stream that reads the bodies of a log."""
    return LogStream(CommitLogReader(ReadOptions(path=str(root), **options), ["body"]))


def read(stream: LogStream, start: Offset, end: Offset) -> list[str]:
    """The bodies of a batch."""
    return [
        row["body"].decode()
        for partition in stream.partitions(start, end)
        for batch in stream.read(partition)
        for row in batch.to_pylist()
    ]


BODIES = tuple(f"m{number}" for number in range(23))
"""More than two segments of the small store."""


def test_several_stores(tmp_path: Path) -> None:
    """A position each; one that joins is read from its beginning, one that leaves is missed."""
    for name, bodies in (("a", BODIES[:6]), ("b", BODIES[6:9])):
        grow(tmp_path / name, *bodies)
    paths = [f"{name}={tmp_path}/{name}" for name in ("a", "b")]

    def stream(*names: str) -> LogStream:
        options = ReadOptions(path=[paths["ab".index(name)] for name in names], rows_per_batch=5)
        return LogStream(CommitLogReader(options, ["broker", "body"]))

    def rows(start: Offset, end: Offset) -> list[tuple[str, str]]:
        both = stream("a", "b")
        return [
            (row["broker"], row["body"].decode())
            for partition in both.partitions(start, end)
            for batch in both.read(partition)
            for row in batch.to_pylist()
        ]

    both = stream("a", "b")
    limit, place, batches = both.getDefaultReadLimit(), both.initialOffset(), list[int]()
    found = list[tuple[str, str]]()
    while (end := both.latestOffset(place, limit)) != place:
        batch = rows(place, end)
        found += batch
        batches.append(len(batch))
        place = end
    expected = [("a", body) for body in BODIES[:6]] + [("b", body) for body in BODIES[6:9]]
    assert expected == sorted(found, key=lambda row: (row[0], BODIES.index(row[1])))
    assert max(batches) <= 5
    assert place == both.reportLatestOffset()
    # The second one is new to this checkpoint.
    assert expected[6:] == rows({"a": place["a"]}, place)
    assert [] == rows({"a": place["a"]}, {"a": place["a"]})
    for offset in (place, {"b": 0}):
        with pytest.raises(SparkJobError, match="expected the stores that the checkpoint of this"):
            stream("a").latestOffset(offset, limit)


def test_limits(tmp_path: Path) -> None:
    """A batch has as many records as are asked for, also beyond the end of a segment."""
    grow(tmp_path, *BODIES)
    stream = stream_of(tmp_path, rows_per_batch=5)
    limit = stream.getDefaultReadLimit()
    place, batches = stream.initialOffset(), list[list[str]]()
    while (end := stream.latestOffset(place, limit)) != place:
        batches.append(read(stream, place, end))
        place = end

    assert [list(BODIES[at : at + 5]) for at in range(0, len(BODIES), 5)] == batches
    assert place == stream.reportLatestOffset()


def test_everything(tmp_path: Path) -> None:
    """Without a limit all is one batch, which another process reads again the same."""
    grow(tmp_path, *BODIES)
    stream = stream_of(tmp_path)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())

    assert list(BODIES) == read(stream, start, end) == read(stream_of(tmp_path), start, end)


def test_bytes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large records make batches of fewer, of one at least."""
    grow(tmp_path, *(str(number) * 300 for number in range(6)))
    monkeypatch.setattr(log_stream, "BATCH_BYTES", 1)
    stream = stream_of(tmp_path)
    place, batches = stream.initialOffset(), list[list[str]]()
    while (end := stream.latestOffset(place, ReadMaxRows(4))) != place:
        batches.append(read(stream, place, end))
        place = end

    assert [[str(number) * 300] for number in range(6)] == batches


def test_growth(tmp_path: Path) -> None:
    """What comes later belongs to later batches; a run for what is there now ends before it."""
    grow(tmp_path, *BODIES[:4])
    stream = stream_of(tmp_path)
    start = stream.initialOffset()
    middle = stream.latestOffset(start, ReadAllAvailable())
    stream.prepareForTriggerAvailableNow()
    grow(tmp_path, *BODIES[4:])

    assert middle == stream.latestOffset(start, ReadAllAvailable())
    assert list(BODIES[:4]) == read(stream, start, middle)
    later = stream_of(tmp_path)
    assert list(BODIES[4:]) == read(later, middle, later.latestOffset(middle, ReadAllAvailable()))


def test_what_was_cleaned(tmp_path: Path) -> None:
    """When the log has lost what comes next, the query is told so."""
    grow(tmp_path, *BODIES)
    stream = stream_of(tmp_path)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    (tmp_path / "commitlog" / f"{0:020}").unlink()
    later = stream_of(tmp_path)

    for ask in (
        lambda: later.latestOffset(start, ReadAllAvailable()),
        lambda: later.partitions(start, end),
    ):
        with pytest.raises(SparkJobError, match=r"expected position 0, .* found 1024 as the first"):
            ask()


def test_another_log(tmp_path: Path) -> None:
    """A checkpoint of a longer log belongs to another one."""
    grow(tmp_path, *BODIES[:2])
    stream = stream_of(tmp_path)

    with pytest.raises(SparkJobError, match="expected a log up to position 9999, found its end"):
        stream.partitions({"py": 0}, {"py": 9999})
