"""Numbers and times as screens and tables write them: short, and never wider than their place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_MOMENT_MAX_MS = 253_370_764_799_999
NOTHING = "–"


def count(number: int) -> str:
    """A whole number in groups of three; from ten million on in millions."""
    if abs(number) >= 10_000_000_000:
        return f"{number / 1e9:,.1f} G"
    return f"{number / 1e6:,.1f} M" if abs(number) >= 10_000_000 else f"{number:,}"


def rate(per_second: float) -> str:
    """A rate by the second; below ten with one decimal."""
    return f"{per_second:.1f}/s" if 0 < per_second < 10 else f"{per_second:,.0f}/s"


def size(size_bytes: int) -> str:
    """Bytes, in the unit that leaves one to four digits."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:,.1f} {unit}"
    return f"{size_bytes} B"


def span(duration_ms: int) -> str:
    """A duration with its two largest units: 3d12h, 5m10s, 2s, 40ms."""
    if duration_ms < 1_000:
        return f"{max(duration_ms, 0)}ms"
    units = (("d", _DAY_MS), ("h", _HOUR_MS), ("m", _MINUTE_MS), ("s", 1_000))
    first = next(at for at, (_, unit_ms) in enumerate(units) if duration_ms >= unit_ms)
    words = ""
    for name, unit_ms in units[first : first + 2]:
        number, duration_ms = divmod(duration_ms, unit_ms)
        words += f"{number}{name}" if number or not words else ""
    return words


def lateness(bound_ms: int | None) -> str:
    """A lateness of which an upper bound is known."""
    return "> 60 s" if bound_ms is None else f"≤ {bound_ms:,} ms"


def cell_time(time_ms: int, width_ms: int, zone: tzinfo | None) -> str:
    """The beginning of a cell, as finely as cells differ."""
    if width_ms < _MINUTE_MS:
        return moment(time_ms, zone, "%H:%M:%S")
    if width_ms < _HOUR_MS:
        return moment(time_ms, zone, "%H:%M")
    return moment(time_ms, zone, "%m-%d" if width_ms >= _DAY_MS else "%m-%d %H:%M")


def slot_time(time_ms: int, now_ms: int, zone: tzinfo | None) -> str:
    """The time of a slot; with its day when that is another than today."""
    is_today = moment(time_ms, zone, "%Y-%m-%d") == moment(now_ms, zone, "%Y-%m-%d")
    return moment(time_ms, zone, "%H:%M:%S" if is_today else "%m-%d %H:%M:%S")


def moment(time_ms: int, zone: tzinfo | None, form: str) -> str:
    """A moment in a form of strftime; a number that is none as it is."""
    if not 0 <= time_ms <= _MOMENT_MAX_MS:
        return str(time_ms)
    return (_EPOCH + timedelta(milliseconds=time_ms)).astimezone(zone).strftime(form)


def clock_time(time_ms: int, zone: tzinfo | None) -> str:
    """A time of day to the millisecond."""
    return f"{moment(time_ms, zone, '%H:%M:%S')}.{time_ms % 1000:03}"


def printable(text: str) -> str:
    """A text from outside; what is no visible character would command the terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)
