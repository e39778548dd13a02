"""The table of pending timers says what ``timermq pending`` says, row for row."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from golden_stores import GOLDEN, GoldenStores
from simulation.staged_service import ROOT, running, timed
from timermq.pipeline.offline_store import open_offline
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.spark.record_gathering import gathered
from timermq.pipeline.spark.store_view import LogView, StoreView
from timermq.pipeline.spark.tables.pending_table import OF_UNITS, TABLE, PendingReader
from timermq.pipeline.spark.tables.timer_log_table import TimerLogReader
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.array_types import Places
from timermq.timerstore.os_disk import OsDisk
from unit.pipeline.recovery.crashed_store import (
    forget_read_time,
    leave,
    lose_last_messages,
    lose_units,
    lose_wheel,
    make_checkpoint_javas,
)
from unit.pipeline.spark.store_directories import Row, crashed_directory, rows_of, written

SHOWN = ("unique_id", "topic", "queue_id", "deliver_ms", "keys", "tags", "phy_offset", "rolls")


def listed(root: str) -> list[Row]:
    """What ``timermq pending --json`` lists of a stopped store."""
    view = StoreView.of(root)
    with open_offline(OsDisk(), root, view.store_options, view.timer_options) as offline:
        waiting = chain(offline.pending(), offline.pending_levels())
        return by_place([attrs.asdict(row) for row in waiting])


def by_place(rows: list[Row]) -> list[Row]:
    """In the order of the log."""
    return sorted(rows, key=lambda row: int(row["phy_offset"]))


def test_after_a_kill(tmp_path: Path) -> None:
    """Waiting, rolled, with and without a unit; neither cancelled nor delivered."""
    crash, root = crashed_directory(tmp_path)
    rows = rows_of(PendingReader, root, *SHOWN)

    assert sorted(crash.waiting) == sorted(str(row["unique_id"]) for row in rows)
    assert listed(root) == by_place(rows)


@pytest.mark.parametrize(
    "damage",
    [make_checkpoint_javas, forget_read_time, lose_units, lose_last_messages, lose_wheel],
)
def test_after_damage(tmp_path: Path, damage: Callable[[MemoryDisk], None]) -> None:
    """What the next start would deliver, whatever it has to find out anew."""
    _, root = crashed_directory(tmp_path, damage)
    rows = rows_of(PendingReader, root, *SHOWN)

    assert rows
    assert listed(root) == by_place(rows)


@pytest.mark.parametrize("damage", [leave, make_checkpoint_javas, lose_units])
def test_what_units_tell(tmp_path: Path, damage: Callable[[MemoryDisk], None]) -> None:
    """Asked for columns of units alone, the rows are the same."""
    _, root = crashed_directory(tmp_path, damage)
    names = sorted(OF_UNITS)
    rows = [{name: row[name] for name in names} for row in rows_of(PendingReader, root)]

    assert by_place(rows) == by_place(rows_of(PendingReader, root, *names))


def test_units_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For columns of units the log is read only where they do not tell.

    Those are rolls, entries without a unit, and the slot in which a delete names a key.
    """
    crash, root = crashed_directory(tmp_path)
    read: list[int] = []

    def counted(log: LogView, positions: Places, sizes: Places) -> Any:  # noqa: ANN401 - passed on
        read.extend(positions.tolist())
        return gathered(log, positions, sizes)

    monkeypatch.setattr("timermq.pipeline.spark.tables.pending_table.gathered", counted)
    rows_of(PendingReader, root, "deliver_ms")
    told = {
        row["offset_py"]: row["slot_ms"]
        for row in rows_of(TimerLogReader, root)
        if row["deliver_ms"] is not None
    }

    assert 0 < len(read) < len(crash.waiting)
    assert {START_MS + 12_000} == {told[place] for place in read if place in told}


