"""Recovery that begins somewhere else than where the run before ended, also behind cleaning.

Messages and their deletes roll each by itself, so the two stand in different places of both logs.
Whatever part of them is cleaned, cut off or damaged: nothing that was cancelled or moved arrives,
nothing arrives twice, and nothing that was done is taken for lost.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

import attrs
import pytest
import trio
from trio.testing import MockClock

from damaged_stores import checked, damage_of, flip_bit, repair
from fakes import START_MS, VirtualClock
from simulation.staged_service import ROOT, SMALL_FILES, arrivals, delete_of, running, timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.timer_properties import DELETE_NAME, DELETE_ORDER_NAME, ORDER_NAME
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.disk_damage import read_image, write_image
from timermq.simulator.disks.fault_plan import TAKING_SPACE, Fault, FaultRule, FaultRules
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT
from timermq.timerstore.record import decode_record

NAMES = [f"m{number}" for number in range(24)]
DUE_MS = START_MS + 50_000
MOVED_MS = START_MS + 5_000
WINDOW_MS = 20_000
UNITS = 400
WHEEL = TimerOptions(
    slots_total=120,
    timer_roll_window_slot=WINDOW_MS // 1000,
    mapped_file_size_timer_log=UNIT.size * UNITS + 16,
)
ONE_SEGMENT = attrs.evolve(SMALL_FILES, mapped_file_size_commit_log=1 << 20)
NEVER_FULL = attrs.evolve(
    ONE_SEGMENT,
    mapped_file_size_consume_queue=200_000,
    disk_space_clean_forcibly_ratio=100,
    disk_space_warning_level_ratio=100,
)
TIMER_LOG = f"{ROOT}/timerlog/{0:020}"
TIMERCHECK = f"{ROOT}/config/timercheck"
REGISTER = f"{ROOT}/config/consumeQueues.json"


@attrs.frozen
class Copy:
    """A record of the timer topic."""

    order_py: int
    is_delete: bool
    phy_offset: int
    store_ms: int


def copies(store: MessageStore) -> Iterator[Copy]:
    """What stands in the timer topic."""
    log = store.commit_log
    for place in log.scan(log.min_offset, check_crc=False):
        record = decode_record(log.read(*place))
        if record.topic == TIMER_TOPIC:
            text = record.properties
            is_delete = find(text, DELETE_NAME) is not None
            order = find(text, DELETE_ORDER_NAME if is_delete else ORDER_NAME)
            order_py = record.phy_offset if order is None else int(order)
            yield Copy(order_py, is_delete, record.phy_offset, record.store_ms)


def newest_copies(store: MessageStore) -> list[tuple[Copy, Copy]]:
    """Of each message its newest record and that of its delete."""
    messages: dict[int, Copy] = {}
    deletes: dict[int, Copy] = {}
    for one in copies(store):
        (deletes if one.is_delete else messages)[one.order_py] = one
    return [(messages[order], delete) for order, delete in deletes.items() if order in messages]


def take_back(service: TimerMessageStore, how: str) -> None:
    """Store the messages, and cancel or move all of them."""
    for name in NAMES:
        service.put([timed(name, DUE_MS)])
    for name in NAMES:
        wanted = Wanted("T", name)
        if how == "cancel":
            result = service.cancellation.cancel(wanted)
        else:
            result = service.cancellation.reschedule(wanted, MOVED_MS)
        assert result.verdict is Verdict.CANCELLED


async def until_apart(
    service: TimerMessageStore, clock: VirtualClock, *, is_delete_ahead: bool
) -> None:
    """Wait until of some messages one of the two is in its last slot, and the other is not."""
    final_ms = DUE_MS - WINDOW_MS
    await trio.sleep((final_ms - clock.now_ms()) / 1000)
    while clock.now_ms() < DUE_MS - 4_000:
        await trio.sleep(0.1)
        pairs = newest_copies(service.store)
        ordered = [pair if is_delete_ahead else pair[::-1] for pair in pairs]
        if sum(behind.store_ms <= final_ms < ahead.store_ms for behind, ahead in ordered) >= 3:
            return
    raise AssertionError("no message rolled without its delete")


def plain(size: int) -> Message:
    """A message of no timer."""
    return Message(topic="P", queue_id=0, body=b"x" * size)


def begin_segment(store: MessageStore) -> None:
    """Fill the log's segment, and begin the next one."""
    stored = store.put([plain(300)])
    while store.commit_log.room > 300 and stored[0].status is PutStatus.PUT_OK:
        stored = store.put([plain(min(3_000, max(store.commit_log.room - 300, 10)))])
    stored += store.put([plain(300)])
    assert all(one.status is PutStatus.PUT_OK for one in stored)


