"""The new timer files: staged units appended and linked as the broker does it.

Log, wheel, checkpoint and metrics are the broker's own classes on a directory of their own, so what
they write is what the broker would have written, had all units come in order of slots. Everything
is durable when ``lay_out`` returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import numpy as np
import trio

from timermq.timerlog import (
    MAGIC_DELETE,
    MAGIC_ROLL,
    UNIT,
    TimerCheckpoint,
    numbers_in_slot,
    slot_times,
)
from timermq.timerlog.unit import Units
from timermq.timerstore.config_file import save_json_now
from timermq.timerstore.disk import Disk
from timermq.timerstore.java_hash import java_hash

from ...recovery.timer_files import TimerFiles
from ...state.timer_options import TimerOptions
from .plan import RebuildPlan

CHUNK_UNITS = 65_536
"""Units linked together: 3.4 MB."""


@attrs.frozen(kw_only=True)
class NewTimers:
    """The counts and ends of the new files."""

    units: int
    deletes: int
    """Of them; they take others out of their slots."""
    rolls: int
    """Of them; they wait on the way."""
    overdue: int
    """Of them; in the slot that is read first, asked for an earlier one."""
    slots: int
    log_end: int


def read_units(paths: Iterable[str]) -> Iterator[Units]:
    """Staged units in the order of their files, in chunks."""
    for path in paths:
        with Path(path).open("rb") as file:
            while data := file.read(CHUNK_UNITS * UNIT.size):
                yield np.frombuffer(bytearray(data), UNIT.dtype)


def lay_out(
    disk: Disk,
    root: str,
    options: TimerOptions,
    plan: RebuildPlan,
    units: Iterable[Units],
    *,
    before: TimerCheckpoint,
    queue_offset: int,
    topics: Iterable[str],
    now_ms: int,
) -> NewTimers:
    """Write the timer files of a store, durably.

    Args:
        disk: Where they go.
        root: A directory with nothing in it.
        options: The timers' settings.
        plan: Of the rebuild.
        units: All of them, without links; in order of slots those of a slot stand together.
        before: The checkpoint so far; its count of changes goes on.
        queue_offset: Entries of the timer topic below it have units, or need none.
        topics: Names that messages may have, for the counts by topic.
        now_ms: The present.

    Raises:
        OSError: The disk refused.
    """
    files = TimerFiles.open(disk, root, options)
    try:
        files.timer_log.recover(0)
        files.wheel.reset(plan.read_ms)
        found = _append(files, plan, units, topics)
        trio.run(files.timer_log.flush)
        files.wheel.write_dirty(files.wheel.snapshot_dirty())
        disk.sync_now(files.wheel.file)
        checkpoint = files.checkpoint
        checkpoint.state_version, checkpoint.counter = before.state_version, before.counter
        checkpoint.update(
            last_read_time_ms=plan.read_ms,
            last_timer_log_flush_pos=found.log_end,
            last_timer_queue_offset=queue_offset,
            scan_py=plan.log_end,
            precision_ms=plan.precision_ms,
            now_ms=now_ms,
        )
        checkpoint.write()
        disk.sync_now(checkpoint.file)
        save_json_now(disk, f"{root}/config/timermetrics", files.metrics.text(now_ms))
    finally:
        files.close()
    return found


def _append(
    files: TimerFiles, plan: RebuildPlan, units: Iterable[Units], topics: Iterable[str]
) -> NewTimers:
    timer_log, wheel = files.timer_log, files.wheel
    count = deletes = rolls = overdue = 0
    waiting: Counter[int] = Counter()
    for some in units:
        targets, is_delete = slot_times(some), (some["magic"] & MAGIC_DELETE) != 0
        positions = timer_log.positions(len(some))
        links = wheel.plan(targets, positions, numbers_in_slot(some["magic"]))
        some["prev_pos"] = links.prev_pos
        timer_log.append(some)
        wheel.apply(links)
        count += len(some)
        deletes += int(is_delete.sum())
        rolls += int(((some["magic"] & MAGIC_ROLL) != 0).sum())
        overdue += int(((some["reserved"] == 0) & (targets == plan.read_ms)).sum())
        hashes, numbers = np.unique(some["topic_hash"][~is_delete], return_counts=True)
        waiting.update(dict(zip(hashes.tolist(), numbers.tolist(), strict=True)))
    names = {java_hash(name): name for name in topics}
    files.metrics.replace({names[one]: number for one, number in waiting.items() if one in names})
    return NewTimers(
        units=count,
        deletes=deletes,
        rolls=rolls,
        overdue=overdue,
        slots=wheel.statistics().live_count,
        log_end=timer_log.max_pos,
    )
