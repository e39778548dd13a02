"""Moments and durations: the forms that are read, and what is said about the others."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from timermq.cli.moment import (
    DURATION_MAX_MS,
    MOMENT_MAX_MS,
    MomentError,
    format_duration,
    format_moment,
    parse_duration,
    parse_moment,
)

NOW_MS = 1_700_000_000_123
CHRISTMAS_MS = 1_798_131_600_000


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("3d12h", 302_400_000),
        ("90s", 90_000),
        ("250ms", 250),
        ("1m", 60_000),
        ("1m1ms", 60_001),
        ("1d2h3m4s5ms", 93_784_005),
        ("0s", 0),
        ("007s", 7_000),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    """A duration is a row of whole numbers with descending units."""
    assert duration_ms == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "90", "s", "1.5h", "-1s", "1s1m", "1s1s", "1 s", "1w", "in 1s", "1S", "٣s"]
)
def test_other_durations_are_refused(text: str) -> None:
    """The message shows what was found and the forms that are expected."""
    with pytest.raises(MomentError) as refused:
        parse_duration(text)

    assert f"duration {text!r}: expected a form like 3d12h, 90s or 250ms" == str(refused.value)


def test_longest_duration() -> None:
    """A duration has an upper limit, and a huge number is refused before it is computed."""
    with pytest.raises(MomentError) as too_long:
        parse_duration("2932532d")
    with pytest.raises(MomentError) as huge:
        parse_duration("9" * 4000 + "ms")

    assert DURATION_MAX_MS == parse_duration("2932531d23h59m59s999ms")
    assert "duration '2932532d': expected at most 2932531d23h59m59s999ms" == str(too_long.value)
    assert "…" in str(huge.value)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0s"),
        (302_400_000, "3d12h"),
        (90_000, "1m30s"),
        (250, "250ms"),
        (-1_001, "-1s1ms"),
    ],
)
def test_durations_are_written_with_the_largest_units(duration_ms: int, text: str) -> None:
    """Zero is written in seconds, and lateness may be negative."""
    assert text == format_duration(duration_ms)


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("2026-12-24T18:00:00+01:00", CHRISTMAS_MS),
        ("2026-12-24T17:00:00Z", CHRISTMAS_MS),
        ("2026-12-24 17:00z", CHRISTMAS_MS),
        ("2026-12-24T17:00:00.25Z", CHRISTMAS_MS + 250),
        ("2026-12-24T17:00:00.250Z", CHRISTMAS_MS + 250),
        (str(CHRISTMAS_MS), CHRISTMAS_MS),
        ("now", NOW_MS),
        ("in 3d12h", NOW_MS + 302_400_000),
        ("in  250ms ", NOW_MS + 250),
        ("0", 0),
    ],
)
def test_moments(text: str, moment_ms: int) -> None:
    """A moment is written out with its offset, in milliseconds, or counted from now."""
    assert moment_ms == parse_moment(text, NOW_MS)


def test_fraction_finer_than_a_millisecond_is_rounded_up() -> None:
    """Nothing may come before the moment asked for, so the next whole millisecond counts."""
    assert CHRISTMAS_MS + 1 == parse_moment("2026-12-24T17:00:00.0000001Z", NOW_MS)
    assert CHRISTMAS_MS + 1000 == parse_moment("2026-12-24T17:00:00.9991Z", NOW_MS)
    assert CHRISTMAS_MS == parse_moment("2026-12-24T17:00:00.000000000Z", NOW_MS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tomorrow",
            "moment 'tomorrow': expected a form like 2026-12-24T18:00:00+01:00, "
            "epoch milliseconds, now, or in 3d12h",
        ),
        (
            "2026-12-24T18:00:00",
            "moment '2026-12-24T18:00:00': expected an offset at the end, like +01:00 or Z",
        ),
        ("2026-13-24T18:00Z", "moment '2026-13-24T18:00Z': month must be in 1..12"),
        ("in 5", "duration '5': expected a form like 3d12h, 90s or 250ms"),
        (
            "1969-12-31T23:59:59Z",
            "moment '1969-12-31T23:59:59Z': expected a year from 1970 to 9998",
        ),
        ("253370764800000", "moment '253370764800000': expected a year from 1970 to 9998"),
    ],
)
def test_other_moments_are_refused(text: str, message: str) -> None:
    """The message says what is wrong with the moment."""
    with pytest.raises(MomentError) as refused:
        parse_moment(text, NOW_MS)

    assert message == str(refused.value)


def test_moments_are_written_with_their_offset() -> None:
    """Milliseconds are shown only where there are some."""
    zone = timezone(timedelta(hours=1))

    assert "2026-12-24T18:00:00+01:00" == format_moment(CHRISTMAS_MS, zone)
    assert "2026-12-24T17:00:00.007+00:00" == format_moment(CHRISTMAS_MS + 7, UTC)


@pytest.mark.parametrize("moment_ms", [-1, MOMENT_MAX_MS + 1, 2**63 - 1, -(2**63)])
def test_a_number_that_is_no_moment_is_written_as_it_is(moment_ms: int) -> None:
    """A damaged record may hold any number, and a table still shows it."""
    assert str(moment_ms) == format_moment(moment_ms, UTC)
