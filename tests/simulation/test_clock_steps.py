"""The timer service while the wall clock is set, drifts, stops, or was wrong for a while."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import attrs
import pytest
import trio

from fakes import START_MS, VirtualClock
from simulation.staged_service import QUIET_FILES
from simulation.watched_service import (
    DAY_MS,
    HOUR_MS,
    SECOND_MS,
    WHEEL,
    Life,
    living,
    new_disk,
    put,
)
from timermq.pipeline.clock.clock_watch import ClockState
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.stages.dequeue_get import STANDING_MS_MAX
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.store_options import FlushDiskType

YEAR_MS = 365 * DAY_MS
QUIET_SYNC = attrs.evolve(
    QUIET_FILES, flush_disk_type=FlushDiskType.SYNC_FLUSH, file_reserved_time_hours=10 * 8_760
)
STEPS = [1, SECOND_MS, HOUR_MS, 3 * DAY_MS, YEAR_MS]


@pytest.mark.parametrize("step_ms", [*STEPS, *(-step for step in STEPS)])
async def test_a_step_while_slots_are_released(
    autojump_clock: trio.testing.MockClock, step_ms: int
) -> None:
    """Everything once, not early, in the order of its moments; a new short timer is on time."""
    wall = VirtualClock()
    moments = {f"m{n}": START_MS + 500 + 37 * n for n in range(150)}
    async with living(new_disk(wall), wall) as life:
        put(life, moments)
        await trio.sleep(4)
        gone = len(life.bodies())
        wall.step(step_ms)
        short_ms = life.clock.now_ms() + 2_000
        put(life, {"short": short_ms})
        await trio.sleep(1.999)
        before = life.bodies()
        await trio.sleep(0.002)
        short = life.bodies()
        # Forward: believed by then. Back: the clock returns to where it was.
        wall.step(max(-step_ms, 0))
        await trio.sleep(700)
        found = life.bodies()
        early = life.service.statistics().early

    assert 50 < gone < 150
    assert ("short" in before, "short" in short) == (False, True)
    assert sorted([*moments, "short"]) == sorted(found)
    assert list(moments) == [one for one in found if one != "short"]
    assert early == 0


@pytest.mark.parametrize("step_ms", [HOUR_MS + 1, YEAR_MS])
async def test_a_clock_wrong_for_a_minute_fires_nothing(
    autojump_clock: trio.testing.MockClock, step_ms: int
) -> None:
    """A jump far ahead that is undone: each message on its millisecond, none stamped ahead."""
    wall = VirtualClock()
    moments = {f"m{n}": START_MS + 30_000 * n + 7 for n in range(1, 10)}
    async with living(new_disk(wall), wall) as life:
        put(life, moments)
        await trio.sleep(45)
        wall.step(step_ms)
        await trio.sleep(60)
        state = life.clock.status().state
        held = life.bodies()
        wall.step(-step_ms)
        await trio.sleep(300)
        found = life.found()
        after = life.clock.status()

    assert ClockState.UNSAFE == state
    assert ["m1", "m2", "m3"] == held
    assert moments == {one.body: one.stored_ms for one in found}
    assert (ClockState.SAFE, 1, 1) == (after.state, after.steps_forward, after.steps_backward)


async def test_a_jump_ahead_that_is_accepted(autojump_clock: trio.testing.MockClock) -> None:
    """After the operator's word all that is due goes out, in the order of its moments."""
    wall = VirtualClock()
    draw = random.Random(3)
    moments = {f"m{n}": START_MS + draw.randint(10_000, 7_000_000) for n in range(200)}
    async with living(new_disk(wall), wall) as life:
        put(life, moments)
        await trio.sleep(1)
        wall.step(DAY_MS)
        await trio.sleep(2)
        held = life.bodies()
        life.clock.accept()
        await trio.sleep(20)
        found = life.bodies()

    assert [] == held
    assert sorted(moments) == sorted(found)
    # Also what lies beyond the window of an hour, rolls in the past and is enqueued again.
    assert sorted(found, key=moments.__getitem__) == found


