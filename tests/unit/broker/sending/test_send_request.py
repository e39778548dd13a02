"""The answers to sends, made of what became of their messages."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import BROKER, commands_in
from timermq.broker.refusal import RefusedError
from timermq.broker.sending.send_request import (
    RESPONSE_CODES,
    Addressed,
    AnswerFacts,
    BatchSend,
    ItemsSend,
    SingleSend,
    remark_of,
)
from timermq.pipeline.admission.admission import TimerPutResult
from timermq.pipeline.admission.recall_handle import decode_handle
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.send_batch import decode_results
from timermq.remoting.send_run.send_v2 import SendV2, SendV2Fields
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.put_status import PutResult, PutStatus

FACTS = AnswerFacts.of(BROKER, pack_host("127.0.0.1", 10_911))
COMMAND = Command(10, opaque=9)
ID = "7F00000100002A9F0000000000000700"
"""The message id of a record at position 0x700."""


def addressed(topic: str = "T") -> Addressed:
    """A message for queue 3."""
    return Addressed(message=Message(topic, 3, b"x"), topic=topic, queue_id=3, unique_key="K")


def put(
    status: PutStatus = PutStatus.PUT_OK,
    remark: str | None = None,
    *,
    out_ms: int | None = None,
    by_level: bool = False,
    rule: str | None = None,
) -> TimerPutResult:
    """What became of a message: stored at 0x700 with queue offset 7, unless refused."""
    result = PutResult(status, 0x700, 91, 7, 5, remark)
    return TimerPutResult(
        result=result, deliver_ms=out_ms, out_ms=out_ms, by_level=by_level, rule=rule
    )


def test_every_status_has_a_response_code() -> None:
    """One without would end the connection with an error in place of an answer."""
    assert set(PutStatus) == set(RESPONSE_CODES)


@pytest.mark.parametrize(
    ("topic", "result", "has_handle"),
    [
        ("T", put(out_ms=1_999), True),
        ("T", put(), False),
        ("T", put(out_ms=1_999, by_level=True), False),
        ("%RETRY%G", put(out_ms=1_999), False),
    ],
)
def test_only_a_message_delayed_by_time_can_be_recalled(
    topic: str, result: TimerPutResult, *, has_handle: bool
) -> None:
    """The handle names the millisecond behind the slot, as Java's does."""
    handle = FACTS.recall_handle(addressed(topic), result)

    assert (handle is not None) == has_handle
    if handle is not None:
        found = decode_handle(handle)
        assert (found.topic, found.unique_key, found.timestamp_ms) == ("T", "K", 2_000)


@pytest.mark.parametrize("out_ms", [None, 1_999])
def test_the_template_says_what_the_command_says(out_ms: int | None) -> None:
    """Frames for the busy form of a send are written, not encoded."""
    result = put(out_ms=out_ms)
    send = SendV2(310, 9, SendV2Fields("T", "3", ""))
    (frame,) = commands_in([FACTS.stored_frame(send, addressed(), result)])
    answer = SingleSend(command=COMMAND, sent=addressed(), waits=True).answer(FACTS, [result])

    assert (frame.code, frame.opaque, frame.ext) == (answer.code, answer.opaque, answer.ext)
    assert (answer.ext["msgId"], answer.ext["queueOffset"]) == (ID, "7")
    assert ("recallHandle" in answer.ext) == (out_ms is not None)


def test_a_refused_message_gets_code_and_remark_alone() -> None:
    """It has no id and no place that a client could take for one."""
    send = SingleSend(command=COMMAND, sent=addressed(), waits=True)
    answer = send.answer(FACTS, [put(PutStatus.MESSAGE_ILLEGAL, "too long")])

    assert (answer.code, answer.remark) == (
        ResponseCode.MESSAGE_ILLEGAL,
        "MESSAGE_ILLEGAL: too long",
    )
    assert "msgId" not in answer.ext


def test_a_flush_that_is_late_is_told_with_the_place_of_the_message() -> None:
    """The message is stored, and a client must not send it again."""
    send = SingleSend(command=COMMAND, sent=addressed(), waits=True)
    answer = send.answer(FACTS, [put(PutStatus.FLUSH_DISK_TIMEOUT)])

    assert (answer.code, answer.ext["msgId"]) == (ResponseCode.FLUSH_DISK_TIMEOUT, ID)


def test_a_batch_is_answered_as_one() -> None:
    """All ids in order, or the first part that failed and how many are stored."""
    batch = BatchSend(command=COMMAND, parts=[addressed()] * 3, waits=True)
    stored = batch.answer(FACTS, [put(), put(), put()])
    failed = batch.answer(
        FACTS, [put(), put(PutStatus.OS_PAGE_CACHE_BUSY), put(PutStatus.UNKNOWN_ERROR)]
    )

    assert stored.ext["msgId"] == ",".join([ID] * 3)
    assert failed.code == ResponseCode.SYSTEM_BUSY
    assert failed.remark == (
        "OS_PAGE_CACHE_BUSY: the store refused the message (part 1 of 3, 1 parts are stored)"
    )


def test_items_fail_one_by_one() -> None:
    """Those that the checks refused have rows too, and take no result of the others."""
    refusal = RefusedError(ResponseCode.INVALID_PARAMETER, "QUEUE_ID", "too high")
    send = ItemsSend(command=COMMAND, items=[refusal, addressed(), addressed()])
    answer = send.answer(FACTS, [put(out_ms=1_999), put(PutStatus.MESSAGE_ILLEGAL)])
    rows = decode_results(answer.body)

    assert len(send.messages) == 2
    assert [(one.code, one.msg_id, one.queue_offset) for one in rows] == [
        (ResponseCode.INVALID_PARAMETER, "", -1),
        (ResponseCode.SUCCESS, ID, 7),
        (ResponseCode.MESSAGE_ILLEGAL, "", -1),
    ]
    assert rows[0].remark == "QUEUE_ID: too high"


def test_a_rule_of_admission_says_its_own_name() -> None:
    """Of any other refusal the remark begins with the name of the status."""
    status = PutStatus.WHEEL_TIMER_MSG_ILLEGAL

    assert remark_of(put(status, "TIMER_PAST: late", rule="TIMER_PAST")) == "TIMER_PAST: late"
    assert remark_of(put(status, "late")) == "WHEEL_TIMER_MSG_ILLEGAL: late"
    assert remark_of(put(status)).endswith(": the store refused the message")


def test_the_trace_switch_is_a_text() -> None:
    """RocketMQ's clients compare it with "false"."""
    for trace_on, text in ((True, "true"), (False, "false")):
        facts = AnswerFacts.of(attrs.evolve(BROKER, trace_on=trace_on), bytes(8))
        answer = facts.stored(COMMAND, ResponseCode.SUCCESS, addressed(), 0, "")
        assert answer.ext["TRACE_ON"] == text
