"""The topic table: ``config/topics.json``.

Each topic has its numbers of queues to read and write, its permissions and attributes. Topics that
the broker itself needs are there from the start; others come to be when a producer first sends to
one, from a template topic that allows it (``TBW102``), when a group first shows up (its retry
topic), or when an operator makes one.

Source: Java ``TopicConfigManager``, ``TopicConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import structlog

from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.remoting.codes import ResponseCode

from .config_fields import ConfigFields, ConfigTableError
from .config_table import Entries, VersionedTable, in_order, read_version, version_json
from .options import PERM_READ as PERM_READ
from .options import PERM_WRITE as PERM_WRITE
from .options import BrokerOptions
from .refusal import RefusedError
from .topic_shares import TopicShares
from .topic_validator import (
    AUTO_CREATE_TOPIC_KEY_TOPIC,
    BENCHMARK_TOPIC,
    OFFSET_MOVED_EVENT,
    REPLY_TOPIC_SUFFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    topic_fault,
)

PERM_INHERIT = 1
PERM_READ_WRITE = PERM_READ | PERM_WRITE

CLUSTER_TOPIC_QUEUE_NUMS = 16
BENCHMARK_TOPIC_QUEUE_NUMS = 1024
REVIVE_QUEUE_NUMS = 8

log = structlog.get_logger("timermq.broker.topic_config")


@attrs.frozen(kw_only=True)
class TopicConfig:
    """One topic; the fields are those of the file."""

    topic_name: str
    read_queue_nums: int = 8
    write_queue_nums: int = 8
    perm: int = PERM_READ_WRITE
    """Bits: 8 priority, 4 read, 2 write, 1 inherit (new topics may be made after this one)."""
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = attrs.Factory(dict[str, str])
    """``message.type``, ``cleanup.policy`` and the like."""
    rest: dict[str, object] = attrs.Factory(dict[str, object])
    """Fields of other versions, kept as they were."""

    @property
    def is_readable(self) -> bool:
        """Whether consumers may read from the topic."""
        return bool(self.perm & PERM_READ)

    @property
    def is_writeable(self) -> bool:
        """Whether messages may come in."""
        return bool(self.perm & PERM_WRITE)

    @property
    def is_inherited(self) -> bool:
        """Whether new topics may be made after this one."""
        return bool(self.perm & PERM_INHERIT)

    @property
    def queue_nums(self) -> int:
        """Queue ids in use are below this."""
        return max(self.read_queue_nums, self.write_queue_nums)

    @classmethod
    def from_json(cls, name: str, fields: ConfigFields) -> TopicConfig:
        """Read an entry of the file."""
        return cls(
            topic_name=fields.text("topicName", name),
            read_queue_nums=fields.integer("readQueueNums", 8),
            write_queue_nums=fields.integer("writeQueueNums", 8),
            perm=fields.integer("perm", PERM_READ_WRITE),
            topic_filter_type=fields.text("topicFilterType", "SINGLE_TAG"),
            topic_sys_flag=fields.integer("topicSysFlag", 0),
            order=fields.boolean("order", False),
            attributes=fields.texts("attributes"),
            rest=fields.rest,
        )

    def to_json(self) -> dict[str, object]:
        """The entry of the file."""
        return in_order(
            self.rest,
            attributes=self.attributes,
            order=self.order,
            perm=self.perm,
            readQueueNums=self.read_queue_nums,
            topicFilterType=self.topic_filter_type,
            topicName=self.topic_name,
            topicSysFlag=self.topic_sys_flag,
            writeQueueNums=self.write_queue_nums,
        )


class TopicConfigTable(VersionedTable):
    """All topics of the broker.

    Args:
        options: Names, queue numbers, whether topics come to be by themselves.
        now_ms: The wall clock, for the data version.
        level_max: Number of delay levels: queues of the schedule topic.
    """

    path = "config/topics.json"
    without_it: str | None = "topics that have messages are made again, without their permissions"

    def __init__(
        self, options: BrokerOptions, *, now_ms: Callable[[], int], level_max: int
    ) -> None:
        super().__init__(now_ms)
        self._options = options
        self._topics = {config.topic_name: config for config in _system_topics(options, level_max)}
        self._system = dict(self._topics)
        self._queue_count = 0
        """Queues of all topics but the broker's own."""
        self._shares = TopicShares()

    def load(self, data: object) -> None:
        """Take a file over; system topics that it lacks stay as they are made at start."""
        fields = ConfigFields(self.path, data)
        self.data_version = read_version(fields)
        topics = fields.fields("topicConfigTable")
        found = [(name, TopicConfig.from_json(name, entry)) for name, entry in topics.objects()]
        for name, config in found:
            fault = topic_fault(name)
            if fault is not None:
                log.warning("topic left out of the table", path=self.path, reason=fault)
            else:
                self._set(config)
        self._rest = fields.rest

    def replace(self, data: object) -> list[str]:
        """Take a master's table over: it and nothing else.

        Args:
            data: As a file has it.

        Returns:
            The topics that are gone with that.

        Raises:
            ConfigTableError: It is none; the table is as before.
        """
        before, queue_count, version = self._topics, self._queue_count, self.data_version
        self._topics, self._queue_count = dict(self._system), 0
        try:
            self.load(data)
        except ConfigTableError:
            self._topics, self._queue_count, self.data_version = before, queue_count, version
            raise
        if (self._topics, self.data_version) != (before, version):
            self._tell_change()
        return [topic for topic in before if topic not in self._topics]

    def to_json(self) -> dict[str, object]:
        """The content of the file, for JSON."""
        return in_order(
            self._rest,
            dataVersion=version_json(self.data_version),
            topicConfigTable=Entries(self._topics),
        )

    def get(self, topic: str) -> TopicConfig | None:
        """The topic's configuration; None when there is no such topic."""
        return self._topics.get(topic)

    def existing(self, topic: str) -> TopicConfig:
        """The topic's configuration.

        Raises:
            RefusedError: There is no such topic (17).
        """
        config = self._topics.get(topic)
        if config is None:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                "TOPIC_NOT_EXIST",
                f"topic {ascii(topic)[:260]} does not exist",
            )
        return config

    def all(self) -> Iterable[TopicConfig]:
        """Every topic, in no particular order."""
        return self._topics.values()

    def is_system(self, topic: str) -> bool:
        """Whether the broker itself needs the topic."""
        return topic in self._system

    def put(self, config: TopicConfig) -> None:
        """Make or change a topic; the caller has checked the name."""
        if self._topics.get(config.topic_name) == config:
            return
        self._set(config)
        self._count_change()

    def delete(self, topic: str) -> bool:
        """Forget a topic; False when there is none or the broker needs it."""
        config = None if topic in self._system else self._topics.pop(topic, None)
        if config is None:
            return False
        self._queue_count -= self._queues_of(config)
        self._count_change()
        return True

    def create_in_send(
        self, topic: str, *, default_topic: str, default_topic_queue_nums: int, owner: str = ""
    ) -> TopicConfig | None:
        """Make the topic that a producer sends to after its template.

        Args:
            topic: A legal name that is not in the table.
            default_topic: The template the producer names, usually ``TBW102``.
            default_topic_queue_nums: Number of queues the producer would like.
            owner: Whose share of the table it takes.

        Returns:
            The new topic; None when the template is unknown or does not allow it.

        Source: Java ``TopicConfigManager.createTopicInSendMessageMethod``.
        """
        template = self._topics.get(default_topic)
        if template is None or not template.is_inherited:
            return None
        if default_topic == AUTO_CREATE_TOPIC_KEY_TOPIC and not (
            self._options.auto_create_topic_enable
        ):
            return None
        nums = max(min(default_topic_queue_nums, template.write_queue_nums), 1)
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=nums,
            write_queue_nums=nums,
            perm=template.perm & ~PERM_INHERIT,
            topic_filter_type=template.topic_filter_type,
        )
        self._make(config, owner)
        log.info("topic created", topic=topic, queues=nums, template=default_topic)
        return config

    def create_in_send_back(self, topic: str, queue_nums: int, owner: str = "") -> TopicConfig:
        """Make a group's retry or dead-letter topic unless it is there.

        Args:
            topic: A legal name.
            queue_nums: Number of its queues.
            owner: Whose share of the table it takes.

        Source: Java ``TopicConfigManager.createTopicInSendMessageBackMethod``.
        """
        config = self._topics.get(topic)
        if config is None:
            config = TopicConfig(
                topic_name=topic, read_queue_nums=queue_nums, write_queue_nums=queue_nums
            )
            self._make(config, owner)
        return config

    def restore(self, topic: str, queue_nums: int) -> None:
        """Make a topic that the store has messages of, unless it is there.

        A kill between the first message of a topic and the save of this table would otherwise leave
        the message where no consumer can read it. Other messages may be pending for queues that
        have none yet, so it gets no fewer queues than topics have that producers make.

        Args:
            topic: Its name.
            queue_nums: Behind the last queue that has messages.
        """
        if topic in self._topics or topic_fault(topic) is not None:
            return
        nums = max(queue_nums, self._options.default_topic_queue_nums)
        log.warning("topic found in the store only", topic=topic, queues=nums)
        self.put(TopicConfig(topic_name=topic, read_queue_nums=nums, write_queue_nums=nums))

    def let_read(self, topic: str, queue_id: int) -> None:
        """Let consumers read a queue at which a message has arrived.

        What waited for it while the topic was deleted, got fewer queues or was restored with fewer
        would otherwise stay where no consumer can read it.
        """
        config = self._topics.get(topic)
        if config is None:
            self.restore(topic, queue_id + 1)
        elif queue_id >= config.read_queue_nums:
            log.warning("topic has a further queue to read", topic=topic, queue_id=queue_id)
            self.put(attrs.evolve(config, read_queue_nums=queue_id + 1))

    def settings_changed(self) -> None:
        """Follow a change of settings that say how topics may be used or come to be."""
        key = AUTO_CREATE_TOPIC_KEY_TOPIC
        if self._options.auto_create_topic_enable and key not in self._topics:
            self._topics[key] = self._system[key] = _template_topic(self._options)
        self._count_change()

    def check_room(self, configs: Iterable[TopicConfig]) -> None:
        """Refuse topics on request, all of them, when the table has no room for them (1)."""
        wanted = {config.topic_name: config for config in configs}
        before = [self._topics[topic] for topic in wanted if topic in self._topics]
        topics = len(self._topics) + len(wanted) - len(before)
        more = sum(map(self._queues_of, wanted.values())) - sum(map(self._queues_of, before))
        queues_max = self._options.queues_max
        if len(wanted) > len(before) and topics > self._options.topics_max:
            rule, holds = "TOPICS_MAX", f"the table holds {len(self._topics)} topics"
        elif more > 0 and self._queue_count + more > queues_max:
            rule = "QUEUES_MAX"
            holds = f"the topics have {self._queue_count} queues of {queues_max}, and {more} more"
        else:
            return
        raise RefusedError(
            ResponseCode.SYSTEM_ERROR, rule, f"no room for {next(iter(wanted))}: {holds}"
        )

    def _make(self, config: TopicConfig, owner: str) -> None:
        """Make a topic on the way of another request, if the table and the owner's share allow."""
        self.check_room([config])
        queues = self._queues_of(config)
        self._shares.take(
            owner,
            config.topic_name,
            queues,
            topics_left=self._options.topics_max - len(self._topics),
            queues_left=self._options.queues_max - self._queue_count,
        )
        self.put(config)

    def _set(self, config: TopicConfig) -> None:
        before = self._topics.get(config.topic_name)
        self._topics[config.topic_name] = config
        self._queue_count += self._queues_of(config)
        self._queue_count -= 0 if before is None else self._queues_of(before)

    def _queues_of(self, config: TopicConfig) -> int:
        """How many a topic may have; the broker's own are what they are."""
        if config.topic_name in self._system:
            return 0
        return max(config.read_queue_nums, config.write_queue_nums)


