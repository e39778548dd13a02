"""Outlines through cuts, kills and power cuts: one that is believed is that of the units there."""

from __future__ import annotations

from random import Random

import numpy as np
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT, TimerLog
from timermq.timerlog.outlines import Outlines
from timermq.timerlog.segment import CHUNK_COUNT
from timermq.timerlog.stretch_outline import STRETCH_SIZE, outline_of

LOG = "/store/timerlog"
SEGMENT_SIZE = STRETCH_SIZE + 100 * UNIT.size + 16
"""Bytes: a stretch, and one of a hundred units."""

_STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from((1, 50, 100, 5000, CHUNK_COUNT))),
    st.tuples(st.just("learn"), st.just(0)),
    st.tuples(st.just("cut"), st.integers(1, 17_000)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("power cut"), st.integers(0, 1000)),
)


class Row:
    """A timer log and what is durable of it; each unit names a record of its own."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.durable, self.number = 0, 0
        self.open()

    def open(self) -> None:
        """Open the log as a start does."""
        self.log = TimerLog.open(self.disk, LOG, SEGMENT_SIZE)
        self.log.recover(self.durable)

    def append(self, count: int) -> None:
        """Append units that differ from all before them."""
        units = np.zeros(count, UNIT.dtype)
        units["size"], units["size_py"], units["magic"], units["prev_pos"] = UNIT.size, 9, 1, -1
        units["offset_py"] = self.number + np.arange(count)
        self.number += count
        self.log.append(units)

    def learn(self) -> None:
        """Make the log durable, and outlines of what is full."""
        self.durable = trio.run(self.log.flush)
        for _ in self.log.bodies.learn():
            pass

    def cut(self, count: int) -> None:
        """Cut off so many units at most."""
        end = max(self.log.max_pos - count * UNIT.size, self.log.min_pos)
        start = self.log.segment_start(end)
        self.log.cut(start + (end - start) // UNIT.size * UNIT.size)
        self.durable = self.log.max_pos

    def end(self, seed: int | None) -> None:
        """The process ends, or the power does, and the log is opened again."""
        if seed is None:
            self.disk.process_kill()
        else:
            self.disk.power_cut(Random(seed))
        self.open()

    def check(self) -> int:
        """Compare each outline that a reader believes with the units; how many there were."""
        outlines, count = Outlines(self.disk, LOG, SEGMENT_SIZE), 0
        for segment_start in outlines.segments():
            path = f"{LOG}/{segment_start:020d}"
            for start, one in outlines.read(segment_start).items():
                if not self.disk.exists(path) or one.end > self.log.max_pos:
                    continue
                data = self.disk.open(path).read(start - segment_start, one.end - start)
                if one.ends_with(data[-UNIT.size :]):
                    assert outline_of(start, data)[0].is_of(one)
                    count += 1
        return count


@settings(max_examples=60)
@given(steps=st.lists(_STEPS, max_size=14))
def test_what_is_believed_is_true(steps: list[tuple[str, int]]) -> None:
    """Whatever happens to log and disk between."""
    row = Row()
    for name, number in steps:
        match name:
            case "append":
                row.append(number)
            case "learn":
                row.learn()
            case "cut":
                row.cut(number)
            case _:
                row.end(number if name == "power cut" else None)
        row.check()
    row.append(CHUNK_COUNT)
    row.learn()

    assert row.check() > 0
