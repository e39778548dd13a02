"""Topics as an operator makes and looks at them.

A change is answered when the table that holds it is on the disk.

Source: Java ``AdminBrokerProcessor``, ``TopicConfigManager``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import structlog

from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.admin_body import decode_configs
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.queue_json import MessageQueue, encode_json
from timermq.remoting.topic_header import AllTopicsHeader, CreateTopicHeader, TopicHeader
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX

from ..config_fields import ConfigFields, ConfigTableError
from ..config_table import version_json
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..durations import Durations
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from ..topic_config import TopicConfig, TopicConfigTable
from ..topic_validator import SYSTEM_TOPICS, is_system_topic, topic_fault
from .broker_rates import topic_put_tps
from .table_page import TablePage

QUEUE_NUMS_MAX = 65_536
"""Queues of one topic; a queue has a directory as soon as it has a message."""

Saved = Callable[[], Awaitable[None]]
"""Waits until the tables are on the disk."""

log = structlog.get_logger("timermq.broker.admin.topic_processor")


@attrs.frozen(eq=False, kw_only=True)
class TopicProcessor:
    """Makes and shows topics for operators."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    made: Durations[bool]
    saved: Saved
    now_ms: Callable[[], int]

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.update_list,
            RequestCode.GET_TOPIC_CONFIG: self.get,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.get_all,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
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

    def get(self, _session: Session, command: Command) -> Command:
        """The configuration of one topic, as JSON (351)."""
        config = self.topics.existing(TopicHeader.of(command).topic)
        body = encode_json(config.to_json())
        return command.answer(ResponseCode.SUCCESS, body=body)

    def get_all(self, _session: Session, command: Command) -> Command:
        """The whole table with its version, or a page of it (21)."""
        header = AllTopicsHeader.of(command)
        configs = {config.topic_name: config for config in self.topics.all()}
        page = TablePage.asked(header.topic_seq, header.max_topic_num, header.data_version)
        names = configs if page is None else page.names(configs, self.topics.data_version)
        return command.answer(
            ResponseCode.SUCCESS,
            ext={"totalTopicNum": str(len(configs))},
            body=encode_json(
                {
                    "dataVersion": version_json(self.topics.data_version),
                    "topicConfigTable": {name: configs[name].to_json() for name in names},
                    "topicQueueMappingDetailMap": {},
                }
            ),
        )

    def stats(self, _session: Session, command: Command) -> Command:
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
        async def put() -> Command:
            self.topics.check_room(configs)  # in the step in which they are put
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

    def _is_system(self, config: TopicConfig) -> bool:
        topic = config.topic_name
        return is_system_topic(topic) or topic in (
            self.options.broker_name,
            self.options.broker_cluster_name,
        )


ATTRIBUTES: Mapping[str, frozenset[str] | None] = {
    "message.type": frozenset(
        {"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED"}
    ),
    "queue.type": frozenset({"SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE"}),
    "reserve.time": None,
}
"""Attribute to its values here; None: a number. RocketMQ's BatchCQ, COMPACTION and LITE are other
kinds of queues."""


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
