"""The timer service in virtual time: order, rolls, deletes, weeks, kills and power cuts."""

from __future__ import annotations

import random
from collections import Counter

import attrs
import pytest
import trio

from fakes import START_MS, VirtualClock
from simulation.staged_service import (
    QUIET_FILES,
    SMALL_WHEEL,
    SYNC_FILES,
    Arrival,
    arrivals,
    delete_of,
    running,
    timed,
)
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.put_status import PutStatus

DAY_MS = 86_400_000


def new_disk(clock: VirtualClock) -> MemoryDisk:
    """An empty disk whose files have the times of the clock."""
    return MemoryDisk(now_ms=clock.now_ms)


def check(found: list[Arrival], expected: dict[str, int]) -> None:
    """Each expected body once, not before its moment; nothing else."""
    times = Counter(one.body for one in found)

    assert dict.fromkeys(expected, 1) == dict(times)
    assert [one for one in found if one.stored_ms < expected[one.body]] == []


async def test_exact_millisecond(autojump_clock: trio.testing.MockClock) -> None:
    """Each message is stored on its topic in the very millisecond asked for."""
    clock = VirtualClock()
    draw = random.Random(1)
    expected = {f"m{n}": START_MS + draw.randint(20, 9_000) for n in range(300)}
    async with running(new_disk(clock), clock) as service:
        for body, deliver_ms in expected.items():
            service.put([timed(body, deliver_ms)])
        await trio.sleep(10)
        found = arrivals(service.store)

    check(found, expected)
    assert [one for one in found if one.stored_ms != expected[one.body]] == []


async def test_order_at_equal_time(autojump_clock: trio.testing.MockClock) -> None:
    """Messages for one millisecond appear as they were sent, rolled ones and later ones alike."""
    clock = VirtualClock()
    moment = START_MS + 90_000
    async with running(new_disk(clock), clock) as service:
        for n in range(60):
            service.put([timed(f"m{n}", moment)])
            await trio.sleep(1.4)
        await trio.sleep(10)
        found = arrivals(service.store)
        rolled = service.statistics().rolled

    assert rolled > 30
    assert [f"m{n}" for n in range(60)] == [one.body for one in found]
    assert {moment} == {one.stored_ms for one in found}


async def test_a_week_with_rolls(autojump_clock: trio.testing.MockClock) -> None:
    """A week of timers up to three days ahead, rolled on the way, each on its millisecond."""
    clock = VirtualClock()
    draw = random.Random(7)
    expected: dict[str, int] = {}
    options = TimerOptions(clock_check_interval_ms=DAY_MS, timer_flush_interval_ms=600_000)
    async with running(
        new_disk(clock), clock, store_options=QUIET_FILES, timer_options=options
    ) as service:
        for hour in range(24 * 4):
            for n in range(3):
                deliver_ms = clock.now_ms() + draw.randint(1_000, 3 * DAY_MS)
                expected[f"h{hour}n{n}"] = deliver_ms
                service.put([timed(f"h{hour}n{n}", deliver_ms)])
            await trio.sleep(3_600)
        await trio.sleep(3 * 86_400)
        found = arrivals(service.store)
        rolled = service.statistics().rolled

    check(found, expected)
    assert [one for one in found if one.stored_ms != expected[one.body]] == []
    assert rolled > 20


async def test_deletes(autojump_clock: trio.testing.MockClock) -> None:
    """A delete takes its message out, before and after either was rolled, and no other."""
    clock = VirtualClock()
    near, far = START_MS + 7_500, START_MS + 65_500
    async with running(new_disk(clock), clock) as service:
        service.put(
            [timed("near", near), timed("far", far), timed("far2", far), timed("kept", far)]
        )
        await trio.sleep(1)
        service.put([delete_of("near", near), delete_of("far", far)])
        await trio.sleep(50)
        service.put([delete_of("far2", far)])
        await trio.sleep(30)
        found = arrivals(service.store)
        counted = service.statistics().cancelled

    check(found, {"kept": far})
    assert counted == 3


async def test_backward_step(autojump_clock: trio.testing.MockClock) -> None:
    """After the clock was set back nothing fires early; new short timers are on time."""
    clock = VirtualClock()
    seen: list[int] = []

    def arrived(queue: ConsumeQueue) -> None:
        if queue.topic == "T":
            seen.append(clock.now_ms())

    before = START_MS + 5_000
    async with running(new_disk(clock), clock) as service:
        service.store.on_arrival(arrived)
        service.put([timed("before", before)])
        await trio.sleep(3)
        clock.step(-60_000)
        after = clock.now_ms() + 2_000
        service.put([timed("after", after)])
        await trio.sleep(100)
        found = arrivals(service.store)
        early = service.statistics().early

    assert ["after", "before"] == [one.body for one in found]
    assert [after, before] == seen
    assert early == 0


