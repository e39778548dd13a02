"""The checks of a send, in RocketMQ's order, and where the message goes.

What the store checks itself (body, sizes, disk) and what admission checks (properties, moments) is
not repeated here.

Source: Java ``AbstractSendMessageProcessor.msgCheck``, ``SendMessageProcessor.handleRetryAndDLQ``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import attrs

from timermq.pipeline.records.timer_properties import REQUEST_NAMES
from timermq.pipeline.records.timer_record import has_level
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX
from timermq.timerstore.properties import (
    KEYS_NAME,
    PREPARED_NAME,
    PRIORITY_NAME,
    SHARDING_KEY_NAME,
    find,
    remove,
)

from ..consuming.queue_lock import QueueLockTable
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from ..subscription_group import SubscriptionGroupConfig, SubscriptionGroupTable
from ..topic_config import TopicConfig, TopicConfigTable
from ..topic_validator import (
    dlq_topic,
    group_of,
    is_not_allowed_send_topic,
    is_retry_topic,
    topic_fault,
)
from ..transactions.half_message import is_half

DLQ_QUEUE_NUMS = 1

SYS_FLAG_TRANSACTION = 0x0C
"""Prepared, commit and rollback: what RocketMQ's producers set beside TRAN_MSG."""
SYS_FLAG_HOSTS = 0x30
"""IPv6 marks; the broker sets them by the addresses that it writes."""
SYS_FLAG_INNER_BATCH = 0xC0

MAX_RECONSUME_VERSION = 121
"""3.4.9: clients from here on mean what they send as maxReconsumeTimes."""


@attrs.define(kw_only=True)
class SendTarget:
    """The send of a request, in the words of its header; the checks fill in the rest."""

    topic: str
    queue_id: int
    """Negative: the broker chooses."""
    properties: bytes
    sys_flag: int = 0
    default_topic: str
    default_topic_queue_nums: int
    producer_group: str = ""
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    is_half: bool = False
    """It begins a transaction."""


class SendChecks:
    """The checks with what they look at.

    Args:
        options: Permissions, start time, limits.
        topics: Topics known, and made on the way.
        groups: Groups known.
        locks: Says which groups are orderly.
        now_ms: The wall clock.
    """

    def __init__(
        self,
        options: BrokerOptions,
        topics: TopicConfigTable,
        groups: SubscriptionGroupTable,
        locks: QueueLockTable,
        now_ms: Callable[[], int],
    ) -> None:
        self._options = options
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._now_ms = now_ms
        self._turn = itertools.count()

    @property
    def is_accepting(self) -> bool:
        """Whether the broker takes sends by now."""
        return self._now_ms() >= self._options.start_accept_send_request_time_stamp

    def takes_all(self, topic: str, queue_id: int) -> bool:
        """Whether ``check`` lets every send to this queue pass, until the topic changes."""
        config = self._topics.get(topic)
        return (
            config is not None
            and 0 <= queue_id < config.queue_nums
            and not is_not_allowed_send_topic(topic)
            and not is_retry_topic(topic)
            and not _is_compacted(config)
            and (self._options.is_writeable or not config.order)
        )

    def check_accepting(self) -> None:
        """Refuse while the broker does not yet take sends (1)."""
        if not self.is_accepting:
            start_ms = self._options.start_accept_send_request_time_stamp
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "NOT_ACCEPTING_YET",
                f"broker {self._options.broker_name} takes sends from {start_ms} on",
            )

    def check(self, session: Session, target: SendTarget) -> SendTarget:
        """Check one message or batch and settle its topic and queue.

        Args:
            session: Who sends.
            target: What the header says; it is changed and returned.

        Raises:
            RefusedError: With the code of the first check that fails.
        """
        config = self.topic(target, session.owner)
        if target.queue_id >= config.queue_nums:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "QUEUE_ID",
                f"topic {target.topic} has {config.queue_nums} queues, found queue "
                f"{target.queue_id} from group {ascii(target.producer_group)[:130]}",
            )
        if is_retry_topic(target.topic):
            config = self._give_up_tried(session, target, config)
        if target.queue_id < 0:
            target.queue_id = next(self._turn) % max(config.write_queue_nums, 1)
        _check_compaction(config, target)
        self._check_transaction(target)
        _check_sys_flag(target)
        _give_priority(config, target)
        return target

    def _check_transaction(self, target: SendTarget) -> None:
        """Say whether a message begins a transaction; refused when it is unclear or not allowed."""
        if not is_half(target.properties):
            if target.sys_flag & SYS_FLAG_TRANSACTION:
                raise RefusedError(
                    ResponseCode.MESSAGE_ILLEGAL,
                    "TRANSACTION_FLAG",
                    f"sysFlag {target.sys_flag:#x} is of a transaction, the property TRAN_MSG is "
                    "not true",
                )
        elif (
            target.reconsume_times > 0
            and is_retry_topic(target.topic)
            and has_level(target.properties)
        ):
            # Consumers before 4.6.1 send back what was a half message once, as it was. RocketMQ
            # takes any topic for that: of a producer's transaction nothing would be left.
            target.properties = remove(target.properties, PREPARED_NAME)
            target.sys_flag &= ~SYS_FLAG_TRANSACTION
        elif self._options.reject_transaction_message:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "TRANSACTION_REJECTED",
                "rejectTransactionMessage is true on this broker",
            )
        else:
            target.is_half = True

    def topic(self, target: SendTarget, owner: str = "") -> TopicConfig:
        """The topic of a send, made on the way if it may be.

        Args:
            target: What the sender says of it.
            owner: Whose share of the table it takes if it is made.

        Raises:
            RefusedError: It takes no messages, or may not be made.
        """
        topic = target.topic
        config = self._topics.get(topic)
        if not self._options.is_writeable and config is not None and config.order:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "BROKER_NOT_WRITEABLE",
                f"broker {self._options.broker_name} takes no messages for {topic}",
            )
        if config is None:
            fault = topic_fault(topic)
            if fault is not None:
                raise RefusedError(ResponseCode.INVALID_PARAMETER, "TOPIC_NAME", fault)
        if is_not_allowed_send_topic(topic):
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "TOPIC_NOT_ALLOWED",
                f"{topic} takes no messages from outside",
            )
        if config is None:
            config = self._create(target, owner)
        return config

    def _create(self, target: SendTarget, owner: str) -> TopicConfig:
        topic = target.topic
        if is_retry_topic(topic):
            group = self._groups.find(group_of(topic))
            return self._topics.create_in_send_back(topic, max(group.retry_queue_nums, 1), owner)
        config = self._topics.create_in_send(
            topic,
            default_topic=target.default_topic,
            default_topic_queue_nums=target.default_topic_queue_nums,
            owner=owner,
        )
        if config is None:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                "TOPIC_NOT_EXIST",
                f"topic {topic} does not exist, and {ascii(target.default_topic)[:130]} "
                "does not let it be made",
            )
        return config

    def _give_up_tried(
        self, session: Session, target: SendTarget, config: TopicConfig
    ) -> TopicConfig:
        """Send a message that was tried often enough to the group's dead letters, without delay.

        An orderly consumer tries again by itself, and sends here only what it gives up.
        """
        group = self._groups.find(group_of(target.topic))
        stated = target.max_reconsume_times
        # Go states 0 with every send and means nothing by it.
        is_meant = not (session.is_go and stated == 0)
        times_max = retry_times_max(session, group, stated if is_meant else None)
        is_given_up = target.reconsume_times > times_max
        if not is_given_up and not self._locks.is_orderly(group.group_name):
            return config
        target.topic = dlq_topic(group.group_name)
        target.queue_id = 0
        # One that was a half message once is none any more: its transaction would never end.
        for key in (*REQUEST_NAMES, PREPARED_NAME):
            target.properties = remove(target.properties, key)
        target.sys_flag &= ~SYS_FLAG_TRANSACTION
        return self._topics.create_in_send_back(target.topic, DLQ_QUEUE_NUMS, session.owner)


