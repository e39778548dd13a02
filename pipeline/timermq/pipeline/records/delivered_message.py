"""From the record that waited to the message that appears.

Body, flag, tags, born data and the producer's properties are those of the waiting record, taken
over as slices; topic and queue are the real ones; the keys that only a broker sets are left behind,
so that a consumer can forward what it got, unless they are asked for. The exact moment stays
readable as ``TIMER_DELIVER_MS``, and a level as ``DELAY``.

Source: Java ``TimerMessageStore.convertMessage``, ``convert``.
"""

from __future__ import annotations

import msgspec

from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message import Message
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX, REAL_QID, REAL_TOPIC, find, remove
from timermq.timerstore.record_layout import BODY_AT, HEAD, HEADS, V6_BITS, V6_FLAGS_AT
from timermq.timerstore.record_spans import RecordError, record_spans

from .timer_properties import DELIVER, DELIVER_NAME, DEQUEUE, ENQUEUE, OUT, ROLL_TIMES
from .timer_record import (
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    has_level,
    moved_properties,
    own_properties,
    timer_tail,
)
from .undeliverable import Reason

_KEPT = HEAD.cut(
    "body_crc", "flag", "sys_flag", "born_ms", "born_host", "reconsume_times", "body_length"
)
"""The part of the waiting record's head that a delivered one keeps, and the body's length."""
_TOPIC_PART = len(TIMER_TOPIC).to_bytes() + TIMER_TOPIC.encode()
_PROPERTIES_AT = len(_TOPIC_PART) + 2
"""From the end of the body of a record of the timer topic."""


# A structure of msgspec's for the reason given at `Message`, which is no container either.
class DueMessage(msgspec.Struct, eq=False, frozen=True, gc=False):
    """A message ready for the store, and what its publishing is checked against."""

    message: Message
    deliver_ms: int
    """Not before this moment; 0 for a roll, which may be any time before."""
    is_roll: bool


def due_message(
    record: bytes,
    phy_offset: int,
    *,
    is_roll: bool,
    origin: int,
    precision_ms: int,
    taken_ms: int | None = None,
) -> DueMessage:
    """The message that a waiting record becomes when its slot has come.

    Args:
        record: The record of the timer topic.
        phy_offset: Its position in the commit log.
        is_roll: It goes back to the timer topic, for its next leg.
        origin: What the new record's ``preparedTransactionOffset`` is to say.
        precision_ms: Width of a slot.
        taken_ms: Leave the properties that RocketMQ leaves, with this moment as the one at which
            the message was taken from the wheel, epoch milliseconds; None: leave none of them.

    Raises:
        TimerRecordError: The record is not a timer.
    """
    facts = decode_timer(record, phy_offset, precision_ms, may_delete=False)
    topic, queue_id = facts.destination.topic, facts.destination.queue_id
    is_plain = not is_roll and taken_ms is None
    if facts.own_end and is_plain and not record[V6_FLAGS_AT] & V6_BITS:
        return DueMessage(_own_message(record, facts, origin), facts.deliver_ms, False)
    try:
        _, _, topic_end, end = record_spans(record)
    except RecordError as error:
        raise TimerRecordError(Reason.DAMAGED, f"timer record at {phy_offset}: {error}") from None
    stored = record[topic_end + 2 : end]
    properties = own_properties(stored)
    if is_roll:
        properties = remove(properties, DELIVER_NAME) + timer_tail(
            deliver_ms=facts.deliver_ms,
            out_ms=facts.out_ms,
            topic=topic,
            queue_id=queue_id,
            rolls=facts.rolls + 1,
            order_py=facts.order_py,
            by_level=has_level(properties),
            moved=moved_properties(stored),
        )
        topic, queue_id = TIMER_TOPIC, 0
    elif find(properties, DELIVER_NAME) is None:
        properties += b"%b%013d\x02" % (DELIVER, facts.deliver_ms)
    if taken_ms is not None and not is_roll:
        more = _left(record, facts, precision_ms, taken_ms, by_level=has_level(properties))
        properties += more if len(properties) + len(more) <= PROPERTIES_SIZE_MAX else b""
    message = taken_over(
        record, topic=topic, queue_id=queue_id, properties=properties, origin=origin
    )
    return DueMessage(
        message=message, deliver_ms=0 if is_roll else facts.deliver_ms, is_roll=is_roll
    )


def _left(
    record: bytes, facts: TimerFacts, precision_ms: int, taken_ms: int, *, by_level: bool
) -> bytes:
    """The properties that RocketMQ leaves on a delivered message.

    Of a level, which has no slot there, it leaves topic and queue alone.
    """
    topic, queue_id = facts.destination.target
    left = b"%b%b\x02%b%d\x02" % (REAL_TOPIC, topic.encode(), REAL_QID, queue_id)
    if by_level:
        return left
    enqueued_ms = store_ms_of(record) // precision_ms * precision_ms
    left += b"%b%d\x02%b%d\x02%b%d\x02" % (
        OUT, facts.out_ms, ENQUEUE, enqueued_ms, DEQUEUE, taken_ms
    )  # fmt: skip
    return left + b"%b%d\x02" % (ROLL_TIMES, facts.rolls) if facts.rolls else left


def taken_over(
    record: bytes, *, topic: str, queue_id: int, properties: bytes, origin: int
) -> Message:
    """A message with the body, flags and born data of a record.

    Args:
        record: The record of the timer topic, of any address family.
        topic: The topic of the message.
        queue_id: Its queue there.
        properties: Its properties.
        origin: What its ``preparedTransactionOffset`` is to say.
    """
    head = HEADS[record[V6_FLAGS_AT] & V6_BITS]
    _, _, crc, _, flag, _, _, sys_flag, born_ms, born_host, _, _, reconsume_times, _, _ = (
        head.unpack_from(record)
    )
    return Message(
        topic=topic,
        queue_id=queue_id,
        body=record[head.size : record_spans(record)[0]],
        properties=properties,
        flag=flag,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=born_host,
        reconsume_times=reconsume_times,
        prepared_offset=origin,
        body_crc=crc,
    )


def _own_message(record: bytes, facts: TimerFacts, origin: int) -> Message:
    """The way of nearly all messages: slices of a record whose parts are where we put them."""
    head: tuple[int, int, int, int, bytes, int, int] = _KEPT.unpack_from(record)
    crc, flag, sys_flag, born_ms, born_host, reconsume_times, body_size = head
    body_end = BODY_AT + body_size
    if not BODY_AT <= body_end <= facts.own_end or not record.startswith(_TOPIC_PART, body_end):
        raise TimerRecordError(
            Reason.DAMAGED,
            f"timer record: expected the topic {TIMER_TOPIC} behind a body of {body_size} bytes, "
            f"found {record[max(body_end, 0) :][: len(_TOPIC_PART)]!r}",
        )
    return Message(
        facts.destination.topic,
        facts.destination.queue_id,
        record[BODY_AT:body_end],
        record[body_end + _PROPERTIES_AT : facts.own_end],
        flag,
        sys_flag,
        born_ms,
        born_host,
        reconsume_times,
        origin,
        crc,
    )
