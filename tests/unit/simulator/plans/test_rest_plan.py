"""What is drawn for the files between processes: losses and damages."""

from __future__ import annotations

from timermq.simulator.draw import draw_scenario
from timermq.simulator.plans.rest_plan import ROLLS_MAX
from timermq.simulator.scenario import FaultKind, Loss, Scenario
from timermq.timerstore.file_family import FileFamily


def drawn(*kinds: FaultKind, count: int = 100) -> list[Scenario]:
    """The plans of some seeds."""
    return [draw_scenario(seed, days=0.2, faults=kinds) for seed in range(count)]


def test_each_kind_is_in_some_plans_and_not_in_all() -> None:
    """A kind of fault is drawn where it is named, and only there."""
    kinds = (FaultKind.KILL, FaultKind.LOST, FaultKind.ROCKETMQ, FaultKind.DAMAGE)
    rests = [
        [life.rest for life in plan.lives if life.rest is not None]
        for plan in drawn(*kinds, count=200)
    ]
    losses = {loss for plan in rests for rest in plan for loss in rest.losses}
    families = {one.family for plan in rests for rest in plan for one in rest.damages}

    assert {Loss.WHEEL, Loss.TIMER_LOG, Loss.TIMER_CHECKPOINT, Loss.SEALS} <= losses
    assert {FileFamily.COMMIT_LOG, FileFamily.TIMER_CHECKPOINT, FileFamily.CONFIG} <= families
    assert [rest for plan in rests for rest in plan if rest.is_rocketmq]
    assert [] == [life for plan in drawn(FaultKind.KILL) for life in plan.lives if life.rest]


def test_a_timer_checkpoint_is_lost_or_damaged_while_that_costs_few_rolls() -> None:
    """Without it the wheel is read from its oldest slot, and all that waits rolls along."""
    plans = [
        draw_scenario(seed, days=1.0, faults=(FaultKind.KILL, kind))
        for kind in (FaultKind.LOST, FaultKind.DAMAGE)
        for seed in range(150)
    ]
    ends = [
        life.end_ms / plan.timer.roll_window_ms
        for plan in plans
        for life in plan.lives
        if life.rest is not None
        and (
            Loss.TIMER_CHECKPOINT in life.rest.losses
            or any(one.family is FileFamily.TIMER_CHECKPOINT for one in life.rest.damages)
        )
    ]

    assert len(ends) > 5
    assert max(ends) <= ROLLS_MAX
