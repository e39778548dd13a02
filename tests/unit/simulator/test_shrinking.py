"""Plans shrink to what matters, within a number of runs."""

from __future__ import annotations

from timermq.simulator.draw import draw_scenario
from timermq.simulator.report import plan_lines
from timermq.simulator.scenario import Scenario
from timermq.simulator.shrinking import shrink, size_of
from timermq.simulator.steps import Cancel, Send, When


def cancels(scenario: Scenario) -> int:
    """How many cancels there are."""
    return sum(isinstance(step, Cancel) for one in scenario.clients for step in one.steps)


def test_what_does_not_matter_goes() -> None:
    """One client with the one step is left."""
    scenario = draw_scenario(1)
    assert cancels(scenario) > 1

    smallest = shrink(scenario, lambda plan: cancels(plan) >= 1, runs_max=1_000)

    assert (1, 1, 2) == (cancels(smallest), len(smallest.clients), size_of(smallest))
    assert smallest.duration_ms < scenario.duration_ms
    assert len(list(plan_lines(smallest))) == 6


def test_a_send_shrinks_to_the_message_that_matters() -> None:
    """Of several that leave in one frame."""

    def sends(plan: Scenario) -> list[Send]:
        steps = [step for one in plan.clients for step in one.steps if isinstance(step, Send)]
        return [step for step in steps if any(item.when is When.LEVEL for item in step.items)]

    smallest = shrink(draw_scenario(1), lambda plan: bool(sends(plan)), runs_max=1_000)

    assert [1] == [len(step.items) for step in sends(smallest)]


def test_runs_are_bounded() -> None:
    """What was found by then is the answer."""
    runs: list[Scenario] = []

    def is_run(plan: Scenario) -> bool:
        runs.append(plan)
        return True

    shrink(draw_scenario(1), is_run, runs_max=3)

    assert len(runs) == 3


def test_a_seed_is_always_the_same_plan() -> None:
    """And another one is another."""
    assert draw_scenario(7) == draw_scenario(7)
    assert draw_scenario(7) != draw_scenario(8)
