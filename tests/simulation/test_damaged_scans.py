"""A commit log that is damaged where recovery reads what was done.

What stands behind the damage counts: nothing that was delivered is delivered again. A message whose
delivery may be what was damaged is quarantined by name, and every other one arrives, once.
"""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
import trio
from trio.testing import MockClock

from damaged_stores import flip_bit
from fakes import START_MS, VirtualClock
from simulation.staged_service import ROOT, SMALL_FILES, running, timed
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT
from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import decode_record
from timermq.timerstore.record_layout import BODY_LENGTH_AT, MAGIC_AT, PHY_OFFSET_AT
from timermq.timerstore.seal_reader import remove_seals

LOG = f"{ROOT}/commitlog/{0:020}"
TIMER_LOG = f"{ROOT}/timerlog/{0:020}"
TIMERCHECK = f"{ROOT}/config/timercheck"
WHEEL = TimerOptions(
    slots_total=600, timer_roll_window_slot=400, mapped_file_size_timer_log=UNIT.size * 4_000 + 16
)
FILES = attrs.evolve(SMALL_FILES, mapped_file_size_commit_log=1 << 20)
NAMES = [f"m{number}" for number in range(60)]
OTHER = Message(topic="P", queue_id=0, body=b"some message of another topic")
PLACES = {
    "size": 2,
    "magic": MAGIC_AT + 2,
    "position": PHY_OFFSET_AT + 6,
    "body length": BODY_LENGTH_AT + 3,
}
"""Bytes of a head of which one bit is damaged."""


def zero(disk: MemoryDisk, at: int, size: int) -> None:
    """Let bytes of the log be zero, durably."""
    file = disk.open(LOG)
    file.write(at, bytes(size))
    disk.sync_now(file)
    file.close()


def places(log: CommitLog, topic: str) -> dict[str, tuple[int, int]]:
    """Of a topic's messages: body to position and size, as far as they can be read."""
    found: dict[str, tuple[int, int]] = {}
    for phy_offset, data in LogReading(log, log.min_offset, purpose="a test"):
        record = decode_record(data)
        if record.topic == topic:
            found[record.body.decode()] = phy_offset, len(data)
    return found


def arrived(store: MessageStore) -> Counter[str]:
    """How often each message came to its topic, by the units of the queue."""
    queue = store.queue("T", 0)
    if queue is None:
        return Counter()
    places = [(int(one["phy_offset"]), int(one["size"])) for one in queue.units(0, 10_000)]
    assert len(places) == queue.max_offset
    bodies: Counter[str] = Counter()
    for data in store.commit_log.records_at(places):
        assert data is not None
        bodies[name_in(data)] += 1
    return bodies


def name_in(data: bytes) -> str:
    """The unique key of a record, whose head may be damaged."""
    start = data.find(b"UNIQ_KEY\x01")
    return data[start + 9 : data.find(b"\x02", start)].decode() if start >= 0 else ""


def quarantined(service: TimerMessageStore) -> list[str]:
    """Names of the messages in quarantine, all for being in doubt."""
    names: list[str] = []
    for entry, _ in service.quarantine.entries():
        assert entry.reason == "in_doubt"
        names.append((find(decode_record(entry.record).properties, b"UNIQ_KEY") or b"").decode())
    return sorted(names)


async def deliver_all(service: TimerMessageStore) -> int:
    """Store a message of another topic and the timers, and wait until all are delivered."""
    (first,) = service.put([OTHER])
    for number, name in enumerate(NAMES):
        service.put([timed(name, START_MS + 1_000 + 50 * number)])
    await trio.sleep(30)
    assert arrived(service.store) == Counter(NAMES)
    return first.result.phy_offset


def read_from_the_start(disk: MemoryDisk, how: str) -> None:
    """Let recovery read the whole log."""
    if how == "flip":
        flip_bit(disk, TIMER_LOG, 3 * UNIT.size + 15, 0x40)
    else:
        disk.remove(TIMERCHECK)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["flip", "timercheck"])
async def test_what_stands_behind_damage_counts(
    autojump_clock: MockClock, how: str, place: str
) -> None:
    """One bit of one old record of another topic."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        at = await deliver_all(service)
    disk.process_kill()
    flip_bit(disk, LOG, at + PLACES[place], 0x01)
    read_from_the_start(disk, how)

    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(30)
        assert arrived(service.store) == Counter(NAMES)
        assert quarantined(service) == []


async def test_what_stands_behind_damage_counts_when_the_wheel_begins_anew(
    autojump_clock: MockClock,
) -> None:
    """The same in a process that goes on, after a wrong clock was accepted."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        at = await deliver_all(service)
        flip_bit(disk, LOG, at + PLACES["size"], 0x01)
        clock.step(120_000)
        await trio.sleep(3)
        clock.step(-120_000)
        assert service.rewind()
        await trio.sleep(30)
        assert arrived(service.store) == Counter(NAMES)


