"""Moments and durations: what is written is read back, and nothing else breaks the reader."""

from __future__ import annotations

from datetime import timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from timermq.cli.moment import (
    DURATION_MAX_MS,
    MOMENT_MAX_MS,
    MomentError,
    format_duration,
    format_moment,
    parse_duration,
    parse_moment,
)

moments = st.integers(min_value=0, max_value=MOMENT_MAX_MS)
durations = st.integers(min_value=0, max_value=DURATION_MAX_MS)
zones = st.integers(min_value=-14 * 3600, max_value=14 * 3600).map(
    lambda seconds: timezone(timedelta(seconds=seconds))
)
nearly = st.text(alphabet="0123456789-:.TZ+ dhmsin٣", max_size=40)


@given(durations)
def test_duration_round_trip(duration_ms: int) -> None:
    """A duration that was written is read back."""
    assert duration_ms == parse_duration(format_duration(duration_ms))


@given(moments, zones)
def test_moment_round_trip(moment_ms: int, zone: timezone) -> None:
    """A moment that was written in any zone is read back to the millisecond."""
    assert moment_ms == parse_moment(format_moment(moment_ms, zone), now_ms=0)


@given(moments, durations)
def test_relative_moment(now_ms: int, duration_ms: int) -> None:
    """A moment counted from now is the sum, or refused when it lies too far ahead."""
    text = f"in {format_duration(duration_ms)}"
    if now_ms + duration_ms <= MOMENT_MAX_MS:
        assert now_ms + duration_ms == parse_moment(text, now_ms)
        return
    assert not _reads(text, now_ms)


@given(st.text() | nearly)
def test_any_text_is_read_or_refused(text: str) -> None:
    """A text is a moment within the limits, or raises `MomentError` and nothing else."""
    if _reads(text, 0):
        assert 0 <= parse_moment(text, 0) <= MOMENT_MAX_MS


def _reads(text: str, now_ms: int) -> bool:
    try:
        parse_moment(text, now_ms)
    except MomentError:
        return False
    return True
