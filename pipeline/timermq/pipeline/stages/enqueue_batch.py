"""Entries of the timer topic as a batch: from a run of records, or from the facts of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DEFAULT, MAGIC_DELETE
from timermq.timerstore.record_block import RecordBlock

from ..records.timer_columns import read_columns
from ..records.timer_record import DELETE, TimerFacts
from ..records.undeliverable import Undeliverable
from .timer_request import EnqueueBatch


def columns_batch(
    block: RecordBlock,
    offset_py: NDArray[np.int64],
    size_py: NDArray[np.int32],
    *,
    precision_ms: int,
    next_queue_offset: int = 0,
) -> EnqueueBatch | None:
    """The batch, if its records are a run, and none is a delete.

    Args:
        block: The records.
        offset_py: Where they stand in the log.
        size_py: Their sizes.
        precision_ms: Width of a slot.
        next_queue_offset: As in the batch.
    """
    if DELETE in block.data:
        return None
    timers = read_columns(block, precision_ms)
    if timers is None:
        return None
    topic_hashes = np.array([to.topic_hash for to in timers.destinations], np.int32)
    return EnqueueBatch(
        offset_py=offset_py,
        size_py=size_py,
        out_ms=timers.out_ms,
        deliver_ms=timers.deliver_ms,
        order_py=offset_py,
        topic_hash=topic_hashes[timers.destination_of],
        magic=np.full(len(block), MAGIC_DEFAULT, np.int32),
        arrivals=timers.by_topic(),
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
