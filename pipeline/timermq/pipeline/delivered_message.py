"""From the record that waited to the message that appears.

Body, flag, tags, born data and the producer's properties are those of the waiting record, taken
over as slices; topic and queue are the real ones; the keys that steer timers are left behind, so
that a consumer can forward what it got. The exact moment stays readable as ``TIMER_DELIVER_MS``.

Source: Java ``TimerMessageStore.convertMessage``, ``convert``.
"""

from __future__ import annotations

import attrs

from timermq.timerstore.message import Message
from timermq.timerstore.properties import find, remove
from timermq.timerstore.record_layout import HEADS, V6_BITS, V6_FLAGS_AT
from timermq.timerstore.record_spans import record_spans

from .timer_record import (
    DELIVER,
    TIMER_TOPIC,
    TimerRecordError,
    decode_timer,
    own_properties,
    timer_tail,
)


# A plain __init__ with refusing setters: a third of the cost of a frozen class, and one is made for
# every message.
@attrs.define(eq=False, kw_only=True, on_setattr=attrs.setters.frozen)
class DueMessage:
    """A message ready for the store, and what its publishing is checked against."""

    message: Message
    deliver_ms: int
    """Not before this moment; 0 for a roll, which may be any time before."""
    is_roll: bool


def due_message(
    record: bytes, phy_offset: int, *, is_roll: bool, origin: int, precision_ms: int
) -> DueMessage:
    """The message that a waiting record becomes when its slot has come.

    Args:
        record: The record of the timer topic.
        phy_offset: Where it stands.
        is_roll: It goes back to the timer topic, for its next leg.
        origin: What the new record's ``preparedTransactionOffset`` is to say.
        precision_ms: Width of a slot.

    Raises:
        TimerRecordError: The record is not a timer, or its destination is the timer topic itself.
    """
    body_end, _, topic_end, end = record_spans(record)
    text = record[topic_end + 2 : end]
    facts = decode_timer(record, phy_offset, precision_ms, text)
    topic, queue_id = facts.destination.topic, facts.destination.queue_id
    if topic == TIMER_TOPIC:
        raise TimerRecordError(f"timer record at {phy_offset}: its REAL_TOPIC is {TIMER_TOPIC}")
    properties = own_properties(text)
    if is_roll:
        properties = remove(properties, DELIVER[:-1]) + timer_tail(
            deliver_ms=facts.deliver_ms,
            out_ms=facts.out_ms,
            topic=topic,
            queue_id=queue_id,
            rolls=facts.rolls + 1,
            order_py=facts.order_py,
        )
        topic, queue_id = TIMER_TOPIC, 0
    elif find(properties, DELIVER[:-1]) is None:
        properties += b"%b%013d\x02" % (DELIVER, facts.deliver_ms)
    head = HEADS[record[V6_FLAGS_AT] & V6_BITS]
    _, _, crc, _, flag, _, _, sys_flag, born_ms, born_host, _, _, reconsume_times, _, _ = (
        head.unpack_from(record)
    )
    message = Message(
        topic=topic,
        queue_id=queue_id,
        body=record[head.size : body_end],
        properties=properties,
        flag=flag,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=born_host,
        reconsume_times=reconsume_times,
        prepared_offset=origin,
        body_crc=crc,
    )
    return DueMessage(
        message=message, deliver_ms=0 if is_roll else facts.deliver_ms, is_roll=is_roll
    )