async def clean(disk: MemoryDisk, store: MessageStore) -> int:
    """Clean as on a disk that is nearly full; returns where the log begins."""
    disk.total = disk.usage(ROOT).used * 100 // 90
    await store.clean()
    disk.total = 1 << 50
    return store.commit_log.min_offset


def bodies(store: MessageStore) -> list[str]:
    """Bodies of what has arrived, in order."""
    return [one.body for one in arrivals(store)]


async def cancelled_and_cleaned(
    disk: MemoryDisk, clock: VirtualClock, service: TimerMessageStore
) -> None:
    """Messages that are cancelled and over, with a segment's border between them and deletes."""
    take_back(service, "cancel")
    await until_apart(service, clock, is_delete_ahead=True)
    begin_segment(service.store)
    service.put([timed("plain", DUE_MS - 100)])
    await trio.sleep((DUE_MS + 20_000 - clock.now_ms()) / 1000)
    assert await clean(disk, service.store) == SMALL_FILES.mapped_file_size_commit_log
    await trio.sleep(10)
    assert bodies(service.store) == ["plain"]


def lose_position(disk: MemoryDisk, how: str) -> None:
    """Damage the files so that recovery reads both logs from their start."""
    if how == "flip":
        flip_bit(disk, TIMER_LOG, 3 * UNIT.size + 15, 0x40)
    else:
        disk.remove(TIMERCHECK)


@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "not noted"])
async def test_a_kill_behind_cleaning_brings_nothing_back(
    autojump_clock: MockClock, *, is_noted: bool
) -> None:
    """The checkpoint on the disk is a second old: its slots are read again, with their deletes.

    What cleaning removed counts as done, but it is noted nowhere while the disk is full.
    """
    clock = VirtualClock()
    memory = MemoryDisk(now_ms=clock.now_ms)
    disk = FaultyDisk(memory, ROOT)
    async with running(disk, clock, timer_options=WHEEL, stop=False) as service:
        begin_segment(service.store)
        take_back(service, "cancel")
        await until_apart(service, clock, is_delete_ahead=True)
        begin_segment(service.store)
        service.put([timed("plain", DUE_MS - 100)])
        await trio.sleep((DUE_MS + 450 - clock.now_ms()) / 1000)
        assert service.files.checkpoint.last_read_time_ms < DUE_MS <= service.state.commit_read_ms
        if not is_noted:
            full = Fault(errno.ENOSPC)
            disk.plan = FaultRules(
                FaultRule(operations=TAKING_SPACE, name="consumeQueues", fault=full, count=None)
            )
        first = await clean(memory, service.store)
        assert first > 0
        assert is_noted == (service.store.pins.released_to == first)
    memory.process_kill()

    async with running(memory, clock, timer_options=WHEEL) as service:
        await trio.sleep(5)
        assert bodies(service.store) == ["plain"]
        assert service.quarantine.active == 0


@pytest.mark.parametrize("how", ["flip", "timercheck"])
async def test_what_cleaning_removed_was_done(autojump_clock: MockClock, how: str) -> None:
    """From the start of the log: nothing of it arrives, and nothing is set aside as gone."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, timer_options=WHEEL, stop=False) as service:
        await cancelled_and_cleaned(disk, clock, service)
    disk.process_kill()
    lose_position(disk, how)

    async with running(disk, clock, timer_options=WHEEL) as service:
        await trio.sleep(5)
        assert bodies(service.store) == ["plain"]
        assert service.quarantine.active == 0
        assert service.statistics().pending == 0


async def test_what_cleaning_removed_stays_done_when_the_wheel_begins_anew(
    autojump_clock: MockClock,
) -> None:
    """After a wrong clock was accepted: the same, in a process that goes on."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, timer_options=WHEEL) as service:
        await cancelled_and_cleaned(disk, clock, service)
        clock.step(120_000)
        await trio.sleep(3)
        clock.step(-120_000)
        assert service.rewind()
        await trio.sleep(5)
        assert bodies(service.store) == ["plain"]
        assert service.quarantine.active == 0


