"""Tests of batch bodies: joining parts, splitting them, and bodies that are broken."""

from __future__ import annotations

import pytest

from timermq.timerstore.batch import PART, BatchError, BatchPart, join_batch, split_batch
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX

PARTS = [
    BatchPart(0, b"hello", b"TAGS\x01TagA\x02"),
    BatchPart(-7, b"", b""),
    BatchPart(1, b"x", b"A\x01b\x02"),
]
HELLO = bytes.fromhex("00000021 00000000 00000000 00000000 00000005") + (
    b"hello" + bytes.fromhex("0006") + b"K\x01abc\x02"
)


def part_bytes(size: int, body_size: int, rest: bytes) -> bytes:
    """A part with lengths of one's choice."""
    return PART.pack(size, 0, 0, 0, body_size) + rest


def test_a_part_byte_for_byte() -> None:
    """A part is sizes, zeros, flag, body and properties."""
    parts = [BatchPart(0, b"hello", b"K\x01abc\x02")]

    assert HELLO == join_batch(parts)
    assert parts == split_batch(HELLO)


def test_round_trip() -> None:
    """Parts that were joined are split again."""
    assert PARTS == split_batch(join_batch(PARTS))


def test_magic_and_checksum_do_not_matter() -> None:
    """Whatever a client writes into magic and CRC, the part is taken."""
    odd = bytearray(HELLO)
    odd[4:12] = b"\xff" * 8

    assert split_batch(HELLO) == split_batch(bytes(odd))


@pytest.mark.parametrize(
    ("body", "rule", "text"),
    [
        (b"", "PART_COUNT", "batch: expected at least one part, found an empty body"),
        (b"abc", "PART_SIZE", "batch: part 0 at 0: size: expected 22 to 3, found 6382179"),
        (
            HELLO + bytes(21),
            "PART_SIZE",
            "batch: part 1 at 33: size: expected 22 to 21, found 0",
        ),
        (
            part_bytes(23, 0, bytes(2)),
            "PART_SIZE",
            "batch: part 0 at 0: size: expected 22 to 22, found 23",
        ),
        (
            part_bytes(-1, 0, bytes(2)),
            "PART_SIZE",
            "batch: part 0 at 0: size: expected 22 to 22, found -1",
        ),
        (
            part_bytes(24, 3, bytes(4)),
            "PART_BODY",
            "batch: part 0 at 0: body: expected at most 2 bytes, found 3",
        ),
        (
            part_bytes(22, -1, bytes(2)),
            "PART_BODY",
            "batch: part 0 at 0: body: expected at most 0 bytes, found -1",
        ),
        (
            part_bytes(24, 0, b"\x00\x01A\x01"),
            "PART_PROPERTIES",
            "batch: part 0 at 0: properties: expected 2 bytes, found 1",
        ),
        (
            part_bytes(22 + 0x8000, 0, b"\x80\x00" + bytes(0x8000)),
            "PART_PROPERTIES",
            "batch: part 0 at 0: properties: expected 32767 bytes, found 32768",
        ),
    ],
)
def test_broken_bodies(body: bytes, rule: str, text: str) -> None:
    """A length that does not fit is refused, with the part and the rule."""
    with pytest.raises(BatchError) as caught:
        split_batch(body)

    assert rule == caught.value.rule
    assert text == str(caught.value)


def test_too_many_parts() -> None:
    """The number of parts is limited by the caller."""
    body = join_batch(PARTS)

    assert len(split_batch(body, count_max=3)) == 3
    with pytest.raises(BatchError, match=r"^batch: expected at most 2 parts$"):
        split_batch(body, count_max=2)


def test_properties_that_are_too_long_are_not_joined() -> None:
    """The length of properties is a signed 16-bit number."""
    with pytest.raises(BatchError, match="part 0: properties: expected 32767 bytes, found 32768"):
        join_batch([BatchPart(0, b"", bytes(PROPERTIES_SIZE_MAX + 1))])
