"""Durations as people write them: a row of whole numbers with units, the largest first: `3d12h`."""

from __future__ import annotations

import re

DURATION_MAX_MS = 253_370_764_799_999
"""About 8,000 years; what the broker accepts is far less and its own business."""

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
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
        number_of(digits, text) * unit
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


def number_of(digits: str, text: str) -> int:
    """The number that some digits of a text are.

    Raises:
        MomentError: There are too many of them.
    """
    if len(digits.lstrip("0")) > _DIGITS_MAX:
        raise MomentError(f"{text!r}: {digits[:_DIGITS_MAX]}… is too large a number")
    return int(digits)
