"""How far groups have come: behind by how many messages (208, 317), and since when (303).

Source: Java ``AdminBrokerProcessor``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import attrs
import trio

from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.group_header import (
    BrokerConsumeStatsHeader,
    ConsumeStatsHeader,
    GroupTopicHeader,
)
from timermq.remoting.queue_json import MessageQueue, encode_json
from timermq.timerstore.message_store import MessageStore

from ..client_registry import ClientRegistry
from ..consumer_offset import ConsumerOffsetTable
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..options import BrokerOptions
from ..session import Session
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfigTable
from .broker_stats import BrokerStats

LIST_SEPARATOR = ";"
"""Between the topics or groups of one parameter."""

LOOK_COUNT = 16
"""Topics and groups that are looked at between two looks at the other tasks: 3 ms with topics of
eight queues."""


@attrs.frozen(kw_only=True)
class _QueueOffsets:
    """How far one group is in one queue; the fields are those of Java's ``OffsetWrapper``."""

    broker_offset: int
    consumer_offset: int
    last_ms: int
    """Store time of the last message that the group has consumed, 0 without one."""

    @property
    def behind(self) -> int:
        """Messages that are still to be consumed."""
        return self.broker_offset - self.consumer_offset

    def to_json(self) -> dict[str, object]:
        """Committed offsets are given as pulled ones, too."""
        return {
            "brokerOffset": self.broker_offset,
            "consumerOffset": self.consumer_offset,
            "lastTimestamp": self.last_ms,
            "pullOffset": self.consumer_offset,
        }


_Queues = Sequence[tuple[MessageQueue, _QueueOffsets]]
"""All queues of one topic, as one group sees them."""


@attrs.frozen(eq=False, kw_only=True)
class ConsumeStatsProcessor:
    """Answers how far groups are behind."""

    options: BrokerOptions
    store: MessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    clients: ClientRegistry
    stats: BrokerStats
    address: str

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self.broker_consume_stats,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_span,
        }

    def consume_stats(self, _session: Session, command: Command) -> Command:
        """Each queue's end and how far a group is in it (208)."""
        header = ConsumeStatsHeader.of(command)
        group = header.consumer_group
        wanted = [header.topic, *header.topic_list.split(LIST_SEPARATOR)]
        names = list(filter(None, wanted))
        topics = self._subscribed(group, names or self.offsets.topics_of(group))
        queues = {topic: self._queues(group, topic) for topic in topics}
        return command.answer(ResponseCode.SUCCESS, body=encode_json(self._stats(group, queues)))

    def broker_consume_stats(self, session: Session, command: Command) -> None:
        """The same of every group on this broker, and how much all are behind (317).

        Thousands of groups take seconds: they are looked at and printed one by one, with the other
        tasks in between, and one that is deleted meanwhile has nothing.
        """
        only_ordered = BrokerConsumeStatsHeader.of(command).is_order

        async def look() -> Command:
            behind, looks = 0, itertools.count(1)
            stats: list[bytes] = []
            for group in [config.group_name for config in self.groups.all()]:
                found: list[bytes] = []
                for topic in self._subscribed(group, self.offsets.topics_of(group)):
                    config = self.topics.get(topic)
                    if config is None or (only_ordered and not config.order):
                        continue
                    queues = self._queues(group, topic)
                    found.append(encode_json(self._stats(group, {topic: queues})))
                    behind += sum(one.behind for _, one in queues)
                    if next(looks) % LOOK_COUNT == 0:
                        await trio.lowlevel.checkpoint()
                stats.append(b"{%b:[%b]}" % (encode_json(group), b",".join(found)))
                if next(looks) % LOOK_COUNT == 0:
                    await trio.lowlevel.checkpoint()
            body = b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d,"totalInflightDiff":0}'
            values = (encode_json(self.address), b",".join(stats), behind)
            return command.answer(ResponseCode.SUCCESS, body=body % values)

        answer_later(session, command, look)

    def time_span(self, _session: Session, command: Command) -> Command:
        """Store times at the ends of each queue, and where a group is between them (303)."""
        header = GroupTopicHeader.of(command)
        topic, group = header.topic, header.group
        self.topics.existing(topic)
        spans: list[object] = []
        for key, one in self._queues(group, topic):
            store_ms, queue_id = self.store.store_ms_at, key.queue_id
            queue = self.store.queue(topic, queue_id)
            least = -1 if queue is None else store_ms(topic, queue_id, queue.min_offset)
            most = -1 if queue is None else store_ms(topic, queue_id, queue.max_offset - 1)
            waits_since = store_ms(topic, queue_id, one.consumer_offset)
            spans.append(
                {
                    "consumeTimeStamp": one.last_ms or least,
                    "delayTime": max(most - waits_since, 0) if waits_since >= 0 else 0,
                    "maxTimeStamp": most,
                    "messageQueue": key,
                    "minTimeStamp": least,
                }
            )
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"consumeTimeSpanSet": spans}))

    def _subscribed(self, group: str, topics: list[str]) -> list[str]:
        """The topics of a list that the group consumes; a group without members may consume all."""
        info = self.clients.consumer_group(group)
        if info is None or not info.subscriptions:
            return topics
        return [topic for topic in topics if topic in info.subscriptions]

    def _stats(self, group: str, queues: Mapping[str, _Queues]) -> dict[str, object]:
        """The answer about a group's topics: how fast they are consumed, and each queue."""
        return {
            "consumeTps": sum((self.stats.get_tps(topic, group) for topic in queues), 0.0),
            "offsetTable": {key: one.to_json() for found in queues.values() for key, one in found},
        }

    def _queues(self, group: str, topic: str) -> _Queues:
        config = self.topics.get(topic)
        if config is None:
            return []
        committed = self.offsets.offsets(group=group, topic=topic)
        found: list[tuple[MessageQueue, _QueueOffsets]] = []
        for queue_id in range(config.read_queue_nums):
            queue = self.store.queue(topic, queue_id)
            offset = committed.get(queue_id, 0)
            last_ms = self.store.store_ms_at(topic, queue_id, offset - 1) if offset > 0 else 0
            key = MessageQueue(topic=topic, broker_name=self.options.broker_name, queue_id=queue_id)
            found.append(
                (
                    key,
                    _QueueOffsets(
                        broker_offset=0 if queue is None else queue.max_offset,
                        consumer_offset=offset,
                        last_ms=max(last_ms, 0),
                    ),
                )
            )
        return found
