"""Messages of the timer topic and their deliveries, for checks of what became of them."""

from __future__ import annotations

from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.timerstore.message import Message

OUT_MS = 1_700_000_010_000


def waiting(
    key: str,
    *,
    out_ms: int = OUT_MS,
    origin_py: int | None = None,
    rolls: int = 0,
    order_py: int = 0,
) -> Message:
    """A message for topic T; with an origin it was moved or rolled from there."""
    end = timer_tail(
        deliver_ms=out_ms + 1,
        out_ms=out_ms,
        topic="T",
        queue_id=0,
        rolls=rolls,
        order_py=order_py,
    )
    prepared = 0 if origin_py is None else origin_of(origin_py)
    return Message(
        TIMER_TOPIC, 0, b"x", f"UNIQ_KEY\x01{key}\x02".encode() + end, prepared_offset=prepared
    )


def delivery(key: str, origin_py: int) -> Message:
    """The delivery of the record at a position."""
    return Message(
        "T", 0, b"x", f"UNIQ_KEY\x01{key}\x02".encode(), prepared_offset=origin_of(origin_py)
    )


def rocketmq_delivery(key: str, out_ms: int = OUT_MS) -> Message:
    """A delivery of RocketMQ, which names no position."""
    properties = f"UNIQ_KEY\x01{key}\x02TIMER_DEQUEUE_MS\x015\x02REAL_TOPIC\x01T\x02"
    return Message("T", 0, b"x", f"{properties}TIMER_OUT_MS\x01{out_ms}\x02".encode())


def delete(key: str, *, order_py: int | None = None, for_py: int | None = None) -> Message:
    """A delete by key, or by order as ours are; with ``for_py`` it makes way for a move."""
    properties = f"TIMER_DEL_UNIQKEY\x01T+{key}\x02UNIQ_KEY\x01{key}\x02"
    if order_py is not None:
        properties += f"TIMER_DEL_ORDER\x01{order_py}\x02"
    if for_py is not None:
        properties += f"TIMER_DEL_FOR\x01{for_py}\x02"
    end = timer_tail(deliver_ms=OUT_MS + 1, out_ms=OUT_MS, topic="T", queue_id=0)
    return Message(TIMER_TOPIC, 0, b"0", properties.encode() + end)
