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
has none either. One of the timer topic is a delete that names nobody, so that neither timer service
stumbles over it; one of a delay level goes to ``rmq_sys_hole``.
"""

from __future__ import annotations

import zlib

from timermq.pipeline.timer_record import DELETE, OUT, REAL_QID, REAL_TOPIC, TIMER_TOPIC
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.message import NO_HOST, SysFlag
from timermq.timerstore.record_layout import (
    BLANK,
    BLANK_MAGIC,
    BODY_AT,
    BODY_CRC_MASK,
    FIXED_SIZE_V1,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_HEAD,
    TOPIC_SIZE_V1_MAX,
)

HOLE_TOPIC = b"rmq_sys_hole"
"""Topic of fillers; a small one has the beginning of it."""

LOST = b"TIMERMQ_LOST\x01"
"""Property of a lost record; its value is 1."""

FILLER_SIZE_MAX = 1 << 20
"""Bytes of one filler: a body that any reader takes."""
FILLER_SIZE_MIN = FIXED_SIZE_V1 + 1
"""Bytes of the smallest: a topic of one letter. No record is smaller."""


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
        properties += b"%b?\x02%b%b\x02%b0\x02%b%013d\x02" % (
            DELETE,
            REAL_TOPIC,
            HOLE_TOPIC,
            REAL_QID,
            OUT,
            out_ms,
        )
    elif topic == SCHEDULE_TOPIC:
        properties += b"%b%b\x02%b0\x02" % (REAL_TOPIC, HOLE_TOPIC, REAL_QID)
    return _record(
        topic.encode(),
        queue_id,
        queue_offset,
        position=position,
        store_ms=store_ms,
        sys_flag=0,
        body=bytes(body_size),
        properties=properties,
    )


def filler(size: int, *, position: int, store_ms: int) -> bytes:
    """A record of exactly ``size`` bytes, `FILLER_SIZE_MIN` or more, that is in no queue."""
    topic = HOLE_TOPIC[: size - FIXED_SIZE_V1]
    return _record(
        topic,
        0,
        0,
        position=position,
        store_ms=store_ms,
        sys_flag=int(SysFlag.TRANSACTION_ROLLBACK),
        body=bytes(size - FIXED_SIZE_V1 - len(topic)),
        properties=b"",
    )


def blank(size: int) -> bytes:
    """A blank that covers the last ``size`` bytes of a segment, of which it writes 8."""
    return BLANK.pack(size, BLANK_MAGIC)


def _record(
    topic: bytes,
    queue_id: int,
    queue_offset: int,
    *,
    position: int,
    store_ms: int,
    sys_flag: int,
    body: bytes,
    properties: bytes,
) -> bytes:
    is_v1 = len(topic) <= TOPIC_SIZE_V1_MAX
    topic_part = len(topic).to_bytes(1 if is_v1 else 2) + topic
    tail = topic_part + len(properties).to_bytes(2) + properties
    head = RECORD_HEAD.pack(
        BODY_AT + len(body) + len(tail),
        MAGIC_V1 if is_v1 else MAGIC_V2,
        zlib.crc32(body) & BODY_CRC_MASK,
        queue_id,
        0,
        queue_offset,
        position,
        sys_flag,
        store_ms,
        NO_HOST,
        store_ms,
        NO_HOST,
        0,
        0,
        len(body),
    )
    return head + body + tail
