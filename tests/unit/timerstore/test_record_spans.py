"""Tests of looking into records."""

from __future__ import annotations

import pytest

from golden_vectors import RECORD_V1
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_spans import (
    RecordError,
    head_size,
    record_body,
    record_properties,
    record_spans,
    record_topic,
)

V4 = pack_host("127.0.0.1", 1)
V6 = pack_host("::1", 1)


@pytest.mark.parametrize("topic", ["T", "t" * 127, "t" * 128, "t" * 300])
@pytest.mark.parametrize(("born_host", "store_host"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_parts_of_all_kinds_of_records(topic: str, born_host: bytes, store_host: bytes) -> None:
    """Body, topic and properties are found for both versions and all hosts."""
    message = Message(topic, 0, b"body", b"A\x01b\x02", born_host=born_host)
    data = encode_record(message, queue_offset=0, phy_offset=0, store_ms=0, store_host=store_host)

    assert b"body" == record_body(data)
    assert topic.encode() == record_topic(data)
    assert b"A\x01b\x02" == record_properties(data)


def test_a_record_inside_a_segment() -> None:
    """Positions are those in the data, wherever the record begins."""
    data = b"\xff" * 5 + RECORD_V1 + b"\xff" * 5

    assert (93 + 5, 94 + 5, 95 + 5, 107 + 5) == record_spans(data, 5, 5 + 107)
    assert head_size(data, 5) == 88


def cut(changes: dict[int, bytes], data: bytes = RECORD_V1) -> bytes:
    """The golden record with other bytes at some positions."""
    changed = bytearray(data)
    for at, value in changes.items():
        changed[at : at + len(value)] = value
    return bytes(changed)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bytes(90), "record: expected 91 bytes or more, found 90"),
        (
            cut({4: b"\0\0\0\x01"}),
            "record: magic: expected -626843481 or -626843477, found 1",
        ),
        (cut({84: b"\0\0\0\x14"}), "record: body: expected at most 19 bytes, found 20"),
        (
            cut({84: b"\xff\xff\xff\xff"}),
            "record: body: expected at most 19 bytes, found 4294967295",
        ),
        (
            cut({84: b"\0\0\0\x13"}),
            "record: topic: expected its length, found the end of the record",
        ),
        (cut({93: b"\x0e"}), "record: topic: expected at most 13 bytes, found 14"),
        (cut({93: b"\x81"}), "record: topic: expected at most 13 bytes, found 129"),
        (
            cut({93: b"\x0d"}),
            "record: properties: expected its length, found the end of the record",
        ),
        (cut({95: b"\0\x0b"}), "record: properties: expected at most 10 bytes, found 11"),
        (
            cut({39: b"\x30"}, RECORD_V1[:91]),
            "record: body: expected its length, found the end of the record",
        ),
    ],
)
def test_lengths_that_lead_outside(data: bytes, text: str) -> None:
    """Every length is compared with the end of the record before it is followed."""
    with pytest.raises(RecordError) as caught:
        record_spans(data)

    assert text == str(caught.value)


def test_negative_lengths_in_large_records() -> None:
    """A length with the sign bit is refused even where so many bytes follow."""
    topic = cut({93: b"\x80"}, RECORD_V1 + bytes(70_000))
    properties = cut({95: b"\x80\x00"}, RECORD_V1 + bytes(70_000))

    with pytest.raises(RecordError, match="topic: expected at most 127 bytes, found 128"):
        record_spans(topic)
    with pytest.raises(RecordError, match="properties: expected at most 32767 bytes, found 32768"):
        record_spans(properties)
