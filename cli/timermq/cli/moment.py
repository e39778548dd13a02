"""Moments and durations as people write them.

A moment is `2026-12-24T18:00:00+01:00` (the offset, or `Z`, is required), epoch milliseconds
(`1798131600000`), `now`, or `in` and a duration. A duration is a row of whole numbers with units,
the largest first: `3d12h`, `90s`, `250ms`. What `format_…` writes, `parse_…` reads back.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

MOMENT_MAX_MS = 253_370_764_799_999
"""The last millisecond of the year 9998: in every zone it can still be written with four digits."""

DURATION_MAX_MS = MOMENT_MAX_MS
"""About 8,000 years; what the broker accepts is far less and its own business."""

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d(?::\d\d)?)?",
    re.ASCII,
)
_DIGITS_MAX = 16
"""Digits of a number: one more than the largest allowed has, so that nothing huge is computed."""


class MomentError(ValueError):
    """The text is not a moment or a duration; the caller writes it differently."""


def parse_duration(text: str) -> int:
    """Milliseconds of `3d12h`, `90s` or `250ms`; units descend and each comes at most once.

    Raises:
        MomentError: the text has another form, or is more than `DURATION_MAX_MS`.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise MomentError(f"duration {text!r}: expected a form like 3d12h, 90s or 250ms")
    total = sum(
        _number(digits, text) * unit
        for digits, unit in zip(match.groups(), UNITS_MS.values(), strict=True)
        if digits is not None
    )
    if total > DURATION_MAX_MS:
        raise MomentError(f"duration {text!r}: expected at most {format_duration(DURATION_MAX_MS)}")
    return total


def format_duration(duration_ms: int) -> str:
    """`302400000` as `3d12h`, zero as `0s`, a negative one with a sign in front."""
    parts: list[str] = []
    left = abs(duration_ms)
    for name, unit in UNITS_MS.items():
        count, left = divmod(left, unit)
        if count:
            parts.append(f"{count}{name}")
    return ("-" if duration_ms < 0 else "") + ("".join(parts) or "0s")


def parse_moment(text: str, now_ms: int) -> int:
    """Epoch milliseconds of a moment; a fraction finer than a millisecond is rounded up.

    Rounding up keeps the promise that nothing is delivered before the moment asked for.

    Args:
        text: see the head of the module.
        now_ms: what `now` and `in …` are counted from, epoch milliseconds.

    Raises:
        MomentError: another form, an impossible date, or outside of 1970 to `MOMENT_MAX_MS`.
    """
    if text.isascii() and text.isdigit():
        moment_ms = _number(text, text)
    elif text == "now":
        moment_ms = now_ms
    elif text.startswith("in "):
        moment_ms = now_ms + parse_duration(text[3:].strip())
    else:
        moment_ms = _parse_written(text)
    if not 0 <= moment_ms <= MOMENT_MAX_MS:
        raise MomentError(f"moment {text!r}: expected a year from 1970 to 9998")
    return moment_ms


def format_moment(moment_ms: int, zone: tzinfo | None = None) -> str:
    """The moment with its offset, in `zone` or else the machine's; milliseconds only if there are.

    A number that is no moment from 1970 to `MOMENT_MAX_MS` (a damaged record may hold any) is
    written as it is.
    """
    if not 0 <= moment_ms <= MOMENT_MAX_MS:
        return str(moment_ms)
    moment = (_EPOCH + timedelta(milliseconds=moment_ms)).astimezone(zone)
    return moment.isoformat(timespec="milliseconds" if moment_ms % 1000 else "seconds")


def _parse_written(text: str) -> int:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise MomentError(
            f"moment {text!r}: expected a form like 2026-12-24T18:00:00+01:00, "
            "epoch milliseconds, now, or in 3d12h"
        )
    date, time, fraction, offset = match.groups()
    if offset is None:
        raise MomentError(f"moment {text!r}: expected an offset at the end, like +01:00 or Z")
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{offset.upper()}")
    except ValueError as error:
        raise MomentError(f"moment {text!r}: {error}") from None
    whole_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    return whole_ms + _fraction_ms(fraction or "")


def _fraction_ms(digits: str) -> int:
    whole, rest = digits[:3].ljust(3, "0"), digits[3:]
    return int(whole) + (1 if rest.strip("0") else 0)


def _number(digits: str, text: str) -> int:
    if len(digits.lstrip("0")) > _DIGITS_MAX:
        raise MomentError(f"{text!r}: {digits[:_DIGITS_MAX]}… is too large a number")
    return int(digits)
