"""Messages of classic levels that RocketMQ left: each arrives at its moment, once."""

from __future__ import annotations

from typing import cast

import attrs
import pytest
import trio
import trio.testing

from damaged_stores import flip_bit
from fakes import START_MS, VirtualClock
from left_levels import WayBack, delivered, leave, waiting, way_back
from simulation.crash_states import CrashState, CrashStates
from simulation.recording_disk import Recording, RecordingDisk
from simulation.staged_service import (
    HOST,
    QUIET_FILES,
    ROOT,
    SMALL_WHEEL,
    Arrival,
    arrivals,
    running,
)
from timermq.pipeline.levels import level_takeover
from timermq.pipeline.quarantine.quarantine_release import Verdict
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import load_json
from timermq.timerstore.delay_offset import PATH
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore

DELAYS_MS = (1_000, 5_000, 10_000, 30_000, 60_000)
"""Of the levels 1 to 5."""
FILES = attrs.evolve(QUIET_FILES, message_delay_level="1s 5s 10s 30s 1m")
WHEEL = attrs.evolve(SMALL_WHEEL, message_delay_level="1s 5s 10s 30s 1m")


def sent(count: int) -> list[Message]:
    """Messages of the levels in turn."""
    return [waiting(f"m{n}", n % len(DELAYS_MS) + 1, queue_id=n % 2) for n in range(count)]


def left_disk(
    clock: VirtualClock,
    messages: list[Message],
    offsets: dict[int, int] | None,
) -> MemoryDisk:
    """A disk with these messages."""
    disk = MemoryDisk(now_ms=clock.now_ms)
    leave(disk, FILES, clock.now_ms, messages, offsets)
    disk.process_kill()
    return disk


async def served(disk: MemoryDisk, clock: VirtualClock, seconds: float) -> list[Arrival]:
    """Serve for so long, and stop; everything on the topic."""
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(seconds)
        found = arrivals(service.store)
        assert (0, 0) == (service.statistics().early, service.statistics().levels_left)
        return found


def moments(found: list[Arrival]) -> dict[str, int]:
    """Body to store time, of what arrived once each."""
    assert len(found) == len({one.body for one in found})
    return {one.body: one.stored_ms for one in found}


async def test_each_at_its_moment(autojump_clock: trio.testing.MockClock) -> None:
    """On the millisecond that stood in its queue, from the topic and queue that it named."""
    clock = VirtualClock()
    disk = left_disk(clock, sent(50), {})
    found = await served(disk, clock, 70)

    assert {f"m{n}": START_MS + DELAYS_MS[n % 5] for n in range(50)} == moments(found)
    assert {f"m{n}": n % 2 for n in range(50)} == {one.body: one.queue_id for one in found}


async def test_after_an_outage(autojump_clock: trio.testing.MockClock) -> None:
    """What came due meanwhile goes out at once, in the order of the moments."""
    clock = VirtualClock()
    disk = left_disk(clock, sent(50), {})
    clock.step(20_000)
    found = moments(await served(disk, clock, 70))
    late = [f"m{n}" for level in range(3) for n in range(level, 50, 5)]

    assert late == list(found)[: len(late)]
    assert {START_MS + 20_000} == {found[body] for body in late}
    assert START_MS + 30_000 == found["m3"]


async def test_of_another_table(autojump_clock: trio.testing.MockClock) -> None:
    """The moment is that of the broker which stored the message, whatever the levels are now."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(FILES, message_delay_level="7s 12s")
    leave(disk, files, clock.now_ms, [waiting("a", 1), waiting("b", 2), waiting("c", 9)], {})
    await MessageStore.open(
        disk, ROOT, files, now_ms=clock.now_ms, store_host=HOST
    ).aclose()  # behind a kill the queues are made again, by the table that is set
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(15)
        found = moments(arrivals(service.store))

    assert {"a": START_MS + 7_000, "b": START_MS + 12_000, "c": START_MS + 12_000} == found


@pytest.mark.parametrize("offsets", [{1: 2, 2: 1}, {1: 1, 2: 0}, {}, None])
async def test_what_was_delivered(
    autojump_clock: trio.testing.MockClock, offsets: dict[int, int] | None
) -> None:
    """RocketMQ's deliveries count, also those beyond its offsets, and without a file at all."""
    clock = VirtualClock()
    messages = [waiting("a", 1), waiting("b", 1), waiting("c", 2), waiting("d", 2)]
    disk = left_disk(clock, messages, offsets)
    clock.step(5_000)
    leave(disk, FILES, clock.now_ms, [delivered(one, 1) for one in "ab"], None)
    leave(disk, FILES, clock.now_ms, [delivered("c", 2)], None)
    disk.process_kill()
    found = moments(await served(disk, clock, 10))

    assert dict.fromkeys("abcd", START_MS + 5_000) == found


