"""Records that a repair writes where others are lost: both RocketMQ and this program pass them.

Nothing in the commit log may be skipped: a reader goes from one record to the next by their sizes,
and RocketMQ's stops for good at the first thing that is none. Only a blank may be anything, and it
means that the segment ends. So a hole is filled with records:

=============  ================================================================================
in a hole      what it is
=============  ================================================================================
lost record    one for each queue offset that the log lacks: of that topic, queue and offset, with
               an empty body (or some zeros) and the property ``TIMERMQ_LOST``. Queues are dense:
               without it all later messages would stand at wrong offsets, or nowhere
filler         for the rest: of the topic ``rmq_sys_hole``, of the kind ROLLBACK, which no queue
               holds and no index knows; its body is zeros
blank          where a hole reaches the end of its segment
=============  ================================================================================

A lost record is never larger than the record whose place it takes: where that had no properties, it
has none either. One of the timer topic is a delete that names no message, so that neither timer
service stumbles over it; one of a delay level goes to ``rmq_sys_hole``.
"""

from __future__ import annotations

from timermq.pipeline.records.record_effect import NOBODY
from timermq.pipeline.records.timer_properties import DELETE, OUT
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.filler_record import HOLE_TOPIC, hostless_record
from timermq.timerstore.properties import REAL_QID, REAL_TOPIC
from timermq.timerstore.record_layout import BLANK, BLANK_MAGIC

LOST = b"TIMERMQ_LOST\x01"
"""Property of a lost record; its value is 1."""


def lost_record(
    topic: str,
    queue_id: int,
    queue_offset: int,
    *,
    position: int,
    store_ms: int,
    is_marked: bool,
    body_size: int = 0,
) -> bytes:
    """A record that takes the place of a lost one.

    Args:
        topic: Its topic.
        queue_id: Its queue.
        queue_offset: Its queue offset.
        position: Where it will stand.
        store_ms: Store time of a record near by.
        is_marked: With the property `LOST`, which the lost record may have been too small for.
        body_size: Zeros in its body, to fill up what is too small for a filler.
    """
    properties = b"%b1\x02" % LOST if is_marked else b""
    if topic == TIMER_TOPIC:
        out_ms = max(store_ms - 1, 0) // 1000 * 1000
        properties += b"%b%b\x02%b%b\x02%b0\x02%b%013d\x02" % (
            DELETE,
            NOBODY,
            REAL_TOPIC,
            HOLE_TOPIC,
            REAL_QID,
            OUT,
            out_ms,
        )
    elif topic == SCHEDULE_TOPIC:
        properties += b"%b%b\x02%b0\x02" % (REAL_TOPIC, HOLE_TOPIC, REAL_QID)
    return hostless_record(
        topic.encode(),
        queue_id,
        queue_offset,
        position=position,
        store_ms=store_ms,
        sys_flag=0,
        body=bytes(body_size),
        properties=properties,
    )


def lost_size(topic: str) -> int:
    """Bytes of a lost record with its mark."""
    return len(lost_record(topic, 0, 0, position=0, store_ms=1, is_marked=True))


def blank(size: int) -> bytes:
    """A blank that covers the last ``size`` bytes of a segment, of which it writes 8."""
    return BLANK.pack(size, BLANK_MAGIC)
