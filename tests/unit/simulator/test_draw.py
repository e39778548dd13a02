"""What is added to a plan: cleaning, full disks, other settings, accepted clocks, transactions."""

from __future__ import annotations

import attrs

from timermq.simulator.clock_steps import SIZES_MS
from timermq.simulator.disks.fault_plan import Operation
from timermq.simulator.draw import draw_scenario
from timermq.simulator.scenario import FaultKind, FullDisk, Life, Scenario
from timermq.simulator.steps import (
    FIRST_TRANSACTION,
    AcceptClock,
    Poison,
    Release,
    Schedule,
    Transact,
    When,
)
from timermq.timerstore.store_options import FlushDiskType

DAYS = 0.2

SEEDS = range(60)


def drawn(*kinds: FaultKind) -> list[Scenario]:
    """The plans of some seeds."""
    return [draw_scenario(seed, days=DAYS, faults=kinds) for seed in SEEDS]


def test_only_what_is_asked_for_is_added() -> None:
    """Each kind by itself; without faults there are transactions alone."""
    for plan in drawn(FaultKind.KILL):
        assert (plan.full_disks, plan.cleanings_ms, plan.clock_faults) == ((), (), ())
        assert [] == [life for life in plan.lives if life.settings or life.is_repaired]
        assert plan.store.file_reserved_time_hours == 24 * 3_650
    steps = [step for plan in drawn() for client in plan.clients for step in client.steps]
    assert [] == [step for step in steps if isinstance(step, AcceptClock)]
    assert [step for step in steps if isinstance(step, Transact)]


def test_some_plans_clean() -> None:
    """At moments of the plan too, and none of them is before its beginning."""
    plans = drawn(FaultKind.KILL, FaultKind.CLEAN)
    cleaning = [plan for plan in plans if plan.store.file_reserved_time_hours <= 3]

    assert len(plans) // 2 < len(cleaning) < len(plans)
    assert [plan for plan in cleaning if plan.cleanings_ms]
    assert [plan for plan in cleaning if plan.full_disks]
    assert all(at_ms >= 0 for plan in plans for at_ms in plan.cleanings_ms)


def test_some_disks_are_full_several_times() -> None:
    """And have room again before the plan judges."""
    full = [plan.full_disks for plan in drawn(FaultKind.KILL, FaultKind.ENOSPC)]

    assert {0, 1, 2, 3} <= {len(disks) for disks in full}
    assert all(one.at_ms < one.until_ms for disks in full for one in disks)


def test_how_full_a_disk_is() -> None:
    """By the bytes that are left, or by what is used of it."""
    assert 5_000 == FullDisk(at_ms=0, until_ms=1, room=1_000).total(4_000)
    assert 5_000 == FullDisk(at_ms=0, until_ms=1, used_percent=80).total(4_000)


def test_some_clocks_are_accepted() -> None:
    """None that is wrong by years: all that waits would roll through them."""
    accepting = [
        plan
        for plan in drawn(FaultKind.CLOCK)
        if any(isinstance(step, AcceptClock) for step in plan.clients[0].steps)
    ]

    assert accepting
    for plan in accepting:
        assert all(abs(one.step_ms) < min(SIZES_MS) for one in plan.clock_faults)


def test_some_lives_end_as_a_message_leaves() -> None:
    """Lives are in the order of their ends, and such ones save often."""
    plans = drawn(FaultKind.KILL, FaultKind.CLOCK)
    sharp = [life for plan in plans for life in plan.lives if life.saving_ms == 10]

    assert sharp
    for plan in plans:
        ends = [life.end_ms for life in plan.lives]
        assert ends == sorted(ends)


def test_some_lives_have_other_settings() -> None:
    """What the files are made with stays."""
    plans = drawn(FaultKind.KILL, FaultKind.SETTINGS)
    changed = [
        (plan, life.settings) for plan in plans for life in plan.lives if life.settings is not None
    ]

    assert changed
    assert [life for plan in plans for life in plan.lives if life.is_repaired]
    for plan, settings in changed:
        assert settings.timer.slots_total == plan.timer.slots_total
        assert settings.timer.roll_window_ms >= plan.timer.roll_window_ms


def test_one_life_that_flushes_later_is_enough() -> None:
    """Only what both ways of flushing promise is judged then."""
    plan = draw_scenario(1, days=DAYS, faults=())
    synced = attrs.evolve(
        plan,
        store=attrs.evolve(plan.store, flush_disk_type=FlushDiskType.SYNC_FLUSH),
        lives=(Life(end_ms=1),),
    )
    later = attrs.evolve(
        synced.settings_of(None),
        store=attrs.evolve(synced.store, flush_disk_type=FlushDiskType.ASYNC_FLUSH),
    )

    assert synced.is_sync_flush
    assert not attrs.evolve(synced, lives=(Life(end_ms=1, settings=later),)).is_sync_flush


def test_some_plans_have_records_that_no_timer_can_be_made_of() -> None:
    """In the order of their times, with decisions about them behind the first."""
    plans = [plan for plan in drawn(FaultKind.POISON) if plan.poisons]

    assert 5 <= len(plans) <= 30
    for plan in plans:
        steps = plan.clients[0].steps
        begun_ms = next(step.at_ms for step in steps if isinstance(step, Poison))
        assert all(step.at_ms > begun_ms for step in steps if isinstance(step, Release))
        assert [step.at_ms for step in steps] == sorted(step.at_ms for step in steps)
    assert [] == [plan for plan in drawn(FaultKind.KILL) if plan.poisons]


def test_transactions_have_numbers_of_their_own() -> None:
    """And stand among the other steps in the order of their times."""
    for plan in drawn():
        for client in plan.clients:
            times = [step.at_ms for step in client.steps]
            assert times == sorted(times)
        numbers = [
            step.item.number
            for client in plan.clients
            for step in client.steps
            if isinstance(step, Transact)
        ]
        assert len(numbers) == len(set(numbers))
        assert all(number >= FIRST_TRANSACTION for number in numbers)


def test_what_is_asked_for_besides() -> None:
    """Bulk jobs, delayed transactions, begun stores, reads that fail, plain file systems."""
    plans = drawn(
        FaultKind.BULK, FaultKind.DELAYED, FaultKind.ROCKETMQ, FaultKind.READ, FaultKind.BLOCKS
    )
    steps = [step for plan in plans for client in plan.clients for step in client.steps]
    moments = {one.item.when for one in steps if isinstance(one, Transact)}

    assert {0, 1} == {one.variant for one in steps if isinstance(one, Schedule)}
    assert set(When) == moments
    assert {True, False} == {plan.begun is None for plan in plans}
    assert {True, False} == {plan.reserves_blocks for plan in plans}
    assert {Operation.READ} == {one.operation for plan in plans for one in plan.disk_faults}
