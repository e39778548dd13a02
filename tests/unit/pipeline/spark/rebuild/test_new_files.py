"""New timer files are what the broker would have written, had all units come in order of slots."""

from __future__ import annotations

from collections import defaultdict

import attrs
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fakes import START_MS
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.pipeline.spark.rebuild.new_files import NewTimers, lay_out
from timermq.pipeline.spark.rebuild.plan import RebuildPlan
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_DELETE, UNIT, TimerCheckpoint, TimerMetrics
from timermq.timerlog.unit import Units
from timermq.timerstore.java_hash import java_hash

ROOT = "/new"
OPTIONS = TimerOptions(
    slots_total=2, timer_roll_window_slot=3, mapped_file_size_timer_log=3 * UNIT.size + 20
)
RING = 4
PLAN = RebuildPlan(
    now_ms=START_MS,
    spans=[],
    segment_size=1024,
    log_end=7_000,
    queue_first=0,
    queue_end=70,
    read_ms=START_MS,
    write_ms=START_MS,
    ring_end_ms=START_MS + RING * 1000,
    window_ms=3000,
    precision_ms=1000,
)


def units_in(slots: list[int], deletes: list[bool]) -> Units:
    """Units of topic T for slots of the ring, their messages 100 bytes apart."""
    units = np.zeros(len(slots), UNIT.dtype)
    units["size"] = UNIT.size
    units["magic"] = [1 | (MAGIC_DELETE if delete else 0) for delete in deletes]
    units["write_ms"] = START_MS
    units["delay_ms"] = [1000 * slot for slot in slots]
    units["offset_py"] = 100 * np.arange(len(slots))
    units["size_py"] = 100
    units["topic_hash"] = java_hash("T")
    units["reserved"] = 1
    return units


def write(
    disk: MemoryDisk, batches: list[Units], before: TimerCheckpoint | None = None
) -> NewTimers:
    """Lay out; each batch by itself, as chunks of staged files come."""
    return lay_out(
        disk,
        ROOT,
        OPTIONS,
        PLAN,
        [some.copy() for some in batches],
        before=before or TimerCheckpoint(),
        queue_offset=60,
        topics=["T", "other"],
        now_ms=START_MS + 5,
    )


@given(st.lists(st.tuples(st.integers(0, RING - 1), st.booleans()), max_size=20), st.integers(1, 8))
def test_chains(rows: list[tuple[int, bool]], batch: int) -> None:
    """After a power cut each slot leads to its units, newest first, and to no others."""
    rows.sort(key=lambda row: row[0])
    units = units_in([slot for slot, _ in rows], [delete for _, delete in rows])
    disk = MemoryDisk()

    found = write(disk, [units[at : at + batch] for at in range(0, len(units), batch)])
    disk.power_cut()

    expected: defaultdict[int, list[int]] = defaultdict(list)
    for number, (slot, _) in enumerate(rows):
        expected[START_MS + 1000 * slot].insert(0, 100 * number)
    files = TimerFiles.open(disk, ROOT, OPTIONS, read_only=True)
    files.timer_log.recover(0)
    files.wheel.load_live(START_MS)
    slots = files.wheel.live(START_MS)
    assert expected == {
        slot["time_ms"]: [
            place
            for chunk in files.timer_log.walk(int(slot["last_pos"]), slot_ms=int(slot["time_ms"]))
            for place in chunk.offset_py.tolist()
        ]
        for slot in slots
    }
    assert sum(-1 if delete else 1 for _, delete in rows) == int(slots["num"].sum())
    assert (len(rows), found.log_end) == (found.units, files.timer_log.max_pos)
    assert len(expected) == found.slots


def test_checkpoint() -> None:
    """The checkpoint says that all of the log is accounted for; its changes are counted on."""
    disk, before = MemoryDisk(), TimerCheckpoint(state_version=1, counter=41)

    found = write(disk, [units_in([0, 1, 1, 2], [False] * 4)], before)
    disk.power_cut()

    checkpoint = TimerCheckpoint.open(disk, f"{ROOT}/config/timercheck")
    assert (START_MS, found.log_end, 60, 60) == (
        checkpoint.last_read_time_ms,
        checkpoint.last_timer_log_flush_pos,
        checkpoint.last_timer_queue_offset,
        checkpoint.master_timer_queue_offset,
    )
    assert (1, 42, START_MS + 5) == (
        checkpoint.state_version,
        checkpoint.counter,
        checkpoint.timestamp,
    )
    assert checkpoint.extension is not None
    assert (1000, 7_000) == (checkpoint.extension.precision_ms, checkpoint.extension.scan_py)


def test_counts() -> None:
    """Pending messages are counted by topic, deletes left out; overdue ones tell no moment."""
    disk = MemoryDisk()
    units = units_in([0, 0, 1, 3], [False, False, True, False])
    units["reserved"][0] = 0
    units["magic"][3] |= 2

    found = write(disk, [units])

    assert {"T": 3} == TimerMetrics.load(disk, f"{ROOT}/config/timermetrics").counts()
    assert (
        NewTimers(units=4, deletes=1, rolls=1, overdue=1, slots=3, log_end=attrs.astuple(found)[-1])
        == found
    )


def test_nothing() -> None:
    """A store without timers gets an empty log and a wheel."""
    disk = MemoryDisk()

    found = write(disk, [])
    disk.power_cut()

    assert (0, 0, 0) == (found.units, found.slots, found.log_end)
    assert disk.exists(f"{ROOT}/timerwheel")
