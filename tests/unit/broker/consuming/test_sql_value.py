"""Tests of values in SQL92 filters: how Java compares texts, numbers and truth values."""

import math

import pytest

from timermq.broker.consuming.sql_value import (
    ConversionError,
    Long,
    Value,
    as_double,
    compare,
    whole,
)


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("5", 5, 0),
        ("+05", 5, 0),
        ("-7", 5, -1),
        ("5000000000", Long(5_000_000_000), 0),
        ("5.0", 5.0, 0),
        (" 5e0 ", 5.0, 0),
        ("5d", 5.0, 0),
        (5, "4", 1),
        (5, 5.5, -1),
        (Long(2**31), 5, 1),
        (2.0**31, Long(2**31), 0),
        ("true", True, 0),
        ("TRUE", True, 0),
        ("yes", True, -1),
        (True, 1, -1),
        (1, True, -1),
        (False, True, -1),
        ("a", "a", 0),
        ("a", "b", -1),
        (math.nan, math.nan, 0),
        (math.nan, math.inf, 1),
        (-0.0, 0.0, -1),
    ],
)
def test_comparing(left: Value, right: Value, order: int) -> None:
    """A text becomes what it is compared with; numbers of two kinds become the wider one."""
    assert compare(left, right) == order


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("5.0", 5),
        ("5000000000", 5),
        ("9223372036854775808", Long(5_000_000_000)),
        (" 5", 5),
        ("5_0", 5),
        ("", 5),
        ("x", 5.0),
        ("nan", 5.0),
        ("0x1p3", 5.0),
        (5, "x"),
        (True, "true"),
    ],
)
def test_what_cannot_be_compared(left: Value, right: Value) -> None:
    """A text that is no number of this width is none, and Java fails at TRUE = 'true'."""
    with pytest.raises(ConversionError):
        compare(left, right)


def test_literals() -> None:
    """A whole literal has 32 bits where it fits them, 64 otherwise, and not more."""
    assert type(whole(2**31 - 1)) is int
    assert type(whole(2**31)) is Long
    with pytest.raises(ValueError, match="expected a 64-bit number, found 9223372036854775808"):
        whole(2**63)


def test_doubles_beyond_their_range() -> None:
    """They are infinite, as in Java."""
    assert as_double("1e400") == math.inf
    assert as_double("-Infinity") == -math.inf
    assert math.isnan(as_double("NaN"))
