"""Entries of the timer topic as a batch of columns, from their records or from what those say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DEFAULT, MAGIC_DELETE
from timermq.timerstore.record_block import RecordBlock

from ..records.plain_records import read_plain
from ..records.timer_properties import DELETE
from ..records.timer_record import TimerFacts
from ..records.undeliverable import Undeliverable
from .timer_request import EnqueueBatch


def plain_batch(
    block: RecordBlock,
    offset_py: NDArray[np.int64],
    size_py: NDArray[np.int32],
    *,
    precision_ms: int,
    next_queue_offset: int = 0,
) -> EnqueueBatch | None:
    """The batch, if its records are all of the usual kind, and none is a delete.

    Args:
        block: The records.
        offset_py: Where they stand in the log.
        size_py: Their sizes.
        precision_ms: Width of a slot.
        next_queue_offset: As in the batch.
    """
    if DELETE in block.data:
        return None
    plain = read_plain(block, precision_ms)
    if plain is None:
        return None
    topic_hashes = np.array([to.topic_hash for to in plain.destinations], np.int32)
    return EnqueueBatch(
        offset_py=offset_py,
        size_py=size_py,
        out_ms=plain.out_ms,
        deliver_ms=plain.deliver_ms,
        order_py=offset_py,
        topic_hash=topic_hashes[plain.destination_of],
        magic=np.full(len(block), MAGIC_DEFAULT, np.int32),
        arrivals=plain.by_topic(),
        next_queue_offset=next_queue_offset,
    )


def facts_batch(
    facts: Sequence[TimerFacts],
    offset_py: NDArray[np.int64],
    size_py: NDArray[np.int32],
    *,
    arrivals: Mapping[str, int] | None = None,
    next_queue_offset: int = 0,
    undeliverable: Sequence[Undeliverable] = (),
) -> EnqueueBatch:
    """The batch of records that were read one by one.

    Args:
        facts: What each says.
        offset_py: Where they stand in the log.
        size_py: Their sizes.
        arrivals: As in the batch.
        next_queue_offset: The same.
        undeliverable: The same.
    """
    magic = [MAGIC_DEFAULT | (MAGIC_DELETE if fact.is_delete else 0) for fact in facts]
    return EnqueueBatch(
        offset_py=offset_py,
        size_py=size_py,
        out_ms=np.array([fact.out_ms for fact in facts], np.int64),
        deliver_ms=np.array([fact.deliver_ms for fact in facts], np.int64),
        order_py=np.array([fact.order_py for fact in facts], np.int64),
        topic_hash=np.array([fact.destination.topic_hash for fact in facts], np.int32),
        magic=np.array(magic, np.int32),
        arrivals=dict(arrivals or {}),
        next_queue_offset=next_queue_offset,
        undeliverable=list(undeliverable),
    )
