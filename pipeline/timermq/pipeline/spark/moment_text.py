"""Moments as programs and people give them: epoch milliseconds, ISO 8601 with an offset, a date.

A fraction finer than a millisecond is rounded up: nothing before the moment that was asked for is
meant, at either end of a range.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from .errors import SparkJobError

ISO = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:?\d\d)$"
"""ISO 8601 with an offset, as Arrow and Python match it."""
FORM = "epoch milliseconds, or a moment with its offset like 2026-12-24T18:00:00+01:00"
"""The accepted forms, for errors."""

_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MATCHED = re.compile(ISO, re.ASCII)

Moment = int | str | datetime
"""Epoch milliseconds, a text of them or of ISO 8601, or a moment that knows its zone."""


def iso_ms(text: str | None) -> int | None:
    """Epoch milliseconds of ISO 8601 with an offset; None for another form, and for no date."""
    if text is None or _MATCHED.match(text) is None:
        return None
    try:
        return _ms_of(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError):
        return None


def moment_ms(given: Moment, place: str) -> int:
    """Epoch milliseconds of a moment from 1970 on.

    Args:
        given: In any of the forms.
        place: Where, for the error.

    Raises:
        SparkJobError: It is in none of the forms, before 1970, or knows no zone.
    """
    found: int | None = None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise SparkJobError(
                f"{place}: expected a moment that knows its zone, found {given.isoformat()}: "
                "make it with tzinfo=datetime.UTC or another zone"
            )
        found = _ms_of(given)
    elif isinstance(given, int):
        found = given
    elif given.isascii() and given.isdigit():
        found = int(given) if len(given) < 20 else None
    else:
        found = iso_ms(given)
    if found is None or not 0 <= found < 1 << 63:
        raise SparkJobError(f"{place}: expected {FORM}, found {str(given)!r}")
    return found


def option_text(table: str, name: str, value: Moment) -> str:
    """The value of an option as Spark hands it on: a text.

    Raises:
        SparkJobError: It is a moment that knows no zone.
    """
    if isinstance(value, datetime):
        value = moment_ms(value, f"{table}: option {name}")
    return str(value)


def _ms_of(moment: datetime) -> int:
    since = moment - _EPOCH
    micros = since.days * _DAY_US + since.seconds * 1_000_000 + since.microseconds
    return -(-micros // 1000)
