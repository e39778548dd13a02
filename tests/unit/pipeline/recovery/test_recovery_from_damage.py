"""Recovery from files that are missing, cut or wrong: what waits is found and arrives once."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from functools import partial

import attrs
import pytest
import trio

from simulation.staged_service import ROOT, arrivals, running, timed
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.repair.lost_record import lost_record
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT, ChainError, TimerCheckpoint
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.record_layout import MAGIC_AT, MAGIC_V1, QUEUE_OFFSET_AT
from timermq.timerstore.seal_reader import remove_seals
from unit.pipeline.recovery.crashed_store import (
    CANCELLED,
    CHECKPOINT,
    OPTIONS,
    SEGMENT_SIZE,
    TIMER_LOG,
    WHEEL,
    Crashed,
    crashed,
    delivered_in_the_end,
    lose_units,
    lose_wheel,
    reopen,
    set_in_newest_slot,
)

QUEUE_OFFSET = struct.Struct(">q")
FAR_POS = 1 << 40
"""Behind the end of any timer log here."""


def lose_checkpoint(disk: MemoryDisk) -> None:
    """The checkpoint's file is gone."""
    disk.remove(CHECKPOINT)


def empty_checkpoint(disk: MemoryDisk) -> None:
    """The checkpoint was created and never written."""
    disk.open(CHECKPOINT).truncate(0)


def lose_timer_log(disk: MemoryDisk) -> None:
    """All segments of the timer log are gone."""
    for name in disk.list_dir(TIMER_LOG):
        disk.remove(f"{TIMER_LOG}/{name}")


def lose_all_three(disk: MemoryDisk) -> None:
    """Only the messages are left."""
    lose_checkpoint(disk)
    lose_timer_log(disk)
    lose_wheel(disk)


def empty_wheel(disk: MemoryDisk) -> None:
    """The wheel's file was created and never written."""
    disk.open(WHEEL).truncate(0)


def tear_checkpoint(disk: MemoryDisk) -> None:
    """RocketMQ's numbers have changed under our block."""
    disk.open(CHECKPOINT).write(55, b"\x7f")


def tear_last_unit(disk: MemoryDisk) -> None:
    """The second half of the newest unit never reached the disk."""
    name = disk.list_dir(TIMER_LOG)[-1]
    file = disk.open(f"{TIMER_LOG}/{name}")
    data = file.read(0, SEGMENT_SIZE)
    last = max(at for at in range(0, 208, 52) if data[at : at + 4] == b"\0\0\0\x34")
    file.write(last + 24, bytes(28))


def cut_last_unit_short(disk: MemoryDisk) -> None:
    """The process was killed while it wrote the newest unit: of its size a part is there."""
    name = disk.list_dir(TIMER_LOG)[-1]
    file = disk.open(f"{TIMER_LOG}/{name}")
    data = file.read(0, SEGMENT_SIZE)
    last = max(at for at in range(0, 208, 52) if data[at : at + 4] == b"\0\0\0\x34")
    size_at = last + UNIT.offset_of("size_py")
    file.write(size_at, b"\0\0\0\1".ljust(last + UNIT.size - size_at, b"\0"))


def write_into_unit(disk: MemoryDisk, number: int, at: int, value: bytes) -> None:
    """Change one of the units that were durable long before the kill."""
    segment, index = divmod(number, 4)
    file = disk.open(f"{TIMER_LOG}/{segment * SEGMENT_SIZE:020}")
    file.write(index * UNIT.size + at, value)


def damaged_unit(number: int) -> Callable[[MemoryDisk], None]:
    """The unit is zeros. 24, 25 and 26 are those of one slot that waits, oldest first."""
    return partial(write_into_unit, number=number, at=0, value=bytes(UNIT.size))


def linked_to(pos: int) -> Callable[[MemoryDisk], None]:
    """The second unit of that slot names another one as the one before it; nothing is sealed."""

    def link(disk: MemoryDisk) -> None:
        at = UNIT.offset_of("prev_pos")
        write_into_unit(disk, number=25, at=at, value=pos.to_bytes(8, "big"))
        remove_seals(disk, TIMER_LOG)

    return link


