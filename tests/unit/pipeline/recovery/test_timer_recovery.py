"""Recovery: in each row of its table every message that waits is found once, and arrives once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
import pytest
import trio

from fakes import START_MS, VirtualClock
from simulation.staged_service import arrivals, running, timed
from timermq.pipeline.recovery.timer_recovery import DECISIONS, CheckpointState
from timermq.simulator.disks.memory_disk import MemoryDisk
from unit.pipeline.recovery.crashed_store import (
    CANCELLED,
    CHECKPOINT,
    OPTIONS,
    Crashed,
    Reopened,
    crashed,
    delivered_in_the_end,
    forget_read_time,
    leave,
    lose_last_messages,
    lose_units,
    lose_wheel,
    make_checkpoint_javas,
    reopen,
    turn_timeline_on,
    units_from,
)

Damage = Callable[[MemoryDisk], None]
Row = tuple[CheckpointState, bool, bool]

CHECKPOINTS: dict[CheckpointState, Damage] = {
    CheckpointState.OURS: leave,
    CheckpointState.JAVA: make_checkpoint_javas,
    CheckpointState.TIMELINE: turn_timeline_on,
    CheckpointState.ABSENT: forget_read_time,
}
LOGS: dict[bool, Damage] = {True: leave, False: lose_units}
WHEELS: dict[bool, Damage] = {True: leave, False: lose_wheel}


async def staged(row: Row) -> Crashed:
    """A service killed eight seconds ago, whose files show what a row of the table names."""
    crash = await crashed()
    crash.clock.step(8_000)
    for damage in (CHECKPOINTS[row[0]], LOGS[row[1]], WHEELS[row[2]]):
        damage(crash.disk)
    return crash


def check_found_once(crash: Crashed, store: Reopened) -> None:
    """When the rest is enqueued, each pending message is in the chains once, and no other."""
    store.enqueue()
    in_slots = store.in_slots()

    assert Counter(crash.waiting) == Counter(
        {body: n for body, n in in_slots.items() if body not in CANCELLED}
    )
    assert {"T": in_slots.total()} == store.files.metrics.counts()


def label(row: Row) -> str:
    """The name of a row's test."""
    return DECISIONS[row].label


def test_the_table_is_complete() -> None:
    """Each combination of what can be seen has a row, and no two rows the same name."""
    assert {
        (state, whole, fits)
        for state in CheckpointState
        for whole in (True, False)
        for fits in (True, False)
    } == set(DECISIONS)
    assert len(DECISIONS) == len({decision.label for decision in DECISIONS.values()})


@pytest.mark.parametrize("row", DECISIONS, ids=label)
async def test_row(autojump_clock: trio.testing.MockClock, row: Row) -> None:
    """The row is chosen, and every pending message is found once in the slots."""
    crash = await staged(row)
    store = reopen(crash)

    assert DECISIONS[row] == store.recovered.decision
    check_found_once(crash, store)


@pytest.mark.parametrize("row", DECISIONS, ids=label)
async def test_row_delivers_once(autojump_clock: trio.testing.MockClock, row: Row) -> None:
    """Whatever was lost, in the end each message has arrived once, and no cancelled one."""
    crash = await staged(row)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


async def test_units_beyond_the_ring_are_enqueued_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Messages whose units a smaller wheel has no place for are taken from the queue again."""
    crash = await crashed()
    lose_wheel(crash.disk)
    smaller = attrs.evolve(OPTIONS, slots_total=4, timer_roll_window_slot=5)
    store = reopen(crash, smaller)

    assert "ours, log short, wheel lost" == store.recovered.decision.label
    check_found_once(crash, store)


async def test_units_beyond_the_ring_are_delivered_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With a smaller wheel too, each message arrives once, whenever the process dies again."""
    crash = await crashed()
    lose_wheel(crash.disk)
    smaller = attrs.evolve(OPTIONS, slots_total=4, timer_roll_window_slot=5)
    for _ in range(3):
        async with running(crash.disk, crash.clock, timer_options=smaller, stop=False):
            await trio.sleep(2.9)
        crash.disk.process_kill()
        lose_wheel(crash.disk)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash, smaller)


async def test_a_log_longer_than_the_ring_without_a_checkpoint(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Reading resumes at the oldest unit, a turn of the ring before those that still wait."""
    options = attrs.evolve(OPTIONS, slots_total=15, timer_roll_window_slot=12)
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    bodies = [f"m{n}" for n in range(40)]
    async with running(disk, clock, timer_options=options, stop=False) as service:
        for body in bodies:
            service.put([timed(body, clock.now_ms() + 10_500)])
            await trio.sleep(2)
    disk.process_kill()
    disk.remove(CHECKPOINT)
    async with running(disk, clock, timer_options=options) as service:
        await trio.sleep(100)
        found = Counter(one.body for one in arrivals(service.store))

    assert Counter(bodies) == found


async def test_enqueueing_anew_may_be_cut_short(autojump_clock: trio.testing.MockClock) -> None:
    """A checkpoint from the midst of enqueueing everything again does not double what had units."""
    crash = await crashed()
    lose_units(crash.disk)
    options = attrs.evolve(OPTIONS, enqueue_batch_count_max=3)
    store = reopen(crash, options)
    await store.write_checkpoint(store.enqueue(batch_count=1))
    crash.disk.process_kill()
    again = reopen(crash, options)

    assert "ours" == again.recovered.decision.label
    check_found_once(crash, again)


@pytest.mark.parametrize("state", CheckpointState)
async def test_units_without_a_message_are_cut_off(
    autojump_clock: trio.testing.MockClock, state: CheckpointState
) -> None:
    """A unit that outlived its message in a power cut says nothing about the next message there.

    Of ours the units behind the checkpoint are compared with their records too; others say nothing
    of which units are the newest.
    """
    crash = await crashed()
    log_end = lose_last_messages(crash.disk)
    assert units_from(crash.disk, log_end) == 4
    CHECKPOINTS[state](crash.disk)
    async with running(crash.disk, crash.clock, timer_options=OPTIONS) as service:
        service.put([timed(f"next{n}", START_MS + 15_000) for n in range(4)])
        await trio.sleep(2)
    expected = [body for body in crash.arrived + crash.waiting if body[:4] != "last"]

    assert Counter([*expected, *(f"next{n}" for n in range(4))]) == await delivered_in_the_end(
        crash
    )


@pytest.mark.parametrize("state", CheckpointState)
async def test_units_without_a_message_are_not_missed(
    autojump_clock: trio.testing.MockClock, state: CheckpointState
) -> None:
    """What a power cut took was durable nowhere: nothing of it is quarantined as gone."""
    crash = await crashed()
    log_end = lose_last_messages(crash.disk)
    assert units_from(crash.disk, log_end) == 4
    CHECKPOINTS[state](crash.disk)
    async with running(crash.disk, crash.clock, timer_options=OPTIONS) as service:
        await trio.sleep(90)
        assert service.quarantine.active == 0
        assert service.statistics().missing == 0
        arrived = Counter(one.body for one in arrivals(service.store))

    assert Counter(one for one in crash.arrived + crash.waiting if one[:4] != "last") == arrived
