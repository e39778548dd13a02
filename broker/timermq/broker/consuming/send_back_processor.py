"""Send-back (36): a consumer could not handle a message and gets it again later, or gives it up.

The retry waits on the wheel like any other delayed message, and is admitted like one. It is a
message of its own: a message sent back twice is retried twice.

=====================================  ==========================================================
request                                outcome for the message
=====================================  ==========================================================
tried as often as allowed              ``%DLQ%group``, at once
``delayLevel`` below 0                 the same
``delayLevel`` above 0                 ``%RETRY%group``, by that level
``delayLevel`` 0                       ``%RETRY%group``, by the group's policy, else by level
                                       3 + tries so far
the group has no retry queues          nothing: Java drops it and answers success
=====================================  ==========================================================

Body, flags, tags, keys and born data of the message stay. What it once asked of the timer is over:
only the delay before the next try counts. ``RETRY_TOPIC`` and ``ORIGIN_MESSAGE_ID`` say what it was
when it was tried first, and are written once.

Source: Java ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs

from timermq.pipeline.records.delivered_message import taken_over
from timermq.pipeline.records.timer_properties import DELAY_MS, DELETE, INTERNAL, REQUESTS
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.send_back_header import SendBackHeader
from timermq.timerstore.message import Message
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.properties import DELAY, find
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.record_check import CheckKind, check_record

from ..admin.broker_stats import BrokerStats
from ..durable_answers import DurableAnswers
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..sending.send_checks import DLQ_QUEUE_NUMS, retry_times_max
from ..sending.send_request import RESPONSE_CODES, remark_of
from ..session import Session
from ..subscription_group import SubscriptionGroupConfig, SubscriptionGroupTable
from ..topic_config import TopicConfig, TopicConfigTable
from ..topic_validator import dlq_topic, is_not_allowed_send_topic, retry_topic

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry: 10 seconds with the usual levels."""
RETRY_TOPIC = b"RETRY_TOPIC"
ORIGIN_MESSAGE_ID = b"ORIGIN_MESSAGE_ID"

_STEERING = (*INTERNAL, *REQUESTS, DELETE)
"""How the properties begin that asked something of the timer, or answered it."""
_NO_ORIGIN = 0
"""In ``preparedTransactionOffset``: no pending record became this message."""


def retry_message(record: bytes, *, topic: str, queue_id: int, delay: bytes) -> Message:
    r"""The message of a record for another try.

    Args:
        record: The whole record.
        topic: The group's retry topic, or that of its dead letters.
        queue_id: Queue there.
        delay: The property that asks for the delay, ``NAME \x01 value \x02``; empty for none.

    Returns:
        The message to store; its ``reconsume_times`` are one more.

    Raises:
        RecordError: The bytes are no record.
    """
    tried = decode_record(record)
    items = tried.properties.split(b"\x02")
    kept = [item + b"\x02" for item in items if item and not item.startswith(_STEERING)]
    first = {RETRY_TOPIC: tried.topic, ORIGIN_MESSAGE_ID: tried.offset_message_id}
    for key, value in first.items():
        if find(tried.properties, key) is None:
            kept.append(b"%b\x01%b\x02" % (key, value.encode()))
    message = taken_over(
        record,
        topic=topic,
        queue_id=queue_id,
        properties=b"".join(kept) + delay,
        origin=_NO_ORIGIN,
    )
    message.reconsume_times += 1
    return message


