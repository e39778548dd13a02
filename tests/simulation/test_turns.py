"""A burst of one topic and its neighbours in virtual time: turns among topics, kills in between.

Deliveries are slowed down, or the broker was down when the burst and the slots behind it became
due, so that all of them wait at once when it starts.
"""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from fakes import START_MS, VirtualClock
from simulation.staged_service import (
    QUIET_FILES,
    ROOT,
    SMALL_WHEEL,
    SYNC_FILES,
    Arrival,
    arrivals,
    arrivals_everywhere,
    delete_of,
    running,
    timed,
)
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.delivered_message import DueMessage
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.stages.dequeue_put_message import DequeuePutMessage
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT
from timermq.timerstore.consume_queue import ConsumeQueue

BATCH = 4
BATCH_MS = 40
OPTIONS = attrs.evolve(
    SMALL_WHEEL,
    # What rolls is put 15 slots ahead at least: five slots behind it need not wait for it.
    timer_roll_window_slot=30,
    deliver_batch_count_max=BATCH,
    timer_flush_interval_ms=170,
)
IN_PASSES = attrs.evolve(OPTIONS, slot_units_max=40)
"""The burst is read in pieces, so whose units are still to come is known by lanes only."""
INSTANT_MS = START_MS + 10_500
BURST = 150
SECOND_BURST = 50
"""In the next slot: when the first is over, this one has begun to leave long ago and is not."""
NEIGHBOURS = {
    # Due behind the burst in its own slot, and in the four slots behind it.
    f"n{number}": INSTANT_MS + 40 + 250 * number
    for number in range(16)
}
NEXT = {f"x{number}": INSTANT_MS + 700 + 300 * number for number in range(8)}
"""On a topic that has nothing in the slot of the burst."""
FAR = {f"f{number}": START_MS + 31_000 + 500 * number for number in range(4)}
"""Beyond the window: these roll on their way."""
CANCELLED = ("n3", "n9")
KEPT = [body for body in NEIGHBOURS if body not in CANCELLED]


@pytest.fixture
def slow_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch takes its time before it is written."""

    async def slow_gate(stage: DequeuePutMessage, due: list[DueMessage]) -> None:
        del stage, due
        await trio.sleep(BATCH_MS / 1000)

    monkeypatch.setattr(DequeuePutMessage, "_gate", slow_gate)


async def load(
    disk: MemoryDisk,
    clock: VirtualClock,
    options: TimerOptions,
    down_to_ms: int = INSTANT_MS + 5_200,
) -> None:
    """Store everything long before it is due, then go down, by default until all of it is."""
    async with running(disk, clock, store_options=SYNC_FILES, timer_options=options) as service:
        for number in range(BURST):
            service.put([timed(f"b{number}", INSTANT_MS, topic="Burst")])
        for number in range(BURST, BURST + SECOND_BURST):
            service.put([timed(f"b{number}", INSTANT_MS + 1_000, topic="Burst")])
        for body, deliver_ms in (NEIGHBOURS | FAR).items():
            service.put([timed(body, deliver_ms, topic="Near")])
        for body, deliver_ms in NEXT.items():
            service.put([timed(body, deliver_ms, topic="Next")])
        for body in CANCELLED:
            service.put([delete_of(body, NEIGHBOURS[body], topic="Near")])
        await trio.sleep(1)
    clock.step(down_to_ms - clock.now_ms())


def bodies(found: list[Arrival], topic: str) -> list[str]:
    """What stands on a topic, in the order of the log."""
    return [one.body for one in found if one.topic == topic]


def check(found: list[Arrival]) -> None:
    """Each once, in the order of its topic, and none that was cancelled."""
    assert bodies(found, "Burst") == [f"b{number}" for number in range(BURST + SECOND_BURST)]
    assert bodies(found, "Near") == [*KEPT, *FAR]
    assert bodies(found, "Next") == list(NEXT)


async def place_of_each(options: TimerOptions, clock: VirtualClock) -> dict[str, int]:
    """Place of each message among all that were delivered."""
    disk = MemoryDisk(now_ms=clock.now_ms)
    await load(disk, clock, options)
    async with running(disk, clock, timer_options=options) as service:
        await trio.sleep(40)
        found = arrivals_everywhere(service.store)
    check(found)
    order = [one.body for one in found if one.topic in ("Burst", "Near", "Next")]
    return {body: place for place, body in enumerate(order)}


async def test_neighbours_do_not_wait(autojump_clock: trio.testing.MockClock) -> None:
    """Neighbours in the burst's slot and in those behind it are through with its first batches."""
    places = await place_of_each(OPTIONS, VirtualClock())

    # Of the batches, the first is the burst's alone; then one in three is of either topic.
    assert max(places[body] for body in [*KEPT, *NEXT]) < BATCH * (1 + len(NEIGHBOURS))


