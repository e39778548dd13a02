"""Records, batches and bodies: round trips, and random bytes that are refused in one way."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from timermq.timerstore.batch import BatchError, BatchPart, join_batch, split_batch
from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX
from timermq.timerstore.record import Record, RecordError, decode_record, encode_record
from timermq.timerstore.record_check import CheckKind, check_record
from timermq.timerstore.record_layout import FIXED_SIZE_V1, MAGIC_V1, MAGIC_V2
from timermq.timerstore.record_spans import (
    head_size,
    record_body,
    record_properties,
    record_spans,
    record_topic,
)

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
topics = st.text(max_size=5) | st.sampled_from(["t" * 127, "t" * 128, "标" * 43, "t" * 300])
bodies = st.binary(max_size=20)

messages = st.builds(
    Message,
    topic=topics,
    queue_id=ints,
    body=bodies,
    properties=st.binary(max_size=20),
    flag=ints,
    sys_flag=ints,
    born_ms=longs,
    born_host=hosts,
    reconsume_times=ints,
    prepared_offset=longs,
)


@st.composite
def records(draw: st.DrawFn) -> tuple[Message, bytes, Record]:
    """A message, its record, and what is decoded of it."""
    message = draw(messages)
    data = encode_record(
        message,
        queue_offset=draw(longs),
        phy_offset=draw(st.integers(0, 2**63 - 1)),
        store_ms=draw(longs),
        store_host=draw(hosts),
    )
    return message, data, decode_record(data)


@st.composite
def nearly_records(draw: st.DrawFn) -> bytes:
    """A record with a few bytes changed, cut or added."""
    _, data, _ = draw(records())
    changed = bytearray(data)
    for at in draw(st.lists(st.integers(0, len(data) - 1), max_size=3)):
        changed[at] = draw(st.integers(0, 255))
    end = draw(st.integers(0, len(data)) | st.just(len(data)))
    return bytes(changed[:end]) + draw(st.binary(max_size=3))


any_bytes = nearly_records() | st.binary(max_size=200)


@given(records())
def test_round_trip(made: tuple[Message, bytes, Record]) -> None:
    """A record holds what the message had, and is encoded to the same bytes again."""
    message, data, record = made
    again = Message(
        record.topic,
        record.queue_id,
        record.body,
        record.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_transaction_offset,
    )

    assert (message.topic, message.body, message.properties) == (
        record.topic,
        record.body,
        record.properties,
    )
    assert record.magic == (MAGIC_V1 if len(message.topic.encode()) < 128 else MAGIC_V2)
    assert data == encode_record(
        again,
        queue_offset=record.queue_offset,
        phy_offset=record.phy_offset,
        store_ms=record.store_ms,
        store_host=record.store_host,
    )


@given(records(), st.binary(max_size=9), st.binary(max_size=9))
def test_views_agree_with_decode(
    made: tuple[Message, bytes, Record], before: bytes, behind: bytes
) -> None:
    """What is looked at in the bytes is what is decoded, also within a segment."""
    _, data, record = made
    spans = record_spans(data)
    segment = before + data + behind
    shifted = tuple(position + len(before) for position in spans)
    result = check_record(segment, len(before), len(segment), record.phy_offset, check_crc=True)

    assert (record.body, record.topic.encode(), record.properties) == (
        record_body(data),
        record_topic(data),
        record_properties(data),
    )
    assert shifted == record_spans(segment, len(before), len(before) + len(data))
    assert (CheckKind.RECORD, len(data)) == (result.kind, result.size)


@given(any_bytes)
def test_any_bytes_are_a_record_or_an_error(data: bytes) -> None:
    """Bytes are decoded, and then are a record again, or they raise one error."""
    try:
        record = decode_record(data)
    except RecordError:
        return
    assert len(data) == record.size
    assert len(data) == head_size(data) + len(record.body) + len(record.topic.encode()) + len(
        record.properties
    ) + (3 if record.magic == MAGIC_V1 else 4)


@given(any_bytes, st.integers(0, 3), st.integers(0, 3))
def test_spans_stay_inside(data: bytes, before: int, behind: int) -> None:
    """The parts of any bytes follow each other inside them, or there are none."""
    start, limit = min(before, len(data)), max(len(data) - behind, 0)
    try:
        body_end, topic_at, topic_end, end = record_spans(data, start, limit)
    except RecordError:
        return
    assert start + head_size(data, start) <= body_end < topic_at <= topic_end < end + 1 <= limit + 1
    assert end - topic_end - 2 <= PROPERTIES_SIZE_MAX
    assert end - start >= FIXED_SIZE_V1


@given(any_bytes, st.integers(0, 9), st.booleans())
def test_the_check_accepts_what_decodes(data: bytes, phy_offset: int, check_crc: bool) -> None:
    """What the check takes for a record has exactly the size, the position and the body it says."""
    result = check_record(data, 0, len(data), phy_offset, check_crc=check_crc)

    assert (result.kind is CheckKind.BAD) == (result.size == 0) == bool(result.reason)
    if result.kind is CheckKind.RECORD:
        whole = data[: result.size]
        assert phy_offset == int.from_bytes(data[28:36], "big")
        assert result.size == record_spans(whole)[3]
        crc = zlib.crc32(record_body(whole)) & 0x7FFFFFFF
        assert not check_crc or crc == int.from_bytes(data[8:12], "big")


@given(st.sampled_from([0x001, 0x101, 0x201, 0x301, 0x701]), st.binary(max_size=60))
def test_any_body_unpacks_or_is_refused(sys_flag: int, body: bytes) -> None:
    """A body is unpacked within its limit, or raises one error."""
    message = Message("T", 0, body, sys_flag=sys_flag)
    data = encode_record(message, queue_offset=0, phy_offset=0, store_ms=0, store_host=bytes(8))
    try:
        unpacked = decompress_body(decode_record(data), size_max=100)
    except RecordError:
        return
    assert len(unpacked) <= 100
    assert sys_flag & SysFlag.COMPRESSED


parts = st.builds(BatchPart, ints, bodies, st.binary(max_size=9))


@given(st.lists(parts, min_size=1, max_size=4))
def test_batch_round_trip(batch: list[BatchPart]) -> None:
    """A batch that was joined is split again."""
    assert batch == split_batch(join_batch(batch))


@given(st.lists(parts, max_size=3), st.data())
def test_any_bytes_are_a_batch_or_an_error(batch: list[BatchPart], data: st.DataObject) -> None:
    """A body is split into parts that fill it, or raises one error."""
    body = bytearray(join_batch(batch) + data.draw(st.binary(max_size=30)))
    for at in data.draw(st.lists(st.integers(0, max(len(body) - 1, 0)), max_size=3)):
        if body:
            body[at] = data.draw(st.integers(0, 255))
    try:
        split = split_batch(bytes(body), count_max=3)
    except BatchError:
        return
    assert 0 < len(split) <= 3
    assert len(body) == sum(22 + len(part.body) + len(part.properties) for part in split)