@pytest.mark.parametrize("step_ms", [-SECOND_MS, -HOUR_MS, -3 * DAY_MS])
async def test_messages_on_their_way_step_aside(
    autojump_clock: trio.testing.MockClock, step_ms: int
) -> None:
    """The clock is set back between release and publish: what is due before is not kept waiting."""
    wall = VirtualClock()
    moment_ms = START_MS + 1_900
    steps = [step_ms]

    def first_arrival(queue: ConsumeQueue) -> None:
        if queue.topic == "T" and steps:
            wall.step(steps.pop())

    async with living(new_disk(wall), wall) as life:
        put(life, {f"m{n}": moment_ms for n in range(2_000)})
        life.service.store.on_arrival(first_arrival)
        await trio.sleep(2)
        gone = len(life.bodies())
        short_ms = life.clock.now_ms() + 500
        put(life, {"short": short_ms})
        await trio.sleep(0.6)
        early = [one for one in life.bodies() if one == "short"]
        wall.step(-step_ms)
        await trio.sleep(10)
        found = life.bodies()

    assert 0 < gone < 2_000
    assert ["short"] == early
    assert [f"m{n}" for n in range(2_000)] == [one for one in found if one != "short"]


async def _set_back_when_closed(
    wall: VirtualClock, life: Life, slot_ms: int, arrived: trio.Event
) -> None:
    """Half a minute back, as soon as a slot is closed of which some is still on its way."""
    await arrived.wait()
    for _ in range(1_000):
        if life.service.state.read_ms > slot_ms:
            break
        await trio.lowlevel.checkpoint()
    wall.step(-30_000)


async def _close_and_set_back(wall: VirtualClock, life: Life, slot_ms: int) -> None:
    """Messages in a slot and the one behind it; the clock is set back between the two."""
    arrived = trio.Event()

    def first_arrival(queue: ConsumeQueue) -> None:
        if queue.topic == "T" and not arrived.is_set():
            wall.step(300)
            arrived.set()

    put(life, {f"m{n}": slot_ms + 900 for n in range(40)})
    put(life, {"late": slot_ms + 1_900})
    life.service.store.on_arrival(first_arrival)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set_back_when_closed, wall, life, slot_ms, arrived)
        await trio.sleep((slot_ms - wall.now_ms()) / 1_000 + 2)


SMALL_BATCHES = attrs.evolve(WHEEL, deliver_batch_count_max=4)


@pytest.mark.parametrize("_", range(4))  # who runs first is up to trio
async def test_a_mark_that_waits_for_early_messages_repeats_nothing(
    autojump_clock: trio.testing.MockClock, _: int
) -> None:
    """What a later slot delivers while early messages stand aside is known after a kill."""
    wall = VirtualClock()
    disk = new_disk(wall)
    slot_ms = START_MS + 1_000
    options = attrs.evolve(SMALL_BATCHES, timer_flush_interval_ms=100)
    async with living(disk, wall, options=options, stop=False) as life:
        await _close_and_set_back(wall, life, slot_ms)
        put(life, {"short": life.clock.now_ms() + 500})
        await trio.sleep((slot_ms + 1_400 - wall.now_ms()) / 1_000)
        committed_ms = life.service.state.commit_read_ms
        await trio.sleep(0.2)
    disk.process_kill()
    async with living(disk, wall, options=options) as life:
        await trio.sleep(10)
        found = life.bodies()

    assert slot_ms + 1_000 == committed_ms
    assert sorted(["short", "late", *(f"m{n}" for n in range(40))]) == sorted(found)