async def test_a_slot_in_pieces_holds_up_only_its_own_topics(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What the rest of the slot holds must not be overtaken; the next slots' other topics go."""
    places = await place_of_each(IN_PASSES, VirtualClock())

    # The slot behind it holds these three; with it as many units are read as there is room for.
    assert max(places[body] for body in ("x0", "x1", "x2")) < BATCH * (1 + len(NEIGHBOURS))
    assert places["n0"] > places[f"b{BURST - 2 * IN_PASSES.slot_units_max}"]


async def test_slots_beyond_those_that_may_be_open_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With room for one slot at a time the burst goes first, as its slot does."""
    options = attrs.evolve(OPTIONS, open_slots_max=1)
    places = await place_of_each(options, VirtualClock())

    assert places["n0"] < 3 * BATCH
    assert min(places["n2"], places["x0"]) > places[f"b{BURST - 1}"]


async def test_neighbours_are_on_time_while_a_burst_drains(
    autojump_clock: trio.testing.MockClock, slow_deliveries: None
) -> None:
    """A neighbour waits for what is under way and for a turn or two, not for the burst."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    await load(disk, clock, OPTIONS, down_to_ms=INSTANT_MS - 3_000)
    async with running(disk, clock, timer_options=OPTIONS) as service:
        await trio.sleep(40)
        found = arrivals_everywhere(service.store)
    check(found)
    stored = {
        one.body: one.stored_ms for one in found if one.topic not in (TIMER_TOPIC, *OWN_TOPICS)
    }

    assert stored[f"b{BURST - 1}"] > INSTANT_MS + BURST // BATCH * BATCH_MS
    for body, deliver_ms in (NEIGHBOURS | NEXT).items():
        if body not in CANCELLED:
            assert 0 <= stored[body] - deliver_ms <= 8 * BATCH_MS


@pytest.mark.parametrize("options", [OPTIONS, IN_PASSES], ids=["whole", "in passes"])
@pytest.mark.parametrize("life_ms", range(60, 2_400, 180))
@pytest.mark.parametrize("is_power", [False, True], ids=["kill", "power cut"])
async def test_a_kill_among_the_turns(
    autojump_clock: trio.testing.MockClock,
    slow_deliveries: None,
    options: TimerOptions,
    life_ms: int,
    is_power: bool,
) -> None:
    """Whatever had left of which slot when the process died: each once, in order."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    await load(disk, clock, options)
    for _ in range(3):
        async with running(disk, clock, timer_options=options, stop=False):
            await trio.sleep(life_ms / 1000)
        if is_power:
            disk.power_cut()
        else:
            disk.process_kill()
    async with running(disk, clock, timer_options=options) as service:
        await trio.sleep(40)
        check(arrivals_everywhere(service.store))


@pytest.mark.parametrize(("before", "after"), [(3, 6), (3, 9), (3, 20), (9, 60)])
async def test_rolls_of_a_smaller_window_are_not_overtaken(
    autojump_clock: trio.testing.MockClock, before: int, after: int
) -> None:
    """They land sooner than rolls of the present window: the slots behind them wait for that.

    Some of one moment have come to its slot before the outage, as have some deletes; others have
    another roll to go.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    sent = [f"m{number}" for number in range(24)]
    gone, moved = sent[1::4], sent[3::4]
    moment_ms = START_MS + 2_000 * before + 1_199
    wheel = attrs.evolve(SMALL_WHEEL, timer_roll_window_slot=before)
    async with running(disk, clock, timer_options=wheel) as service:
        for body in sent:
            service.put([timed(body, moment_ms)])
            await trio.sleep(0.15)
            if body in gone:
                service.put([delete_of(body, moment_ms)])
            elif body in moved:
                wanted = Wanted("T", body)
                found = service.cancellation.reschedule(wanted, clock.now_ms() - 1)
                assert found.verdict is Verdict.CANCELLED
        await trio.sleep(0.5)
    clock.step(40_000)
    wheel = attrs.evolve(SMALL_WHEEL, timer_roll_window_slot=after, deliver_batch_count_max=1)
    async with running(disk, clock, timer_options=wheel) as service:
        await trio.sleep(20)
        came = [one.body for one in arrivals(service.store)]

    assert came == [*moved, *(body for body in sent if body not in gone + moved)]


@pytest.mark.parametrize("turns", [0, 3, 9, 20])
async def test_a_cancel_among_turns_whose_delete_finds_no_room(
    autojump_clock: trio.testing.MockClock, turns: int
) -> None:
    """Its slot was opened beside the one before, and is over when the delete is linked.

    The delete lands in the slot behind it. A start reads the slot again, and must see the cancel.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    burst = [f"m{number}" for number in range(20)]
    slot_ms = START_MS + 1_000
    arrived = trio.Event()
    # Units of all messages fit the first file of the timer log, that of the delete does not.
    options = attrs.evolve(
        SMALL_WHEEL,
        deliver_batch_count_max=1,
        timer_flush_interval_ms=300,
        mapped_file_size_timer_log=UNIT.size * (len(burst) + 3) + 16,
    )

    def note_arrival(queue: ConsumeQueue) -> None:
        if queue.topic == "T" and clock.now_ms() > slot_ms and not arrived.is_set():
            clock.step(300)
            arrived.set()

    async with running(
        disk, clock, store_options=QUIET_FILES, timer_options=options, stop=False
    ) as service:
        service.put([timed("before", START_MS + 100)])
        service.put([timed(body, slot_ms + 900) for body in burst])
        service.put([timed("next", slot_ms + 1_101), timed("gone", slot_ms + 1_150)])
        service.store.on_arrival(note_arrival)
        await trio.sleep(1)
        disk.total = disk.usage(ROOT).used
        with trio.fail_after(3):
            await arrived.wait()
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        assert service.cancellation.cancel(Wanted("T", "gone")).verdict is Verdict.CANCELLED
        await trio.sleep((slot_ms + 1_950 - clock.now_ms()) / 1000)
        assert service.files.checkpoint.last_read_time_ms == slot_ms + 1_000
        disk.total = 1 << 50
        await trio.sleep((slot_ms + 2_055 - clock.now_ms()) / 1000)
    disk.process_kill()
    async with running(disk, clock, store_options=QUIET_FILES, timer_options=options) as service:
        await trio.sleep(10)
        found = [one.body for one in arrivals(service.store)]

    assert sorted(["before", *burst, "next"]) == sorted(found)
