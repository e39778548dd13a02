"""A timer service whose stages are run one by one: three slots ahead, four units a file.

Store, files, state and stages are the real ones; what is missing is the task that runs them all.
"""

from __future__ import annotations

import attrs
import trio

from fakes import START_MS, ManualClock, VirtualClock
from simulation.staged_service import HOST, ROOT, SMALL_FILES
from timermq.pipeline.recovery.timer_flush import TimerFlush
from timermq.pipeline.stages.dequeue_get import DequeueGet
from timermq.pipeline.stages.dequeue_get_message import DequeueGetMessage
from timermq.pipeline.stages.dequeue_put_message import DequeuePutMessage
from timermq.pipeline.stages.enqueue_get import EnqueueGet
from timermq.pipeline.stages.enqueue_put import EnqueuePut
from timermq.pipeline.stages.open_slots import OpenSlots
from timermq.pipeline.stages.timer_request import (
    DeliverBatch,
    DequeueBatch,
    ReadMark,
    Requests,
)
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from unit.pipeline.recovery.crashed_store import SEGMENT_SIZE

TINY = TimerOptions(
    timer_roll_window_slot=3,
    slots_total=3,
    mapped_file_size_timer_log=SEGMENT_SIZE,
    clock_check_interval_ms=3_600_000,
)
"""A ring of six slots of a second."""

FILES = attrs.evolve(SMALL_FILES, mapped_file_size_consume_queue=20_000)
"""A thousand entries of the timer topic a file: a batch ends with its file."""

CHANNEL_COUNT = 100
"""Batches that a channel of a test takes before they are read."""


class StagesByHand:
    """The parts of a service, each to be called by the test."""

    def __init__(
        self,
        clock: ManualClock | VirtualClock,
        options: TimerOptions = TINY,
        disk: MemoryDisk | None = None,
    ) -> None:
        self.clock = clock
        self.disk = MemoryDisk(now_ms=clock.now_ms) if disk is None else disk
        self.store = MessageStore.open(self.disk, ROOT, FILES, now_ms=clock.now_ms, store_host=HOST)
        self.service = TimerMessageStore(self.store, options, clock)
        self.state = self.service.state
        self.counts = self.service.counts
        files = self.service.files
        store, state, counts = self.store, self.state, self.counts
        self.get = EnqueueGet(store=store, state=state, options=options, clock=clock, counts=counts)
        self.put = EnqueuePut(
            timer_log=files.timer_log,
            wheel=files.wheel,
            metrics=files.metrics,
            quarantine=self.service.quarantine,
            flow=self.service.flow,
            state=state,
            options=options,
            clock=clock,
            counts=counts,
        )
        self.slots = OpenSlots(
            store=store,
            timer_log=files.timer_log,
            wheel=files.wheel,
            state=state,
            options=options,
            counts=counts,
        )
        self.read = DequeueGet(
            store=store,
            wheel=files.wheel,
            slots=self.slots,
            state=state,
            options=options,
            clock=clock,
        )
        self.bodies = DequeueGetMessage(
            store=store, files=files, state=state, options=options, counts=counts
        )
        self.publish = DequeuePutMessage(
            store=store,
            metrics=files.metrics,
            quarantine=self.service.quarantine,
            state=state,
            options=options,
            clock=clock,
            counts=counts,
        )

    def send(self, *messages: Message) -> None:
        """Store messages by the door of the service."""
        for result in self.service.put(messages):
            assert result.result.status.is_stored, result

    def link(self, *messages: Message) -> None:
        """Store messages, and let stages 1 and 2 link all that is stored."""
        self.send(*messages)
        while (batch := self.get.next_batch()) is not None:
            assert self.put.put(batch)

    async def flush(self) -> None:
        """Write and sync a checkpoint of what the state says now."""
        await TimerFlush(
            files=self.service.files,
            store=self.store,
            state=self.state,
            options=self.service.options,
            clock=self.clock,
        ).flush()

    def places(self) -> list[int]:
        """Where the records stand that have a unit, in the order of their units."""
        return [
            offset_py
            for _, units in self.service.files.timer_log.scan(0)
            for offset_py in units["offset_py"].tolist()
        ]

    def fill_disk(self) -> None:
        """Leave no room for another record, nor for any file."""
        segment = FILES.mapped_file_size_commit_log
        room = segment - self.store.commit_log.max_offset % segment
        (result,) = self.store.put([Message("filler", 0, bytes(room - 200), b"", born_host=HOST)])
        assert result.status.is_stored, result
        self.disk.total = self.disk.usage(ROOT).used

    def free_disk(self) -> None:
        """Give the disk room again."""
        self.disk.total = 1 << 50

    def open(self, slot_ms: int) -> DequeueBatch:
        """What of a slot is due now, as stage 3 sends it."""
        entry = self.service.files.wheel.slot(slot_ms)
        assert entry is not None
        slot = self.slots.get(slot_ms)
        for _ in slot.join(entry.last_pos):
            pass
        return DequeueBatch(
            requests=slot.take_due(self.clock.now_ms(), 1_000), deletes=slot.deletes
        )

    def due(self, slot_ms: int) -> DeliverBatch:
        """The same with its records, as stage 4 sends it; noted as under way."""
        batch = self.open(slot_ms)
        self.state.under_way.append(int(batch.requests["offset_py"].min()))
        return self.bodies.read(batch.requests, batch.deletes)

    def bodies_of(self, requests: Requests) -> list[str]:
        """The bodies of the records that requests name, in their order."""
        places = zip(requests["offset_py"].tolist(), requests["size_py"].tolist(), strict=True)
        records = self.store.commit_log.records_at(places)
        return [decode_record(record or b"").body.decode() for record in records]


@attrs.frozen
class Released:
    """A batch that stage 3 sent."""

    at_ms: int
    bodies: tuple[str, ...]


@attrs.define
class NextStage:
    """What stands in for stages 4 and 5 behind stage 3: notes all, and has each batch delivered."""

    rig: StagesByHand
    batches: list[Released] = attrs.Factory(list[Released])
    marks: list[tuple[int, ReadMark]] = attrs.Factory(list[tuple[int, ReadMark]])
    publishes: bool = True
    """A mark moves the positions, as it does behind the last stage."""
    is_closed: bool = False

    async def run(self, source: trio.MemoryReceiveChannel[DequeueBatch | ReadMark]) -> None:
        """Take what comes until the sender closes."""
        state = self.rig.state
        async for one in source:
            if isinstance(one, ReadMark):
                self.marks.append((self.rig.clock.now_ms(), one))
                if self.publishes:
                    state.rolled_ms = state.commit_read_ms = one.read_ms
                    state.published.set()
                continue
            bodies = tuple(self.rig.bodies_of(one.requests))
            self.batches.append(Released(self.rig.clock.now_ms(), bodies))
            state.under_way.popleft()
            if not state.under_way:
                state.all_delivered.set()
        self.is_closed = True


def column(batch: DeliverBatch, name: str) -> list[int]:
    """A column of a batch's requests."""
    values: list[int] = batch.requests[name].tolist()
    return values


SLOT_MS = START_MS + 1_000
"""The slot behind that of the present."""
