"""Tests of the check that recovery makes."""

from __future__ import annotations

import mmap
import zlib

import pytest

from golden_vectors import RECORD_V1
from timermq.timerstore import record_check
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import blank_record, encode_record
from timermq.timerstore.record_check import CheckKind, CheckResult, check_record

SIZE = len(RECORD_V1)
JELLO_CRC = zlib.crc32(b"jello") & 0x7FFFFFFF


def changed(at: int, value: bytes) -> bytes:
    """The golden record with other bytes at a position."""
    return RECORD_V1[:at] + value + RECORD_V1[at + len(value) :]


def check(data: bytes, *, at: int = 0, phy_offset: int = 0, check_crc: bool = True) -> CheckResult:
    """Look at what stands in a segment."""
    return check_record(data, at, len(data), phy_offset, check_crc=check_crc)


def test_a_record() -> None:
    """A good record is one, with its size."""
    assert CheckResult(CheckKind.RECORD, SIZE) == check(RECORD_V1 + bytes(20))


def test_a_record_in_a_mapped_segment() -> None:
    """Segments are read through their maps."""
    with mmap.mmap(-1, 4096) as view:
        view[100 : 100 + SIZE] = changed(28, (1100).to_bytes(8, "big"))
        result = check_record(view, 100, 4096, 1100, check_crc=True)

    assert CheckResult(CheckKind.RECORD, SIZE) == result


def test_a_record_with_ipv6_hosts() -> None:
    """The body of a record with longer hosts is compared where it stands."""
    host = pack_host("::1", 1)
    data = encode_record(
        Message("T", 0, b"hello", born_host=host),
        queue_offset=0,
        phy_offset=0,
        store_ms=0,
        store_host=host,
    )

    assert check(data).kind is CheckKind.RECORD


def test_a_large_body_is_compared_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checksum of a body that takes several steps is that of the whole."""
    monkeypatch.setattr(record_check, "CRC_STEP_SIZE", 2)

    assert check(RECORD_V1).kind is CheckKind.RECORD


def test_a_blank_ends_the_segment() -> None:
    """A blank covers the rest of its segment."""
    data = bytes(10) + blank_record(90) + b"\xff" * 82

    assert CheckResult(CheckKind.BLANK, 90) == check(data, at=10)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "expected 8 bytes or more, found 0"),
        (RECORD_V1[:7], "expected 8 bytes or more, found 7"),
        (bytes(200), "magic: expected -626843481, -626843477 or -875286124, found 0"),
        (RECORD_V1[:-1], "size: expected 91 to 106, found 107"),
        (changed(0, b"\0\0\0\x5a"), "size: expected 91 to 107, found 90"),
        (changed(0, b"\xff\xff\xff\xff"), "size: expected 91 to 107, found -1"),
        (changed(35, b"\x01"), "position: expected 0, found 1"),
        (changed(39, b"\x10"), "body: expected at most 7 bytes, found 173293895"),
        (changed(96, b"\x09"), "size: expected 106 by the lengths inside, found 107"),
        (
            changed(88, b"j"),
            f"body checksum: expected {JELLO_CRC}, found 907060870",
        ),
        (blank_record(9) + bytes(2), "blank: size: expected 10, found 9"),
        (blank_record(-1) + bytes(2), "blank: size: expected 10, found -1"),
    ],
)
def test_what_is_no_record(data: bytes, reason: str) -> None:
    """Everything else is bad, and the reason names the field."""
    assert CheckResult(CheckKind.BAD, 0, reason) == check(data)


def test_stale_records_are_no_records() -> None:
    """A whole record that a truncation left behind stands at another position than it states."""
    assert check(RECORD_V1, phy_offset=4096).reason == "position: expected 4096, found 0"


def test_the_checksum_is_compared_on_demand() -> None:
    """Dispatch does not look at bodies."""
    assert check(changed(88, b"j"), check_crc=False).kind is CheckKind.RECORD


def test_nothing_behind_the_limit_is_read() -> None:
    """A record that reaches beyond what may be read is bad."""
    result = check_record(RECORD_V1, 0, SIZE - 1, 0, check_crc=True)

    assert CheckResult(CheckKind.BAD, 0, "size: expected 91 to 106, found 107") == result
