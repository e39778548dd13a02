"""Tests of numbers that are written as digits."""

from __future__ import annotations

import pytest

from timermq.timerstore.number_text import NUMBER_DIGITS_MAX, number_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0", 0),
        (b"007", 7),
        (b"9" * NUMBER_DIGITS_MAX, 10**NUMBER_DIGITS_MAX - 1),
        (b"0" * NUMBER_DIGITS_MAX, 0),
        (b"0" * NUMBER_DIGITS_MAX + b"1", None),
        (b"", None),
        (b"-1", None),
        (b"+1", None),
        (b" 1", None),
        (b"1_0", None),
        ("\u0661".encode(), None),
        (None, None),
    ],
)
def test_a_number_is_digits_alone(text: bytes | None, expected: int | None) -> None:
    """Digits, and not too many of them; what is anything else is no number."""
    assert expected == number_in(text)


def test_any_number_fits_64_bits() -> None:
    """One digit more need not: what is read can be stored."""
    assert 10**NUMBER_DIGITS_MAX <= 2**63 < 10 ** (NUMBER_DIGITS_MAX + 1)