def retry_times_max(session: Session, group: SubscriptionGroupConfig, stated: int | None) -> int:
    """How often a message of the group is retried: as its client states, else as configured."""
    if stated is not None and session.version >= MAX_RECONSUME_VERSION:
        return stated
    return group.retry_max_times


def _is_compacted(config: TopicConfig) -> bool:
    return config.attributes.get("cleanup.policy") == "COMPACTION"


def _check_compaction(config: TopicConfig, target: SendTarget) -> None:
    if _is_compacted(config) and not find(target.properties, KEYS_NAME):
        raise RefusedError(
            ResponseCode.MESSAGE_ILLEGAL,
            "COMPACTION_KEYS",
            f"messages of the compaction topic {target.topic} need the property KEYS",
        )


def _give_priority(config: TopicConfig, target: SendTarget) -> None:
    """Let a message's priority choose its queue; the last queue takes all higher priorities.

    RocketMQ removes the priority of a delayed message; here such a message goes to its queue too.
    """
    priority = _int32(find(target.properties, PRIORITY_NAME) or b"")
    if priority is None:
        return
    if target.is_half or find(target.properties, SHARDING_KEY_NAME) is not None:
        target.properties = remove(target.properties, PRIORITY_NAME)
    else:
        target.queue_id = min(priority, max(config.write_queue_nums, 1) - 1)


def _int32(text: bytes) -> int | None:
    """A number from 0 to 2,147,483,647; None for another text, which Java ignores."""
    digits = text.removeprefix(b"+")
    if not digits.isdigit() or len(digits) > NUMBER_DIGITS_MAX:
        return None
    number = int(digits)
    return number if number < 1 << 31 else None


def _check_sys_flag(target: SendTarget) -> None:
    if target.sys_flag & SYS_FLAG_INNER_BATCH:
        raise RefusedError(
            ResponseCode.MESSAGE_ILLEGAL,
            "INNER_BATCH",
            f"sysFlag {target.sys_flag:#x} marks an inner batch, which no topic here holds",
        )
    target.sys_flag &= ~SYS_FLAG_HOSTS
