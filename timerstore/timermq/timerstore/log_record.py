"""What dispatch, index and recovery need of a record in the log: no body, no objects."""

from typing import NamedTuple

from .message import HOST_SIZE_V4, HOST_SIZE_V6, TRANSACTION_MASK, SysFlag
from .record import QUEUE_ID_AT, QUEUE_OFFSET_AT, STORE_MS_AT, SYS_FLAG_AT, record_spans

STORE_MS_END = STORE_MS_AT + HOST_SIZE_V6 - HOST_SIZE_V4 + 8
"""Bytes of a record that hold its store time, whatever its hosts."""

_BORN_HOST_V6 = int(SysFlag.BORN_HOST_V6)
_TRANSACTION_MASK = int(TRANSACTION_MASK)
_PREPARED = int(SysFlag.TRANSACTION_PREPARED)
_ROLLBACK = int(SysFlag.TRANSACTION_ROLLBACK)


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
