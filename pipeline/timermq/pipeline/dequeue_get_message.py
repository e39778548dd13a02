"""Stage 4: reads the bodies of due messages and leaves out the cancelled ones.

The positions of a batch are announced to the page cache first and read in the order of the commit
log, so that cold bodies cost one queue of reads instead of one read after the other; the batch
keeps its order of release.

Source: Java ``TimerMessageStore.TimerDequeueGetMessageService``.
"""

from __future__ import annotations

import attrs
import numpy as np
import structlog
import trio

from timermq.timerlog import MAGIC_ROLL, TimerMetrics
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import record_properties

from .timer_counts import TimerCounts
from .timer_options import TimerOptions
from .timer_record import REAL_TOPIC, order_name
from .timer_request import DeliverBatch, DequeueBatch, ReadMark, Requests
from .timer_state import TimerState

log = structlog.get_logger("timermq.pipeline.dequeue_get_message")


@attrs.frozen(eq=False, kw_only=True)
class DequeueGetMessage:
    """The stage; ``run`` is its task."""

    store: MessageStore
    metrics: TimerMetrics
    state: TimerState
    options: TimerOptions
    counts: TimerCounts

    async def run(
        self,
        source: trio.MemoryReceiveChannel[DequeueBatch | ReadMark],
        sink: trio.MemorySendChannel[DeliverBatch | ReadMark],
    ) -> None:
        """Read the records of every batch until ``source`` ends; marks pass through.

        Cancellation: nothing is lost, the slots are read again by the next run.
        """
        async with source, sink:
            async for batch in source:
                if isinstance(batch, ReadMark):
                    await sink.send(batch)
                    continue
                for part in self._parts(batch.requests):
                    await sink.send(self.read(part, batch.deletes))

    def read(self, requests: Requests, deletes: frozenset[bytes]) -> DeliverBatch:
        """The records of ``requests``, less those that are gone, cancelled or handled already."""
        offsets: list[int] = requests["offset_py"].tolist()
        sizes: list[int] = requests["size_py"].tolist()
        self.store.commit_log.will_need(zip(offsets, sizes, strict=True))
        order: list[int] = np.argsort(requests["offset_py"], kind="stable").tolist()
        places = [(offsets[index], sizes[index]) for index in order]
        records: list[bytes | None] = [None] * len(order)
        may_be_left_out = bool(deletes or self.state.already_done.foreign)
        for index, record in zip(order, self.store.commit_log.records_at(places), strict=True):
            if record is None or int.from_bytes(record[:4]) != sizes[index]:
                self.counts.missing += 1
                self.state.meet(offsets[index])
                log.error("due message is gone", phy_offset=offsets[index], size=sizes[index])
            elif not may_be_left_out or not self._left_out(record, deletes, requests[index]):
                records[index] = record
        kept = [index for index, record in enumerate(records) if record is not None]
        return DeliverBatch(
            requests=requests if len(kept) == len(requests) else requests[kept],
            records=[record for record in records if record is not None],
        )

    def _left_out(self, record: bytes, deletes: frozenset[bytes], request: np.void) -> bool:
        done = self.state.already_done
        if done.foreign and done.take_foreign(record):
            self.counts.repeated += 1
            self.state.meet(int(request["offset_py"]))
            return True
        # A delete takes effect in the final slot only: on the way both are rolled.
        if (
            deletes
            and not int(request["magic"]) & MAGIC_ROLL
            and _names(record, int(request["order_py"])) & deletes
        ):
            self.counts.cancelled += 1
            self.state.meet(int(request["offset_py"]))
            topic = find(record_properties(record), REAL_TOPIC[:-1])
            if topic is not None:
                self.metrics.add(topic.decode(), -1)
            return True
        return False

    def _parts(self, requests: Requests) -> list[Requests]:
        """Consecutive parts of at most ``deliver_batch_size_max`` bytes, or of one message."""
        ends = np.cumsum(requests["size_py"], dtype=np.int64)
        if int(ends[-1]) <= self.options.deliver_batch_size_max:
            return [requests]
        parts: list[Requests] = []
        start = 0
        while start < len(requests):
            before = int(ends[start - 1]) if start else 0
            limit = before + self.options.deliver_batch_size_max
            stop = max(int(np.searchsorted(ends, limit, "right")), start + 1)
            parts.append(requests[start:stop])
            start = stop
        return parts


def _names(record: bytes, order_py: int) -> set[bytes]:
    """How a delete can name this message: by its order, by its key with its topic and without."""
    names = {order_name(order_py)}
    properties = record_properties(record)
    unique_key = find(properties, b"UNIQ_KEY")
    if unique_key is None:
        return names
    topic = find(properties, REAL_TOPIC[:-1]) or b""
    return names | {unique_key, topic + b"+" + unique_key}