@pytest.mark.parametrize("_", range(10))  # who runs first is up to trio
async def test_a_kill_loses_nothing_that_stepped_aside(
    autojump_clock: trio.testing.MockClock, _: int
) -> None:
    """Their slot is closed, checkpoints are written, and they are not due again yet."""
    wall = VirtualClock()
    disk = new_disk(wall)
    slot_ms = START_MS + 1_000
    options = attrs.evolve(SMALL_BATCHES, timer_flush_interval_ms=100)
    async with living(disk, wall, options=options, stop=False) as life:
        await _close_and_set_back(wall, life, slot_ms)
        await trio.sleep(1)
        gone = len(life.bodies())
    disk.process_kill()
    async with living(disk, wall, options=options) as life:
        await trio.sleep(40)
        found = life.bodies()

    assert gone < 41
    assert sorted(["late", *(f"m{n}" for n in range(40))]) == sorted(found)


async def test_what_stepped_aside_is_not_cleaned_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its slot is closed and its batch is over: no other place tells cleaning of it.

    Whether the last batch is still on its way when its slot is closed is up to trio: lives are led
    until it is.
    """
    slot_ms = read_ms = 0
    gone, first_left_py = 40, -1
    aside_py: int | None = None
    pinned_py: int | None = None
    for _ in range(40):
        wall = VirtualClock()
        slot_ms = wall.now_ms() // 1_000 * 1_000 + 1_000
        async with living(new_disk(wall), wall, options=SMALL_BATCHES) as life:
            await _close_and_set_back(wall, life, slot_ms)
            gone = len(life.bodies())
            queue = life.service.store.queue(TIMER_TOPIC, 0)
            assert queue is not None
            first_left_py = int(queue.units(gone, 1)["phy_offset"][0])
            read_ms, aside_py = life.service.state.read_ms, life.service.state.oldest_leaving_py()
            pinned_py = life.service.needed_from()
        if gone < 40:
            break

    assert 0 < gone < 40
    assert read_ms > slot_ms
    assert aside_py == first_left_py
    assert pinned_py is not None
    assert pinned_py <= first_left_py


@pytest.mark.parametrize("_", range(4))
async def test_rolls_and_early_messages_of_one_slot_stop_nothing(
    autojump_clock: trio.testing.MockClock, _: int
) -> None:
    """A slot that waits for the rolls before it does not wait for what stands aside there."""
    wall = VirtualClock()
    async with living(new_disk(wall), wall, options=SMALL_BATCHES) as life:
        put(life, {"far": START_MS + 2 * HOUR_MS})
        await trio.sleep(1)
        (slot_ms,) = life.service.live()["time_ms"].tolist()
        await _close_and_set_back(wall, life, slot_ms)
        put(life, {"short": life.clock.now_ms() + 500})
        await trio.sleep(0.6)
        early = [one for one in life.bodies() if one == "short"]
        await trio.sleep(2 * HOUR_MS / 1_000)
        found, counted = life.bodies(), life.service.statistics()

    assert ["short"] == early
    assert sorted(["far", "short", "late", *(f"m{n}" for n in range(40))]) == sorted(found)
    assert (True, 0) == (counted.rolled > 0, counted.early)


@pytest.mark.parametrize("stop", [True, False], ids=["stop", "kill"])
@pytest.mark.parametrize(
    "step_ms", [-3 * YEAR_MS, -DAY_MS, -HOUR_MS, HOUR_MS, 10 * DAY_MS, 3 * YEAR_MS]
)
async def test_a_step_around_a_kill(
    autojump_clock: trio.testing.MockClock, step_ms: int, stop: bool
) -> None:
    """The clock is set while the broker is down: once each, none early, short ones on time."""
    wall = VirtualClock()
    disk = new_disk(wall)
    moments = {f"m{n}": START_MS + 5_000 * n for n in range(1, 40)}
    async with living(disk, wall, files=QUIET_SYNC, stop=stop) as life:
        put(life, moments)
        await life.service.store.wait_flushed(life.service.store.commit_log.max_offset)
        await trio.sleep(42)
        gone = life.bodies()
    if not stop:
        disk.process_kill()
    wall.step(step_ms)
    async with living(disk, wall, files=QUIET_SYNC) as life:
        state = life.clock.status().state
        short_ms = life.clock.now_ms() + 2_000
        put(life, {"short": short_ms})
        await trio.sleep(2.1)
        short = [one for one in life.bodies() if one == "short"]
        wall.step(max(-step_ms, 0))
        await trio.sleep(250)
        found = life.bodies()
        early = life.service.statistics().early

    assert len(gone) == 8
    assert ["short"] == short
    assert ClockState.UNSAFE == state if step_ms < -HOUR_MS else ClockState.SAFE == state
    assert sorted([*moments, "short"]) == sorted(found)
    assert early == 0


@pytest.mark.parametrize("ppm", [-100_000, -500, 500, 100_000])
async def test_drift(autojump_clock: trio.testing.MockClock, ppm: int) -> None:
    """A wall clock that is slow or fast: messages keep to it, in order and none early."""
    wall = VirtualClock()
    moments = {f"m{n}": START_MS + 1_000 * n for n in range(1, 300)}
    async with living(new_disk(wall), wall) as life:
        put(life, moments)
        for _ in range(345):
            wall.step(ppm // 1_000)
            await trio.sleep(1)
            wall.step(ppm % 1_000 // 500)
        found = life.found()
        early, state = life.service.statistics().early, life.clock.status().state

    assert list(moments) == [one.body for one in found]
    assert [one for one in found if one.stored_ms < moments[one.body]] == []
    assert (0, ClockState.SAFE) == (early, state)


class StoppableClock(VirtualClock):
    """A wall clock that can stand still."""

    stands_at: int | None = None
    looks = 0
    """How often it was read."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, or where the clock stands; looks are counted."""
        self.looks += 1
        return super().now_ms() if self.stands_at is None else self.stands_at