async def test_poison_is_quarantined(autojump_clock: trio.testing.MockClock) -> None:
    """A record in the timer topic that is no timer is quarantined; the wheel goes on."""
    clock = VirtualClock()
    expected = {"good": START_MS + 2_000}
    async with running(new_disk(clock), clock) as service:
        poison = timed("poison", START_MS + 1_000)
        poison.topic = "rmq_sys_wheel_timer"
        service.store.put([poison])
        service.put([timed("good", expected["good"])])
        await trio.sleep(5)
        found = arrivals(service.store)
        set_aside = service.statistics().set_aside

    check(found, expected)
    assert set_aside == 1


@pytest.mark.parametrize("outage_days", [0, 2, 10])
async def test_outage(autojump_clock: trio.testing.MockClock, outage_days: int) -> None:
    """After an outage, also one longer than the wheel's span, everything due comes in order."""
    clock = VirtualClock()
    disk = new_disk(clock)
    options = TimerOptions(
        slots_total=7_200, timer_roll_window_slot=3_600, clock_check_interval_ms=DAY_MS
    )
    draw = random.Random(outage_days)
    expected = {f"m{n}": START_MS + draw.randint(1_000, 7_000_000) for n in range(200)}
    async with running(disk, clock, timer_options=options) as service:
        for body, deliver_ms in expected.items():
            service.put([timed(body, deliver_ms)])
        await trio.sleep(1)
    clock.step(outage_days * DAY_MS)
    async with running(disk, clock, timer_options=options) as service:
        await trio.sleep(10_000)
        found = arrivals(service.store)

    check(found, expected)
    if outage_days:
        moments = [expected[one.body] for one in found]
        direct = [m for m in moments if m < START_MS + 3_600_000]
        assert direct == sorted(direct)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("fault", ["kill", "power"])
async def test_crashes(autojump_clock: trio.testing.MockClock, seed: int, fault: str) -> None:
    """Whatever instant the process dies at: acknowledged, once, not early; cancelled, never."""
    draw = random.Random(seed * 2 + (fault == "power"))
    clock = VirtualClock()
    disk = new_disk(clock)
    expected: dict[str, int] = {}
    cancelled: dict[str, int] = {}
    number = 0
    for _ in range(6):
        async with running(
            disk, clock, store_options=SYNC_FILES, stop=draw.random() < 0.2
        ) as service:
            for _ in range(draw.randint(1, 12)):
                for _ in range(draw.randint(1, 8)):
                    number += 1
                    body, deliver_ms = f"m{number}", clock.now_ms() + draw.randint(1, 60_000)
                    result = service.put([timed(body, deliver_ms)])[0].result
                    assert result.status == PutStatus.PUT_OK
                    assert await service.store.wait_flushed(result.phy_offset + result.size)
                    expected[body] = deliver_ms
                if expected and draw.random() < 0.5:
                    body = draw.choice(list(expected))
                    if expected[body] > clock.now_ms() + 2_500:
                        result = service.put([delete_of(body, expected[body])])[0].result
                        assert await service.store.wait_flushed(result.phy_offset + result.size)
                        cancelled[body] = expected.pop(body)
                await trio.sleep(draw.random() * 4)
        if fault == "power":
            disk.power_cut()
        else:
            disk.process_kill()
        if draw.random() < 0.3:
            clock.step(draw.randint(0, 40_000))
    async with running(disk, clock, store_options=SYNC_FILES) as service:
        await trio.sleep(200)
        found = arrivals(service.store)

    assert [one for one in found if one.body in cancelled] == []
    check(found, expected)


async def test_what_is_linked_while_its_slot_closes(autojump_clock: trio.testing.MockClock) -> None:
    """The clock passes a slot's end at any turn of the stages: what they still link there leaves.

    Among deletes, which are read and leave nothing behind: then the slot looks used up.
    """
    clock = VirtualClock()
    options = attrs.evolve(SMALL_WHEEL, enqueue_batch_count_max=1, enqueue_linger_ms=0)
    expected: dict[str, int] = {}
    async with running(new_disk(clock), clock, timer_options=options) as service:
        for turns in range(40):
            end_ms = (clock.now_ms() // 1000 + 2) * 1000
            expected[f"opens {turns}"] = end_ms - 500
            service.put([timed(f"opens {turns}", end_ms - 500)])
            await trio.sleep((end_ms - 1 - clock.now_ms()) / 1000)
            for n in range(3):
                service.put([delete_of("unknown", end_ms), timed(f"{turns} {n}", end_ms)])
                expected[f"{turns} {n}"] = end_ms
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            clock.step(2)
        await trio.sleep(10)
        found = arrivals(service.store)

    check(found, expected)
