"""Values in SQL92 filters and how RocketMQ compares them: as Java does, type by type.

Properties are texts. Compared with a literal they become what the literal is: an ``Integer`` where
it fits 32 bits, a ``Long`` otherwise or a ``Double``. So ``a > 5`` is no match for a property
``5000000000``, and ``a > 5000000000`` is none for ``7.5``: the text is no number of that kind.

Source: Java ``ComparisonExpression.__compare``.
"""

from __future__ import annotations

import math
import re
import struct

Value = str | bool | int | float | None
"""The value of an operand or condition; None is NULL."""

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_WHOLE = re.compile(r"[+-]?\d{1,400}")
_DECIMAL = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_SIGN = struct.Struct(">d")
_BLANKS = "".join(map(chr, range(0x21)))
"""Characters that Java's ``trim`` removes."""


class Long(int):
    """A whole number that does not fit 32 bits: texts that it is compared with have 64."""


class ConversionError(ValueError):
    """A text is not what it is compared with: the message does not match."""


def whole(number: int) -> int:
    """A whole literal or its negation, of the width that Java gives it.

    Raises:
        ValueError: It does not fit 64 bits.
    """
    if number not in _INT64:
        raise ValueError(f"expected a 64-bit number, found {number}")
    return number if number in _INT32 else Long(number)


def compare(left: Value, right: Value) -> int:
    """Below 0, 0 or above 0, as Java compares two values that are not NULL.

    Raises:
        ConversionError: They cannot be compared.
    """
    one, other = type(left), type(right)
    if one is other:
        return _ordered(left, right)
    if isinstance(left, str):
        return _ordered(_converted(left, right), right)
    if isinstance(right, str):
        # Java casts the wrong side of TRUE = 'text', and fails.
        if isinstance(left, bool):
            raise ConversionError("a truth value on the left of a text")
        return _ordered(left, _converted(right, left))
    if isinstance(left, bool) or isinstance(right, bool):
        return -1
    return _ordered(left, right)


def as_double(text: str) -> float:
    """The number that a text says, as Java reads a ``Double``; hexadecimal ones are not read.

    Raises:
        ConversionError: It says none.
    """
    trimmed = text.strip(_BLANKS)
    if _DECIMAL.fullmatch(trimmed) is None:
        raise ConversionError("no number")
    return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)


def _converted(text: str, like: Value) -> Value:
    """The text as a value of the type of ``like``, which is none."""
    if isinstance(like, bool):
        return text.lower() == "true"
    if isinstance(like, float):
        return as_double(text)
    number = int(text) if _WHOLE.fullmatch(text) is not None else None
    if number is None or number not in (_INT64 if isinstance(like, Long) else _INT32):
        raise ConversionError("no whole number of this width")
    return number


def _ordered(left: Value, right: Value) -> int:
    """Compare two texts, of which only equality counts, two truth values or two numbers."""
    if isinstance(left, str | None) or isinstance(right, str | None):
        return 0 if left == right else -1
    if isinstance(left, float) or isinstance(right, float):
        return _doubles(float(left), float(right))
    return (left > right) - (left < right)


def _doubles(left: float, right: float) -> int:
    """Java's ``Double.compare``: NaN is equal to itself and above all, -0.0 is below 0.0."""
    if left == right or math.isnan(left) or math.isnan(right):
        one, other = _place(left), _place(right)
        return (one > other) - (one < other)
    return -1 if left < right else 1


def _place(number: float) -> tuple[bool, float, bool]:
    if math.isnan(number):
        return (True, 0.0, True)
    return (False, number, _SIGN.pack(number)[0] < 0x80)
