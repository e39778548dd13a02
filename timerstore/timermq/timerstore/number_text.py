"""Numbers that are written as decimal digits: in properties, names and headers."""

from __future__ import annotations

NUMBER_DIGITS_MAX = 18
"""Digits of a number that is read: any of so many fits 64 bits."""


def number_in(text: bytes | None) -> int | None:
    """The number that a text is; None of one that is no number, and of none.

    Args:
        text: A number is 1 to ``NUMBER_DIGITS_MAX`` ASCII digits, leading zeros among them.
    """
    return int(text) if text and len(text) <= NUMBER_DIGITS_MAX and text.isdigit() else None
