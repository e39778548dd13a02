"""A flipped bit, found by the CRC of what was."""

from __future__ import annotations

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from timermq.timerstore.flipped_bit import SIZE_MAX, flipped_bit, repaired


@given(st.binary(min_size=1, max_size=300), st.data())
def test_every_bit_is_found(data: bytes, draw: st.DataObject) -> None:
    """By its byte and its number in it, and turned back."""
    offset = draw.draw(st.integers(0, len(data) - 1))
    bit = draw.draw(st.integers(0, 7))
    damaged = repaired(data, offset, bit)

    assert flipped_bit(damaged, crc32(data)) == (offset, bit)
    assert repaired(damaged, offset, bit) == data


def test_what_is_no_single_bit() -> None:
    """Nothing changed, two bits, another length, more than is searched."""
    data = bytes(range(64))
    two = repaired(repaired(data, 3, 1), 40, 7)

    assert flipped_bit(data, crc32(data)) is None
    assert flipped_bit(two, crc32(data)) is None
    assert flipped_bit(data[:-1], crc32(data)) is None
    assert flipped_bit(bytes(SIZE_MAX + 1), 1) is None
