"""Due messages as columns: copies of a run of records that waited. Nearly all of a burst.

A batch of few messages, or one that is no run (with a roll, a record of Java's, an address of
IPv6), goes through ``delivered_message`` one by one, which also says what is wrong.

Source: Java ``TimerMessageStore.convertMessage``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.copy_columns import CopyColumns

from ..records.deduplication import origin_of
from ..records.timer_columns import read_columns
from ..records.timer_record import TIMER_TOPIC
from .timer_request import DeliverBatch

COLUMNS_COUNT_MIN = 64
"""Fewer messages are written one by one in less time."""

_TOPIC_PART = len(TIMER_TOPIC).to_bytes() + TIMER_TOPIC.encode()


@attrs.frozen(eq=False)
class DueColumns:
    """A run ready for the store, and what its publishing is checked against."""

    columns: CopyColumns
    deliver_ms: NDArray[np.int64]
    """Not before these moments, as the records themselves say."""
    arrivals: dict[str, int]
    """Messages by topic."""


def due_columns(
    batch: DeliverBatch, precision_ms: int, *, count_min: int = COLUMNS_COUNT_MIN
) -> DueColumns | None:
    """The columns that a batch becomes; None when its messages are to be made one by one.

    Args:
        batch: Requests and their records.
        precision_ms: Width of a slot.
        count_min: With fewer messages one by one is faster.
    """
    if len(batch.block) < max(count_min, 1) or (batch.requests["magic"] & MAGIC_ROLL).any():
        return None
    timers = read_columns(batch.block, precision_ms)
    if timers is None:
        return None
    columns = CopyColumns(
        topic_part=_TOPIC_PART,
        block=batch.block,
        ends=timers.ends,
        targets=[destination.target for destination in timers.destinations],
        target_of=timers.destination_of,
        origins=origin_of(batch.requests["offset_py"]),
    )
    return DueColumns(columns, timers.deliver_ms, timers.by_topic())