@attrs.define(eq=False, kw_only=True)
class SendBackProcessor:
    """Stores the retry or the dead letter of a message that was sent back."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    durable: DurableAnswers
    stats: BrokerStats
    _turn: Iterator[int] = attrs.field(factory=itertools.count, init=False)

    def handle(self, session: Session, command: Command) -> Command | None:
        """Store the retry or the dead letter; with SYNC_FLUSH answered when that is durable."""
        header = SendBackHeader.of(command)
        group = self.groups.find(header.group)
        if not self.options.is_writeable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "BROKER_NOT_WRITEABLE",
                f"broker {self.options.broker_name} takes no messages back",
            )
        if group.retry_queue_nums <= 0:
            return command.answer(ResponseCode.SUCCESS)
        retry = self._retry_topic(group, session.owner)
        record = self._find(header.offset)
        tried = decode_record(record)
        times = tried.reconsume_times
        level = header.delay_level
        is_dead = level < 0 or times >= retry_times_max(session, group, header.max_reconsume_times)
        if is_dead:
            end = self._give_up(record, group, session.owner)
        else:
            end = self._try_again(record, group, retry, self._delay(group, level, times))
        topic = self._first_topic(tried)
        self.stats.count_sent_back(topic, group.group_name, is_retry=not is_dead)
        answer = command.answer(ResponseCode.SUCCESS)
        return answer if command.is_oneway else self.durable.answer(session, answer, end)

    def _first_topic(self, tried: Record) -> str:
        """Where the message was sent to: its property may say so, if that topic is there."""
        origin = (find(tried.properties, RETRY_TOPIC) or b"").decode(errors="replace")
        return tried.topic if self.topics.get(origin) is None else origin

    def _retry_topic(self, group: SubscriptionGroupConfig, owner: str) -> TopicConfig:
        topic = retry_topic(group.group_name)
        config = self.topics.create_in_send_back(topic, group.retry_queue_nums, owner)
        if not config.is_writeable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION, "TOPIC_NOT_WRITEABLE", f"topic {topic} is not writeable"
            )
        return config

    def _find(self, offset: int) -> bytes:
        """The record that begins at a position, whole and fit for consumers."""
        record = look_message_by_offset(self.timer_store.store, offset, check_crc=False)
        if record is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, "MESSAGE_NOT_FOUND", f"no message begins at {offset}"
            )
        checked = check_record(record, 0, len(record), offset, check_crc=True)
        if checked.kind is not CheckKind.RECORD:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "MESSAGE_DAMAGED",
                f"the message at {offset}: {checked.reason}",
            )
        topic = decode_record(record).topic
        # A pending message must not be delivered early by being sent back.
        if is_not_allowed_send_topic(topic):
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "MESSAGE_NOT_FOUND",
                f"the message at {offset} is of {topic}, which is not consumed",
            )
        return record

    def _give_up(self, record: bytes, group: SubscriptionGroupConfig, owner: str) -> int:
        topic = dlq_topic(group.group_name)
        self.topics.create_in_send_back(topic, DLQ_QUEUE_NUMS, owner)
        return self._put(retry_message(record, topic=topic, queue_id=0, delay=b""))

    def _try_again(
        self, record: bytes, group: SubscriptionGroupConfig, retry: TopicConfig, delay: bytes
    ) -> int:
        # Java counts by the group's number, and may write queues that the topic does not have.
        queues = max(min(group.retry_queue_nums, retry.read_queue_nums), 1)
        queue_id = next(self._turn) % queues
        return self._put(
            retry_message(record, topic=retry.topic_name, queue_id=queue_id, delay=delay)
        )

    def _delay(self, group: SubscriptionGroupConfig, level: int, times: int) -> bytes:
        """The property that asks for the time before the next try."""
        if level > 0 or group.retry_policy is None:
            return b"%b%d\x02" % (DELAY, level or FIRST_RETRY_LEVEL + times)
        delay_max_ms = self.timer_store.options.timer_max_delay_sec * 1000
        return b"%b%d\x02" % (
            DELAY_MS,
            min(group.retry_policy.delay_ms(times), delay_max_ms),
        )

    def _put(self, message: Message) -> int:
        """Store it; where the log has to be durable before that is told."""
        (timer_result,) = self.timer_store.put([message], is_retry=True)
        result = timer_result.result
        if not result.status.is_stored:
            code = RESPONSE_CODES[result.status]
            rule, _, reason = remark_of(timer_result).partition(": ")
            raise RefusedError(code, rule, reason)
        return result.end
