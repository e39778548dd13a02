"""From an entry of the quarantine to the message that is retried.

What comes out is a message as a producer would send it, for `TimerAdmission`: the keys that steer
timers are gone, and the moment, if one is known, is asked for again. So a message that was
quarantined on its way waits again, and one whose moment is past goes to its topic at once
(NOT_BEFORE).
"""

from __future__ import annotations

from timermq.timerstore.message import Message
from timermq.timerstore.properties import find, remove
from timermq.timerstore.record import record_properties
from timermq.timerstore.record_check import CheckKind, check_record

from ..records.deduplication import origin_of
from ..records.delivered_message import taken_over
from ..records.system_topics import destination_fault
from ..records.timer_properties import DELETE_NAME, DELIVER, INTERNAL_NAMES, REQUEST_NAMES
from ..records.timer_record import TimerRecordError, decode_timer, own_properties
from ..records.undeliverable import Reason, check_size
from .quarantine_record import Entry

_STEERING = (*INTERNAL_NAMES, *REQUEST_NAMES)


def check_intact(record: bytes, phy_offset: int, size: int) -> None:
    """Compare a record with what it states of itself, its body included.

    Args:
        record: The record as far as it can be read.
        phy_offset: Its position in the commit log.
        size: Bytes that it should have.

    Raises:
        TimerRecordError: With the reason ``GONE``, ``DAMAGED`` or ``CHECKSUM``.
    """
    check_size(record, phy_offset, size)
    found = check_record(record, 0, len(record), phy_offset, check_crc=True)
    if found.kind is not CheckKind.RECORD:
        bare = check_record(record, 0, len(record), phy_offset, check_crc=False)
        is_sound = bare.kind is CheckKind.RECORD
        text = found.reason or "expected a record, found a blank"
        raise TimerRecordError(
            Reason.CHECKSUM if is_sound else Reason.DAMAGED,
            f"timer record at {phy_offset}: {text}",
        )


def retried_message(
    entry: Entry, *, topic: str | None, queue_id: int | None, precision_ms: int
) -> Message:
    """The message of an entry as it is to be admitted.

    Args:
        entry: Of the quarantine.
        topic: Where it goes; None: where it asked to go.
        queue_id: Its queue there; None: the one it asked for, else the first.
        precision_ms: Width of a slot.

    Raises:
        TimerRecordError: No message can be made of it, or it can go nowhere.
    """
    record, origin_py = entry.record, entry.origin_py
    check_intact(record, origin_py, entry.size)
    properties = record_properties(record)
    if find(properties, DELETE_NAME) is not None:
        text = f"timer record at {origin_py}: it cancels another message, and can only be dropped"
        raise TimerRecordError(Reason.PROPERTIES, text)
    name = entry.topic if topic is None else topic
    if not name:
        text = f"timer record at {origin_py}: expected REAL_TOPIC, found none"
        raise TimerRecordError(Reason.NO_TOPIC, text)
    fault = destination_fault(name)
    if fault is not None:
        raise TimerRecordError(Reason.ILLEGAL_TOPIC, f"timer record at {origin_py}: {fault}")
    own = own_properties(properties)
    for key in _STEERING:
        own = remove(own, key)
    if own and not own.endswith(b"\x02"):
        own += b"\x02"
    deliver_ms = _deliver_ms(entry, precision_ms)
    if deliver_ms is not None:
        own += b"%b%013d\x02" % (DELIVER, deliver_ms)
    return taken_over(
        record,
        topic=name,
        queue_id=(entry.queue_id or 0) if queue_id is None else queue_id,
        properties=own,
        origin=origin_of(origin_py),
    )


def _deliver_ms(entry: Entry, precision_ms: int) -> int | None:
    """The moment asked for, late rather than early; None when the record does not tell it."""
    try:
        return decode_timer(entry.record, entry.origin_py, precision_ms).deliver_ms
    except TimerRecordError:
        # Without an exact moment it is that of the slot, which is over a slot's width later.
        return None if entry.deliver_ms is None else entry.deliver_ms + precision_ms