@pytest.mark.parametrize("is_readable", [True, False])
async def test_what_was_delivered_behind_damage(
    autojump_clock: trio.testing.MockClock, *, is_readable: bool
) -> None:
    """It counts; what was damaged beyond reading tells nothing, so it is quarantined."""
    clock = VirtualClock()
    disk = left_disk(clock, [waiting(one, 1) for one in "abc"], {})
    clock.step(1_500)
    plain = Message("P", 0, b"x")
    leave(disk, FILES, clock.now_ms, [plain, *(delivered(one, 1) for one in "ab"), plain], None)
    store = MessageStore.open(disk, ROOT, FILES, now_ms=clock.now_ms, store_host=HOST)
    places = list(store.commit_log.scan(0, check_crc=True))
    await store.aclose()
    disk.process_kill()
    (at, _), (lost_at, lost_size) = places[3], places[4]
    flip_bit(disk, f"{ROOT}/commitlog/{0:020}", at + 2, 0x01)
    if not is_readable:
        for byte in range(lost_at, lost_at + lost_size):
            flip_bit(disk, f"{ROOT}/commitlog/{0:020}", byte, 0x01)

    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(5)
        queue = service.store.queue("T", 0)
        assert queue is not None
        reasons = [entry.reason for entry, _ in service.quarantine.entries()]
        # Without its name it may be any; a's ends in the same sector, which is not believed.
        assert (queue.max_offset, reasons) == ((3, []) if is_readable else (2, ["in_doubt"] * 3))


async def test_same_message_twice(autojump_clock: trio.testing.MockClock) -> None:
    """A delivery answers for one message: of two that are equal in everything one still waits."""
    clock = VirtualClock()
    disk = left_disk(clock, [waiting("a", 1), waiting("a", 1)], {})
    clock.step(1_000)
    leave(disk, FILES, clock.now_ms, [delivered("a", 1)], None)
    disk.process_kill()
    found = await served(disk, clock, 10)

    assert ["a", "a"] == [one.body for one in found]


async def test_offsets_say_that_it_is_done(autojump_clock: trio.testing.MockClock) -> None:
    """The way back: RocketMQ finds its level queues done, and no field that it does not know."""
    clock = VirtualClock()
    disk = left_disk(clock, sent(7), {1: 1})
    await served(disk, clock, 1)
    data = cast("dict[str, object]", load_json(disk, f"{ROOT}/{PATH}"))

    assert {1: 2, 2: 2, 3: 1, 4: 1, 5: 1} == data["offsetTable"]
    assert {"dataVersion", "offsetTable"} == set(data)
    again = await served(disk, clock, 70)
    assert [f"m{n}" for n in (5, 1, 6, 2, 3, 4)] == [one.body for one in again]


