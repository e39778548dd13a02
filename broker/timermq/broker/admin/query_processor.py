"""Lookups: messages by key (12) and by the position in their id (33), units of queues (321).

Messages are shown without their origins (``deduplication``), as RocketMQ's are: nothing that reads
a store looks at them here.

Source: Java ``QueryMessageProcessor``.
"""

from __future__ import annotations

import attrs

from timermq.pipeline.records.deduplication import without_origin
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.query_header import (
    ConsumeQueueHeader,
    QueryMessageHeader,
    ViewMessageHeader,
)
from timermq.remoting.queue_json import encode_json
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record

from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session

UNIQUE_QUERY_COUNT = 32
"""Messages of one query by unique key (RocketMQ's ``defaultQueryMaxNum``)."""
UNIT_COUNT_MAX = 64
"""Units of a queue in one answer."""


@attrs.frozen(eq=False, kw_only=True)
class QueryProcessor:
    """Finds messages by key and by position, and units of queues."""

    options: BrokerOptions
    store: MessageStore

    def query_message(self, _session: Session, command: Command) -> Command:
        """Messages that carry a key; at most ``maxNum``, and as many as fit into the answer."""
        header = QueryMessageHeader.of(command)
        unique = header.is_unique_key
        count_max = UNIQUE_QUERY_COUNT if unique else header.max_num
        records = self.store.query(
            header.topic,
            header.key,
            count_max=max(min(count_max, self.store.options.max_msgs_num_batch), 1),
            begin_ms=header.begin_ms,
            end_ms=header.end_ms,
            unique=unique,
        )
        if not records:
            raise RefusedError(
                ResponseCode.QUERY_NOT_FOUND,
                "MESSAGE_NOT_FOUND",
                "no message of this topic carries the key in this time",
            )
        found = _within(records, self.options.query_size_max)
        newest = decode_record(found[-1])
        return command.answer(
            ResponseCode.SUCCESS,
            ext={
                "indexLastUpdateTimestamp": str(newest.store_ms),
                "indexLastUpdatePhyoffset": str(self.store.commit_log.max_offset),
            },
            body=b"".join(map(without_origin, found)),
        )

    def view_message_by_id(self, _session: Session, command: Command) -> Command:
        """The message that begins at a position of the commit log."""
        offset = ViewMessageHeader.of(command).offset
        record = look_message_by_offset(self.store, offset)
        if record is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, "MESSAGE_NOT_FOUND", f"no message begins at {offset}"
            )
        return command.answer(ResponseCode.SUCCESS, body=without_origin(record))

    def consume_queue(self, _session: Session, command: Command) -> Command:
        """Some units of a consume queue as they stand in its file (321)."""
        header = ConsumeQueueHeader.of(command)
        topic, queue_id = header.topic, header.queue_id
        queue = self.store.queue(topic, queue_id)
        if queue is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "QUEUE_EMPTY",
                f"no message ever came to queue {queue_id} of {ascii(topic)[:260]}",
            )
        first, count = header.index, header.count
        units = queue.units(max(first, queue.min_offset), max(min(count, UNIT_COUNT_MAX), 1))
        rows = [
            {"eval": True, "physicOffset": phy_offset, "physicSize": size, "tagsCode": tags_code}
            for phy_offset, size, tags_code in units.tolist()
        ]
        body = {
            "maxQueueIndex": queue.max_offset,
            "minQueueIndex": queue.min_offset,
            "queueData": rows,
        }
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))


def _within(records: list[bytes], size_max: int) -> list[bytes]:
    """As many records from the front as fit, the first one always."""
    size = 0
    for count, record in enumerate(records):
        size += len(record)
        if size > size_max and count:
            return records[:count]
    return records
