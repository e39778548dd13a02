"""Clocks that are wrong by years in a plan."""

from __future__ import annotations

import attrs

from timermq.simulator.clock_steps import SIZES_MS, with_large_steps
from timermq.simulator.draw import draw_scenario
from timermq.simulator.scenario import ClockFault, FaultKind, Scenario

DAYS = 0.2


def far(scenario: Scenario) -> list[ClockFault]:
    """Steps by more than any delay."""
    return [one for one in scenario.clock_faults if abs(one.step_ms) >= min(SIZES_MS)]


def test_some_plans_have_one() -> None:
    """Back and ahead; mostly it is undone."""
    found = [steps for seed in range(200) if (steps := far(draw_scenario(seed, days=DAYS)))]
    back = [steps for steps in found if steps[0].step_ms < 0]
    right = [steps for steps in found if sum(one.step_ms for one in steps) == 0]

    assert 15 <= len(found) <= 60
    assert 0 < len(back) < len(found)
    assert len(found) // 2 < len(right)


def test_the_rest_of_a_plan_stays() -> None:
    """The steps are added to what the seed decides, in the order of their times."""
    plain = draw_scenario(6, days=DAYS, faults=set(FaultKind) - {FaultKind.CLOCK})
    made = with_large_steps(plain)

    assert 2 == len(far(made))
    assert sorted(made.clock_faults, key=lambda one: one.at_ms) == list(made.clock_faults)
    assert plain == attrs.evolve(made, clock_faults=())


def test_without_faults_of_the_clock_there_is_none() -> None:
    """Only what is asked for goes wrong."""
    kinds = {FaultKind.KILL}

    assert [] == [s for s in range(100) if draw_scenario(s, days=DAYS, faults=kinds).clock_faults]
