"""Topics as an operator makes, looks at and deletes them.

A change is answered when the table that holds it is on the disk. A topic is deleted in one step, in
which nothing else happens: its queues, its configuration, the offsets that groups committed. Its
pending messages would have nowhere to go then, so a topic that has any is not deleted. A message
that was under way at that moment arrives on a topic that is not in the table; it brings the topic
back (``TopicConfigTable.restore``), and nothing is lost.

Source: Java ``AdminBrokerProcessor``, ``TopicConfigManager``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import structlog
import trio

from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.admin_body import decode_configs
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.queue_json import MessageQueue, encode_json
from timermq.remoting.topic_header import CreateTopicHeader, TopicHeader
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX

from ..config_fields import ConfigFields, ConfigTableError
from ..config_table import version_json
from ..consumer_offset import ConsumerOffsetTable
from ..consuming.long_polling import LongPolling
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..durations import Durations
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from ..topic_config import TopicConfig, TopicConfigTable
from ..topic_validator import SYSTEM_TOPICS, is_system_topic, topic_fault
from .broker_rates import topic_put_tps
from .broker_stats import BrokerStats
from .offset_reset import OffsetResets

QUEUE_NUMS_MAX = 65_536
"""Queues of one topic; a queue has a directory as soon as it has a message."""

LOOK_COUNT = 256
"""Pending messages that are read between two turns of the other tasks."""

Saved = Callable[[], Awaitable[None]]
"""Waits until the tables are on the disk."""

log = structlog.get_logger("timermq.broker.admin.topic_processor")


@attrs.frozen(eq=False, kw_only=True)
class TopicProcessor:
    """Makes, shows and deletes topics for operators."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    offsets: ConsumerOffsetTable
    resets: OffsetResets
    long_polling: LongPolling
    stats: BrokerStats
    made: Durations[bool]
    saved: Saved
    now_ms: Callable[[], int]

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.update_list,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_unused,
            RequestCode.GET_TOPIC_CONFIG: self.get,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.get_all,
            RequestCode.GET_TOPIC_STATS_INFO: self.queue_stats,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system_topics,
        }

    def update(self, session: Session, command: Command) -> None:
        """Make a topic or change it (17)."""
        config = self._check(self._of_header(CreateTopicHeader.of(command)))
        self._put_later(session, command, [config])

    def update_list(self, session: Session, command: Command) -> None:
        """Make or change several topics: all of them, or none when one is refused (18)."""
        configs: list[TopicConfig] = []
        for one in decode_configs(command.body, "topicConfigList"):
            try:
                fields = ConfigFields("topicConfigList", one)
                configs.append(self._check(TopicConfig.from_json("", fields)))
            except ConfigTableError as error:
                raise RefusedError(
                    ResponseCode.INVALID_PARAMETER, "TOPIC_CONFIG", str(error)
                ) from error
        self._put_later(session, command, configs)

    def delete(self, session: Session, command: Command) -> None:
        """Delete a topic with its messages and what groups committed of it (215)."""
        topic = TopicHeader.of(command).topic
        self._check_deletable(topic)

        async def delete() -> Command:
            await self._check_nothing_pending(topic)
            await self.timer_store.store.delete_topic(topic, at=lambda: self._forget(topic))
            await self.saved()
            log.info("topic deleted", topic=topic, remote=session.remote_address)
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, delete)

    def clean_unused(self, session: Session, command: Command) -> None:
        """Remove the queues of topics that are not in the table (316)."""

        async def clean() -> Command:
            store = self.timer_store.store
            for topic in dict.fromkeys(queue.topic for queue in store.queues()):
                if self.topics.get(topic) is None and topic not in OWN_TOPICS:
                    await store.delete_topic(topic)
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, clean)

    def get(self, _session: Session, command: Command) -> Command:
        """The configuration of one topic, as JSON (351)."""
        config = self.topics.existing(TopicHeader.of(command).topic)
        body = encode_json(config.to_json())
        return command.answer(ResponseCode.SUCCESS, body=body)

    def get_all(self, _session: Session, command: Command) -> Command:
        """The whole table with its version (21)."""
        return command.answer(
            ResponseCode.SUCCESS,
            body=encode_json(
                {
                    "dataVersion": version_json(self.topics.data_version),
                    "topicConfigTable": {
                        config.topic_name: config.to_json() for config in self.topics.all()
                    },
                    "topicQueueMappingDetailMap": {},
                }
            ),
        )

    def queue_stats(self, _session: Session, command: Command) -> Command:
        """Start and end of each queue of a topic, and the time of its last message (202)."""
        config = self.topics.existing(TopicHeader.of(command).topic)
        store = self.timer_store.store
        topic, name = config.topic_name, self.options.broker_name
        table: dict[MessageQueue, object] = {}
        for queue_id in range(config.queue_nums):
            queue = store.queue(topic, queue_id)
            least, most = (queue.min_offset, queue.max_offset) if queue else (0, 0)
            store_ms = store.store_ms_at(topic, queue_id, most - 1) if most > least else 0
            table[MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)] = {
                "lastUpdateTimestamp": max(store_ms, 0),
                "maxOffset": most,
                "minOffset": least,
            }
        tps = topic_put_tps(store, config, self.now_ms())
        body = encode_json({"offsetTable": table, "topicPutTps": tps})
        return command.answer(ResponseCode.SUCCESS, body=body)

    def system_topics(self, _session: Session, command: Command) -> Command:
        """The topics that the broker itself needs (305)."""
        names = {config.topic_name for config in self.topics.all() if self._is_system(config)}
        body = encode_json({"topicList": sorted(names | SYSTEM_TOPICS)})
        return command.answer(ResponseCode.SUCCESS, body=body)

    def _of_header(self, header: CreateTopicHeader) -> TopicConfig:
        topic = header.topic
        old = self.topics.get(topic)
        return TopicConfig(
            topic_name=topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag,
            order=header.order,
            attributes=alter_attributes({} if old is None else old.attributes, header.attributes),
            rest={} if old is None else old.rest,
        )

    def _check(self, config: TopicConfig) -> TopicConfig:
        """Refuse what no topic can be."""
        topic = config.topic_name
        fault = topic_fault(topic)
        if fault is not None:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "TOPIC_NAME", fault)
        if self._is_system(config):
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "TOPIC_SYSTEM",
                f"{topic} is a topic of the broker itself and stays as it is",
            )
        nums = (config.read_queue_nums, config.write_queue_nums)
        if not all(1 <= one <= QUEUE_NUMS_MAX for one in nums) or not 0 <= config.perm <= 15:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "TOPIC_CONFIG",
                f"{topic}: expected 1 to {QUEUE_NUMS_MAX} queues and a permission of 0 to 15, "
                f"found {nums[0]} to read, {nums[1]} to write, permission {config.perm}",
            )
        return config

    def _put_later(self, session: Session, command: Command, configs: list[TopicConfig]) -> None:
        self.topics.check_room(configs)

        async def put() -> Command:
            with self.made.making(is_system_topic(config.topic_name) for config in configs):
                for config in configs:
                    self.topics.put(config)
                    log.info(
                        "topic updated",
                        topic=config.topic_name,
                        read_queues=config.read_queue_nums,
                        write_queues=config.write_queue_nums,
                        perm=config.perm,
                        remote=session.remote_address,
                    )
                await self.saved()
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, put)

    def _check_deletable(self, topic: str) -> None:
        fault = topic_fault(topic)
        if fault is not None:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "TOPIC_NAME", fault)
        if is_system_topic(topic) or self.topics.is_system(topic):
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "TOPIC_SYSTEM",
                f"{topic} is a topic of the broker itself and stays",
            )

    async def _check_nothing_pending(self, topic: str) -> None:
        """Go through all pending messages: the counts by topic are only for people."""
        pending = self.timer_store.pending()
        deletes = pending.deletes()
        for _ in pending.learn(deletes):
            await trio.lowlevel.checkpoint()
        for looked, (row, _) in enumerate(pending.walk(pending.start, deletes), start=1):
            if row is not None and row.topic == topic:
                raise RefusedError(
                    ResponseCode.SYSTEM_ERROR,
                    "TOPIC_HAS_TIMERS",
                    f"a message of {topic} is pending until {row.deliver_ms} ({row.unique_id}): "
                    "cancel its pending messages or let them arrive, then delete the topic",
                )
            if looked % LOOK_COUNT == 0:
                await trio.lowlevel.checkpoint()

    def _forget(self, topic: str) -> None:
        """The step in which the topic ends; the store removes its queues in the same."""
        self.topics.delete(topic)
        self.offsets.delete_topic(topic)
        self.resets.forget_topic(topic)
        # Held on, they would pass over the first messages of a topic that is made again.
        self.long_polling.wake_topic(topic)
        self.stats.forget_topic(topic)

    def _is_system(self, config: TopicConfig) -> bool:
        topic = config.topic_name
        return is_system_topic(topic) or topic in (
            self.options.broker_name,
            self.options.broker_cluster_name,
        )


