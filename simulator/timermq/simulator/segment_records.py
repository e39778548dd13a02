"""The records of a segment of the log as the simulation reads it: damage is passed over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from timermq.client.history import Publish
from timermq.timerstore.record import MAGIC_V1, Record, RecordError, decode_record
from timermq.timerstore.record_check import CheckKind, check_record

from .staged.staged_message import name_of

_MAGIC = MAGIC_V1.to_bytes(4, signed=True)
_MAGIC_AT = 4


def segment_records(data: bytes, start: int, *, end: int | None = None) -> Iterator[Record]:
    """Whole records, in order.

    Args:
        data: The whole segment.
        start: Its position in the log.
        end: Records that begin there or later, from the start of the segment, are left out.
    """
    at, end = 0, len(data) if end is None else end
    while at < end:
        found = check_record(data, at, len(data), start + at, check_crc=False)
        if found.kind is CheckKind.BLANK:
            return
        if found.kind is CheckKind.BAD:
            behind = data.find(_MAGIC, at + 1 + _MAGIC_AT)
            at = end if behind < 0 else behind - _MAGIC_AT
            continue
        with contextlib.suppress(RecordError):  # a topic, or properties, that are no text
            yield decode_record(data[at : at + found.size])
        at += found.size


def published(record: Record, at_ms: int) -> Publish:
    """That it stands there, as the history tells it."""
    properties = record.properties_dict()
    deliver_ms = properties.get("TIMER_DELIVER_MS", "")
    return Publish(
        at_ms=at_ms,
        who="world",
        message_id=name_of(properties),
        topic=record.topic,
        queue=record.queue_id,
        offset=record.queue_offset,
        stored_ms=record.store_ms,
        deliver_ms=int(deliver_ms) if deliver_ms.isdecimal() else None,
    )
