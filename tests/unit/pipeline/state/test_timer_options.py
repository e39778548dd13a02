"""Settings of the timer service: their bounds, and what follows from them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from timermq.pipeline.state.timer_options import (
    PRECISIONS_MS,
    ROLL_WINDOW_MARGIN,
    SLOTS_TOTAL,
    TimerOptions,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timer_precision_ms", 50),
        ("timer_precision_ms", 2_000),
        ("timer_roll_window_slot", 2),
        ("timer_max_delay_sec", 0),
        ("timer_max_delay_sec", 10 * 365 * 86_400 + 1),
        ("timer_flush_interval_ms", 0),
        ("timer_congest_num_each_slot", 0),
        ("timer_congest_num_each_slot", 2**31),
        ("mapped_file_size_timer_log", 119),
        ("mapped_file_size_timer_log", 2**31),
        ("message_delay_level", "1x"),
        ("slots_total", 0),
        ("read_ahead_ms", -1),
        ("clock_check_interval_ms", 0),
        ("clock_step_max_ms", 999),
        ("clock_doubt_ms", -1),
        ("enqueue_linger_ms", 51),
        ("deliver_batch_count_max", 0),
        ("slot_units_max", 0),
        ("open_slots_max", 0),
        ("retry_interval_ms", 0),
    ],
)
def test_values_outside_their_range_are_refused(
    name: str,
    value: Any,  # noqa: ANN401 - passed on
) -> None:
    """Before a store is opened with them."""
    with pytest.raises(ValueError, match=r"expected|must be|level"):
        TimerOptions(**{name: value})


@pytest.mark.parametrize("precision_ms", PRECISIONS_MS)
def test_the_roll_window_is_counted_in_slots(precision_ms: int) -> None:
    """So it is as many milliseconds as the slots are wide."""
    options = TimerOptions(timer_precision_ms=precision_ms, timer_roll_window_slot=7)

    assert options.roll_window_ms == 7 * precision_ms


def test_the_roll_window_stays_within_the_reach_of_the_wheel() -> None:
    """A tiny wheel, as tests have it, has no margin to keep."""
    reach = SLOTS_TOTAL - ROLL_WINDOW_MARGIN
    assert TimerOptions(timer_roll_window_slot=reach + 1).roll_window_ms == reach * 1_000
    assert TimerOptions(timer_roll_window_slot=reach).roll_window_ms == reach * 1_000
    for slots, window in ((ROLL_WINDOW_MARGIN + 2, 2), (ROLL_WINDOW_MARGIN + 1, 9)):
        options = TimerOptions(timer_roll_window_slot=9, slots_total=slots)
        assert options.roll_window_ms == window * 1_000


def test_only_live_settings_may_change() -> None:
    """The width of a slot is in the files; a limit is read each time."""
    options = TimerOptions()
    options.timer_max_delay_sec = 7
    assert options.timer_max_delay_sec == 7
    with pytest.raises(attrs.exceptions.FrozenAttributeError):
        options.timer_precision_ms = 100
    with pytest.raises(ValueError, match="timer_max_delay_sec"):
        options.timer_max_delay_sec = 0