@pytest.mark.parametrize("is_noted", [True, False], ids=["a lost file", "cleaned by RocketMQ"])
async def test_what_something_else_removed_is_set_aside_by_name(
    autojump_clock: MockClock, *, is_noted: bool
) -> None:
    """A segment that was not cleaned by us, first of the log or in its middle, may have waited."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    due_ms = START_MS + 100_000
    options = attrs.evolve(WHEEL, timer_roll_window_slot=118)
    async with running(disk, clock, timer_options=options, stop=False) as service:
        if is_noted:
            begin_segment(service.store)
            await trio.sleep(5)
            assert await clean(disk, service.store) > 0
            await trio.sleep(10)
        service.put([timed("lost", due_ms)])
        begin_segment(service.store)
        service.put([timed("kept", due_ms)])
        await trio.sleep(3)
        first = service.store.commit_log.min_offset
    disk.process_kill()
    disk.remove(f"{ROOT}/commitlog/{first:020}")
    disk.remove(TIMERCHECK)

    async with running(disk, clock, timer_options=options) as service:
        await trio.sleep(120)
        assert bodies(service.store) == ["kept"]
        assert [entry.reason for entry, _ in service.quarantine.entries()] == ["gone"]


async def test_a_lost_register_loses_no_message(autojump_clock: MockClock) -> None:
    """Without both notes of what was cleaned all that is missing is set aside, by name."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, timer_options=WHEEL, stop=False) as service:
        await cancelled_and_cleaned(disk, clock, service)
    disk.process_kill()
    disk.remove(TIMERCHECK)
    disk.remove(REGISTER)
    disk.remove(f"{REGISTER}.bak")

    async with running(disk, clock, timer_options=WHEEL) as service:
        await trio.sleep(5)
        assert bodies(service.store) == ["plain"]
        reasons = {entry.reason for entry, _ in service.quarantine.entries()}
        assert reasons == {"gone"}


async def rolled_behind_its_delete(disk: MemoryDisk, clock: VirtualClock, how: str) -> int:
    """Where the unit of a message stands that was taken back by a unit before it."""
    options = attrs.evolve(WHEEL, mapped_file_size_timer_log=UNIT.size * 4_000 + 16)
    async with running(
        disk, clock, store_options=ONE_SEGMENT, timer_options=options, stop=False
    ) as service:
        take_back(service, how)
        await trio.sleep(60)
        assert sorted(bodies(service.store)) == ([] if how == "cancel" else sorted(NAMES))
        places = {
            int(body): int(pos)
            for positions, units in service.files.timer_log.scan(0)
            for pos, body in zip(positions, units["offset_py"], strict=True)
        }
        return min(
            places[message.phy_offset]
            for message, delete in newest_copies(service.store)
            if places[delete.phy_offset] < places[message.phy_offset]
        )


@pytest.mark.parametrize("how", ["cancel", "move"])
@pytest.mark.parametrize("is_repaired", [False, True], ids=["start", "repair"])
async def test_a_cut_between_a_delete_and_its_message(
    autojump_clock: MockClock, how: str, *, is_repaired: bool
) -> None:
    """The message is enqueued again, its delete is not: the mark says that it was left out."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    pos = await rolled_behind_its_delete(disk, clock, how)
    disk.process_kill()
    # All of the unit: a flipped bit would be put right.
    disk.open(TIMER_LOG).write(pos, b"\x5a" * UNIT.size)
    options = attrs.evolve(WHEEL, mapped_file_size_timer_log=UNIT.size * 4_000 + 16)
    if is_repaired:
        store = checked(
            disk, store_options=ONE_SEGMENT, timer_options=options, now_ms=clock.now_ms()
        )
        await repair(store)
        assert damage_of(store) == []
        image = read_image(disk, ROOT)
        disk = MemoryDisk(now_ms=clock.now_ms)
        write_image(disk, {path: data for path, data in image.items() if "/aside/" not in path})

    async with running(disk, clock, store_options=ONE_SEGMENT, timer_options=options) as service:
        await trio.sleep(10)
        assert sorted(bodies(service.store)) == ([] if how == "cancel" else sorted(NAMES))
        assert service.quarantine.active == 0


async def test_a_slot_waits_for_a_delete_that_the_full_disk_holds_up(
    autojump_clock: MockClock,
) -> None:
    """Its record is stored, its unit is not: the slot that both belong to does not open."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=NEVER_FULL, timer_options=WHEEL) as service:
        take_back(service, "cancel")
        await until_apart(service, clock, is_delete_ahead=False)
        await trio.sleep(0.3)
        segment_size = WHEEL.mapped_file_size_timer_log
        left = (segment_size - service.files.timer_log.max_pos % segment_size - 16) // UNIT.size
        for number in range(left):
            service.put([timed(f"other{number}", DUE_MS + 15_000)])
        await trio.sleep(0.3)
        disk.total = disk.usage(ROOT).used + 6 * 4_096
        await trio.sleep((DUE_MS + 2_000 - clock.now_ms()) / 1000)
        assert service.statistics().enqueue_held_up.count > 0
        disk.total = 1 << 50
        await trio.sleep(10)
        assert [body for body in bodies(service.store) if body in NAMES] == []


