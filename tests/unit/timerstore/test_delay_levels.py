"""Tests of the classic delay levels."""

from __future__ import annotations

import re

import pytest

from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.delay_levels import (
    DelayLevelError,
    level_deliver_ms,
    parse_delay_levels,
)
from timermq.timerstore.store_options import DEFAULT_DELAY_LEVELS, StoreOptions


def test_each_unit_has_its_length() -> None:
    """Seconds, minutes, hours and days."""
    assert parse_delay_levels("1s 2m 3h 4d") == (1000, 120_000, 10_800_000, 345_600_000)


def test_the_default_table_has_18_levels() -> None:
    """From a second to two hours."""
    levels = parse_delay_levels(DEFAULT_DELAY_LEVELS)

    assert (18, 1000, 7_200_000) == (len(levels), levels[0], levels[-1])


@pytest.mark.parametrize("item", ["1", "s", "1x", "-1s", "1.5s", "²s", "99999999999s"])
def test_what_is_no_delay_is_refused(item: str) -> None:
    """An item is a whole number and a unit."""
    expected = f"delay level {item!r}: expected a whole number and one of s, m, h, d"

    with pytest.raises(ValueError, match=re.escape(expected)):
        parse_delay_levels(f"1s {item}")


@pytest.mark.parametrize(("text", "found"), [("", 0), ("1s " * 65, 65)])
def test_a_table_has_1_to_64_levels(text: str, found: int) -> None:
    """The store and the timers refuse the same texts, so that no setting fails half way."""
    expected = f"^delay levels: expected 1 to 64 items, found {found}$"

    with pytest.raises(DelayLevelError, match=expected):
        StoreOptions(message_delay_level=text)
    with pytest.raises(DelayLevelError, match=expected):
        TimerOptions(message_delay_level=text)


@pytest.mark.parametrize(("level", "deliver_ms"), [(1, 1100), (2, 2100), (3, 2100), (999, 2100)])
def test_a_level_above_the_highest_counts_as_the_highest(level: int, deliver_ms: int) -> None:
    """Deliver time is store time and the level's delay."""
    assert deliver_ms == level_deliver_ms((1000, 2000), level, 100)


def test_without_a_table_a_level_is_a_second() -> None:
    """RocketMQ's delay of unknown levels."""
    assert level_deliver_ms((), 5, 0) == 1000