async def test_damage_in_the_tail_that_an_ordinary_start_reads(
    autojump_clock: MockClock,
) -> None:
    """The timer checkpoint is old, that of the store is not: it does not walk over the damage."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    rare = attrs.evolve(WHEEL, timer_flush_interval_ms=600_000)
    async with running(disk, clock, store_options=FILES, timer_options=rare, stop=False) as service:
        for number, name in enumerate(NAMES):
            service.put([timed(name, START_MS + 10_001 + number)])
        await trio.sleep(10.02)
        (plain,) = service.put([OTHER])
        await trio.sleep(5)
        assert arrived(service.store) == Counter(NAMES)
    disk.process_kill()
    flip_bit(disk, LOG, plain.result.phy_offset + PLACES["size"], 0x01)

    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        assert service.store.recovery.scan_from > plain.result.phy_offset
        await trio.sleep(30)
        assert arrived(service.store) == Counter(NAMES)


@pytest.mark.parametrize("place", PLACES)
async def test_a_damaged_delivery_counts_as_far_as_its_head_is_readable(
    autojump_clock: MockClock, place: str
) -> None:
    """Done, or quarantined by name; never delivered again."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        await deliver_all(service)
        at, _ = places(service.store.commit_log, "T")["m7"]
    disk.process_kill()
    flip_bit(disk, LOG, at + PLACES[place], 0x01)
    remove_seals(disk, f"{ROOT}/commitlog")
    disk.remove(TIMERCHECK)

    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(30)
        assert arrived(service.store) == Counter(NAMES)
        assert quarantined(service) == (["m7"] if place == "position" else [])


async def test_messages_whose_deliveries_are_lost_are_quarantined_by_name(
    autojump_clock: MockClock,
) -> None:
    """A sector of the log reads as zeros; what waits for later, or was sent since, arrives."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        service.put([timed("later", START_MS + 120_000)])
        await deliver_all(service)
        service.put([timed("since", START_MS + 60_000)])
        await trio.sleep(2)
        at, _ = places(service.store.commit_log, "T")["m7"]
        end = sum(places(service.store.commit_log, "T")["m9"])
    disk.process_kill()
    zero(disk, at + 20, end - at - 40)
    disk.remove(TIMERCHECK)

    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(150)
        expected = Counter(NAMES) + Counter(["later", "since"])
        found = arrived(service.store)
        assert found[""] == 3
        assert {name: n for name, n in found.items() if name} == {
            name: 1 for name in expected if name not in ("m7", "m8", "m9")
        }
        assert quarantined(service) == ["m7", "m8", "m9"]


async def test_lost_records_of_other_topics_leave_nothing_in_doubt(
    autojump_clock: MockClock,
) -> None:
    """Their queues tell of which topic they were, though a message waited before them."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        service.put([timed("due", START_MS + 2_000)])
        await trio.sleep(1)
        service.put([OTHER])
        (lost,) = service.put([OTHER])
        service.put([OTHER])
        await service.store.flush()
        await trio.sleep(0.9)
        assert arrived(service.store) == Counter()
    disk.process_kill()
    zero(disk, lost.result.phy_offset, lost.result.size)
    remove_seals(disk, f"{ROOT}/commitlog")
    disk.remove(TIMERCHECK)
    clock.step(60_000)

    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(10)
        assert arrived(service.store) == Counter(["due"])
        assert quarantined(service) == []


@pytest.mark.parametrize("place", ["size", "magic"])
async def test_a_record_with_one_damaged_field_does_not_end_the_log(
    autojump_clock: MockClock, place: str
) -> None:
    """Written since the last checkpoint: the record is repaired, what follows is not cut off."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        (first,) = service.put([timed("first", START_MS + 5_000)])
        for name in NAMES:
            service.put([timed(name, START_MS + 5_000)])
        end = service.store.commit_log.max_offset
        await trio.sleep(0.05)
    disk.process_kill()
    flip_bit(disk, LOG, first.result.phy_offset + PLACES[place], 0x01)

    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        assert service.store.recovery.end == end
        (note,) = service.store.recovery.notes
        assert note.startswith("record at 0 of the commit log repaired: ")
        await trio.sleep(10)
        assert arrived(service.store) == Counter([*NAMES, "first"])
