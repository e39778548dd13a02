"""What RocketMQ left on its levels, by columns: as the next start decides it one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import attrs
import numpy as np
import pytest
import trio
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition

from left_levels import delivered, left_store, waiting
from simulation.staged_service import ROOT
from timermq.pipeline.levels.level_outlook import LeftLevels
from timermq.pipeline.levels.level_queues import Entries
from timermq.pipeline.levels.level_record import HALF_TOPIC, left_message
from timermq.pipeline.offline_store import OfflineStore, open_offline
from timermq.pipeline.spark import level_spans, store_view
from timermq.pipeline.spark.options import ReadOptions
from timermq.pipeline.spark.record_chunks import RecordChunk
from timermq.pipeline.spark.record_gathering import gathered
from timermq.pipeline.spark.store_view import LogView, StoreView
from timermq.pipeline.spark.tables.pending_table import PendingReader
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.array_types import Places
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.disk import Disk
from timermq.timerstore.message import Message
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.record_layout import BODY_AT
from timermq.timerstore.store_options import StoreOptions
from unit.pipeline.spark.store_directories import written

SHOWN = ("unique_id", "topic", "queue_id", "deliver_ms", "phy_offset")
ROOM = 32_000
"""Bytes of a property with which a text has its size, but no room for what the wheel adds."""


def left(
    directory: Path,
    messages: list[Message],
    offsets: dict[int, int] | None = None,
    *,
    moved: tuple[int, int] | None = None,
) -> str:
    """A store that RocketMQ left so, one message moved by a broker of ours or none; its directory.

    Args:
        directory: Where it goes.
        messages: In the order of their storing.
        offsets: How far the levels are.
        moved: Level and queue offset of the message that was moved.
    """
    disk = MemoryDisk()
    store = left_store(disk, messages, offsets, moved)
    trio.run(store.aclose)
    return written(disk, ROOT, directory)


def listed(root: str) -> list[dict[str, object]]:
    """What ``timermq pending --json`` lists of the levels, message by message."""
    view = StoreView.of(root)
    with open_offline(OsDisk(), root, view.store_options, view.timer_options) as offline:
        rows = [attrs.asdict(row) for row in offline.pending_levels()]
    return [{name: row[name] for name in SHOWN} for row in rows]


def rows_of(root: str) -> list[dict[str, object]]:
    """What the table has of them, in its order."""
    reader = PendingReader(ReadOptions(path=root), SHOWN)
    return rows_in(reader, reader.partitions())


def rows_in(reader: PendingReader, partitions: Sequence[InputPartition]) -> list[dict[str, object]]:
    """The rows of some pieces of work."""
    return [
        row
        for partition in partitions
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def in_place(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """In the order of the log: within a piece of work it counts."""
    return sorted(rows, key=lambda row: str(row["phy_offset"]).zfill(20))


def padded(message: Message, size: int) -> Message:
    """The same with a property of a size before the others."""
    text = b"PAD\x01" + b"x" * size + b"\x02" + message.properties
    return Message(message.topic, message.queue_id, message.body, text)


MESSAGES = [
    waiting("body-a", 1),
    delivered("body-a", 1),
    waiting("body-b", 1, topic="Other", queue_id=3),
    waiting("body-b", 1, topic="Other", queue_id=3),
    delivered("body-b", 1, topic="Other", queue_id=3),
    waiting("body-c", 3),
    waiting("body-d", 2, topic=HALF_TOPIC),
    waiting("body-e", 2, topic=SCHEDULE_TOPIC),
    padded(waiting("body-f", 2), ROOM + 600),
    padded(waiting("body-g", 4), 100),
]


@pytest.mark.parametrize("offsets", [None, {1: 0}, {1: 1, 2: 0}, {1: 3}])
def test_as_the_listing(tmp_path: Path, offsets: dict[int, int] | None) -> None:
    """Delivered, of two alike one, illegal topics, no room: what is left is what is listed."""
    root = left(tmp_path, MESSAGES, offsets)
    expected = listed(root)

    assert expected
    assert in_place(expected) == in_place(rows_of(root))


def test_what_has_moved(tmp_path: Path) -> None:
    """By a broker of ours that was killed in the middle."""
    messages = [waiting("body-a", 1), waiting("body-b", 1), waiting("body-c", 3)]
    root = left(tmp_path, messages, moved=(1, 1))

    assert ["body-a", "body-c"] == sorted(str(row["unique_id"]) for row in rows_of(root))
    assert in_place(listed(root)) == in_place(rows_of(root))


def test_damage(tmp_path: Path) -> None:
    """A body that is not as it was stored is left out, by the task that reads it."""
    root = left(tmp_path, MESSAGES[5:])
    reader = PendingReader(ReadOptions(path=root), SHOWN)
    partitions = reader.partitions()
    path = min((tmp_path / "commitlog").iterdir())
    path.write_bytes(path.read_bytes().replace(b"body-c", b"body-?", 1))

    assert ["body-g"] == [row["unique_id"] for row in rows_in(reader, partitions)]


def test_doubts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may have been delivered by a damaged record is left out; what came after it waits."""
    root = left(tmp_path, MESSAGES)
    path = min((tmp_path / "commitlog").iterdir())
    data = path.read_bytes()
    end = data.index(b"body-c") - BODY_AT
    start = data.rindex(b"body-b", 0, data.rindex(b"body-b", 0, end)) - BODY_AT
    path.write_bytes(data[:start] + bytes(byte ^ 1 for byte in data[start:end]) + data[end:])
    ways = list[str]()
    one_by_one = level_spans._looked_at  # pyright: ignore[reportPrivateUsage]

    def counted(given: LeftLevels, options: TimerOptions) -> Entries:
        ways.append("doubts")
        return one_by_one(given, options)

    monkeypatch.setattr(level_spans, "_looked_at", counted)

    found = in_place(rows_of(root))
    assert 1 == len(ways)
    assert ["body-c", "body-g"] == [row["unique_id"] for row in found]
    assert in_place(listed(root)) == found


