"""Bytes that rot while a process runs: in some plans, and alone."""

from __future__ import annotations

from timermq.simulator.draw import draw_scenario
from timermq.simulator.plans.rot_plan import FAMILIES
from timermq.simulator.scenario import FaultKind, Scenario


def drawn(*kinds: FaultKind, count: int = 100) -> list[Scenario]:
    """The plans of some seeds."""
    return [draw_scenario(seed, days=0.2, faults=kinds) for seed in range(count)]


def test_rot_is_in_some_plans_and_comes_alone() -> None:
    """With every rate of the scrub, in every kind of file that a process has open."""
    kinds = (FaultKind.ROT, FaultKind.DAMAGE, FaultKind.LOST, FaultKind.ENOSPC)
    plans = drawn(*kinds)
    rotting = [plan for plan in plans if plan.rots]

    assert 0 < len(rotting) < len(plans)
    assert {0, 20_000, 4 << 20} == {one.store.scrub_bytes_per_second for one in rotting}
    assert {one for group in FAMILIES for one in group} == {
        rot.damage.family for plan in rotting for rot in plan.rots
    }
    assert [] == [life for plan in rotting for life in plan.lives if life.rest]
    assert [] == [plan for plan in rotting if plan.full_disks]
