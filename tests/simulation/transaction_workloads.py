"""Transactions for the enumeration of crash states: half messages, endings, checks, saved offsets.

A process is the store, the timer service and the transactions above them; offsets are saved in
between. What is asked and acknowledged is noted as in ``crash_workloads``; a transaction that ends
by a rollback is one that must not come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from fakes import VirtualClock
from simulation.crash_states import CrashState
from simulation.crash_workloads import FILES, FLUSHED_AFTER_MS, WHEEL
from simulation.recording_disk import Noted, Recording, RecordingDisk
from simulation.staged_service import HOST, ROOT, running
from timermq.broker.client_registry import ClientRegistry
from timermq.broker.config_table import ConfigSaver
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.options import BrokerOptions
from timermq.broker.topic_config import TopicConfigTable
from timermq.broker.topic_validator import TRANS_OP_HALF_TOPIC
from timermq.broker.transactions.half_message import HalfMessage, decode_half, parked
from timermq.broker.transactions.transaction_check import TransactionCheck
from timermq.broker.transactions.transactions import Transactions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

TOPIC = "T"
BODY_SIZE = 600
"""Bytes: a record takes two sectors."""
OPTIONS = BrokerOptions(transaction_time_out_ms=100, transaction_check_max=100)


@attrs.frozen
class Opened:
    """A half message is acknowledged."""

    number: int


@attrs.frozen
class Asked:
    """A transaction is about to be ended."""

    number: int
    commits: bool


@attrs.frozen
class Ended:
    """It is acknowledged that it has."""

    asked: Asked


@attrs.define(eq=False)
class Desk:
    """What a producer can do, at one process."""

    store: MessageStore
    transactions: Transactions
    check: TransactionCheck
    saver: ConfigSaver
    recording: Recording | None
    halves: dict[int, HalfMessage]

    async def open(self, *numbers: int) -> None:
        """Send half messages together, and wait until they are durable."""
        halves = [half(number) for number in numbers]
        results = self.transactions.put_halves(halves, [""] * len(halves))
        await self._durable(max(one.result.end for one in results))
        for number, one in zip(numbers, results, strict=True):
            data = self.store.commit_log.record_at(one.result.phy_offset, one.result.size)
            assert data is not None
            self.halves[number] = decode_half(data)
            self._note(Opened(number))

    async def commit(self, number: int) -> None:
        """End one by a commit."""
        await self._end(Asked(number, commits=True), self.transactions.commit)

    async def rollback(self, number: int) -> None:
        """End one by a rollback."""
        await self._end(Asked(number, commits=False), self.transactions.rollback)

    async def look(self) -> None:
        """One round of checks, and the offsets as far as they may be saved."""
        await trio.sleep(0.2)
        await self.check.check()
        self.transactions.commit_offsets()
        await trio.sleep(0.7)
        await self.save()

    async def save(self) -> None:
        """The offsets as far as they may be saved at this moment."""
        self.transactions.commit_offsets()
        self.transactions.commit_offsets()
        await self.saver.save()

    async def _end(self, asked: Asked, act: Callable[[HalfMessage], int]) -> None:
        self._note(asked)
        await self._durable(act(self.halves[asked.number]))
        self._note(Ended(asked))

    async def _durable(self, end: int) -> None:
        if self.store.options.is_sync_flush:
            assert await self.store.wait_flushed(end)

    def _note(self, note: object) -> None:
        if self.recording is not None:
            self.recording.note(note)


Act = Callable[[Desk], Awaitable[None]]


@attrs.frozen
class TransactionWorkload:
    """One or more lives on one disk; the processes before the last are killed."""

    acts: tuple[Act, ...]
    files: StoreOptions = FILES
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
        halves: dict[int, HalfMessage] = {}
        for act in self.acts:
            async with self._desk(disk, clock, recording, halves) as desk:
                await act(desk)
            memory.process_kill()
        return recording

    def faults_in(self, recording: Recording, state: CrashState) -> list[str]:
        """Reopen what a crash has left, and end what is open; what is not as it must be."""
        events = list(zip(recording.events, recording.times, strict=True))[: state.event_count]
        is_all_safe = self.files.is_sync_flush or state.is_kill
        until_ms = events[-1][1] - (0 if is_all_safe else FLUSHED_AFTER_MS)
        notes = [(event.note, at_ms) for event, at_ms in events if isinstance(event, Noted)]
        opened = {
            one.number for one, at_ms in notes if isinstance(one, Opened) and at_ms <= until_ms
        }
        asked = [one for one, _ in notes if isinstance(one, Asked)]
        told = {
            one.asked.number: one.asked.commits
            for one, at_ms in notes
            if isinstance(one, Ended) and at_ms <= until_ms
        }
        found = self.found_in(recording, state)
        faults: list[str] = []
        for number in range(10):
            wanted = {one.commits for one in asked if one.number == number}
            arrived, is_open = found.arrived[number], number in found.open
            text = f"{number}: arrived {arrived}, open {is_open}, asked {wanted}"
            if arrived + is_open > 1:
                faults.append(f"ended more than once: {text}")
            elif arrived and True not in wanted:
                faults.append(f"never committed: {text}")
            elif number in told and arrived != told[number]:
                faults.append(f"not as it was told: {text}")
            elif number in opened and not (arrived or is_open or False in wanted):
                faults.append(f"lost: {text}")
            if found.at_last[number] != arrived + is_open:
                faults.append(f"committed at last {found.at_last[number]} times: {text}")
        return faults

    def found_in(self, recording: Recording, state: CrashState) -> Found:
        """Reopen what a crash has left, and end what is open."""
        now_ms = recording.times[state.event_count - 1]
        clock = trio.testing.MockClock(autojump_threshold=0)
        return trio.run(self._reopen, state, now_ms, clock=clock)

    async def _reopen(self, state: CrashState, now_ms: int) -> Found:
        clock = VirtualClock(now_ms)
        disk = MemoryDisk(now_ms=clock.now_ms)
        state.write_to(disk)
        async with self._desk(disk, clock, None, {}) as desk:
            names = desk.transactions.open.names()
            halves = [one for name in names if (one := desk.transactions.newest(name)) is not None]
            found = Found(
                arrived=_arrived(desk.store),
                open=[int(one.unique_key) for one in halves],
                marks=sum(one.topic == TRANS_OP_HALF_TOPIC for one in _records(desk.store)),
            )
            for one in halves:
                desk.transactions.commit(one)
            found.at_last = _arrived(desk.store)
        return found

    @asynccontextmanager
    async def _desk(
        self,
        disk: RecordingDisk | MemoryDisk,
        clock: VirtualClock,
        recording: Recording | None,
        halves: dict[int, HalfMessage],
    ) -> AsyncGenerator[Desk]:
        async with running(
            disk, clock, store_options=self.files, timer_options=WHEEL, stop=False
        ) as service:
            offsets = ConsumerOffsetTable(now_ms=clock.now_ms, version_step=500)
            saver = ConfigSaver(disk, ROOT, prompt=(), periodic=(offsets,), interval_ms=1)
            saver.load()
            transactions = Transactions(service, offsets, OPTIONS)
            clients = ClientRegistry(current_time=trio.current_time, expired_after=120)
            topics = TopicConfigTable(OPTIONS, now_ms=clock.now_ms, level_max=18)
            check = TransactionCheck(transactions, clients, topics, OPTIONS, clock.now_ms)
            yield Desk(service.store, transactions, check, saver, recording, halves)


@attrs.define
class Found:
    """What a process found in a crash state."""

    arrived: Counter[int]
    """Number to messages on the real topic."""
    open: list[int]
    marks: int
    """Op messages, before anything is ended again."""
    at_last: Counter[int] = attrs.Factory(Counter[int])
    """The same when everything open has been committed."""


def half(number: int) -> Message:
    """A half message named by its unique key."""
    key = str(number)
    properties = f"TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01{key}\x02"
    body = f"{number}:".ljust(BODY_SIZE, "x").encode()
    return parked(Message(TOPIC, 0, body, properties.encode(), born_host=HOST), key)


def _arrived(store: MessageStore) -> Counter[int]:
    return Counter(int(one.body.split(b":")[0]) for one in _records(store) if one.topic == TOPIC)


def _records(store: MessageStore) -> Iterator[Record]:
    log = store.commit_log
    return (decode_record(log.read(*place)) for place in log.walk(log.min_offset))


async def _end(desk: Desk) -> None:
    await desk.open(0, 1, 2)
    await desk.commit(1)
    await desk.rollback(0)
    await trio.sleep(0.1)
    await desk.open(3)
    await desk.commit(2)


async def _check(desk: Desk) -> None:
    await desk.open(0, 1)
    await desk.look()
    await desk.commit(0)
    await desk.open(2)
    await desk.look()
    await desk.rollback(1)


async def _fill_segments(desk: Desk) -> None:
    for number in range(5):
        await desk.open(number)
        await desk.commit(number)


async def _save(desk: Desk) -> None:
    await desk.open(0, 1, 2)
    await trio.sleep(0.9)
    await desk.commit(1)
    await desk.save()
    await desk.save()
    await trio.sleep(0.2)
    await desk.rollback(2)
    await desk.commit(0)
    await desk.save()


async def _begin(desk: Desk) -> None:
    await desk.open(0, 1, 2)
    await desk.commit(0)
    await desk.look()


async def _go_on(desk: Desk) -> None:
    await desk.look()
    await desk.commit(1)
    await desk.open(5)
    await desk.rollback(2)


_ASYNC = attrs.evolve(FILES, flush_disk_type=FlushDiskType.ASYNC_FLUSH)

TRANSACTION_WORKLOADS = {
    "end": TransactionWorkload((_end,)),
    "end, not synced": TransactionWorkload((_end,), _ASYNC),
    "check": TransactionWorkload((_check,)),
    "check, not synced": TransactionWorkload((_check,), _ASYNC),
    "save": TransactionWorkload((_save,)),
    "save, not synced": TransactionWorkload((_save,), _ASYNC),
    "segment of the log": TransactionWorkload((_fill_segments,), begins=("commitlog/", 2)),
    "kill and recovery": TransactionWorkload((_begin, _go_on)),
}
