"""The counts of the timer service while it runs, and the frozen copy it gives away."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from .backoff import Backoff

LATENESS_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 250, 500, 1_000, 5_000, 60_000)
"""Upper bounds of the lateness buckets, milliseconds; the last bucket is open."""


@attrs.define(eq=False)
class TimerCounts:
    """Running totals since the start; each is written by one stage only."""

    enqueued: int = 0
    """Units written to the timer log."""
    rolled: int = 0
    """Messages enqueued again on their way."""
    delivered: int = 0
    """Messages written to their real topic."""
    cancelled: int = 0
    """Messages that a delete of their slot took out."""
    repeated: int = 0
    """Entries left out after a restart because the last run had handled them."""
    missing: int = 0
    """Those of ``set_aside`` whose record the commit log no longer has."""
    set_aside: int = 0
    """Messages that cannot be delivered and went to the quarantine."""
    retried: int = 0
    """Puts repeated because the store could not take them at that moment."""
    enqueue_backoff: Backoff = attrs.Factory(Backoff)
    """Entries of the timer topic that have no place because the disk is full."""
    deliver_backoff: Backoff = attrs.Factory(Backoff)
    """Due messages that the store does not take now."""
    early: int = 0
    """Deliveries before their moment: the gate at the publish keeps it 0."""
    lateness: NDArray[np.int64] = attrs.Factory(
        lambda: np.zeros(len(LATENESS_BOUNDS_MS) + 1, np.int64)
    )
    """Deliveries by lateness, one bucket a bound and one above."""
    lateness_max_ms: int = 0
    lateness_sum_ms: int = 0

    def count_lateness(self, late_ms: NDArray[np.int64]) -> None:
        """Add deliveries with their lateness in milliseconds."""
        self.delivered += len(late_ms)
        self.early += int((late_ms < 0).sum())
        buckets = np.searchsorted(LATENESS_BOUNDS_MS, late_ms, side="left")
        self.lateness += np.bincount(buckets, minlength=len(self.lateness))
        self.lateness_max_ms = max(self.lateness_max_ms, int(late_ms.max(initial=0)))
        self.lateness_sum_ms += int(late_ms.sum())


@attrs.frozen
class LastQuarantined:
    """The newest message in the quarantine, for who looks on."""

    reason: str
    text: str
    time_ms: int


@attrs.frozen(kw_only=True)
class TimerStatistics:
    """A moment's picture of the timer service; times in epoch milliseconds."""

    now_ms: int
    read_ms: int
    commit_read_ms: int
    queue_offset: int
    commit_queue_offset: int
    queue_offset_max: int
    """End of the timer topic: what lies between it and ``queue_offset`` is not yet in the wheel."""
    pending: int
    """Units in slots that are not read yet, deletes counted as minus one as RocketMQ does."""
    timers: int
    already_due: int
    levels_clamped: int
    refused: dict[str, int]
    enqueued: int
    rolled: int
    delivered: int
    cancelled: int
    repeated: int
    missing: int
    set_aside: int
    retried: int
    quarantined: int
    """Messages in quarantine now."""
    last_set_aside: LastQuarantined | None
    enqueue_backoff: Backoff
    deliver_backoff: Backoff
    early: int
    levels_left: int
    """Messages that RocketMQ left waiting for classic levels, and that are not on the wheel yet."""
    lateness_bounds_ms: tuple[int, ...]
    lateness: tuple[int, ...]
    lateness_max_ms: int
    lateness_sum_ms: int
    pending_by_topic: dict[str, int]