async def test_stores_without_levels(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing is written where no level queue is."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    await served(disk, clock, 1)

    assert not disk.exists(f"{ROOT}/{PATH}")


async def test_messages_that_are_quarantined(autojump_clock: trio.testing.MockClock) -> None:
    """What can go nowhere is kept, a retry waits for its slot; the others are not held up."""
    clock = VirtualClock()
    nowhere = Message("SCHEDULE_TOPIC_XXXX", 1, b"x", b"UNIQ_KEY\x01x\x02DELAY\x012\x02")
    half = waiting("h", 2, topic="RMQ_SYS_TRANS_HALF_TOPIC")
    disk = left_disk(clock, [nowhere, half, waiting("a", 2)], {})
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(1)
        entries = [entry for entry, _ in service.quarantine.entries()]
        released = service.release.retry(entries[1].origin_py, by="test", topic="T", queue_id=0)
        await trio.sleep(10)
        found = moments(arrivals(service.store))

    assert [("no_topic", "x"), ("illegal_topic", "h")] == [
        (one.reason, one.unique_id) for one in entries
    ]
    assert Verdict.RETRIED is released.verdict
    assert {"a": START_MS + 5_000, "h": START_MS + 6_000} == found


async def test_full_disk(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that the store does not take wait, are taken once, and are seen as held up."""
    monkeypatch.setattr(level_takeover, "BATCH_COUNT_MAX", 2)
    clock = VirtualClock()
    files = attrs.evolve(FILES, mapped_file_size_commit_log=8_192)
    disk = MemoryDisk(now_ms=clock.now_ms)
    leave(disk, files, clock.now_ms, sent(50), {})
    clock.step(120_000)
    async with running(disk, clock, store_options=files, timer_options=WHEEL) as service:
        total, disk.total = disk.total, disk.usage(ROOT).used
        await trio.sleep(20)
        backoff = service.takeover.backoff.count
        disk.total = total
        await trio.sleep(20)
        found = moments(arrivals(service.store))

    assert backoff > 0
    assert 50 == len(found)


async def test_cleaning_leaves_what_has_not_moved(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk segments of any age go, but not those with messages that wait for room."""
    monkeypatch.setattr(level_takeover, "BATCH_COUNT_MAX", 2)
    clock = VirtualClock()
    files = attrs.evolve(FILES, mapped_file_size_commit_log=8_192, clean_resource_interval_ms=1_000)
    disk = MemoryDisk(now_ms=clock.now_ms)
    others = [Message("P", 0, b"x" * 3_000) for _ in range(4)]
    leave(disk, files, clock.now_ms, [*others, *sent(50)], {})
    clock.step(120_000)
    async with running(disk, clock, store_options=files, timer_options=WHEEL) as service:
        total, disk.total = disk.total, disk.usage(ROOT).used
        await trio.sleep(20)
        first = service.store.commit_log.min_offset
        disk.total = total
        await trio.sleep(20)
        found = moments(arrivals(service.store))

    assert first == files.mapped_file_size_commit_log
    assert 50 == len(found)


@attrs.frozen
class TakenOver:
    """A take-over that was recorded, and the levels it began with."""

    recording: Recording
    first_event: int
    """Events before it are RocketMQ's."""


def recorded() -> TakenOver:
    """Nine messages, one delivered beyond the offsets, taken over in batches of two and stopped."""

    async def carry_out() -> TakenOver:
        clock = VirtualClock()
        recording = Recording(clock.now_ms)
        memory = MemoryDisk(now_ms=clock.now_ms)
        disk = RecordingDisk(memory, recording)
        leave(disk, FILES, clock.now_ms, sent(9), {2: 1})
        clock.step(1_500)
        leave(disk, FILES, clock.now_ms, [delivered("m0", 1)], None)
        _sync_all(disk, memory)
        first_event = len(recording.events)
        memory.process_kill()
        async with running(disk, clock, store_options=FILES, timer_options=WHEEL):
            await trio.sleep(3)
        return TakenOver(recording, first_event)

    return trio.run(carry_out, clock=trio.testing.MockClock(autojump_threshold=0))


def _sync_all(disk: RecordingDisk, memory: MemoryDisk) -> None:
    """What RocketMQ left is on the disk."""
    directories = [ROOT]
    for directory in directories:
        for name in memory.list_dir(directory):
            path = f"{directory}/{name}"
            if memory.is_dir(path):
                directories.append(path)
            else:
                disk.sync_now(disk.open(path))
        disk.sync_dir_now(directory)
    disk.sync_dir_now("/")


def test_every_crash_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill or a power cut at any change of the disk: each message comes once, none early."""
    monkeypatch.setattr(level_takeover, "BATCH_COUNT_MAX", 2)
    monkeypatch.setattr(level_takeover, "SAVE_COUNT", 4)
    taken = recorded()
    states: dict[tuple[bytes, bool], CrashState] = {}
    for state in CrashStates(taken.recording.events, only_max=3):
        if state.event_count > taken.first_event:
            states[state.digest(), state.is_kill] = state
    kills = [state for state in states.values() if state.is_kill]
    cuts = [state for state in states.values() if not state.is_kill]
    opened = kills[:: max(len(kills) // 40, 1)] + cuts[:: max(len(cuts) // 50, 1)]
    # RocketMQ delivered m0 before; m1 was through by the offsets.
    expected = {f"m{n}": START_MS + DELAYS_MS[n % 5] for n in (0, *range(2, 9))}
    faults: dict[str, object] = {}
    for state in opened:
        found = trio.run(
            reopened,
            state,
            taken.recording.times[state.event_count - 1],
            clock=trio.testing.MockClock(autojump_threshold=0),
        )
        bodies = sorted(one.body for one in found)
        early = [one for one in found if one.stored_ms < expected[one.body]]
        if bodies != sorted(expected) or early:
            faults[f"{state.event_count} {state.label}"] = (bodies, early)

    assert faults == {}
    assert len(kills) > 40
    assert len(opened) > 80


def test_way_back_from_every_crash_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill or power cut RocketMQ repeats at most what the file does not say; loses none."""
    monkeypatch.setattr(level_takeover, "BATCH_COUNT_MAX", 2)
    monkeypatch.setattr(level_takeover, "SAVE_COUNT", 4)
    taken = recorded()
    ways: dict[str, WayBack] = {}
    for state in CrashStates(taken.recording.events, only_max=3):
        if state.event_count > taken.first_event:
            disk = MemoryDisk()
            state.write_to(disk)
            ways[f"{state.event_count} {state.label}"] = way_back(disk, FILES, lambda: START_MS)

    # By the file that was left, m1 was through before.
    assert {label: way.lost for label, way in ways.items() if set(way.lost) - {"m1"}} == {}
    assert 4 == max(len(way.repeated) for way in ways.values())
    assert any({1: 2, 2: 2, 3: 2, 4: 2, 5: 1} == way.kept for way in ways.values())


async def reopened(state: CrashState, now_ms: int) -> list[Arrival]:
    """What is on the topic in the end."""
    clock = VirtualClock(now_ms)
    disk = MemoryDisk(now_ms=clock.now_ms)
    state.write_to(disk)
    return await served(disk, clock, 70)
