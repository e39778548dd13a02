"""Due messages that are written as copies of the records that waited: nearly all of a burst.

Few messages, and whatever is unusual in a batch (a roll, a record of Java's, an address of IPv6),
send the whole batch the long way, through ``delivered_message``, which also says what is wrong.

Source: Java ``TimerMessageStore.convertMessage``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.record_copy import RecordCopies

from ..records.deduplication import origin_of
from ..records.plain_records import read_plain
from ..records.timer_record import TIMER_TOPIC
from .timer_request import DeliverBatch

COPIES_COUNT_MIN = 64
"""Fewer messages are written one by one in less time."""

_TOPIC_PART = len(TIMER_TOPIC).to_bytes() + TIMER_TOPIC.encode()


@attrs.frozen(eq=False)
class DueCopies:
    """A batch ready for the store, and what its publishing is checked against."""

    copies: RecordCopies
    deliver_ms: NDArray[np.int64]
    """Not before these moments, as the records themselves say."""
    arrivals: dict[str, int]
    """Messages by topic."""


def due_copies(
    batch: DeliverBatch, precision_ms: int, *, count_min: int = COPIES_COUNT_MIN
) -> DueCopies | None:
    """The copies that a batch becomes; None when it has to go the long way.

    Args:
        batch: Requests and their records.
        precision_ms: Width of a slot.
        count_min: With fewer messages the long way is the shorter one.
    """
    if len(batch.block) < max(count_min, 1) or (batch.requests["magic"] & MAGIC_ROLL).any():
        return None
    plain = read_plain(batch.block, precision_ms)
    if plain is None:
        return None
    copies = RecordCopies(
        topic_part=_TOPIC_PART,
        block=batch.block,
        ends=plain.ends,
        targets=[destination.target for destination in plain.destinations],
        target_of=plain.destination_of,
        origins=origin_of(batch.requests["offset_py"]),
    )
    return DueCopies(copies, plain.deliver_ms, plain.by_topic())
