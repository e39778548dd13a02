"""The table of delay levels."""

from __future__ import annotations

import pytest

from timermq.pipeline.admission.delay_level import DelayLevelError, DelayLevels


def test_default_table() -> None:
    """RocketMQ's 18 levels, from one second to two hours."""
    levels = DelayLevels.parse()

    assert levels.level_max == 18
    assert (
        levels.delay_ms(1),
        levels.delay_ms(5),
        levels.delay_ms(18),
    ) == (1_000, 60_000, 7_200_000)


def test_units() -> None:
    """Seconds, minutes, hours and days."""
    assert DelayLevels.parse("1s 1m 1h 1d").delays_ms == (1_000, 60_000, 3_600_000, 86_400_000)


def test_above_the_top() -> None:
    """A level above the highest counts as the highest."""
    assert DelayLevels.parse("1s 5s").delay_ms(999) == 5_000


@pytest.mark.parametrize("text", ["", "1", "s", "1w", "-1s", "1s,5s", "1s " * 65, "99999999999s"])
def test_refused(text: str) -> None:
    """Anything but words of digits and a unit is an error of the configuration."""
    with pytest.raises(DelayLevelError):
        DelayLevels.parse(text)