def _system_topics(options: BrokerOptions, level_max: int) -> list[TopicConfig]:
    """The topics that a broker has before anyone asks, as Java makes them."""

    def topic(name: str, nums: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
        return TopicConfig(topic_name=name, read_queue_nums=nums, write_queue_nums=nums, perm=perm)

    cluster, broker = options.broker_cluster_name, options.broker_name
    topics = [
        topic(SELF_TEST_TOPIC, 1),
        topic(BENCHMARK_TOPIC, BENCHMARK_TOPIC_QUEUE_NUMS),
        topic(cluster, CLUSTER_TOPIC_QUEUE_NUMS, PERM_READ_WRITE | PERM_INHERIT),
        topic(broker, 1, PERM_READ_WRITE | PERM_INHERIT),
        topic(OFFSET_MOVED_EVENT, 1),
        topic(SCHEDULE_TOPIC, level_max),
        topic(cluster + REPLY_TOPIC_SUFFIX, 1),
        topic(f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}", REVIVE_QUEUE_NUMS),
        topic(f"{SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker}", 1, PERM_INHERIT),
        topic(TRANS_HALF_TOPIC, 1),
        topic(TRANS_OP_HALF_TOPIC, 1),
        topic(TIMER_TOPIC, 1),
    ]
    if options.auto_create_topic_enable:
        topics.append(_template_topic(options))
    return topics


def _template_topic(options: BrokerOptions) -> TopicConfig:
    nums = options.default_topic_queue_nums
    return TopicConfig(
        topic_name=AUTO_CREATE_TOPIC_KEY_TOPIC,
        read_queue_nums=nums,
        write_queue_nums=nums,
        perm=PERM_READ_WRITE | PERM_INHERIT,
    )