DAMAGES: dict[str, tuple[Callable[[MemoryDisk], None], str]] = {
    "no checkpoint": (lose_checkpoint, "no checkpoint"),
    "empty checkpoint": (empty_checkpoint, "no checkpoint"),
    "torn checkpoint": (tear_checkpoint, "java"),
    "no wheel": (lose_wheel, "ours, wheel lost"),
    "empty wheel": (empty_wheel, "ours, wheel lost"),
    "last unit behind the end": (
        partial(set_in_newest_slot, column="last_pos", value=FAR_POS),
        "ours, wheel lost",
    ),
    "last unit of another slot": (
        partial(set_in_newest_slot, column="last_pos", value=0),
        "ours, wheel lost",
    ),
    "last unit inside a unit": (
        partial(set_in_newest_slot, column="last_pos", value=53),
        "ours, wheel lost",
    ),
    "last unit negative": (
        partial(set_in_newest_slot, column="last_pos", value=-5),
        "ours, wheel lost",
    ),
    "first unit behind the end": (
        partial(set_in_newest_slot, column="first_pos", value=FAR_POS),
        "ours, wheel lost",
    ),
    "first unit of another slot": (
        partial(set_in_newest_slot, column="first_pos", value=0),
        "ours, wheel lost",
    ),
    "no timer log": (lose_timer_log, "ours, log short, wheel lost"),
    "short timer log": (lose_units, "ours, log short"),
    "torn unit": (tear_last_unit, "ours"),
    "unit cut short": (cut_last_unit_short, "ours"),
    "first unit damaged": (damaged_unit(24), "ours, log short, wheel lost"),
    "unit damaged": (damaged_unit(25), "ours, log short"),
    "last unit damaged": (damaged_unit(26), "ours, log short, wheel lost"),
    "read unit damaged": (damaged_unit(5), "ours, log short"),
    "oldest unit damaged": (damaged_unit(0), "ours, log short"),
    "link forward": (linked_to(26 // 4 * SEGMENT_SIZE + 26 % 4 * UNIT.size), "ours, log short"),
    "link to another slot": (linked_to(52), "ours, log short"),
    "messages alone": (lose_all_three, "no checkpoint, wheel lost"),
}


async def damaged(name: str) -> Crashed:
    """A killed service with one thing broken."""
    crash = await crashed()
    DAMAGES[name][0](crash.disk)
    return crash


@pytest.mark.parametrize("name", DAMAGES)
async def test_found_once(autojump_clock: trio.testing.MockClock, name: str) -> None:
    """Each pending message is in the chains once, and each slot counts what its chain holds."""
    crash = await damaged(name)
    store = reopen(crash)
    store.enqueue()
    found = Counter({body: n for body, n in store.in_slots().items() if body not in CANCELLED})

    assert DAMAGES[name][1] == store.recovered.decision.label
    assert Counter(crash.waiting) == found


@pytest.mark.parametrize("name", DAMAGES)
async def test_delivered_once(autojump_clock: trio.testing.MockClock, name: str) -> None:
    """In the end each message has arrived once, and no cancelled one."""
    crash = await damaged(name)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


@pytest.mark.parametrize("name", DAMAGES)
async def test_killed_while_it_repairs(autojump_clock: trio.testing.MockClock, name: str) -> None:
    """A kill before the first checkpoint after the repair: log and wheel are not taken for old."""
    crash = await damaged(name)
    for batch_count in (0, 1, 1 << 20):
        reopen(crash).enqueue(batch_count=batch_count)
        crash.disk.process_kill()
    store = reopen(crash)
    store.enqueue()
    found = Counter({body: n for body, n in store.in_slots().items() if body not in CANCELLED})

    assert Counter(crash.waiting) == found


async def test_damage_behind_a_clean_stop(autojump_clock: trio.testing.MockClock) -> None:
    """The next start compares the timer log with its seals, and repairs it."""
    crash = await crashed()
    async with running(crash.disk, crash.clock, timer_options=OPTIONS):
        await trio.sleep(2)
    DAMAGES["unit damaged"][0](crash.disk)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


async def test_a_chain_that_breaks_later(autojump_clock: trio.testing.MockClock) -> None:
    """Damage while it serves is met when the slot is read: the units are made anew, in place."""
    crash = await crashed()
    async with running(crash.disk, crash.clock, timer_options=OPTIONS):
        DAMAGES["unit damaged"][0](crash.disk)
        await trio.sleep(200)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


async def break_twice(crash: Crashed, *, has_seals: bool) -> None:
    """Damage units under a service before the first is read, and again when all are made anew."""
    async with running(crash.disk, crash.clock, timer_options=OPTIONS) as service:
        timer_log = service.files.timer_log
        end = timer_log.max_pos
        for numbers in ((), range(8)):
            if not has_seals:
                remove_seals(crash.disk, TIMER_LOG)
            for number in numbers:
                damaged_unit(number)(crash.disk)
            if not numbers:
                DAMAGES["unit damaged"][0](crash.disk)
            for _ in range(200):
                await trio.sleep(0 if timer_log.max_pos < end else 1)


async def test_a_chain_that_breaks_twice(autojump_clock: trio.testing.MockClock) -> None:
    """Its seals tell of it: the units are made anew again."""
    crash = await crashed()
    await break_twice(crash, has_seals=True)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


async def test_a_chain_that_breaks_twice_without_seals(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A second time the service ends; the next start repairs it."""
    crash = await crashed()
    with pytest.RaisesGroup(ChainError, flatten_subgroups=True):
        await break_twice(crash, has_seals=False)
    crash.disk.process_kill()

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


async def test_a_wheel_of_a_larger_ring_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """The wheel's file has the length of its ring; a smaller setting does not touch it."""
    crash = await crashed()
    before = crash.disk.open(WHEEL).read(0, 1 << 20)
    with pytest.raises(StoreFormatError) as caught:
        reopen(crash, attrs.evolve(OPTIONS, slots_total=119))

    assert "/store/timerwheel: at 7680: expected a wheel of 7616 bytes, found 7680" == str(
        caught.value
    )
    assert before == crash.disk.open(WHEEL).read(0, 1 << 20)


@pytest.mark.parametrize("slots_total", [120, 121], ids=["a cut file", "a larger ring"])
async def test_a_wheel_that_is_too_short_is_made_anew(
    autojump_clock: trio.testing.MockClock, slots_total: int
) -> None:
    """Of the timer log, which has all that it shows."""
    crash = await crashed()
    crash.disk.open(WHEEL).truncate(512)

    options = attrs.evolve(OPTIONS, slots_total=slots_total)
    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash, options)


@pytest.mark.parametrize("size", [0, 52, 100])
async def test_a_segment_that_was_cut_short(
    autojump_clock: trio.testing.MockClock, size: int
) -> None:
    """It gets its length again, and its units are made of the commit log."""
    crash = await crashed()
    crash.disk.open(f"/store/timerlog/{6 * SEGMENT_SIZE:020d}").truncate(size)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("has_seals", [True, False])
@pytest.mark.parametrize(
    "numbers", [(0,), (5,), (5, 6), (0, 1, 2, 3, 4, 5), (-1,), (0, 5, -1)], ids=str
)
async def test_a_segment_that_is_lost(
    autojump_clock: trio.testing.MockClock, numbers: tuple[int, ...], has_seals: bool, stop: bool
) -> None:
    """It is begun again, and its units are made of the commit log."""
    crash = await crashed()
    if stop:
        async with running(crash.disk, crash.clock, timer_options=OPTIONS):
            pass
    names = crash.disk.list_dir(TIMER_LOG)
    for number in numbers:
        crash.disk.remove(f"{TIMER_LOG}/{names[number]}")
    if not has_seals:
        remove_seals(crash.disk, TIMER_LOG)

    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


@pytest.mark.parametrize("precision_ms", [100, 500])
async def test_another_precision_is_refused_while_timers_wait(
    autojump_clock: trio.testing.MockClock, precision_ms: int
) -> None:
    """Units and records name slots of the precision they were made with."""
    crash = await crashed()
    other = attrs.evolve(OPTIONS, timer_precision_ms=precision_ms)
    with pytest.raises(StoreFormatError) as caught:
        reopen(crash, other)
    crash.disk.process_kill()

    assert (
        "/store/config/timercheck: at 72: expected timer_precision_ms 1000 until no timer waits, "
        f"found {precision_ms}" == str(caught.value)
    )
    assert Counter(crash.arrived + crash.waiting) == await delivered_in_the_end(crash)


@pytest.mark.parametrize("precision_ms", [100, 500])
async def test_another_precision_begins_with_an_empty_wheel(
    autojump_clock: trio.testing.MockClock, precision_ms: int
) -> None:
    """When nothing waits the precision may change."""
    crash = await crashed()
    await delivered_in_the_end(crash)
    other = attrs.evolve(OPTIONS, timer_precision_ms=precision_ms, timer_roll_window_slot=60)
    async with running(crash.disk, crash.clock, timer_options=other) as service:
        service.put([timed("new", crash.clock.now_ms() + 3_210)])
        await trio.sleep(5)
        found = Counter(one.body for one in arrivals(service.store))

    assert Counter((*crash.arrived, *crash.waiting, "new")) == found


async def test_power_cut(autojump_clock: trio.testing.MockClock) -> None:
    """What was synced arrives once, also what was delivered and is gone from its topic."""
    crash = await crashed()
    crash.disk.power_cut()
    synced = Counter(body for body in crash.arrived + crash.waiting if body[:4] != "last")

    assert synced == await delivered_in_the_end(crash)


@pytest.mark.parametrize("life", [0.0, 0.1, 0.3, 0.5, 0.7])
async def test_dies_again_soon(autojump_clock: trio.testing.MockClock, life: float) -> None:
    """What the first life delivered still counts when the second dies after a checkpoint."""
    crash = await crashed()
    options = attrs.evolve(OPTIONS, timer_flush_interval_ms=200)
    for stop in (False, False, True):
        async with running(crash.disk, crash.clock, timer_options=options, stop=stop):
            await trio.sleep(life)
        crash.disk.process_kill()

    assert await delivered_in_the_end(crash) == Counter(crash.arrived + crash.waiting)


async def test_segments_that_lost_their_lengths(autojump_clock: trio.testing.MockClock) -> None:
    """A power cut left two names of the timer log durable and their lengths not."""
    crash = await crashed()
    last = int(crash.disk.list_dir(TIMER_LOG)[-1])
    for number in (1, 2):
        crash.disk.open(f"{TIMER_LOG}/{last + number * SEGMENT_SIZE:020}", create=True)

    assert await delivered_in_the_end(crash) == Counter(crash.arrived + crash.waiting)


async def test_a_message_that_a_power_cut_took_while_it_repairs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is stored where it stood is not taken for it.

    The timer log is shorter than it was, so its unit stands where a durable one stood before.
    """
    crash = await damaged("oldest unit damaged")
    flushed_pos = TimerCheckpoint.open(crash.disk, CHECKPOINT).last_timer_log_flush_pos
    async with running(crash.disk, crash.clock, timer_options=OPTIONS, stop=False) as service:
        result = service.put([timed("lost", crash.clock.now_ms() + 12_000)])[0].result
        await trio.sleep(0.01)
        timer_log = service.files.timer_log
        assert timer_log.unit(timer_log.max_pos - UNIT.size).offset_py == result.phy_offset
        assert timer_log.max_pos < flushed_pos
        for name in crash.disk.list_dir(TIMER_LOG):
            crash.disk.sync_now(crash.disk.open(f"{TIMER_LOG}/{name}"))
        crash.disk.sync_dir_now(TIMER_LOG)
    crash.disk.power_cut()
    async with running(crash.disk, crash.clock, timer_options=OPTIONS) as service:
        assert service.store.commit_log.max_offset == result.phy_offset
        service.put([timed("next", 0)])
        await trio.sleep(200)

        found = Counter(one.body for one in arrivals(service.store))
        assert Counter([*crash.arrived, *crash.waiting, "next"]) == found
        assert service.counts.set_aside == 0


async def test_units_of_what_a_repair_has_replaced(autojump_clock: trio.testing.MockClock) -> None:
    """It had filled a hole of the log, and ended before it came to the timer log."""
    crash = await crashed()
    log = f"{ROOT}/commitlog/{0:020d}"
    file = crash.disk.open(log)
    data = file.read(0, file.size())
    head = MAGIC_V1.to_bytes(4, "big", signed=True)
    lost, kept = (data.rindex(head, 0, data.index(one)) - MAGIC_AT for one in (b"last1", b"last3"))
    (first,) = QUEUE_OFFSET.unpack_from(data, lost + QUEUE_OFFSET_AT)
    now_ms, size = crash.clock.now_ms(), 0
    for number in range(2):
        make = partial(lost_record, TIMER_TOPIC, 0, first + number, position=lost + size)
        one = make(store_ms=now_ms, is_marked=False)
        if number:
            one = make(store_ms=now_ms, is_marked=False, body_size=kept - lost - size - len(one))
        file.write(lost + size, one)
        size += len(one)
    assert lost + size == kept
    remove_seals(crash.disk, f"{ROOT}/commitlog")
    crash.disk.power_cuts += 1
    async with running(crash.disk, crash.clock, timer_options=OPTIONS) as service:
        await trio.sleep(200)

        assert service.counts.set_aside == 0
        found = Counter(one.body for one in arrivals(service.store))
    expected = Counter([*crash.arrived, *crash.waiting])
    assert found == expected - Counter(["last1", "last2"])
