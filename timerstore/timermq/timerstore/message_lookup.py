"""A message by its position in the commit log, as a request names it.

A position from outside may point anywhere, also into a body that was made to look like a record.
A record begins there only if a queue says so: the unit of the topic, queue and queue offset that
the record states has this position and this size. Only the broker writes units.

Source: Java ``DefaultMessageStore.lookMessageByOffset``, which takes any bytes for a record.
"""

from __future__ import annotations

from typing import NamedTuple

from .commit_log import CommitLog
from .message_store import MessageStore
from .queue_check import shows_record
from .record_check import CheckKind, check_record
from .record_layout import (
    FIXED_SIZE_V1,
    HEAD,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PHY_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
)
from .record_spans import head_size
from .unit_scrub import put_right_around


class _Stated(NamedTuple):
    """The record in the bytes at a position, if they are one."""

    size: int
    topic: str
    queue_id: int
    queue_offset: int


def look_message_by_offset(
    store: MessageStore, phy_offset: int, *, check_crc: bool = True
) -> bytes | None:
    """The record that begins at a position.

    Reads its head and its topic, then one unit, and the record only when that shows it: what a
    forged length spans is not read. A unit that has rotted is put right first.

    Args:
        store: Recovered.
        phy_offset: Any number.
        check_crc: Whether its body is compared with its checksum; a caller that says what is wrong
            with a record looks itself.

    Returns:
        The whole record, or None: none begins there, it is not as it was written, its queue was
        deleted or cleaned, or it is not in its queue yet (with SYNC_FLUSH until it is durable).

    Raises:
        StoreFailedError: The disk did not take a unit that was put right.
    """
    stated = _stated_at(store.commit_log, phy_offset)
    if stated is None or not _is_shown(store, phy_offset, stated):
        return None
    data = store.commit_log.record_at(phy_offset, stated.size)
    if data is None:
        return None
    found = check_record(data, 0, len(data), phy_offset, check_crc=check_crc)
    is_whole = found.kind is CheckKind.RECORD and found.size == stated.size
    return data if is_whole else None


def _stated_at(log: CommitLog, phy_offset: int) -> _Stated | None:
    """Read the head of what may be a record, and its topic; follows no length beyond the log."""
    if not log.min_offset <= phy_offset <= log.max_offset - FIXED_SIZE_V1:
        return None
    head = log.record_at(phy_offset, HEAD.size)
    if head is None:
        return None
    head = log.record_at(phy_offset, head_size(head))
    if head is None or _number(head, PHY_OFFSET_AT, 8) != phy_offset:
        return None
    size, body_size = _number(head, 0, 4), _number(head, len(head) - 4, 4)
    if not 0 <= body_size < size <= log.max_offset - phy_offset:
        return None
    length_size = {MAGIC_V1: 1, MAGIC_V2: 2}.get(_number(head, MAGIC_AT, 4))
    topic_at = phy_offset + len(head) + body_size
    length = None if length_size is None else log.record_at(topic_at, length_size)
    if length is None:
        return None
    topic = log.record_at(topic_at + len(length), int.from_bytes(length, "big"))
    if topic is None:
        return None
    queue_id, queue_offset = _number(head, QUEUE_ID_AT, 4), _number(head, QUEUE_OFFSET_AT, 8)
    return _Stated(size, topic.decode("utf-8", "replace"), queue_id, queue_offset)


def _is_shown(store: MessageStore, phy_offset: int, stated: _Stated) -> bool:
    """Whether the unit of a record has its position and its size."""
    queue, offset = store.queue(stated.topic, stated.queue_id), stated.queue_offset
    if queue is None or not queue.min_offset <= offset < queue.max_offset:
        return False
    for _ in range(2):
        for unit in queue.units(offset, 1).tolist():
            if unit[:2] == (phy_offset, stated.size):
                return True
        try:
            if shows_record(store.commit_log, queue, offset):
                return False
            if not put_right_around(store.files, queue, offset):
                return False
        except OSError as error:
            store.fail(error)
    return False


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big", signed=True)
