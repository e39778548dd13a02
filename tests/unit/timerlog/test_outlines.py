"""Files of outlines: what is kept, what goes with the log, and what a power cut leaves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import trio

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_DELETE, UNIT, TimerLog
from timermq.timerlog.outlines import DIRECTORY, Outlines, remove_outlines, stretches_of
from timermq.timerlog.segment import CHUNK_COUNT, units_in
from timermq.timerlog.stretch_outline import OUTLINE, STRETCH_SIZE, outline_of
from timermq.timerlog.unit import Units

LOG = "/store/timerlog"
SEGMENT_SIZE = STRETCH_SIZE + 10 * UNIT.size + 16
"""Bytes: a stretch, and one of ten units."""
PER_SEGMENT = CHUNK_COUNT + 10


def units(count: int, first_py: int = 0) -> Units:
    """Messages in slots of their own, and a delete each thousand."""
    found = np.zeros(count, UNIT.dtype)
    found["size"], found["size_py"], found["magic"] = UNIT.size, 100, 1
    found["magic"][999::1000] = MAGIC_DELETE
    found["offset_py"] = first_py + 100 * np.arange(count)
    found["write_ms"] = found["offset_py"]
    found["prev_pos"] = -1
    return found


class Log:
    """A timer log that is written, flushed and learned."""

    def __init__(self, disk: MemoryDisk | None = None, from_pos: int = 0) -> None:
        self.disk = disk or MemoryDisk()
        self.open(from_pos)

    def open(self, from_pos: int = 0) -> None:
        """Open the log as a start does."""
        self.log = TimerLog.open(self.disk, LOG, SEGMENT_SIZE)
        self.log.recover(from_pos)

    @property
    def outlines(self) -> Outlines:
        """The outlines that the files hold."""
        return Outlines(self.disk, LOG, SEGMENT_SIZE)

    def learn(self) -> None:
        """Learn as the service does behind each checkpoint."""
        trio.run(self.log.flush)
        for _ in self.log.bodies.learn():
            pass

    def kept(self) -> list[int]:
        """Where the stretches with an outline begin, each compared with its units."""
        found: list[int] = []
        for segment_start in self.outlines.segments():
            for start, one in self.outlines.read(segment_start).items():
                file = self.disk.open(f"{LOG}/{segment_start:020d}", read_only=True)
                data = file.read(start - segment_start, one.end - start)
                outline, deletes = outline_of(start, data)
                stored = self.outlines.deletes(one)
                assert outline.is_of(one)
                assert stored is not None
                assert deletes.tolist() == stored.tolist()
                found.append(start)
        return found


def test_stretches() -> None:
    """They follow each other up to the last unit that fits."""
    assert [(0, STRETCH_SIZE), (STRETCH_SIZE, STRETCH_SIZE + 520)] == list(
        stretches_of(0, SEGMENT_SIZE)
    )
    assert PER_SEGMENT == units_in(SEGMENT_SIZE)


def test_full_and_durable_stretches_have_one() -> None:
    """What still grows has none, and what is not flushed."""
    row = Log()
    row.log.append(units(PER_SEGMENT + 5))
    for _ in row.log.bodies.learn():
        pass
    assert [] == row.kept()

    row.learn()
    assert [0, STRETCH_SIZE] == row.kept()

    row.log.append(units(CHUNK_COUNT, 10**9))
    row.learn()
    assert [0, STRETCH_SIZE, SEGMENT_SIZE] == row.kept()


def test_small_segments_have_none() -> None:
    """Where a segment is no more than a stretch, it is read."""
    disk = MemoryDisk()
    log = TimerLog.open(disk, LOG, STRETCH_SIZE)
    log.recover(0)
    log.append(units(CHUNK_COUNT + 10))
    trio.run(log.flush)
    for _ in log.bodies.learn():
        pass

    assert [] == disk.list_dir(f"/store/{DIRECTORY}")


def spoil(at: int) -> Callable[[Log], None]:
    """Another byte in the first file."""

    def change(row: Log) -> None:
        file = row.disk.open(row.outlines.path(0))
        file.write(at, bytes((file.read(at, 1)[0] ^ 8,)))

    return change


def lose(row: Log) -> None:
    """The first file is gone."""
    row.disk.remove(row.outlines.path(0))


@pytest.mark.parametrize("damage", [spoil(20), spoil(2 * OUTLINE.size + 3), lose])
def test_the_next_process_makes_it_again(damage: Callable[[Log], None]) -> None:
    """Where an outline, or its deletes, are not those of the units."""
    row = Log()
    row.log.append(units(PER_SEGMENT))
    row.learn()
    damage(row)
    row.log.close()
    row.open()
    row.learn()

    assert [0, STRETCH_SIZE] == row.kept()


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (0, []),
        (52, []),
        (STRETCH_SIZE, [0]),
        (STRETCH_SIZE + 52, [0]),
        (STRETCH_SIZE + 520, [0, STRETCH_SIZE]),
        (SEGMENT_SIZE, [0, STRETCH_SIZE]),
        (SEGMENT_SIZE + 52, [0, STRETCH_SIZE]),
    ],
)
def test_a_cut_takes_them(end: int, left: list[int]) -> None:
    """What ends behind the end of the log is forgotten, also after a power cut."""
    row = Log()
    row.log.append(units(2 * PER_SEGMENT))
    row.learn()
    for path in [f"/store/{DIRECTORY}", "/store", *map(row.outlines.path, (0, SEGMENT_SIZE))]:
        if row.disk.is_dir(path):
            row.disk.sync_dir_now(path)
        else:
            row.disk.sync_now(row.disk.open(path))
    row.log.cut(end)
    row.disk.power_cut()

    found = [start for at in row.outlines.segments() for start in row.outlines.read(at)]
    assert left == found


def test_a_power_cut_may_take_them() -> None:
    """Nothing is synced: they are made again."""
    row = Log()
    row.log.append(units(PER_SEGMENT))
    row.learn()
    row.disk.power_cut()
    row.open()
    row.learn()

    assert [0, STRETCH_SIZE] == row.kept()


@pytest.mark.parametrize("is_next", [False, True])
def test_they_go_with_their_segment(*, is_next: bool) -> None:
    """Of a removed one nothing is told any more, in this process or the next."""
    row = Log()
    row.log.append(units(3 * PER_SEGMENT))
    row.learn()
    trio.run(row.log.delete_before_phy, 100 * (PER_SEGMENT + 1))
    if is_next:
        row.log.close()
        row.open()
    else:
        row.learn()

    assert [SEGMENT_SIZE, 2 * SEGMENT_SIZE] == row.outlines.segments()
    assert min(row.kept()) == SEGMENT_SIZE


def test_another_program_wrote_the_log() -> None:
    """They are removed with the seals."""
    row = Log()
    row.log.append(units(PER_SEGMENT))
    row.learn()
    row.log.close()
    log = TimerLog.open(row.disk, LOG, SEGMENT_SIZE)
    log.forget_seals()

    assert [] == row.disk.list_dir(f"/store/{DIRECTORY}")
    remove_outlines(row.disk, LOG)


def test_a_disk_that_refuses_costs_an_outline_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stretch is known all the same; the next process makes the outline."""
    row = Log()
    row.log.append(units(PER_SEGMENT))

    def refuse(path: str) -> list[str]:
        raise OSError(28, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(row.disk, "make_dirs", refuse)
        row.learn()
    assert [] == row.outlines.segments()
    assert row.log.bodies.oldest(0, lambda found: np.ones(len(found), np.bool_)) == 0
    row.log.close()
    row.open()
    row.learn()

    assert [0, STRETCH_SIZE] == row.kept()
