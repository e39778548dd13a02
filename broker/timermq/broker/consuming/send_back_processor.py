"""Send-back (36): a consumer could not handle a message and gets it again later, or gives it up.

The retry waits on the wheel like any other delayed message, through the same door. It is a message
of its own: what is sent back twice is tried twice.

=====================================  ==========================================================
request                                what becomes of the message
=====================================  ==========================================================
tried as often as allowed              ``%DLQ%group``, at once
``delayLevel`` below 0                 the same
``delayLevel`` above 0                 ``%RETRY%group``, by that level
``delayLevel`` 0                       ``%RETRY%group``, by the group's policy, else by level
                                       3 + tries so far
the group has no retry queues          nothing: Java drops it and answers success
=====================================  ==========================================================

Source: Java ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs

from timermq.pipeline.records.timer_properties import DELAY_MS
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.field import integer, text
from timermq.timerstore.message import Message
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.properties import DELAY
from timermq.timerstore.record import decode_record
from timermq.timerstore.record_check import CheckKind, check_record

from ..durable_answers import DurableAnswers
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..sending.send_checks import DLQ_QUEUE_NUMS, retry_times_max
from ..sending.send_request import RESPONSE_CODES, remark_of
from ..session import Session
from ..subscription_group import SubscriptionGroupConfig, SubscriptionGroupTable
from ..topic_config import TopicConfig, TopicConfigTable
from ..topic_validator import dlq_topic, is_not_allowed_send_topic, retry_topic
from .retry_message import retry_message

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry: 10 seconds with the usual levels."""


@attrs.define(eq=False, kw_only=True)
class SendBackProcessor:
    """The processor."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    durable: DurableAnswers
    _turn: Iterator[int] = attrs.field(factory=itertools.count, init=False)

    def handle(self, session: Session, command: Command) -> Command | None:
        """Store the retry or the dead letter; with SYNC_FLUSH answered when that is durable."""
        group = self.groups.find(text(command, "group"))
        if not self.options.is_writeable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "BROKER_NOT_WRITEABLE",
                f"broker {self.options.broker_name} takes no messages back",
            )
        if group.retry_queue_nums <= 0:
            return command.answer(ResponseCode.SUCCESS)
        retry = self._retry_topic(group, session.owner)
        record = self._find(integer(command, "offset"))
        times = decode_record(record).reconsume_times
        level = integer(command, "delayLevel", default=0)
        if level < 0 or times >= self._times_max(session, command, group):
            end = self._give_up(record, group, session.owner)
        else:
            end = self._try_again(record, group, retry, self._delay(group, level, times))
        answer = command.answer(ResponseCode.SUCCESS)
        return answer if command.is_oneway else self.durable.answer(session, answer, end)

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
        # What still waits must not come out before its time by this door.
        if is_not_allowed_send_topic(topic):
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "MESSAGE_NOT_FOUND",
                f"the message at {offset} is of {topic}, which nobody consumes",
            )
        return record

    def _times_max(self, session: Session, command: Command, group: SubscriptionGroupConfig) -> int:
        stated = command.ext.get("maxReconsumeTimes")
        return retry_times_max(
            session, group, integer(command, "maxReconsumeTimes") if stated else None
        )

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