ATTRIBUTES: Mapping[str, frozenset[str] | None] = {
    "message.type": frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}),
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    "reserve.time": None,
}
"""Attribute to its values here; None: a number. RocketMQ's BatchCQ and COMPACTION are other kinds
of queues."""


def alter_attributes(current: Mapping[str, str], changes: str) -> dict[str, str]:
    """The attributes after some changes.

    Args:
        current: As they are.
        changes: ``+name=value`` and ``-name``, divided by commas.

    Raises:
        RefusedError: An unknown attribute or value, or another form (29).
    """
    altered = dict(current)
    for change in filter(None, (one.strip() for one in changes.split(","))):
        sign, (name, equals, value) = change[0], change[1:].partition("=")
        if name not in ATTRIBUTES or sign not in "+-" or (sign == "+") is not bool(equals):
            raise _refused(
                f"expected +NAME=VALUE or -NAME of {', '.join(ATTRIBUTES)}, found "
                f"{ascii(change)[:130]}"
            )
        if sign == "-":
            altered.pop(name, None)
            continue
        values = ATTRIBUTES[name]
        if value not in values if values is not None else not _is_number(value):
            expected = "a number" if values is None else " or ".join(sorted(values))
            raise _refused(f"{name}: expected {expected}, found {ascii(value)[:130]}")
        altered[name] = value
    return altered


def _is_number(value: str) -> bool:
    digits = value.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX


def _refused(reason: str) -> RefusedError:
    return RefusedError(ResponseCode.INVALID_PARAMETER, "TOPIC_ATTRIBUTES", reason)
