"""Short workloads whose every crash state is looked at, and what must hold in each.

A workload talks to the real service through a ``Scene``, which notes what was asked and what was
acknowledged. ``Claims`` are what these notes say at one moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from fakes import VirtualClock
from simulation.crash_states import CrashState
from simulation.recording_disk import Event, Noted, Recording, RecordingDisk
from simulation.staged_service import HOST, running
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.record import decode_record, record_properties
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

TOPIC = "T"
BODY_SIZE = 600
"""Bytes: a record takes two or three sectors, and so do its text and its body."""
NOTE_SIZE = 200
"""Bytes of a property, so that a sector may end inside the text of a record too."""

FILES = StoreOptions(
    mapped_file_size_commit_log=8192,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=16,
    max_index_num=64,
    file_reserved_time_hours=8760,
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
)
WHEEL = TimerOptions(
    timer_roll_window_slot=3,
    slots_total=24,
    mapped_file_size_timer_log=52 * 12 + 16,
    timer_flush_interval_ms=400,
)
"""A ring of 48 slots in three sectors."""

FLUSHED_AFTER_MS = 600
"""With ASYNC_FLUSH a power cut takes nothing older: the interval of half a second, and the sync."""


@attrs.frozen
class Asked:
    """A message is about to be sent or moved (``at_ms``: its moment), or cancelled (None)."""

    number: int
    at_ms: int | None


@attrs.frozen
class Acknowledged:
    """What was asked was done."""

    asked: Asked


@attrs.frozen(eq=False)
class Scene:
    """What a workload can do."""

    service: TimerMessageStore
    clock: VirtualClock
    recording: Recording

    async def send(self, *numbers: int, ahead_ms: int) -> None:
        """One put; acknowledged as a broker would do it."""
        at_ms = self.clock.now_ms() + ahead_ms
        asked = [Asked(number, at_ms) for number in numbers]
        for one in asked:
            self.recording.note(one)
        results = self.service.put([message(number, at_ms) for number in numbers])
        assert {PutStatus.PUT_OK} == {one.result.status for one in results}
        await self._acknowledge(asked, results[-1].result.end)

    async def cancel(self, number: int) -> None:
        """Cancel a pending message, and wait until that is acknowledged."""
        asked = Asked(number, None)
        self.recording.note(asked)
        result = self.service.cancellation.cancel(Wanted(TOPIC, str(number)))
        assert result.verdict is Verdict.CANCELLED
        await self._acknowledge([asked], result.end)

    async def move(self, number: int, ahead_ms: int) -> None:
        """Move a message to a moment ahead, and wait until that is acknowledged."""
        asked = Asked(number, self.clock.now_ms() + ahead_ms)
        self.recording.note(asked)
        assert asked.at_ms is not None
        result = self.service.cancellation.reschedule(Wanted(TOPIC, str(number)), asked.at_ms)
        assert result.verdict is Verdict.CANCELLED
        await self._acknowledge([asked], result.end)

    async def _acknowledge(self, asked: Sequence[Asked], end: int) -> None:
        if self.service.store.options.is_sync_flush:
            assert await self.service.store.wait_flushed(end)
        for one in asked:
            self.recording.note(Acknowledged(one))


Act = Callable[[Scene], Awaitable[None]]


@attrs.frozen
class Workload:
    """One or more lives on one disk; the processes before the last are killed."""

    acts: tuple[Act, ...]
    files: StoreOptions = FILES
    wheel: TimerOptions = WHEEL
    stop: bool = False
    """The last life ends with a clean stop."""
    begins: tuple[str, int] = ("commitlog/", 1)
    """Below this directory so many files are begun: the workload does what its name says."""

    def record(self) -> Recording:
        """Carry it out in virtual time."""
        return trio.run(self._record, clock=trio.testing.MockClock(autojump_threshold=0))

    async def _record(self) -> Recording:
        clock = VirtualClock()
        recording = Recording(clock.now_ms)
        memory = MemoryDisk(now_ms=clock.now_ms)
        disk = RecordingDisk(memory, recording)
        for number, act in enumerate(self.acts, start=1):
            stop = self.stop and number == len(self.acts)
            async with self._serving(disk, clock, stop=stop) as service:
                await act(Scene(service, clock, recording))
            memory.process_kill()
        return recording

    def faults_in(self, recording: Recording, state: CrashState) -> list[str]:
        """Reopen what a crash has left; what is not as it must be."""
        events = recording.events[: state.event_count]
        times = recording.times[: state.event_count]
        is_all_safe = self.files.is_sync_flush or state.is_kill
        lasting_until_ms = times[-1] if is_all_safe else times[-1] - FLUSHED_AFTER_MS
        claims = Claims.at(events, times, lasting_until_ms=lasting_until_ms)
        outcome = self.reopen(state, times[-1], claims.last_ms())
        return outcome.faults + claims.faults(outcome.arrived)

    @asynccontextmanager
    async def _serving(
        self, disk: RecordingDisk | MemoryDisk, clock: VirtualClock, *, stop: bool
    ) -> AsyncGenerator[TimerMessageStore]:
        async with running(
            disk, clock, store_options=self.files, timer_options=self.wheel, stop=stop
        ) as service:
            yield service

    def reopen(self, state: CrashState, now_ms: int, until_ms: int) -> Outcome:
        """Serve what a crash has left until everything is due, in virtual time."""
        return trio.run(
            self._reopen,
            state,
            now_ms,
            until_ms,
            clock=trio.testing.MockClock(autojump_threshold=0),
        )

    async def _reopen(self, state: CrashState, now_ms: int, until_ms: int) -> Outcome:
        clock = VirtualClock(now_ms)
        disk = MemoryDisk(now_ms=clock.now_ms)
        state.write_to(disk)
        async with self._serving(disk, clock, stop=True) as service:
            await trio.sleep(max(until_ms - now_ms, 0) / 1000 + 1)
            await service.store.flush()
            return Outcome.of(service)


@attrs.frozen
class Outcome:
    """What was delivered in the end, and whether the store is sound."""

    arrived: list[tuple[int, int]]
    """Number and store time."""
    faults: list[str]

    @classmethod
    def of(cls, service: TimerMessageStore) -> Outcome:
        """Read the whole log and its queues: what arrived, and what is wrong."""
        store = service.store
        arrived: list[tuple[int, int]] = []
        faults: list[str] = []
        counts: Counter[tuple[str, int]] = Counter()
        log = store.commit_log
        end = log.min_offset
        for phy_offset, size in log.scan(log.min_offset, check_crc=True):
            end = phy_offset + size
            record = decode_record(log.read(phy_offset, size))
            counts[record.topic, record.queue_id] += 1
            if record.topic == TOPIC:
                number, fault = _number_in(log.read(phy_offset, size))
                arrived.append((number, record.store_ms))
                faults += fault
        if log.max_offset - end >= log.segment_size:
            faults.append(f"log: read up to {end} of {log.max_offset}")
        for (topic, queue_id), count in counts.items():
            faults += _holes(store, topic, queue_id, count)
        statistics = service.statistics()
        wrong = (statistics.early, statistics.missing, statistics.set_aside)
        if any(wrong):
            faults.append(f"early, missing, quarantined: {wrong}")
        return cls(arrived, faults)


@attrs.frozen
class Claims:
    """What must hold of the messages of a workload, from what was asked and acknowledged."""

    moments: dict[int, set[int | None]]
    """Number to the moments at which it may arrive; None: it need not."""

    @classmethod
    def at(cls, events: Sequence[Event], times: Sequence[int], *, lasting_until_ms: int) -> Claims:
        """What the notes among the events say.

        Args:
            events: Up to a crash.
            times: When.
            lasting_until_ms: What was acknowledged after this moment may be lost.
        """
        moments: dict[int, set[int | None]] = {}
        for event, time_ms in zip(events, times, strict=True):
            match event:
                case Noted(Asked(number, at_ms)):
                    moments.setdefault(number, {None}).add(at_ms)
                case Noted(Acknowledged(Asked(number, at_ms))) if time_ms <= lasting_until_ms:
                    moments[number] = {at_ms}
                case _:
                    pass
        return cls(moments)

    def faults(self, arrived: Sequence[tuple[int, int]]) -> list[str]:
        """What is not as it must be."""
        faults: list[str] = []
        found: dict[int, list[int]] = {}
        for number, store_ms in arrived:
            found.setdefault(number, []).append(store_ms)
        for number in sorted(found.keys() | self.moments.keys()):
            stored, allowed = found.get(number, []), self.moments.get(number, {None})
            moments = [one for one in allowed if one is not None]
            if len(stored) > 1:
                faults.append(f"{number} came {len(stored)} times")
            elif not stored and None not in allowed:
                faults.append(f"{number} is lost, due at {allowed}")
            elif stored and not moments:
                faults.append(f"{number} came though it was cancelled, or never sent")
            elif stored and stored[0] < min(moments):
                faults.append(f"{number} came at {stored[0]}, due at {moments}")
        return faults

    def last_ms(self) -> int:
        """The last moment at which anything may arrive."""
        return max((one for moments in self.moments.values() for one in moments if one), default=0)


def message(number: int, at_ms: int) -> Message:
    """A message whose texts tell whether they are whole."""
    text = _text(number, NOTE_SIZE)
    properties = f"UNIQ_KEY\x01{number}\x02TIMER_DELIVER_MS\x01{at_ms}\x02note\x01{text}\x02"
    return Message(
        topic=TOPIC,
        queue_id=0,
        body=_text(number, BODY_SIZE).encode(),
        properties=properties.encode(),
        born_host=HOST,
    )


def _text(number: int, size: int) -> str:
    return f"{number}:".ljust(size, "abcdefghij"[number % 10])


def _number_in(record: bytes) -> tuple[int, list[str]]:
    """The number of a record, and what of it is not as it was sent."""
    body = decode_record(record).body.decode()
    number = int(body.split(":")[0])
    expected = (_text(number, BODY_SIZE), _text(number, NOTE_SIZE).encode(), str(number).encode())
    properties = record_properties(record)
    found = (body, find(properties, b"note"), find(properties, b"UNIQ_KEY"))
    return number, [] if found == expected else [f"{number} is mangled: {found}"]


def _holes(store: MessageStore, topic: str, queue_id: int, count: int) -> list[str]:
    """What of a queue does not name its records, one after the other."""
    queue = store.queue(topic, queue_id)
    if queue is None or (queue.min_offset, queue.max_offset) != (0, count):
        return [f"{topic}/{queue_id}: {count} records, {queue}"]
    for offset in range(count):
        unit = queue.units(offset, 1)[0]
        record = decode_record(store.commit_log.read(int(unit["phy_offset"]), int(unit["size"])))
        if (record.topic, record.queue_id, record.queue_offset) != (topic, queue_id, offset):
            return [f"{topic}/{queue_id}: unit {offset} names {record.topic}/{record.queue_id}"]
    return []


# -- the workloads --------------------------------------------------------------------------------


async def _send(scene: Scene) -> None:
    await scene.send(0, ahead_ms=1500)
    await scene.send(1, 2, ahead_ms=700)
    await trio.sleep(0.1)
    await scene.send(3, ahead_ms=0)


async def _cancel(scene: Scene) -> None:
    await scene.send(0, 1, 2, ahead_ms=900)
    await scene.cancel(1)
    await trio.sleep(0.5)
    await scene.cancel(0)
    await trio.sleep(0.6)


async def _move(scene: Scene) -> None:
    await scene.send(0, 1, ahead_ms=900)
    await scene.move(0, 2000)
    await trio.sleep(0.5)
    await scene.move(1, 100)
    await trio.sleep(0.6)


async def _roll(scene: Scene) -> None:
    await scene.send(0, ahead_ms=6500)
    await scene.send(1, ahead_ms=4000)
    await trio.sleep(3.6)


async def _fire(scene: Scene) -> None:
    await scene.send(0, ahead_ms=300)
    await scene.send(1, 2, ahead_ms=800)
    await trio.sleep(1.3)


async def _checkpoint(scene: Scene) -> None:
    for number in range(4):
        await scene.send(number, ahead_ms=800 + 500 * number)
        await trio.sleep(0.45)


async def _fill_segments(scene: Scene) -> None:
    for number in range(10):
        await scene.send(number, ahead_ms=2000)
        await trio.sleep(0.03)


async def _fill_timer_log(scene: Scene) -> None:
    for number in range(7):
        await scene.send(number, ahead_ms=2000)
        await trio.sleep(0.1)


async def _fill_index(scene: Scene) -> None:
    for number in range(7):
        await scene.send(number, ahead_ms=700)
        await trio.sleep(0.25)


async def _begin(scene: Scene) -> None:
    await scene.send(0, ahead_ms=300)
    await scene.send(1, 2, ahead_ms=2500)
    await trio.sleep(0.9)
    await scene.send(3, ahead_ms=0)


async def _go_on(scene: Scene) -> None:
    await scene.send(4, ahead_ms=300)
    await scene.cancel(1)
    await trio.sleep(0.7)


def _async(files: StoreOptions) -> StoreOptions:
    return attrs.evolve(files, flush_disk_type=FlushDiskType.ASYNC_FLUSH)


_SMALL_TIMER_LOG = attrs.evolve(WHEEL, mapped_file_size_timer_log=52 * 3 + 16)
_SMALL_INDEX = attrs.evolve(FILES, max_index_num=5, index_flush_interval_ms=300)

WORKLOADS = {
    "send": Workload((_send,)),
    "send, not synced": Workload((_send,), _async(FILES)),
    "cancel": Workload((_cancel,)),
    "cancel, not synced": Workload((_cancel,), _async(FILES)),
    "move": Workload((_move,)),
    "roll": Workload((_roll,)),
    "fire": Workload((_fire,)),
    "fire, not synced": Workload((_fire,), _async(FILES)),
    "checkpoint": Workload((_checkpoint,)),
    "segment of the log": Workload((_fill_segments,), begins=("commitlog/", 2)),
    "segment of the timer log": Workload(
        (_fill_timer_log,), wheel=_SMALL_TIMER_LOG, begins=("timerlog/", 3)
    ),
    "file of the index": Workload((_fill_index,), _SMALL_INDEX, begins=("index/", 3)),
    "stop": Workload((_fire,), stop=True),
    "kill and recovery": Workload((_begin, _go_on)),
    "stop after recovery": Workload((_begin, _go_on), stop=True),
}
