"""Tests of what is read of a record in the log."""

from __future__ import annotations

import pytest

from small_store import HOST, message
from timermq.timerstore.log_record import (
    SECTOR_SIZE,
    STORE_MS_END,
    LogRecord,
    is_cut_short,
    is_torn,
    read_log_record,
    store_ms_of,
)
from timermq.timerstore.message import SysFlag
from timermq.timerstore.record import encode_record

PROPERTIES = b"TAGS\x01red\x02" + b"K\x01" + b"v" * 1100 + b"\x02"


def record(body: str = "x", properties: bytes = b"", **fields: object) -> bytes:
    """A record at position 4096."""
    return encode_record(
        message(body, "Topic", 3, properties, **fields),
        queue_offset=7,
        phy_offset=4096,
        store_ms=1234,
        store_host=HOST,
    )


def test_fields() -> None:
    """Everything that queues and index need."""
    assert LogRecord(b"Topic", 3, 7, 0, 1234, b"A\x01b\x02") == read_log_record(
        record(properties=b"A\x01b\x02")
    )


def test_the_store_time_stands_behind_the_born_host() -> None:
    """An IPv6 producer moves it by twelve bytes."""
    data = record(born_host=bytes(20))

    assert store_ms_of(data[:STORE_MS_END]) == 1234


@pytest.mark.parametrize(
    ("flag", "is_queued", "is_rollback"),
    [
        (SysFlag(0), True, False),
        (SysFlag.TRANSACTION_PREPARED, False, False),
        (SysFlag.TRANSACTION_COMMIT, True, False),
        (SysFlag.TRANSACTION_ROLLBACK, False, True),
    ],
)
def test_transactions(flag: SysFlag, is_queued: bool, is_rollback: bool) -> None:
    """Half messages and rollbacks are in no queue, rollbacks not in the index."""
    found = read_log_record(record(sys_flag=int(flag)))

    assert (is_queued, is_rollback) == (found.is_queued, found.is_rollback)


@pytest.mark.parametrize("position", [0, 100, 500])
def test_a_record_that_lacks_a_sector_of_its_properties_is_torn(position: int) -> None:
    """Neither the lengths nor the body's checksum would tell."""
    data = bytearray(record(properties=PROPERTIES))
    start = SECTOR_SIZE * 2 - position

    assert not is_torn(bytes(data), position)

    data[start : start + SECTOR_SIZE] = bytes(len(data[start : start + SECTOR_SIZE]))

    assert is_torn(bytes(data), position)


def test_a_zero_in_a_property_is_no_torn_sector() -> None:
    """A user may have put one there."""
    assert not is_torn(record(properties=PROPERTIES.replace(b"red", b"r\0d")), 0)


def test_a_body_of_zeros_is_not_torn() -> None:
    """A body of zeros does not look torn, for its checksum guards it."""
    assert not is_torn(record("\0" * 2000, b"A\x01b\x02"), 0)


@pytest.mark.parametrize("properties", [b"", PROPERTIES, PROPERTIES[:-1]])
def test_a_record_without_its_last_bytes_is_cut_short(properties: bytes) -> None:
    """As long as lengths and checksum hold, which they do when only text is missing."""
    data = record(properties=properties)
    # Zeros in place of the two bytes of an empty length are no loss.
    text_end = len(data) if properties else len(data) - 2
    for left in range(text_end - len(properties or b"Topic") + 1, text_end):
        assert is_cut_short(data[:left].ljust(len(data), b"\0"), bytes(8))

    assert not is_cut_short(data, bytes(8))
    assert not is_cut_short(data, b"")


def test_a_record_that_others_follow_is_not_cut_short() -> None:
    """A zero that ends it was put there by a producer."""
    data = record(properties=b"A\x01b\0")

    assert is_cut_short(data, b"")
    assert not is_cut_short(data, b"\0\0\0\x5b")
