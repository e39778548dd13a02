"""Tests of records whose size or magic is put right, and of those for which that would be wrong."""

from __future__ import annotations

import pytest

from small_store import HOST
from timermq.timerstore.log_holes import repaired_at
from timermq.timerstore.message import Message
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_layout import MAGIC_AT
from timermq.timerstore.record_spans import record_spans

START = 4096
SIZE = 1024
SECTOR_SIZE = 512
PROPERTIES = b"KEYS\x01K1\x02UNIQ_KEY\x01M000001\x02"


def record(at: int, body_size: int = 20, properties: bytes = PROPERTIES) -> bytes:
    """A record for a place in the segment."""
    return encode_record(
        Message("A", 0, b"x" * body_size, properties),
        queue_offset=0,
        phy_offset=START + at,
        store_ms=5,
        store_host=HOST,
    )


def segment(*records: bytes) -> bytearray:
    """The records one behind the other, and nothing behind them."""
    return bytearray(b"".join(records).ljust(SIZE, b"\0"))


def repaired(data: bytearray, at: int = 0) -> bytes | None:
    """What is found at a place of the segment."""
    return repaired_at(bytes(data), at, SIZE, START)


def length_at(data: bytes) -> int:
    """Where a record says how long its properties are: two bytes."""
    return record_spans(data)[2]


@pytest.mark.parametrize("flip", [1, 64, 128])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_false_size_is_put_right(flip: int, *, is_last: bool) -> None:
    """The lengths tell it: behind them stands a good record, or nothing was written."""
    first = record(0)
    data = segment(first) if is_last else segment(first, record(len(first)))
    data[MAGIC_AT - 1] ^= flip

    assert repaired(data) == first


def test_a_length_that_was_not_written_is_no_false_size() -> None:
    """A power cut took the sector that begins between the two bytes of the properties' length."""
    body_size = SECTOR_SIZE - 1 - length_at(record(0, 0))
    first = record(0, body_size)
    assert length_at(first) == SECTOR_SIZE - 1
    data = segment(first, record(len(first), 200))
    data[SECTOR_SIZE:] = bytes(SIZE - SECTOR_SIZE)

    assert repaired(data) is None


@pytest.mark.parametrize("is_last", [False, True])
def test_a_damaged_length_of_the_properties_is_no_false_size(*, is_last: bool) -> None:
    """Put right by it, the record would lose a part of them."""
    first = record(0)
    data = segment(first) if is_last else segment(first, record(len(first)))
    data[length_at(first) + 1] ^= 8

    assert repaired(data) is None