def test_records_that_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one go those that may be delivered, or are unusual; the plan reads none otherwise."""
    looked, read = list[int](), list[int]()

    def looking(record: bytes | None, phy_offset: int, size: int) -> Message:
        looked.append(phy_offset)
        return left_message(record, phy_offset, size)

    def reading(
        log: LogView, positions: Places, sizes: Places
    ) -> Iterator[tuple[RecordChunk, NDArray[np.intp]]]:
        read.append(len(positions))
        return gathered(log, positions, sizes)

    monkeypatch.setattr(level_spans, "left_message", looking)
    monkeypatch.setattr(level_spans, "gathered", reading)
    many = [waiting(f"body-{number}", 1 + number % 18) for number in range(500)]
    usual = left(tmp_path / "usual", many)
    odd = left(tmp_path / "odd", [*many, waiting("body-x", 2, topic=HALF_TOPIC)])
    with StoreView.looked_at(usual) as view:
        (span,) = level_spans.level_spans(view)
    assert ([], []) == (looked, read)
    assert 500 == sum(len(chunk) for chunk, _ in span.chunks())
    assert ([], [500]) == (looked, read)

    assert 500 == len(rows_of(odd))
    assert 1 == len(looked)


def test_a_stopped_store_is_recovered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one plan, whatever it has to know."""
    opened = list[str]()

    def counted(
        disk: Disk, root: str, store_options: StoreOptions, timer_options: TimerOptions
    ) -> AbstractContextManager[OfflineStore]:
        opened.append(root)
        return open_offline(disk, root, store_options, timer_options)

    monkeypatch.setattr(store_view, "open_offline", counted)
    root = left(tmp_path, MESSAGES)
    reader = PendingReader(ReadOptions(path=root), SHOWN)

    assert reader.partitions()
    assert [root] == opened
