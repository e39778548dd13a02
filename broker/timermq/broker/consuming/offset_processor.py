"""Offsets: what a group committed (14, 15), and where queues begin, end and stood (29 to 32).

Source: Java ``ConsumerManageProcessor``, ``AdminBrokerProcessor``.
"""

from __future__ import annotations

import attrs

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.offset_header import (
    CommitOffsetHeader,
    QueryOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
)
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.message_store import MessageStore

from ..admin.offset_reset import OffsetResets
from ..consumer_offset import ConsumerOffsetTable
from ..refusal import RefusedError
from ..session import Session
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfigTable

_UPPER = "UPPER"


@attrs.frozen(eq=False, kw_only=True)
class OffsetProcessor:
    """Answers and stores the offsets of consumers."""

    store: MessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    resets: OffsetResets

    def query_consumer_offset(self, _session: Session, command: Command) -> Command:
        """The next offset of a group (14).

        A group that never committed is told to begin at 0 when message 0 is still there, and that
        nothing is known (22) otherwise: then the client decides by its own settings.
        """
        header = QueryOffsetHeader.of(command)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = self.offsets.query(group=group, topic=topic, queue_id=queue_id)
        if offset is None:
            queue = self.store.queue(topic, queue_id)
            begins_at_0 = queue is not None and queue.min_offset <= 0 < queue.max_offset
            if not begins_at_0 or not header.set_zero_if_not_found:
                raise RefusedError(
                    ResponseCode.QUERY_NOT_FOUND,
                    "OFFSET_NOT_FOUND",
                    f"group {ascii(group)[:130]} has committed no offset here",
                )
            offset = 0
        return _offset(command, offset)

    def update_consumer_offset(self, _session: Session, command: Command) -> Command:
        """Commit where a group goes on (15).

        Negative offsets are ignored, and so are all until the group has learned of a reset.
        """
        header = CommitOffsetHeader.of(command)
        topic, queue_id = header.topic, header.queue_id
        self._check_queue(topic, queue_id)
        group = self.groups.find(header.consumer_group).group_name
        offset = header.commit_offset
        if not self.resets.is_pending(group=group, topic=topic, queue_id=queue_id):
            self.offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
        return command.answer(ResponseCode.SUCCESS)

    def search_offset_by_timestamp(self, _session: Session, command: Command) -> Command:
        """The first message stored at a time or after it (29), with UPPER the last before."""
        header = SearchOffsetHeader.of(command)
        topic, queue_id = header.topic, header.queue_id
        upper = header.boundary_type.upper() == _UPPER
        offset = self.store.offset_by_time(topic, queue_id, header.timestamp_ms, upper=upper)
        return _offset(command, offset)

    def max_offset(self, _session: Session, command: Command) -> Command:
        """The offset that the next message will get (30); 0 for a queue without messages."""
        queue = self._queue(command)
        return _offset(command, 0 if queue is None else queue.max_offset)

    def min_offset(self, _session: Session, command: Command) -> Command:
        """The offset of the oldest message (31); 0 for a queue without messages."""
        queue = self._queue(command)
        return _offset(command, 0 if queue is None else queue.min_offset)

    def earliest_store_time(self, _session: Session, command: Command) -> Command:
        """When the oldest message of a queue was stored (32); -1 without messages."""
        queue = self._queue(command)
        time_ms = -1
        if queue is not None:
            time_ms = self.store.store_ms_at(queue.topic, queue.queue_id, queue.min_offset)
        return command.answer(ResponseCode.SUCCESS, ext={"timestamp": str(time_ms)})

    def _queue(self, command: Command) -> ConsumeQueue | None:
        header = QueueHeader.of(command)
        return self.store.queue(header.topic, header.queue_id)

    def _check_queue(self, topic: str, queue_id: int) -> None:
        config = self.topics.existing(topic)
        if not 0 <= queue_id < config.queue_nums:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "QUEUE_ID",
                f"topic {topic} has {config.queue_nums} queues, found queue {queue_id}",
            )


def _offset(command: Command, offset: int) -> Command:
    return command.answer(ResponseCode.SUCCESS, ext={"offset": str(offset)})
