"""Commit-log records: all who look into one see the same message."""

from __future__ import annotations

from golden_vectors import RECORD_PROPERTY_CRC, RECORD_V1
from timermq.broker.consuming.zlib_bodies import with_zlib_bodies
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.stored_message import StoredMessage, decode_messages, parse_properties
from timermq.timerstore.index_keys import KeyColumns
from timermq.timerstore.log_record import is_torn, read_log_record
from timermq.timerstore.message import Message
from timermq.timerstore.record import Record, RecordError, decode_record, encode_record
from timermq.timerstore.record_check import CheckKind, check_record
from timermq.timerstore.record_spans import record_body, record_spans, record_topic


def seeds() -> list[bytes]:
    """Golden records, and one of each address family and version."""
    found = [RECORD_V1, RECORD_PROPERTY_CRC]
    for topic, born, store, sys_flag in (
        ("T" * 128, 8, 8, 0),
        ("é", 20, 8, 0x101),
        ("T", 8, 20, 0x8),
        ("T", 20, 20, 0x301),
    ):
        message = Message(
            topic, 1, b"body", b"UNIQ_KEY\x01U\x02KEYS\x01a b\x02", sys_flag=sys_flag,
            born_host=bytes(born),
        )  # fmt: skip
        found.append(
            encode_record(
                message, queue_offset=1, phy_offset=0, store_ms=2, store_host=bytes(store)
            )
        )
    return found


def fuzz_one(data: bytes) -> None:
    """Any bytes are a record for all, or a `RecordError` for the strict ones."""
    _check_block(data)
    stated = int.from_bytes(data[28:36], "big", signed=True)
    checked = check_record(data, 0, len(data), stated, check_crc=False)
    received = _received(data)
    try:
        record = decode_record(data)
    except RecordError:
        # The store also reads records whose topic is no text; they have parts all the same.
        if checked.kind is CheckKind.RECORD and checked.size == len(data):
            assert not _is_text(record_topic(data))
        return
    body_end, topic_at, topic_end, end = record_spans(data)
    read = read_log_record(data)

    assert record_body(data) == record.body
    assert (data[topic_at:topic_end], data[topic_end + 2 : end]) == (read.topic, read.properties)
    assert (record.queue_id, record.queue_offset, record.store_ms) == (
        read.queue_id,
        read.queue_offset,
        read.store_ms,
    )
    assert end == len(data)
    assert body_end <= topic_at
    assert (checked.kind, checked.size) == (CheckKind.RECORD, len(data))
    assert is_torn(data, 0) in (False, True)
    assert len(received) == 1
    assert (received[0].topic, received[0].body) == (record.topic, record.body)
    text = record.properties.decode(errors="replace")
    assert received[0].properties == parse_properties(text) == record.properties_dict()
    _check_for_cpp(data, record)


def _check_block(data: bytes) -> None:
    """The index finds the same keys, reading a block in one pass or record by record."""
    block, single = KeyColumns(), KeyColumns()
    done, _ = block.add_block(data, 0, 8)
    at = 0
    while at < done:
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        assert single.add_record(data[at : at + size], at)
        at += size
    assert (block.texts, block.offsets_py, block.stores_ms) == (
        single.texts,
        single.offsets_py,
        single.stores_ms,
    )


def _received(data: bytes) -> list[StoredMessage]:
    """The messages that a client reads of the bytes; none where they are malformed."""
    try:
        return decode_messages(data)
    except RemoteProtocolError as error:
        assert not error.close
        return []


def _check_for_cpp(data: bytes, record: Record) -> None:
    (one,) = [part for part in with_zlib_bodies([data]).records if part]
    assert (decode_record(one).topic, decode_record(one).properties) == (
        record.topic,
        record.properties,
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
