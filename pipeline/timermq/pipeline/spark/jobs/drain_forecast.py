"""How late messages will be: what is due, second by second, against the rate of the broker.

The rate is measured from what the broker has delivered, or given.

What the broker cannot deliver in time waits, and whatever comes meanwhile waits behind it. Within a
second messages are taken to be spread evenly from the first one's millisecond to the last one's, so
a burst at one instant is late by all that it takes to drain. How they really lie adds a second at
most, however long the queue has been growing.

Turns among topics are left out: a topic with few messages is late by less than what stands here.
"""

from __future__ import annotations

import attrs
import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from timermq.timerstore.array_types import Int64s

MINUTE_MS = 60_000


@attrs.frozen(kw_only=True)
class DrainRate:
    """How fast the broker delivers when messages wait."""

    per_second: float
    full_seconds: int | None
    """It is the median of as many seconds in which messages waited all the time; None: given."""


def measured_rate(cells: DataFrame) -> DrainRate | None:
    """How many messages a second were delivered while others waited.

    A second is full when most of what the next one delivered was due as it began: then the broker
    had something to do all the time. The median of the full ones counts, so that neither a pause
    nor the best second is taken for the usual.

    Returns:
        None when there was no such second: the broker was never behind, or nothing was delivered.
    """
    seconds = cells.groupBy("second_ms").agg(
        F.sum("count").alias("count"), F.sum("waited").alias("waited")
    )
    following = seconds.where("2 * waited >= count").select(
        F.expr("second_ms - 1000").alias("second_ms")
    )
    row = (
        seconds.join(following, "second_ms")
        .agg(F.expr("percentile(count, 0.5)").alias("rate"), F.count("*").alias("full"))
        .first()
    )
    if row is None or not row["full"]:
        return None
    return DrainRate(per_second=float(row["rate"]), full_seconds=int(row["full"]))


@attrs.frozen(eq=False, kw_only=True)
class DueSeconds:
    """The seconds in which something is due, ascending."""

    first_ms: Int64s
    """The moment of each one's first message."""
    last_ms: Int64s
    """… and of its last one."""
    counts: Int64s

    def from_moment(self, begin_ms: int) -> DueSeconds:
        """The same at a moment: what was due before it is due just then."""
        return DueSeconds(
            first_ms=np.maximum(self.first_ms, begin_ms),
            last_ms=np.maximum(self.last_ms, begin_ms),
            counts=self.counts,
        )


@attrs.frozen(eq=False, kw_only=True)
class Lateness:
    """How late each second's messages will be."""

    late_ms: Int64s
    """The latest of the second, milliseconds after its moment."""
    waiting: Int64s
    """Messages that are due and not delivered when the last one of the second is due."""


def lateness(due: DueSeconds, rate: float) -> Lateness:
    """Let the seconds pass through a broker.

    The queue grows by what is due and shrinks by what is delivered, never below nothing. So it is
    the sum of all that was added less the least that this sum has been.

    Args:
        due: May be empty.
        rate: Messages a second, above 0.
    """
    per_ms = rate / 1000
    idle_ms = np.diff(due.first_ms, prepend=due.first_ms[:1])
    idle_ms[1:] = due.first_ms[1:] - due.last_ms[:-1]
    steps = np.empty(2 * len(due.counts))
    steps[0::2] = -per_ms * idle_ms
    steps[1::2] = due.counts - per_ms * (due.last_ms - due.first_ms)
    sums = np.cumsum(steps)
    queue = sums - np.minimum.accumulate(np.minimum(sums, 0))
    before, after = queue[0::2], queue[1::2]
    return Lateness(
        late_ms=np.ceil(np.maximum(before, after) / per_ms - 1e-6).astype(np.int64),
        waiting=np.ceil(after - 1e-6).astype(np.int64),
    )


@attrs.frozen(eq=False, kw_only=True)
class LateMinutes:
    """The forecast of each minute in which something is due, ascending."""

    minute_ms: Int64s
    counts: Int64s
    """Messages that are due."""
    late_ms: Int64s
    """How late the latest of them will be."""
    peak_ms: Int64s
    """The second in which that one is due."""
    waiting: Int64s
    """Pending messages when the last one of the minute is due."""

    def columns(self) -> dict[str, Int64s]:
        """The arrays by the names of their columns."""
        return {
            "minute_ms": self.minute_ms,
            "count": self.counts,
            "late_ms": self.late_ms,
            "peak_ms": self.peak_ms,
            "waiting": self.waiting,
        }

    def rows(self) -> list[dict[str, int]]:
        """The minutes one by one."""
        columns = self.columns()
        lists = (column.tolist() for column in columns.values())
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def by_minute(due: DueSeconds, found: Lateness) -> LateMinutes:
    """Put seconds together to minutes, each as late as its latest second."""
    minutes = due.first_ms // MINUTE_MS * MINUTE_MS
    minute_ms, begins = np.unique(minutes, return_index=True)
    if not len(minute_ms):
        none = np.empty(0, np.int64)
        return LateMinutes(minute_ms=none, counts=none, late_ms=none, peak_ms=none, waiting=none)
    # The latest of each minute first; of equals the earliest.
    order = np.lexsort((due.first_ms, -found.late_ms, minutes))
    peaks = order[begins]
    ends = np.append(begins[1:], len(minutes)) - 1
    return LateMinutes(
        minute_ms=minute_ms,
        counts=np.add.reduceat(due.counts, begins),
        late_ms=found.late_ms[peaks],
        peak_ms=due.first_ms[peaks] // 1000 * 1000,
        waiting=found.waiting[ends],
    )
