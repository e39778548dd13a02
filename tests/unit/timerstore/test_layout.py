"""Tests of layouts: where fields stand, and records made of bytes and back."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from timermq.timerstore.layout import Field, Layout

UNIT = Layout(
    "unit",
    ">",
    (
        ("size_py", "i", "size of the message"),
        ("tag", "B", "kind"),
        ("offset_py", "q", "position of the message"),
    ),
)


def test_positions_come_from_the_declaration() -> None:
    """Size, names and positions follow from the order of the fields, without padding."""
    assert UNIT.title == "unit"
    assert UNIT.fields[1] == Field("tag", "B", "kind")
    assert UNIT.names == ("size_py", "tag", "offset_py")
    assert UNIT.size == 13
    assert [UNIT.offset_of(name) for name in UNIT.names] == [0, 4, 5]


def test_a_record_and_its_bytes() -> None:
    """Everything is big-endian; a record can stand anywhere in the data."""
    data = bytes.fromhex("fffffffe 07 0000000000000100")

    assert UNIT.pack(-2, 7, 256) == data
    assert UNIT.unpack(data) == (-2, 7, 256)
    assert UNIT.unpack(memoryview(b"xx" + data), 2) == (-2, 7, 256)


def test_what_does_not_fit_is_refused() -> None:
    """A Java int does not wrap silently, and missing bytes are not zeros."""
    with pytest.raises(struct.error):
        UNIT.pack(1 << 31, 0, 0)
    with pytest.raises(struct.error):
        UNIT.unpack(bytes(12))


def test_numpy_reads_the_same_bytes() -> None:
    """The numpy type has the same fields at the same positions."""
    records = [(-2, 7, 256), (1, 255, -1)]
    data = b"".join(UNIT.pack(*record) for record in records)
    found = np.frombuffer(data, UNIT.dtype)

    assert UNIT.dtype.itemsize == UNIT.size
    assert found.tolist() == records


def test_the_table_of_the_format_page() -> None:
    """One row a field, in the order of the bytes."""
    assert UNIT.table() == [
        "| offset | size | field | meaning |",
        "|---|---|---|---|",
        "| 0 | 4 | size_py | size of the message |",
        "| 4 | 1 | tag | kind |",
        "| 5 | 8 | offset_py | position of the message |",
    ]
