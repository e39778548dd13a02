"""What a seed decides before its first life: sizes of files and wheel, and the faults."""

from __future__ import annotations

import enum
from random import Random

import attrs

from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

ALL_HOURS = ";".join(map(str, range(24)))


class Fault(enum.Enum):
    """What may be done to a store."""

    KILL = "kill"
    """The process ends at any step of a task or any operation on the disk; the page cache stays."""
    POWER = "power"
    """The same, and what was not synced is gone, or torn by sectors."""
    CLEAN = "clean"
    """Segments of the log go as soon as nothing needs them."""
    FULL = "full"
    """The disk has no block left from some operation on, and gets room later."""
    CLOCK = "clock"
    """The wall clock is set ahead or back at any time; with `clock accept`."""
    LOST_CHECKPOINT = "lost checkpoint"
    """The timer checkpoint is gone when the next life begins."""
    LOST_WHEEL = "lost wheel"
    LOST_TIMER_LOG = "lost timer log"
    REPAIR = "repair"
    """`store repair` between two lives."""
    RECALL = "recall"
    """Deletes as RocketMQ's clients write them."""
    DAMAGE = "damage"
    """The body of a record that waits is damaged between two lives, after a stop in order."""


CHANCES = {
    Fault.KILL: 0.7,
    Fault.POWER: 0.5,
    Fault.CLEAN: 0.7,
    Fault.FULL: 0.3,
    Fault.CLOCK: 0.25,
    Fault.LOST_CHECKPOINT: 0.25,
    Fault.LOST_WHEEL: 0.2,
    Fault.LOST_TIMER_LOG: 0.2,
    Fault.REPAIR: 0.2,
    Fault.RECALL: 0.5,
    Fault.DAMAGE: 0.45,
}

"""How often each comes: together they would hide each other."""


@attrs.frozen(kw_only=True)
class Setting:
    """What holds in all lives of a seed."""

    faults: frozenset[Fault]
    precision_ms: int
    slots_total: int
    log_segment: int
    timer_segment: int
    queue_segment: int
    sync_seconds: float

    @classmethod
    def draw(cls, draw: Random, faults: frozenset[Fault]) -> Setting:
        """Draw one.

        Args:
            draw: Decides.
            faults: Those that may come.
        """
        chosen = {one for one in Fault if draw.random() < CHANCES[one] and one in faults}
        return cls(
            faults=frozenset(chosen),
            precision_ms=draw.choice((1000, 1000, 200)),
            slots_total=draw.choice((10, 20, 50)),
            log_segment=draw.choice((2048, 4096, 8192)),
            timer_segment=52 * draw.choice((3, 5, 20)) + 16,
            queue_segment=20 * draw.choice((5, 20)),
            sync_seconds=draw.choice((0.0, 0.0, 0.005, 0.02)),
        )

    def in_words(self) -> str:
        """A line for the history."""
        faults = " ".join(one.value for one in Fault if one in self.faults)
        return (
            f"faults: {faults or 'none'}; slots {self.slots_total} of {self.precision_ms} ms; "
            f"segments {self.log_segment}, timer log {self.timer_segment}, "
            f"queues {self.queue_segment}; a sync takes {self.sync_seconds} s"
        )

    def store_options(self, draw: Random) -> StoreOptions:
        """Settings of the store in one life."""
        return StoreOptions(
            mapped_file_size_commit_log=self.log_segment,
            mapped_file_size_consume_queue=self.queue_segment,
            max_hash_slot_num=16,
            max_index_num=64,
            flush_disk_type=draw.choice(tuple(FlushDiskType)),
            delete_when=ALL_HOURS,
            file_reserved_time_hours=0 if Fault.CLEAN in self.faults else 8760,
            clean_resource_interval_ms=draw.choice((1_000, 10_000)),
            scrub_bytes_per_second=self.log_segment,
        )

    def timer_options(self, draw: Random) -> TimerOptions:
        """Settings of the timers in one life."""
        return TimerOptions(
            timer_precision_ms=self.precision_ms,
            slots_total=self.slots_total,
            timer_roll_window_slot=draw.choice((3, 4, 6, 9)),
            mapped_file_size_timer_log=self.timer_segment,
            timer_flush_interval_ms=draw.choice((200, 1_000, 3_000)),
            deliver_batch_count_max=draw.choice((1, 4, 1024, 1024)),
            enqueue_batch_count_max=draw.choice((1, 4, 1024)),
            slot_units_max=draw.choice((2, 1 << 18)),
        )