async def test_a_stopped_clock(autojump_clock: trio.testing.MockClock) -> None:
    """A wall clock that stands still is UNSAFE and fires nothing; when it goes on, so do they."""
    wall = StoppableClock()
    moments = {f"m{n}": START_MS + 1_000 * n for n in range(1, 30)}
    async with living(new_disk(wall), wall) as life:
        put(life, moments)
        await trio.sleep(4.5)
        wall.stands_at = wall.now_ms()
        await trio.sleep(20)
        standing, gone = life.clock.status(), life.bodies()
        wall.step(-20_000)
        wall.stands_at = None
        await trio.sleep(60)
        going, found = life.clock.status(), life.bodies()

    assert (ClockState.UNSAFE, "stopped") == (standing.state, standing.fault)
    assert ["m1", "m2", "m3", "m4"] == gone
    assert ClockState.SAFE == going.state
    assert list(moments) == found


async def test_a_stopped_clock_keeps_no_task_busy(autojump_clock: trio.testing.MockClock) -> None:
    """What is due in a millisecond is looked for twenty times a second, and seldom late by more."""
    wall = StoppableClock()
    async with living(new_disk(wall), wall) as life:
        put(life, {"m": START_MS + 2_001})
        await trio.sleep(2)
        wall.stands_at, wall.looks = wall.now_ms(), 0
        await trio.sleep(100)
        looks = wall.looks
        wall.step(-100_000)
        wall.stands_at = None
        await trio.sleep(10)
        (found,) = life.found()

    assert 100 < looks < 100 * 20 * 20
    assert START_MS + 2_001 <= found.stored_ms <= START_MS + 2_001 + STANDING_MS_MAX


