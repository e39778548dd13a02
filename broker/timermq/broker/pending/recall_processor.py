"""Recall (370): cancels a delayed message before it is delivered.

RocketMQ stores a delete message for the target's slot and always answers success. Here the answer
is a verdict: success means that the message never arrives; a message that has arrived, or is not
there, is refused with 604 and the rule in the remark. Only without an index is it as in RocketMQ.

Source: Java ``RecallMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.pipeline.admission.recall_handle import HandleError, RecallHandle, decode_handle
from timermq.pipeline.records.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.records.delete_message import RECALL_BODY, RECALL_TAG
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.recall_header import RecallHeader
from timermq.timerstore.message import Message
from timermq.timerstore.properties import encode

from ..durable_answers import DurableAnswers
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..sending.send_request import remark_of
from ..session import Session
from ..topic_config import TopicConfigTable
from ..topic_validator import group_fault


@attrs.frozen(eq=False, kw_only=True)
class RecallProcessor:
    """Cancels a pending message by its recall handle."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    durable: DurableAnswers
    now_ms: Callable[[], int]

    def handle(self, session: Session, command: Command) -> Command | None:
        """Store the delete message of a handle; the checks are in Java's order."""
        now_ms = self.now_ms()
        check_recall(self.options, now_ms)
        header = RecallHeader.of(command)
        topic = header.topic
        self.topics.existing(topic)
        handle = self._check_handle(header.recall_handle, topic, now_ms)
        end = (
            self._cancel(handle, now_ms)
            if self.timer_store.store.options.message_index_enable
            else self._store_delete(session, header, handle, now_ms)
        )
        answer = command.answer(
            ResponseCode.SUCCESS,
            ext={"msgId": handle.unique_key, "MSG_REGION": self.options.region_id},
        )
        return self.durable.answer(session, answer, end)

    def _cancel(self, handle: RecallHandle, now_ms: int) -> int:
        """Cancel the message; where the log has to be durable before that is told."""
        try:
            result = self.timer_store.cancellation.cancel(Wanted(handle.topic, handle.unique_key))
        except CancelError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, error.rule, error.text) from error
        if result.verdict is Verdict.TOO_LATE:
            raise illegal("RECALL_TOO_LATE", f"message {handle.unique_key} was delivered already")
        if result.verdict is Verdict.NOT_FOUND:
            if handle.timestamp_ms <= now_ms:
                raise illegal("RECALL_TOO_LATE", f"the moment {handle.timestamp_ms} is past")
            raise illegal("RECALL_NOT_FOUND", f"no delayed message {handle.unique_key} is pending")
        return result.end

    def _store_delete(
        self, session: Session, header: RecallHeader, handle: RecallHandle, now_ms: int
    ) -> int:
        if handle.timestamp_ms <= now_ms:
            raise illegal("RECALL_TOO_LATE", f"the moment {handle.timestamp_ms} is past")
        message = _delete_message(session, handle, _producer_group(header), now_ms)
        timer_result = self.timer_store.put([message])[0]
        if not timer_result.result.status.is_stored:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, "RECALL_NOT_STORED", remark_of(timer_result)
            )
        return timer_result.result.end

    def _check_handle(self, handle_text: str, topic: str, now_ms: int) -> RecallHandle:
        handle = read_handle(handle_text)
        if not (handle.unique_key.isascii() and handle.unique_key.isprintable()):
            raise illegal("RECALL_HANDLE", "the key has other characters than printable ASCII")
        check_addressed(handle, topic, self.options.broker_name)
        left_ms = handle.timestamp_ms - now_ms
        delay_max_ms = self.timer_store.options.timer_max_delay_sec * 1000
        # RocketMQ refuses exactly the maximum too, which a send may ask for.
        if left_ms > delay_max_ms:
            raise illegal(
                "RECALL_TIME",
                f"the moment {handle.timestamp_ms} is {left_ms} ms ahead, "
                f"expected at most {delay_max_ms}",
            )
        return handle


def check_recall(options: BrokerOptions, now_ms: int) -> None:
    """Refuse while the broker recalls no messages."""
    if not options.recall_message_enable:
        raise RefusedError(
            ResponseCode.NO_PERMISSION,
            "RECALL_DISABLED",
            "recallMessageEnable is false on this broker",
        )
    if now_ms < options.start_accept_send_request_time_stamp:
        raise RefusedError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "NOT_ACCEPTING_YET",
            f"broker {options.broker_name} takes recalls from "
            f"{options.start_accept_send_request_time_stamp} on",
        )
    if not (options.is_writeable or options.allow_recall_when_broker_not_writeable):
        raise RefusedError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "BROKER_NOT_WRITEABLE",
            f"broker {options.broker_name} takes no recalls",
        )


def read_handle(handle_text: str) -> RecallHandle:
    """Decode a handle; refused when it is none."""
    try:
        return decode_handle(handle_text)
    except HandleError as error:
        raise illegal("RECALL_HANDLE", str(error)) from error


def check_addressed(handle: RecallHandle, topic: str, broker_name: str) -> None:
    """Refuse a handle of another topic or of another broker."""
    if handle.topic != topic:
        raise illegal(
            "RECALL_TOPIC",
            f"the handle is for topic {ascii(handle.topic)[:260]}, the request for {topic}",
        )
    if handle.broker_name != broker_name:
        raise illegal(
            "RECALL_BROKER",
            f"the handle is for broker {ascii(handle.broker_name)[:130]}, this is {broker_name}",
        )


def _delete_message(
    session: Session, handle: RecallHandle, producer_group: str, now_ms: int
) -> Message:
    """The message that deletes the target when its slot is read."""
    properties = {
        "TIMER_DEL_UNIQKEY": f"{handle.topic}+{handle.unique_key}",
        "UNIQ_KEY": handle.unique_key,
        "TIMER_DELIVER_MS": str(handle.timestamp_ms),
        "BORN_TIMESTAMP": str(now_ms),
        "TAGS": RECALL_TAG.decode(),
        "PGROUP": producer_group,
    }
    return Message(
        topic=handle.topic,
        queue_id=0,
        body=RECALL_BODY,
        properties=encode({key: value for key, value in properties.items() if value}),
        born_ms=now_ms,
        born_host=session.born_host,
    )


def _producer_group(header: RecallHeader) -> str:
    """The group that recalls, if it names a legal one; it is only written down."""
    group = header.producer_group
    return group if group_fault(group) is None else ""


def illegal(rule: str, reason: str) -> RefusedError:
    """The refusal of a recall that cancels nothing (604)."""
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, rule, reason)
