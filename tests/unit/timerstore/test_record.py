"""Tests of decoding and encoding records."""

from __future__ import annotations

import zlib

import attrs
import pytest

from golden_vectors import LOG_BLANK, RECORD_PROPERTY_CRC, RECORD_V1
from timermq.timerstore.message import NO_HOST, Message, SysFlag, pack_host
from timermq.timerstore.record import (
    MAGIC_V1,
    MAGIC_V2,
    RecordError,
    blank_record,
    decode_record,
    encode_record,
    host_flags,
)

LOCAL = pack_host("127.0.0.1", 10911)
LOCAL_V6 = pack_host("::1", 10911)


def golden_message() -> Message:
    """What golden record V1 was made of."""
    return Message(
        "T",
        3,
        b"hello",
        b"TAGS\x01TagA\x02",
        born_ms=1_700_000_000_000,
        born_host=pack_host("127.0.0.1", 8080),
    )


def encode(message: Message, store_host: bytes = LOCAL) -> bytes:
    """The message at queue offset 7, position 0."""
    return encode_record(
        message, queue_offset=7, phy_offset=0, store_ms=1_700_000_000_123, store_host=store_host
    )


def test_golden_record_is_encoded() -> None:
    """A V1 record is byte for byte that of RocketMQ."""
    assert RECORD_V1 == encode(golden_message())


def test_golden_record_is_decoded() -> None:
    """Every field of the golden record is read."""
    record = decode_record(RECORD_V1)

    assert attrs.asdict(record) == {
        "phy_offset": 0,
        "size": 107,
        "magic": MAGIC_V1,
        "body_crc": zlib.crc32(b"hello") & 0x7FFFFFFF,
        "topic": "T",
        "queue_id": 3,
        "queue_offset": 7,
        "flag": 0,
        "sys_flag": 0,
        "born_ms": 1_700_000_000_000,
        "born_host": pack_host("127.0.0.1", 8080),
        "store_ms": 1_700_000_000_123,
        "store_host": LOCAL,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body": b"hello",
        "properties": b"TAGS\x01TagA\x02",
    }
    assert record.properties_dict() == {"TAGS": "TagA"}
    assert record.offset_message_id == "7F00000100002A9F0000000000000000"


def test_property_crc_is_an_ordinary_property() -> None:
    """The checksum that Java can append covers all before it and stands last among the properties.

    Its ten digits are decimal, the least significant first.
    """
    record = decode_record(RECORD_PROPERTY_CRC)
    crc = zlib.crc32(RECORD_PROPERTY_CRC[:-20]) & 0x7FFFFFFF

    assert record.properties_dict() == {"A": "B", "__CRC32#": f"{crc:010d}"[::-1]}
    assert RECORD_PROPERTY_CRC == encode_record(
        Message("T", 0, b"x", record.properties, born_ms=1, born_host=pack_host("127.0.0.1", 1)),
        queue_offset=0,
        phy_offset=0,
        store_ms=2,
        store_host=pack_host("127.0.0.1", 2),
    )


def test_golden_blank() -> None:
    """A blank says how much of the segment is left."""
    assert LOG_BLANK == blank_record(100)


def test_well_known_properties() -> None:
    """Unique key, keys and tags are read from the properties."""
    properties = b"UNIQ_KEY\x010A\x02KEYS\x01k1 k2\x02TAGS\x01t\x02"
    record = decode_record(encode(Message("T", 0, b"", properties)))

    assert ("0A", "k1 k2", "t") == (record.unique_id, record.keys, record.tags)


def test_well_known_properties_may_be_missing() -> None:
    """A message without them has no unique key, no keys and no tags."""
    record = decode_record(encode(Message("T", 0, b"")))

    assert (None, "", "") == (record.unique_id, record.keys, record.tags)


@pytest.mark.parametrize(
    ("topic_size", "magic", "length_bytes"), [(127, MAGIC_V1, b"\x7f"), (128, MAGIC_V2, b"\0\x80")]
)
def test_long_topics_make_v2(topic_size: int, magic: int, length_bytes: bytes) -> None:
    """Beyond 127 bytes a topic's length takes two bytes, in a record of version 2."""
    data = encode(Message("t" * topic_size, 0, b"body"))
    record = decode_record(data)

    assert magic == record.magic
    assert "t" * topic_size == record.topic
    assert data[92:].startswith(length_bytes + b"t")


@pytest.mark.parametrize(
    ("born_host", "store_host", "size", "flags"),
    [
        (LOCAL, LOCAL, 91, 0),
        (LOCAL_V6, LOCAL, 103, 0x10),
        (LOCAL, LOCAL_V6, 103, 0x20),
        (LOCAL_V6, LOCAL_V6, 115, 0x30),
    ],
)
def test_hosts_of_both_kinds(born_host: bytes, store_host: bytes, size: int, flags: int) -> None:
    """Two bits of ``sysFlag`` follow the hosts, whatever the message says."""
    message = Message("", 0, b"", born_host=born_host, sys_flag=int(SysFlag.COMPRESSED | 0x30))
    record = decode_record(encode(message, store_host))

    assert (size, flags | SysFlag.COMPRESSED) == (record.size, record.sys_flag)
    assert (born_host, store_host) == (record.born_host, record.store_host)


def test_a_known_checksum_is_kept() -> None:
    """A message that brings its body's checksum is not read again."""
    assert decode_record(encode(Message("T", 0, b"x", body_crc=5))).body_crc == 5


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            Message("t" * 32_768, 0, b""),
            "record: expected topic and properties up to 32767 bytes, found 32768 and 0",
        ),
        (
            Message("T", 0, b"", bytes(32_768)),
            "record: expected topic and properties up to 32767 bytes, found 1 and 32768",
        ),
        (
            Message("T", 0, b"", born_host=bytes(9)),
            "record: expected hosts of 8 or 20 bytes, found 9 and 8",
        ),
    ],
)
def test_messages_that_are_no_record(message: Message, text: str) -> None:
    """What the length fields cannot hold is not encoded."""
    with pytest.raises(RecordError) as caught:
        encode(message)

    assert text == str(caught.value)


def test_numbers_must_fit_their_fields() -> None:
    """A queue id beyond an int is refused, not wrapped."""
    with pytest.raises(RecordError, match=r"^record: a number does not fit its field"):
        encode(Message("T", 2**31, b""))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "record: expected 91 bytes or more, found 0"),
        (RECORD_V1[:90], "record: expected 91 bytes or more, found 90"),
        (
            RECORD_V1[:-1],
            "record: properties: expected at most 9 bytes, found 10",
        ),
        (
            RECORD_V1 + b"\0",
            "record at 0: total size: expected 107, found 107 in 108 bytes",
        ),
        (
            b"\0\0\0\x6c" + RECORD_V1[4:],
            "record at 0: total size: expected 107, found 108 in 107 bytes",
        ),
        (
            RECORD_V1[:94] + b"\xff" + RECORD_V1[95:],
            "record at 0: topic: 'utf-8' codec can't decode byte 0xff in position 0: "
            "invalid start byte",
        ),
    ],
)
def test_bytes_that_are_no_record(data: bytes, text: str) -> None:
    """What cannot be decoded is refused, and the field is named."""
    with pytest.raises(RecordError) as caught:
        decode_record(data)

    assert text == str(caught.value)


def test_hosts_have_two_sizes() -> None:
    """Flags are only made for hosts of 8 or 20 bytes."""
    assert host_flags(0x31, NO_HOST, NO_HOST) == 1
    with pytest.raises(RecordError, match="found 8 and 0"):
        host_flags(0, NO_HOST, b"")
