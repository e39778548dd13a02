"""Fillers: records that are in no queue, for room in the log that nothing else may have.

Of the topic ``rmq_sys_hole`` and the kind ROLLBACK, which no queue holds and no index knows, for
RocketMQ too. A repair fills holes with them. A start puts one behind the end of a log whose last
sector is damaged: what is stored later must not stand in that sector, since the next start could
not tell it from the damage.
"""

from __future__ import annotations

import zlib

import structlog

from .commit_log import CommitLog, LogWrite
from .disk import is_for_a_while
from .log_record import store_ms_of
from .message import NO_HOST, SysFlag
from .record_layout import (
    BLANK_SIZE,
    BODY_AT,
    BODY_CRC_MASK,
    FIXED_SIZE_V1,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_HEAD,
    TOPIC_SIZE_V1_MAX,
)
from .seal_page import SECTOR_SIZE

HOLE_TOPIC = b"rmq_sys_hole"
"""Topic of fillers; a small one has the beginning of it."""
FILLER_SIZE_MAX = 1 << 20
"""Bytes of one filler: a body that any reader takes."""
FILLER_SIZE_MIN = FIXED_SIZE_V1 + 1
"""Bytes of the smallest: a topic of one letter. No record is smaller."""

log = structlog.get_logger("timermq.timerstore.filler_record")


def leave_damaged_sector(commit_log: CommitLog, store_ms: int) -> None:
    """Let the log go on in another sector, if that in which it ends is damaged.

    Not at the end of a segment, nor without room.

    Args:
        commit_log: Its end is set.
        store_ms: Store time of the newest record.

    Raises:
        OSError: The disk failed.
    """
    end = commit_log.max_offset
    used = end % commit_log.segment_size % SECTOR_SIZE
    rest = SECTOR_SIZE - used
    if not used or commit_log.old.compare(end - used, end):
        return
    size = rest if rest >= FILLER_SIZE_MIN else rest + SECTOR_SIZE
    if commit_log.room < size + BLANK_SIZE:
        return
    data = filler(size, position=end, store_ms=store_ms)
    try:
        commit_log.append([], [LogWrite(end, data)])
    except OSError as error:
        if not is_for_a_while(error):
            raise
        log.warning("no room behind a damaged sector", at=end, error=str(error))


def filler(size: int, *, position: int, store_ms: int) -> bytes:
    """A record of exactly ``size`` bytes, `FILLER_SIZE_MIN` or more, that is in no queue."""
    topic = HOLE_TOPIC[: size - FIXED_SIZE_V1]
    return hostless_record(
        topic,
        0,
        0,
        position=position,
        store_ms=store_ms,
        sys_flag=int(SysFlag.TRANSACTION_ROLLBACK),
        body=bytes(size - FIXED_SIZE_V1 - len(topic)),
        properties=b"",
    )


def is_filler(data: bytes, position: int) -> bool:
    """Whether a record is a filler, every byte of it."""
    if len(data) < FILLER_SIZE_MIN:
        return False
    return data == filler(len(data), position=position, store_ms=store_ms_of(data))


def hostless_record(
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
    """A record of no client."""
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
