"""Recall (370): takes a delayed message back before it is delivered.

A recall stores a delete message for the target's slot; the slot's deletes are applied before
anything of it is delivered. RocketMQ answers success as soon as the delete is stored, whether or
not there is anything to delete. Here the index is asked first: what is not there, and what has
left already, is said so (604, with the rule in the remark).

Source: Java ``RecallMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.pipeline.recall_handle import HandleError, RecallHandle, decode_handle
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.pipeline.timer_record import TIMER_TOPIC
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.field import text
from timermq.timerstore.message import Message
from timermq.timerstore.properties import encode, find
from timermq.timerstore.record import record_properties
from timermq.timerstore.store_options import FlushDiskType

from .durable_answers import DurableAnswers, UnflushedAnswer
from .options import BrokerOptions
from .refusal import RefusedError
from .send_request import remark_of
from .session import Session
from .topic_config import TopicConfigTable
from .topic_validator import group_fault

RECALL_TAG = "_RECALL_TAG_"
RECALL_BODY = b"0"

QUERY_COUNT_MAX = 64
"""Records with the key that are looked at: a message, its rolls and earlier recalls."""
_ALWAYS_MS = 2**63 - 1


@attrs.frozen(eq=False, kw_only=True)
class RecallProcessor:
    """The processor."""

    options: BrokerOptions
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    durable: DurableAnswers
    now_ms: Callable[[], int]

    def handle(self, session: Session, command: Command) -> Command | None:
        """Store the delete message of a handle; the checks are in Java's order."""
        now_ms = self.now_ms()
        self._check_broker(now_ms)
        topic = text(command, "topic")
        if self.topics.get(topic) is None:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                "TOPIC_NOT_EXIST",
                f"topic {ascii(topic)[:260]} does not exist",
            )
        handle = self._check_handle(text(command, "recallHandle", default=""), topic, now_ms)
        self._check_target(handle)
        message = _delete_message(session, handle, _producer_group(command), now_ms)
        timer_result = self.timer_store.put([message])[0]
        result = timer_result.result
        if not result.status.is_stored:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, "RECALL_NOT_STORED", remark_of(timer_result)
            )
        answer = command.answer(
            ResponseCode.SUCCESS,
            ext={"msgId": handle.unique_key, "MSG_REGION": self.options.region_id},
        )
        if self.timer_store.store.options.flush_disk_type is not FlushDiskType.SYNC_FLUSH:
            return answer
        self.durable.add([UnflushedAnswer(session, answer, result.end)])
        return None

    def _check_broker(self, now_ms: int) -> None:
        options = self.options
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

    def _check_handle(self, handle_text: str, topic: str, now_ms: int) -> RecallHandle:
        try:
            handle = decode_handle(handle_text)
        except HandleError as error:
            raise _illegal("RECALL_HANDLE", str(error)) from error
        if not (handle.unique_key.isascii() and handle.unique_key.isprintable()):
            raise _illegal("RECALL_HANDLE", "the key has other characters than printable ASCII")
        if handle.topic != topic:
            raise _illegal(
                "RECALL_TOPIC",
                f"the handle is for topic {ascii(handle.topic)[:260]}, the request for {topic}",
            )
        if handle.broker_name != self.options.broker_name:
            raise _illegal(
                "RECALL_BROKER",
                f"the handle is for broker {ascii(handle.broker_name)[:130]}, "
                f"this is {self.options.broker_name}",
            )
        left_ms = handle.timestamp_ms - now_ms
        delay_max_ms = self.timer_store.options.timer_max_delay_sec * 1000
        if left_ms <= 0:
            raise _illegal("RECALL_TOO_LATE", f"the moment {handle.timestamp_ms} is past")
        # RocketMQ refuses exactly the maximum too, which a send may ask for.
        if left_ms > delay_max_ms:
            raise _illegal(
                "RECALL_TIME",
                f"the moment {handle.timestamp_ms} is {left_ms} ms ahead, "
                f"expected at most {delay_max_ms}",
            )
        return handle

    def _check_target(self, handle: RecallHandle) -> None:
        """Refuse what the index knows to be in vain."""
        store = self.timer_store.store
        if not store.options.message_index_enable:
            return
        waiting = self._records(TIMER_TOPIC, handle)
        if any(_is_target(record, handle) for record in waiting):
            return
        if self._records(handle.topic, handle):
            raise _illegal("RECALL_TOO_LATE", f"message {handle.unique_key} was delivered already")
        raise _illegal("RECALL_NOT_FOUND", f"no delayed message {handle.unique_key} waits here")

    def _records(self, topic: str, handle: RecallHandle) -> list[bytes]:
        return self.timer_store.store.query(
            topic,
            handle.unique_key,
            count_max=QUERY_COUNT_MAX,
            begin_ms=0,
            end_ms=_ALWAYS_MS,
            unique=True,
        )


def _is_target(record: bytes, handle: RecallHandle) -> bool:
    properties = record_properties(record)
    return (
        find(properties, b"TIMER_OUT_MS") == b"%d" % (handle.timestamp_ms - 1)
        and find(properties, b"REAL_TOPIC") == handle.topic.encode()
        and find(properties, b"TIMER_DEL_UNIQKEY") is None
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
        "TAGS": RECALL_TAG,
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


def _producer_group(command: Command) -> str:
    """The group that recalls, if it names a legal one; it is only written down."""
    group = text(command, "producerGroup", default="")
    return group if group_fault(group) is None else ""


def _illegal(rule: str, reason: str) -> RefusedError:
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, rule, reason)