@pytest.mark.parametrize("kill", [False, True])
async def test_a_wheel_that_was_days_ahead_is_brought_back(
    autojump_clock: trio.testing.MockClock, kill: bool
) -> None:
    """A wrong clock was believed; set right and accepted, the read pointer is back, once each."""
    wall = VirtualClock()
    disk = new_disk(wall)
    ahead_ms = 2 * DAY_MS
    far = {f"far{n}": START_MS + 3 * ahead_ms + 600_000 * n for n in range(5)}
    options = TimerOptions(
        slots_total=200_000, timer_roll_window_slot=100_000, timer_max_delay_sec=10 * 86_400
    )
    async with living(disk, wall, options=options, stop=not kill) as life:
        put(life, {"soon": START_MS + 2_000, **far})
        await trio.sleep(5)
        wall.step(ahead_ms)
        life.clock.accept()
        put(life, {"ahead": life.clock.now_ms() + 20_000})
        await trio.sleep(10)
        was_ahead_ms = life.service.state.read_ms - START_MS
        wall.step(-ahead_ms)
        await trio.sleep(5)
        before = life.clock.status()
        put(life, {"gathered": wall.now_ms() + 50_000})
        await trio.sleep(1)
        life.clock.accept()
        rewound = life.service.rewind()
        await trio.sleep(2)
        back_ms = life.service.state.read_ms - wall.now_ms()
        slots = life.service.live()["time_ms"].tolist()
        put(life, {"fresh": wall.now_ms() + 3_000})
        await trio.sleep(120)
        found = life.bodies()
        counted = life.service.statistics().pending_by_topic
    if kill:
        disk.process_kill()
    wall.step(4 * ahead_ms)
    async with living(disk, wall, options=options) as life:
        after = life.clock.status().state
        await trio.sleep(5)
        everything = life.found()

    assert was_ahead_ms > ahead_ms
    assert ("backward", True) == (before.fault, rewound)
    assert -5_000 < back_ms <= 0
    assert [] == [one for one in slots if one > wall.now_ms() + ahead_ms - 4 * ahead_ms]
    assert ["soon", "fresh", "gathered"] == found
    assert {"T": 6} == counted
    assert ClockState.SAFE == after
    assert sorted(["soon", "ahead", "gathered", "fresh", *far]) == sorted(
        one.body for one in everything
    )


@pytest.fixture
def another_zone() -> Iterator[None]:
    """The machine's time zone is another one for a while."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Pacific/Kiritimati"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


async def test_time_zones_have_no_effect(
    autojump_clock: trio.testing.MockClock, another_zone: None
) -> None:
    """Fourteen hours ahead of UTC a message comes in its millisecond, and no step is seen."""
    wall = VirtualClock()
    async with living(new_disk(wall), wall) as life:
        put(life, {"m": START_MS + 1_234})
        await trio.sleep(5)
        found, status = life.found(), life.clock.status()

    assert [START_MS + 1_234] == [one.stored_ms for one in found]
    assert (0, 0) == (status.steps_forward, status.steps_backward)


async def test_catching_up_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """A step makes much due at once: it leaves in batches, and what is sent meanwhile is served."""
    wall = VirtualClock()
    sizes: list[int] = []
    options = attrs.evolve(WHEEL, deliver_batch_count_max=64, slot_units_max=128)
    async with living(new_disk(wall), wall, options=options) as life:
        moments = {f"m{n}": START_MS + 60_000 + n % 1_500 * 2 for n in range(3_000)}
        put(life, moments)
        await trio.sleep(1)
        start = len(life.bodies())
        begun = trio.Event()

        def arrived(_: ConsumeQueue) -> None:
            sizes.append(1)
            begun.set()

        life.service.store.on_arrival(arrived)
        wall.step(2 * 60_000)
        await begun.wait()
        put(life, {"new": wall.now_ms() - 1})
        await trio.sleep(30)
        found = life.bodies()

    assert 0 == start
    assert 0 < found.index("new") < 3_000
    found.remove("new")
    assert sorted(moments) == sorted(found)
    ordered = [moments[one] for one in found]
    assert sorted(ordered) == ordered
    assert len(sizes) >= 3_000 // 64
