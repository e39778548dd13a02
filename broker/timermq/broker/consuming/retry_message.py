"""From a message that a consumer could not handle to its next try, or to a dead letter.

Body, flags, tags, keys and born data stay. What the message once asked of the timer is over: only
the delay before the next try counts. ``RETRY_TOPIC`` and ``ORIGIN_MESSAGE_ID`` say what it was when
it was tried first, and are written once.

Source: Java ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from __future__ import annotations

from timermq.pipeline.records.delivered_message import taken_over
from timermq.pipeline.records.timer_properties import DELETE, INTERNAL, REQUESTS
from timermq.timerstore.message import Message
from timermq.timerstore.properties import find
from timermq.timerstore.record import decode_record

RETRY_TOPIC = b"RETRY_TOPIC"
ORIGIN_MESSAGE_ID = b"ORIGIN_MESSAGE_ID"

_STEERING = (*INTERNAL, *REQUESTS, DELETE)
"""How the properties begin that asked something of the timer, or answered it."""
_NO_ORIGIN = 0
"""In ``preparedTransactionOffset``: no waiting record became this message."""


def retry_message(record: bytes, *, topic: str, queue_id: int, delay: bytes) -> Message:
    r"""The message of a record for another try.

    Args:
        record: The whole record.
        topic: The group's retry topic, or that of its dead letters.
        queue_id: Queue there.
        delay: The property that asks for the delay, ``NAME \x01 value \x02``; empty for none.

    Returns:
        What goes through the door; its ``reconsume_times`` are one more.

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
