"""The batches between the stages: positions, and the mark that ends a slot.

A request is one row of columns, not an object: a batch costs the same few numpy calls whether it
has one row or a thousand, and a waiting timer costs no Python object at all.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DELETE
from timermq.timerstore.record_block import RecordBlock

from ..records.undeliverable import TimerRecordError, Undeliverable

REQUEST = np.dtype(
    [
        ("deliver_ms", np.int64),  # the moment asked for; a roll: the slot it waits in
        ("order_py", np.int64),  # position of the message's first record: order at equal time
        ("offset_py", np.int64),  # where the record stands in the commit log
        ("size_py", np.int32),  # its size, bytes
        ("magic", np.int32),  # bits of timerlog.unit: roll, delete
        ("pos", np.int64),  # of its unit in the timer log
        ("topic_hash", np.int32),  # of the real topic: the lane in which it takes its turn
    ]
)
"""One due message; 44 bytes."""

Requests = NDArray[np.void]
"""An array of ``REQUEST``."""


def counted_hash(request: np.void) -> int | None:
    """Hash of the topic that a request counts for among the pending; None of a delete."""
    return None if int(request["magic"]) & MAGIC_DELETE else int(request["topic_hash"])


def undeliverable(error: TimerRecordError, request: np.void, record: bytes | None) -> Undeliverable:
    """A due message by what is wrong with its record, with what its unit says of it."""
    offset_py, size_py = int(request["offset_py"]), int(request["size_py"])
    return attrs.evolve(
        Undeliverable.of(error, offset_py, size_py, record, counted_hash(request)),
        order_py=int(request["order_py"]),
        is_delete=bool(int(request["magic"]) & MAGIC_DELETE),
    )


@attrs.frozen(eq=False, kw_only=True)
class EnqueueBatch:
    """Consecutive entries of the timer topic, read and understood (stage 1 to stage 2)."""

    offset_py: NDArray[np.int64]
    size_py: NDArray[np.int32]
    out_ms: NDArray[np.int64]
    deliver_ms: NDArray[np.int64]
    order_py: NDArray[np.int64]
    topic_hash: NDArray[np.int32]
    magic: NDArray[np.int32]
    arrivals: dict[str, int]
    """By real topic: messages that were not in the wheel before (rolls and deletes do not
    count)."""
    next_queue_offset: int
    """All entries of the timer topic below it are in this batch, an earlier one, or need
    nothing."""
    undeliverable: list[Undeliverable] = attrs.Factory(list[Undeliverable])
    """Entries that no timer can be made of; what is quarantined is taken out."""

    def __len__(self) -> int:
        return len(self.offset_py)


@attrs.frozen(eq=False, kw_only=True)
class DequeueBatch:
    """Due messages in the order in which they are to appear (stage 3 to stage 4).

    They are of one slot, or of several that have the same deletes (nearly always none).
    """

    requests: Requests
    deletes: frozenset[bytes]
    """Keys that the slot's delete messages name; complete before the first batch leaves."""


@attrs.frozen(eq=False, kw_only=True)
class DeliverBatch:
    """The same with the records read and the cancelled ones left out (stage 4 to stage 5)."""

    requests: Requests
    block: RecordBlock
    """Their records, in the same order."""
    left_out: list[tuple[int, bytes]] = attrs.Factory(list[tuple[int, bytes]])
    """Position and bytes of the cancelled records that nothing names as its origin yet."""
    undeliverable: list[Undeliverable] = attrs.Factory(list[Undeliverable])
    """Due messages whose records cannot be used; what is quarantined is taken out."""
    is_last: bool = True
    """No further part of its ``DequeueBatch`` follows."""


@attrs.frozen
class ReadMark:
    """All of the slots before ``read_ms`` has gone before it: ends a slot in stages 3 to 5."""

    read_ms: int
    scan_py: int | None = None
    """Messages of later slots have gone before it too: they are delivered at this position of the
    commit log or behind it. None: no later slot has begun to leave."""