def test_ranges(tmp_path: Path) -> None:
    """Moments, store times and topics bound the rows."""
    _, root = crashed_directory(tmp_path)
    rows = by_place(rows_of(PendingReader, root))
    moments = sorted(int(row["deliver_ms"]) for row in rows)
    stored = sorted(int(row["stored_ms"]) for row in rows)
    low, high, middle = moments[5], moments[-1], stored[-2]

    assert [row for row in rows if low <= row["deliver_ms"] < high] == by_place(
        rows_of(PendingReader, root, due_from=low, due_to=high)
    )
    assert [row for row in rows if row["stored_ms"] >= middle] == by_place(
        rows_of(PendingReader, root, stored_from=middle)
    )
    assert rows == by_place(rows_of(PendingReader, root, topics=("U", "T")))
    assert [] == rows_of(PendingReader, root, topics=("U",))
    few = rows_of(PendingReader, root, "deliver_ms", due_from=low, due_to=high)
    assert sorted(row["deliver_ms"] for row in few) == [one for one in moments if low <= one < high]


@pytest.mark.parametrize("partitions", [1, 3, 100])
def test_pieces(tmp_path: Path, partitions: int) -> None:
    """However the work is cut, each message is there once."""
    crash, root = crashed_directory(tmp_path)

    assert sorted(crash.waiting) == sorted(
        str(row["unique_id"]) for row in rows_of(PendingReader, root, partitions=partitions)
    )


@pytest.mark.parametrize("name", ["g1", "g2", "g3", "g4", "g5"])
def test_javas(golden_stores: GoldenStores, name: str) -> None:
    """Stores that RocketMQ wrote, killed or stopped."""
    root = golden_stores[name].root
    rows = rows_of(PendingReader, root)

    assert listed(root) == by_place([{name: row[name] for name in SHOWN} for row in rows])
    names = sorted(OF_UNITS)
    assert by_place([{name: row[name] for name in names} for row in rows]) == by_place(
        rows_of(PendingReader, root, *names)
    )


@pytest.mark.parametrize("name", ["g6", "g7", "g8"])
def test_javas_of_other_versions(tmp_path: Path, name: str) -> None:
    """Stores of RocketMQ 4, which has no wheel, and of 5.5 with its other engines."""
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    root = str(tmp_path / "store")
    rows = by_place(rows_of(PendingReader, root, *SHOWN))

    assert rows
    assert listed(root) == rows
    assert TABLE.names[: len(SHOWN)] == SHOWN


def test_levels(tmp_path: Path, golden_stores: GoldenStores) -> None:
    """What RocketMQ left on its levels waits, but for what the log shows as delivered."""
    with tarfile.open(GOLDEN / "g6.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    rows = by_place(rows_of(PendingReader, str(tmp_path / "store")))

    assert (48, {"Old"}, {None}) == (
        len(rows),
        {row["topic"] for row in rows},
        {row["slot_ms"] for row in rows},
    )
    assert all(row["order_py"] == row["phy_offset"] for row in rows)
    middle = sorted(int(row["deliver_ms"]) for row in rows)[20]
    few = rows_of(PendingReader, str(tmp_path / "store"), "deliver_ms", due_from=middle)
    assert sorted(row["deliver_ms"] for row in few) == sorted(
        row["deliver_ms"] for row in rows if row["deliver_ms"] >= middle
    )
    root = golden_stores["g2"].root
    assert 69 == len(rows_of(PendingReader, root))
    wanted = rows_of(PendingReader, root, topics=("Later_3254",))
    assert {"Later_3254"} == {row["topic"] for row in wanted}


def test_what_was_moved(tmp_path: Path) -> None:
    """By the keys that its producer gave, though its record has others."""

    async def life() -> MemoryDisk:
        disk = MemoryDisk()
        async with running(disk, VirtualClock()) as service:
            message = timed("a", START_MS + 50_000)
            message.properties += b"KEYS\x01order\x02"
            service.put([message, timed("b", START_MS + 50_000)])
            service.cancellation.reschedule(Wanted("T", "a"), START_MS + 60_000)
            service.cancellation.cancel(Wanted("T", "b"))
            await trio.sleep(1)
        return disk

    disk = trio.run(life, clock=MockClock(autojump_threshold=0))
    root = written(disk, ROOT, tmp_path)
    rows = rows_of(PendingReader, root, *SHOWN)

    assert [(row["unique_id"], row["keys"]) for row in rows] == [("a", "order")]
    assert listed(root) == rows
