"""The parts of a log record for dispatch, index and recovery: no body, no objects."""

from typing import NamedTuple

from .message import HOST_SIZE_V4, HOST_SIZE_V6, TRANSACTION_MASK, SysFlag
from .record import QUEUE_ID_AT, QUEUE_OFFSET_AT, STORE_MS_AT, SYS_FLAG_AT, record_spans

STORE_MS_END = STORE_MS_AT + HOST_SIZE_V6 - HOST_SIZE_V4 + 8
"""Bytes of a record that hold its store time, whatever its hosts."""

_BORN_HOST_V6 = int(SysFlag.BORN_HOST_V6)
_TRANSACTION_MASK = int(TRANSACTION_MASK)
_PREPARED = int(SysFlag.TRANSACTION_PREPARED)
_ROLLBACK = int(SysFlag.TRANSACTION_ROLLBACK)


SECTOR_SIZE = 512
"""Size of an atomic write of a disk, bytes."""


class LogRecord(NamedTuple):
    """The fields of a checked record; a tuple, because millions are made while a store recovers."""

    topic: bytes
    queue_id: int
    queue_offset: int
    transaction: int
    """Transaction type: bits 0x0C of sysFlag."""
    store_ms: int
    properties: bytes

    @property
    def is_queued(self) -> bool:
        """Whether a queue holds it: half messages and rollbacks are in the log only."""
        return self.transaction not in (_PREPARED, _ROLLBACK)

    @property
    def is_rollback(self) -> bool:
        """Whether it is the rollback of a transaction, which the index leaves out."""
        return self.transaction == _ROLLBACK


def is_rollback(data: bytes) -> bool:
    """Whether a record is the rollback of a transaction."""
    return data[SYS_FLAG_AT + 3] & _TRANSACTION_MASK == _ROLLBACK


def store_ms_of(data: bytes) -> int:
    """Store time of a record of which at least `STORE_MS_END` bytes (or all) are given."""
    at = STORE_MS_AT
    if data[SYS_FLAG_AT + 3] & _BORN_HOST_V6:
        at += HOST_SIZE_V6 - HOST_SIZE_V4
    return int.from_bytes(data[at : at + 8], signed=True)


def read_log_record(data: bytes) -> LogRecord:
    """Read the fields of a whole record.

    Raises:
        RecordError: The lengths inside lead outside the record.
    """
    _, topic_at, topic_end, properties_end = record_spans(data)
    return LogRecord(
        data[topic_at:topic_end],
        int.from_bytes(data[QUEUE_ID_AT : QUEUE_ID_AT + 4], signed=True),
        int.from_bytes(data[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8], signed=True),
        data[SYS_FLAG_AT + 3] & _TRANSACTION_MASK,
        store_ms_of(data),
        data[topic_end + 2 : properties_end],
    )


def is_torn(data: bytes, position: int) -> bool:
    """Whether a power cut took a sector from the topic or the properties of a whole record.

    The checksum guards the body alone, and what is lost of the head makes the lengths disagree. A
    lost sector is zero, because zeros are what the log is written over; text holds none.

    Args:
        data: The record.
        position: Where it stands in its file.
    """
    _, topic_at, topic_end, end = record_spans(data)
    if 0 not in data[topic_at:topic_end] and 0 not in data[topic_end + 2 : end]:
        return False
    for start, stop in ((topic_at, topic_end), (topic_end + 2, end)):
        at = start
        while at < stop:
            sector_end = min(at + SECTOR_SIZE - (position + at) % SECTOR_SIZE, stop)
            if not any(data[at:sector_end]):
                return True
            at = sector_end
    return False


def is_cut_short(data: bytes, behind: bytes) -> bool:
    """Whether the writing of a whole record ended within its topic or properties.

    A process may be killed in the middle of a write, at any byte: what is missing is zero, and so
    is all that follows. Text does not end in a zero, and only the newest record can be cut short.

    Args:
        data: The record.
        behind: What stands behind it, some bytes; fewer at the end of its file.
    """
    if data[-1] or any(behind):
        return False
    _, topic_at, topic_end, end = record_spans(data)
    text = data[topic_end + 2 : end] or data[topic_at:topic_end]
    return text.endswith(b"\0")
