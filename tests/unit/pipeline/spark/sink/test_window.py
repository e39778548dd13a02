"""How wide the window of near messages may be."""

from __future__ import annotations

import attrs
import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.sink.window import check_window
from unit.pipeline.spark.sink.rows import DAY_MS, LIMITS


@pytest.mark.parametrize(("whole_days", "most"), [(False, 3 * DAY_MS), (True, 2 * DAY_MS)])
def test_a_window(whole_days: bool, most: int) -> None:
    """As wide as the broker's maximum; where whole days are handed over, a day less."""
    check_window(most, LIMITS, whole_days=whole_days)

    with pytest.raises(SparkJobError, match=rf"at most {most} ms, .*, found {most + 1}$"):
        check_window(most + 1, LIMITS, whole_days=whole_days)


@pytest.mark.parametrize("whole_days", [False, True])
def test_a_broker_without_a_wheel(whole_days: bool) -> None:
    """It takes what is due at once, and nothing else."""
    limits = attrs.evolve(LIMITS, delay_max_ms=0)

    with pytest.raises(SparkJobError, match="window: expected at most 0 ms"):
        check_window(1, limits, whole_days=whole_days)
