"""Stage 3: what leaves when, in which order, and how far the read pointer may move."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from fakes import START_MS, VirtualClock
from simulation.staged_service import delete_of, timed
from timermq.pipeline.stages.timer_request import DequeueBatch, ReadMark
from unit.pipeline.stages_by_hand import SLOT_MS, TINY, NextStage, StagesByHand


@contextlib.asynccontextmanager
async def reading(rig: StagesByHand) -> AsyncGenerator[NextStage]:
    """Run the stage for the length of a block, then stop it; what it sent."""
    sink, source = trio.open_memory_channel[DequeueBatch | ReadMark](0)
    behind = NextStage(rig)
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.read.run, sink)
            nursery.start_soon(behind.run, source)
            yield behind
            rig.state.stop()


def moments(behind: NextStage) -> list[tuple[int, tuple[str, ...]]]:
    """What was sent: milliseconds behind the start, bodies."""
    return [(one.at_ms - START_MS, one.bodies) for one in behind.batches]


def with_body(behind: NextStage, body: str) -> int:
    """The number of the batch that had a message."""
    (number,) = (number for number, one in enumerate(behind.batches) if body in one.bodies)
    return number


def marks(behind: NextStage) -> list[tuple[int, int]]:
    """The marks: when they came, and the end that they tell, both behind the start."""
    return [(at_ms - START_MS, mark.read_ms - START_MS) for at_ms, mark in behind.marks]


async def test_each_message_leaves_in_its_millisecond(autojump_clock: MockClock) -> None:
    """In order of moment, then of sending; the mark of the slot comes behind its last moment."""
    rig = StagesByHand(VirtualClock())
    moment = {"c": 1_700, "a": 1_001, "b": 1_400, "b2": 1_400, "last": 2_000, "next": 2_001}
    rig.link(*[timed(body, START_MS + at_ms) for body, at_ms in moment.items()])
    async with reading(rig) as behind:
        await trio.sleep(2.5)

    assert moments(behind) == [
        (1_001, ("a",)),
        (1_400, ("b", "b2")),
        (1_700, ("c",)),
        (2_000, ("last",)),
        (2_001, ("next",)),
    ]
    assert (2_001, 2_000) in marks(behind)
    assert behind.is_closed


async def test_a_slot_is_closed_when_its_last_millisecond_is_past(
    autojump_clock: MockClock,
) -> None:
    """Until then short timers may join it; what is linked late goes to the slot that is open."""
    rig = StagesByHand(VirtualClock())
    rig.link(timed("a", SLOT_MS + 1))
    async with reading(rig) as behind:
        await trio.sleep(1.999)
        assert rig.state.read_ms <= SLOT_MS
        rig.link(timed("joined", SLOT_MS + 1_000))
        rig.send(timed("late", SLOT_MS + 1_000))
        await trio.sleep(0.003)
        assert rig.state.read_ms == SLOT_MS + 1_000
        assert await rig.state.slot_closed.wait_at_most(0.1)
        rig.link()
        await trio.sleep(1.5)

    assert moments(behind) == [(1_001, ("a",)), (2_000, ("joined",)), (2_002, ("late",))]
    assert rig.service.files.wheel.statistics().passed_ms == SLOT_MS + 2_000


async def test_empty_slots_are_passed_at_once(autojump_clock: MockClock) -> None:
    """Nothing is sent of them but one mark, when the stage wakes."""
    rig = StagesByHand(VirtualClock())
    rig.link(timed("a", SLOT_MS + 1_500))
    async with reading(rig) as behind:
        await trio.sleep(3)

    assert moments(behind) == [(2_500, ("a",))]
    assert marks(behind)[0] == (1_901, 1_000)
    assert [end for _, end in marks(behind)] == [1_000, 2_000, 3_000][: len(marks(behind))]


async def test_it_sleeps_for_the_next_live_slot_until_an_earlier_one_changes(
    autojump_clock: MockClock,
) -> None:
    """The slot is noted while it sleeps, so that only what matters wakes it."""
    rig = StagesByHand(VirtualClock())
    rig.link(timed("far", SLOT_MS + 1_001))
    async with reading(rig) as behind:
        await trio.sleep(0.1)
        assert rig.state.awaited_ms == SLOT_MS + 1_000
        rig.link(timed("near", START_MS + 500))
        await trio.sleep(0.2)
        assert rig.state.awaited_ms == START_MS
        await trio.sleep(4)
    assert moments(behind) == [(500, ("near",)), (2_001, ("far",))]
    assert rig.state.awaited_ms is None


async def test_a_step_forward_is_noticed_at_the_next_look(autojump_clock: MockClock) -> None:
    """No later than ``clock_check_interval_ms``, however long the sleep would be."""
    rig = StagesByHand(VirtualClock(), attrs.evolve(TINY, clock_check_interval_ms=50))
    rig.link(timed("a", SLOT_MS + 1_500))
    async with reading(rig) as behind:
        await trio.sleep(0.01)
        assert isinstance(rig.clock, VirtualClock)
        rig.clock.step(10_000)
        await trio.sleep(0.05)
        sent = list(behind.batches)

    assert [one.bodies for one in sent] == [("a",)]


async def test_nothing_leaves_a_slot_before_what_was_stored_is_linked(
    autojump_clock: MockClock,
) -> None:
    """A delete that was answered is known before its message can leave."""
    rig = StagesByHand(VirtualClock())
    rig.link(timed("a", SLOT_MS + 1))
    rig.send(delete_of("a", SLOT_MS + 1))
    async with reading(rig) as behind:
        await trio.sleep(5)
        assert (behind.batches, rig.state.read_ms <= SLOT_MS) == ([], True)
        # Stage 1 is not to let its batch grow.
        assert await rig.state.called.wait_at_most(1)
        rig.link()
        await trio.sleep(0.001)

    assert moments(behind) == [(5_000, ("a",))]


async def test_a_stop_leaves_a_slot_that_is_not_complete_to_the_next_run(
    autojump_clock: MockClock,
) -> None:
    """Nothing of it has left, and the read pointer stays before it."""
    rig = StagesByHand(VirtualClock())
    rig.link(timed("a", SLOT_MS + 1))
    rig.send(delete_of("a", SLOT_MS + 1))
    async with reading(rig) as behind:
        await trio.sleep(5)

    assert (behind.batches, behind.is_closed) == ([], True)
    assert rig.state.read_ms == SLOT_MS


async def test_a_stop_waits_for_the_end_of_a_slot_that_has_begun(
    autojump_clock: MockClock,
) -> None:
    """RocketMQ would deliver it again; a slot that has not begun is not waited for."""
    rig = StagesByHand(VirtualClock())
    rig.link(timed("a", SLOT_MS + 1), timed("b", SLOT_MS + 900), timed("c", SLOT_MS + 1_001))
    async with reading(rig) as behind:
        await trio.sleep(1.1)

    assert moments(behind) == [(1_001, ("a",)), (1_900, ("b",))]
    assert marks(behind)[-1] == (2_001, 2_000)


async def test_what_is_due_meanwhile_joins_the_next_batch(autojump_clock: MockClock) -> None:
    """While a batch is under way none is made: the next holds all that became due by then."""
    rig = StagesByHand(VirtualClock())
    rig.link(*[timed(f"m{n}", SLOT_MS + 1 + 10 * n) for n in range(3)])
    rig.state.under_way.append(0)
    async with reading(rig) as behind:
        await trio.sleep(1.5)
        assert behind.batches == []
        rig.state.under_way.clear()
        rig.state.all_delivered.set()
        await trio.sleep(0.5)

    assert moments(behind) == [(1_500, ("m0", "m1", "m2"))]


async def test_topics_take_turns_when_a_batch_is_full(autojump_clock: MockClock) -> None:
    """A crowd of one topic does not keep the one message of another waiting to its end."""
    rig = StagesByHand(VirtualClock(), attrs.evolve(TINY, deliver_batch_count_max=4))
    crowd = [timed(f"c{n}", SLOT_MS + 1) for n in range(12)]
    rig.link(*crowd, timed("other", SLOT_MS + 1, topic="U"))
    async with reading(rig) as behind:
        await trio.sleep(3)
    sent = [body for one in behind.batches for body in one.bodies]

    assert all(len(one.bodies) <= 4 for one in behind.batches)
    assert sorted(sent) == sorted([*(f"c{n}" for n in range(12)), "other"])
    assert [body for body in sent if body != "other"] == [f"c{n}" for n in range(12)]
    assert with_body(behind, "other") == 2


async def test_a_late_crowd_does_not_hold_up_the_slot_behind_it(
    autojump_clock: MockClock,
) -> None:
    """After a pause two slots are due: the second topic's message goes in the first turn.

    Its mark still comes behind the crowd, and tells from where on the log has deliveries of it.
    """
    wide = attrs.evolve(TINY, slots_total=9, timer_roll_window_slot=9)
    rig = StagesByHand(VirtualClock(), attrs.evolve(wide, deliver_batch_count_max=4))
    rig.link(*[timed(f"c{n}", SLOT_MS + 1) for n in range(12)])
    rig.link(timed("other", SLOT_MS + 1_001, topic="U"))
    assert isinstance(rig.clock, VirtualClock)
    rig.clock.step(2_500)
    async with reading(rig) as behind:
        await trio.sleep(1)
    ends = {mark.read_ms - START_MS: mark.scan_py for _, mark in behind.marks}

    assert with_body(behind, "other") == 2
    assert ends[2_000] == rig.store.commit_log.max_offset
    assert ends[3_000] is None


async def test_what_is_not_due_any_more_goes_back_from_its_lane(
    autojump_clock: MockClock,
) -> None:
    """The clock is set back between two turns: the rest leaves when it is due again."""
    rig = StagesByHand(VirtualClock(), attrs.evolve(TINY, deliver_batch_count_max=4))
    rig.link(*[timed(f"c{n}", SLOT_MS + 1) for n in range(20)])
    sink, source = trio.open_memory_channel[DequeueBatch | ReadMark](0)
    behind = NextStage(rig)
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.read.run, sink)
            (first, second) = [await next_batch(source) for _ in range(2)]
            assert isinstance(rig.clock, VirtualClock)
            # The third is made: it waits to be taken.
            await wait_all_tasks_blocked()
            rig.clock.step(-500)
            third = await next_batch(source)
            rig.state.under_way.clear()
            rig.state.all_delivered.set()
            nursery.start_soon(behind.run, source)
            await trio.sleep(0.4)
            assert behind.batches == []
            await trio.sleep(1)
            rig.state.stop()

    assert [len(one.requests) for one in (first, second, third)] == [4, 4, 4]
    assert [(one.at_ms - START_MS, len(one.bodies)) for one in behind.batches] == [(1_001, 4)] * 2


async def next_batch(source: trio.MemoryReceiveChannel[DequeueBatch | ReadMark]) -> DequeueBatch:
    """The next batch of a channel; marks are passed over."""
    while isinstance(one := await source.receive(), ReadMark):
        pass
    return one


def rolls_and_next() -> tuple[StagesByHand, int]:
    """A slot with a message that rolls, one behind it with a message that is due; the first's."""
    rig = StagesByHand(VirtualClock())
    rig.link(timed("rolls", START_MS + 20_000))
    ((rolls_ms, *_),) = rig.service.live().tolist()
    rig.link(timed("next", rolls_ms + 1_001))
    return rig, rolls_ms


async def test_a_stop_does_not_wait_for_rolls(autojump_clock: MockClock) -> None:
    """The next run opens the slot behind them."""
    rig, rolls_ms = rolls_and_next()
    async with reading(rig) as behind:
        behind.publishes = False
        await trio.sleep(6)

    assert [one.bodies for one in behind.batches] == [("rolls",)]
    assert rig.state.read_ms == rolls_ms + 1_000


async def test_a_slot_waits_for_the_rolls_of_those_before_it(autojump_clock: MockClock) -> None:
    """A roll may bring a message, or its delete, into the very next slot."""
    rig, rolls_ms = rolls_and_next()
    async with reading(rig) as behind:
        behind.publishes = False
        await trio.sleep(6)
        assert [one.bodies for one in behind.batches] == [("rolls",)]
        rig.state.rolled_ms = rolls_ms + 1_000
        rig.state.published.set()
        await trio.sleep(0.001)

    assert [one.bodies for one in behind.batches] == [("rolls",), ("next",)]
