"""Blocks of bulk scheduling: columns in both directions, and what is refused."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.remoting.bulk_block import (
    ROWS_MAX,
    BulkBlock,
    BulkBlockError,
    BulkColumn,
    block_head,
)

BLOCK_BYTES = bytes.fromhex(
    "544d5142 01 01 0100 02000000 b6228328 54"
    "14e2d8fba1010000 0000000000000000 ffffffff 03000000 02000000 00000000"
    "0400 4b455953 01000000 00000000 6869 6b"
)
"""A row for a moment with a key, and one for now, in queue 3, without body or key."""


def block() -> BulkBlock:
    """A block with the same rows as columns."""
    return BulkBlock.of(
        "T",
        BulkColumn.of([b"hi", b""]),
        deliver_ms=np.array([1_795_226_657_300, 0]),
        queue_ids=np.array([-1, 3], np.int32),
        properties={"KEYS": BulkColumn.of([b"k", b""])},
    )


def rows_of(one: BulkBlock) -> list[tuple[object, ...]]:
    """Moment, queue, body and properties of each row."""
    columns = [values.each() for values in one.properties.values()]
    return list(
        zip(
            one.deliver_ms.tolist(),
            one.queue_ids.tolist(),
            one.bodies.each(),
            *columns,
            strict=True,
        )
    )


def test_block_in_both_directions() -> None:
    """A block is its columns, and every byte of it has its place."""
    assert block().encode() == BLOCK_BYTES
    found = BulkBlock.decode(BLOCK_BYTES)
    assert found.topic == "T"
    assert list(found.properties) == ["KEYS"]
    assert rows_of(found) == [(1_795_226_657_300, -1, b"hi", b"k"), (0, 3, b"", b"")]


_NAMES = st.text(
    st.characters(min_codepoint=33, exclude_categories=["C"], max_codepoint=0x2FF),
    min_size=1,
    max_size=4,
).filter(lambda name: name != "UNIQ_KEY")


@st.composite
def blocks(draw: st.DrawFn) -> BulkBlock:
    """Small blocks, whatever is in them."""
    rows = draw(st.integers(1, 6))
    values = st.lists(st.binary(max_size=5), min_size=rows, max_size=rows).map(BulkColumn.of)
    moments = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rows, max_size=rows)
    queues = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=rows, max_size=rows)
    return BulkBlock.of(
        draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)),
        draw(values),
        deliver_ms=np.array(draw(moments), np.int64),
        queue_ids=np.array(draw(queues), np.int32),
        properties=draw(st.dictionaries(_NAMES, values, max_size=3)),
    )


@given(blocks())
def test_every_block_comes_back(one: BulkBlock) -> None:
    """What is encoded is decoded to the same columns."""
    found = BulkBlock.decode(one.encode())

    assert (found.topic, list(found.properties)) == (one.topic, list(one.properties))
    assert rows_of(found) == rows_of(one)


@given(blocks(), st.integers(60, 200))
def test_a_block_falls_into_parts_of_bounded_size(one: BulkBlock, size_max: int) -> None:
    """The parts have the rows of the whole, in order; each is small, or has one row."""
    parts = list(one.parts(size_max=size_max))

    assert [row for part in parts for row in rows_of(part)] == rows_of(one)
    assert all(len(part.encode()) <= size_max or len(part) == 1 for part in parts)


def test_parts_have_no_more_rows_than_a_block() -> None:
    """However small the rows are."""
    many = BulkBlock.of("T", BulkColumn(b"", np.zeros(ROWS_MAX + 1, np.uint32)))

    assert [len(part) for part in many.parts()] == [ROWS_MAX, 1]


@given(st.binary(max_size=80))
def test_random_bytes_are_refused(data: bytes) -> None:
    """With the one error, whatever they are."""
    with pytest.raises(BulkBlockError, match=r"^BULK_BLOCK: "):
        BulkBlock.decode(data)


@given(blocks(), st.data())
def test_a_changed_byte_is_refused(one: BulkBlock, data: st.DataObject) -> None:
    """Wherever it is, and also in the head alone."""
    whole = bytearray(one.encode())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(BulkBlockError):
        BulkBlock.decode(bytes(whole))
    with pytest.raises(BulkBlockError):
        block_head(bytes(whole))


@given(blocks(), st.data())
def test_lengths_that_lie_are_refused(one: BulkBlock, data: st.DataObject) -> None:
    """Also when the CRC fits: no length leads out of the block."""
    whole = bytearray(one.encode())
    at = data.draw(st.integers(5, len(whole) - 1).filter(lambda at: not 12 <= at < 16))
    whole[at] ^= data.draw(st.integers(1, 255))
    forged = with_crc(bytes(whole))

    try:
        found = BulkBlock.decode(forged)
    except BulkBlockError:
        return
    assert found.encode() == forged


def with_crc(data: bytes) -> bytes:
    """The bytes with the CRC that fits."""
    crc = crc32(data[16:], crc32(data[:12]))
    return data[:12] + crc.to_bytes(4, "little") + data[16:]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"topic": ""}, "bytes of the topic: expected 1 to 255, found 0"),
        ({"queue_ids": np.zeros(1, np.int32)}, "queue id: expected 2 rows, found 1"),
        ({"deliver_ms": np.zeros(0, np.int64)}, "rows: expected 1 to 65536, found 0"),
        (
            {"bodies": BulkColumn(b"abc", np.array([1, 1], np.uint32))},
            "bodies: expected 2 bytes, found 3",
        ),
        ({"name": "UNIQ_KEY"}, "property UNIQ_KEY: no row brings it"),
        ({"name": "TRAN_MSG"}, "property TRAN_MSG: no row brings it"),
        ({"name": "a\x01"}, "property 'a\\\\x01': expected a name of 1 to 255 bytes"),
        ({"name": ""}, "property '': expected a name of 1 to 255 bytes"),
    ],
)
def test_columns_that_make_no_block(change: dict[str, object], text: str) -> None:
    """The error names the field, what was expected and what was found."""
    fields: dict[str, object] = {
        "topic": "T",
        "deliver_ms": np.zeros(2, np.int64),
        "queue_ids": np.zeros(2, np.int32),
        "bodies": BulkColumn.of([b"", b""]),
        "properties": {change.pop("name", "KEYS"): BulkColumn.of([b"", b"x"])},
        **change,
    }
    with pytest.raises(BulkBlockError, match=text):
        BulkBlock(**fields).encode()  # type: ignore[arg-type]  # fields of many types