@pytest.mark.parametrize("window_slots", [3, 4, 5])
async def test_a_slot_waits_for_rolls_that_the_full_disk_holds_up(
    autojump_clock: MockClock, window_slots: int
) -> None:
    """Deletes roll from the slot before into that of their messages, and find no room at first."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    due_ms = START_MS + 20_500
    files = attrs.evolve(NEVER_FULL, mapped_file_size_commit_log=1 << 16)
    wheel = attrs.evolve(WHEEL, timer_roll_window_slot=window_slots)
    async with running(disk, clock, store_options=files, timer_options=wheel) as service:
        for name in NAMES:
            service.put([timed(name, due_ms)])
        await trio.sleep(1)
        for name in NAMES:
            service.cancellation.cancel(Wanted("T", name))
        await trio.sleep(18)
    clock.step(100_000)
    async with running(disk, clock, store_options=files, timer_options=wheel) as service:
        store = service.store
        while store.commit_log.room > 400:
            store.put([plain(max(min(3_000, store.commit_log.room - 350), 10))])
        disk.total = disk.usage(ROOT).used
        await trio.sleep(3)
        assert service.statistics().deliver_held_up.count > 0
        disk.total = 1 << 50
        await trio.sleep(10)

        assert bodies(store) == []


async def test_a_slot_waits_for_a_queue_that_lags_behind_the_log(
    autojump_clock: MockClock,
) -> None:
    """A full disk takes the roll of a message with its unit, and of its delete the record alone.

    The queue of the timer topic needs a new file for that unit, that of the real topic needs none.
    So the message could leave, while its delete is in no queue: the slot of both does not open.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(NEVER_FULL, mapped_file_size_consume_queue=5 * QUEUE_UNIT.size)
    wheel = attrs.evolve(WHEEL, timer_roll_window_slot=4)
    due_ms = START_MS + 5_500
    async with running(disk, clock, store_options=files, timer_options=wheel) as service:
        service.put([timed("gone", due_ms)])
        service.cancellation.cancel(Wanted("T", "gone"))
        service.put([timed("first", START_MS + 1_000), timed("second", START_MS + 1_000)])
        await trio.sleep(2.5)
        assert bodies(service.store) == ["first", "second"]
        message, delete = newest_copies(service.store)[0]
        assert message.store_ms == START_MS + 2_001 > delete.store_ms
        disk.total = disk.usage(ROOT).used
        await trio.sleep((due_ms + 5_000 - clock.now_ms()) / 1000)
        assert service.store.dispatch() < service.store.commit_log.max_offset
        disk.total = 1 << 50
        await trio.sleep(20)

        assert bodies(service.store) == ["first", "second"]


async def test_a_producers_delete_takes_nothing_of_another_slot(autojump_clock: MockClock) -> None:
    """Enqueued anew after an outage, both are overdue, and stand in the one slot that is open."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, timer_options=WHEEL, stop=False) as service:
        service.put([timed("moved", DUE_MS), timed("kept", DUE_MS), timed("gone", DUE_MS)])
        service.put([delete_of("moved", DUE_MS), delete_of("gone", DUE_MS)])
        moved = service.cancellation.reschedule(Wanted("T", "moved"), START_MS + 15_000)
        assert moved.deliver_ms == START_MS + 15_000
        await trio.sleep(3)
    disk.process_kill()
    disk.remove(TIMER_LOG)
    clock.step(100_000)

    async with running(disk, clock, timer_options=WHEEL) as service:
        await trio.sleep(10)
        assert sorted(bodies(service.store)) == ["kept", "moved"]


async def test_what_was_left_out_is_not_moved_when_its_delete_is_cleaned(
    autojump_clock: MockClock,
) -> None:
    """Its last record is still in the log, and waits no more: the mark says so."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, timer_options=WHEEL) as service:
        await cancelled_and_cleaned(disk, clock, service)
        for name in NAMES:
            result = service.cancellation.reschedule(Wanted("T", name), clock.now_ms() + 5_000)
            assert result.deliver_ms is None
        await trio.sleep(10)
        assert bodies(service.store) == ["plain"]
