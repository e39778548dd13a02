"""Due messages that are written as copies of the records that waited: nearly all of them.

Whatever is unusual in a batch (a roll, a record of Java's, an address of IPv6) sends the whole
batch the long way, through ``delivered_message``, which also says what is wrong.

Source: Java ``TimerMessageStore.convertMessage``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL
from timermq.timerstore.record_copy import RecordCopies

from .already_done import origin_of
from .plain_records import read_plain
from .timer_record import TIMER_TOPIC
from .timer_request import DeliverBatch

_TOPIC_PART = len(TIMER_TOPIC).to_bytes() + TIMER_TOPIC.encode()


@attrs.frozen(eq=False)
class DueCopies:
    """A batch ready for the store, and what its publishing is checked against."""

    copies: RecordCopies
    deliver_ms: NDArray[np.int64]
    """Not before these moments, as the records themselves say."""

    def topics(self) -> list[str]:
        """Where each goes."""
        return [topic for topic, _ in self.copies.targets]


def due_copies(batch: DeliverBatch, precision_ms: int) -> DueCopies | None:
    """The copies that a batch becomes; None when it has to go the long way.

    Args:
        batch: Requests and their records.
        precision_ms: Width of a slot.
    """
    if not batch.records or (batch.requests["magic"] & MAGIC_ROLL).any():
        return None
    plain = read_plain(batch.records, precision_ms)
    if plain is None:
        return None
    copies = RecordCopies(
        topic_part=_TOPIC_PART,
        records=batch.records,
        ends=plain.ends,
        targets=[destination.target for destination in plain.destinations],
        origins=[origin_of(offset_py) for offset_py in batch.requests["offset_py"].tolist()],
    )
    return DueCopies(copies, plain.deliver_ms)
