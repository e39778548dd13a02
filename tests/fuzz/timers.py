"""Records of the timer topic: the quick ways of reading one find what a full reading finds.

The first byte chooses what the rest is: properties of such a record, or the whole record.
"""

from __future__ import annotations

from typing import cast

from timermq.client.recall import broker_of
from timermq.pipeline.admission.recall_handle import HandleError, decode_handle, encode_handle
from timermq.pipeline.records.delivered_message import due_message
from timermq.pipeline.records.foreign_key import foreign_key_in, pending_key
from timermq.pipeline.records.timer_columns import read_columns
from timermq.pipeline.records.timer_record import (
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    deleted_name,
    known_destination,
    own_properties,
    timer_tail,
)
from timermq.timerstore.message import Message
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX
from timermq.timerstore.record import FIXED_SIZE_V1, encode_record
from timermq.timerstore.record_block import RecordBlock
from timermq.timerstore.record_check import CheckKind, check_record
from timermq.timerstore.record_spans import RecordError, record_properties

PRECISION_MS = 1000
PHY_OFFSET = 4096
SLOT_MS = 1_700_000_010_000
INT64_MAX = 2**63 - 1
TAIL = timer_tail(deliver_ms=SLOT_MS + 5, out_ms=SLOT_MS, topic="T", queue_id=1)


def seeds() -> list[bytes]:
    """Ours, rolled, deletes, Java's, and handles."""
    rolled = timer_tail(
        deliver_ms=SLOT_MS + 5, out_ms=SLOT_MS, topic="T", queue_id=1, rolls=2, order_py=9
    )
    texts = [
        b"UNIQ_KEY\x01U\x02" + TAIL,
        b"UNIQ_KEY\x01U\x02" + rolled,
        b"TIMER_DEL_UNIQKEY\x01T+U\x02TIMER_DEL_ORDER\x017\x02" + TAIL,
        b"REAL_TOPIC\x01T\x02TIMER_DELAY_MS\x01900\x02TIMER_OUT_MS\x011700000010000\x02"
        b"REAL_QID\x011\x02UNIQ_KEY\x01U\x02TIMER_ROLL_TIMES\x013\x02TIMER_DEQUEUE_MS\x011\x02",
        b"REAL_TOPIC\x01T\x02TIMER_DELAY_SEC\x01" + b"9" * 40 + b"\x02TIMER_OUT_MS\x01"
        b"9999999999999999999\x02REAL_QID\x011\x02",
    ]
    handle = encode_handle("T", "b", SLOT_MS + 1, "U").encode()
    records = [_record(text, 0) for text in texts] + [_record(texts[3], 12)]
    return [b"\0" + text for text in texts] + [b"\1" + one for one in records] + [b"\2" + handle]


def fuzz_one(data: bytes) -> None:
    """Any bytes are a timer for all readers, or refused by all with their error."""
    kind, rest = data[0] % 3 if data else 0, data[1:]
    if kind == 2:
        _check_handle(rest)
    elif kind == 1 or len(rest) > PROPERTIES_SIZE_MAX:
        # The log hands out whole records only.
        if len(rest) >= FIXED_SIZE_V1 and _is_record(rest):
            _check_record(rest)
    else:
        _check_record(_record(rest, 0))


def _is_record(data: bytes) -> bool:
    checked = check_record(data, 0, len(data), int.from_bytes(data[28:36]), check_crc=False)
    return (checked.kind, checked.size) == (CheckKind.RECORD, len(data))


def _record(properties: bytes, more: int) -> bytes:
    """A record with these properties; ``more`` is 12 for an IPv6 producer."""
    return encode_record(
        Message(TIMER_TOPIC, 0, b"body", properties, born_host=bytes(8 + more)),
        queue_offset=7,
        phy_offset=PHY_OFFSET,
        store_ms=SLOT_MS - 400,
        store_host=bytes(8),
    )


def _check_record(record: bytes) -> None:
    known = cast("dict[bytes, object]", getattr(known_destination, "__self__", None))
    known.clear()
    slow = _facts(record)
    quick = _facts(record)
    assert slow == quick
    if slow is not None:
        assert slow.out_ms < slow.deliver_ms <= slow.out_ms + PRECISION_MS
        assert 0 <= slow.out_ms < INT64_MAX - PRECISION_MS
        assert 0 <= slow.order_py <= INT64_MAX
        assert 0 <= slow.rolls < 2**31
    _check_columns(record, slow)
    for is_roll in (False, True):
        _check_due(record, is_roll)
    if slow is not None:
        properties = record_properties(record)
        assert deleted_name(properties) is None or slow.is_delete or b"DEL_ORDER" in properties
        assert pending_key(record)[0] == slow.destination.topic.encode()
        assert foreign_key_in(record) is None or b"TIMER_DEQUEUE_MS" in record
        assert own_properties(properties) in (properties, own_properties(properties))


def _check_columns(record: bytes, facts: TimerFacts | None) -> None:
    """Alone or before a record that fits into a run: columns say what the record says."""
    fitting = _record(TAIL, 0)
    expected = _facts(fitting)
    for records, found in (([record], [facts]), ([record, fitting], [facts, expected])):
        columns = read_columns(RecordBlock.of(records), PRECISION_MS)
        if columns is None:
            continue
        known = [one for one in found if one is not None]
        numbers: list[int] = columns.destination_of.tolist()
        assert [one.deliver_ms for one in known] == columns.deliver_ms.tolist()
        assert [one.out_ms for one in known] == columns.out_ms.tolist()
        assert [one.destination for one in known] == [columns.destinations[one] for one in numbers]
        assert record[int(columns.ends[0]) :].startswith(b"REAL_TOPIC\x01")


def _facts(record: bytes) -> TimerFacts | None:
    try:
        facts = decode_timer(record, PHY_OFFSET, PRECISION_MS)
    except (TimerRecordError, RecordError):
        return None
    # Where the quick way ended is no fact of the message.
    return TimerFacts(
        facts.deliver_ms,
        facts.out_ms,
        facts.destination,
        facts.order_py,
        facts.rolls,
        facts.is_delete,
    )


def _check_due(record: bytes, is_roll: bool) -> None:
    try:
        due = due_message(
            record, PHY_OFFSET, is_roll=is_roll, origin=-1 - PHY_OFFSET, precision_ms=PRECISION_MS
        )
    except (TimerRecordError, RecordError):
        return
    assert (due.message.topic == TIMER_TOPIC) == is_roll
    assert due.deliver_ms >= 0


def _check_handle(data: bytes) -> None:
    text = data.decode("latin-1")
    try:
        handle = decode_handle(text)
    except HandleError:
        return
    assert broker_of(text) == handle.broker_name
    if handle.timestamp_ms >= 0:
        again = encode_handle(
            handle.topic, handle.broker_name, handle.timestamp_ms, handle.unique_key
        )
        assert decode_handle(again) == handle
