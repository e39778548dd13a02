"""Bulk jobs for the enumeration of crash states: staged, committed, ingested, run again.

A process is the store, the timer service and the jobs above them. What a driver was told is noted;
behind a crash another driver runs the same job again, with parts of other names, as Spark would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import numpy as np
import trio
import trio.testing

from broker_rig import ADDRESS, BROKER
from bulk_driver import small_block
from fakes import VirtualClock
from simulation.crash_states import CrashState
from simulation.crash_workloads import FILES, WHEEL
from simulation.recording_disk import Noted, Recording, RecordingDisk
from simulation.staged_service import HOST, running
from timermq.broker.broker_parts import BrokerParts
from timermq.broker.bulk.bulk_job import BulkJob
from timermq.broker.bulk.bulk_jobs import BulkJobs
from timermq.broker.bulk.bulk_scheduling import BulkScheduling
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.bulk import CommitJob, JobState, RefusedRow, StageBlock
from timermq.remoting.bulk_block import ANY_QUEUE, BulkBlock
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_id import UniqueIdGenerator
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

JOB = "J"
TOPIC = "T"
LAST_MS = 4_000
"""The last moment of a row, behind that of the job."""
REFUSED_MS = 1_000_000_000
"""Beyond what the wheel takes."""
BODY_SIZE = 120


@attrs.frozen
class Decided:
    """A driver was told that the job is decided."""


@attrs.frozen
class Told:
    """A driver was told the moment of the job."""

    job_ms: int


@attrs.frozen
class Rows:
    """The rows of a job: numbers of those that arrive, and of those that a rule refuses."""

    parts: tuple[tuple[tuple[int, ...], ...], ...]
    """Parts, of blocks, of rows."""
    refused: frozenset[int] = frozenset()

    @property
    def all(self) -> list[int]:
        """The numbers of all rows, part after part."""
        return [row for part in self.parts for block in part for row in block]


@attrs.define(eq=False)
class Desk:
    """What a driver can do, at one process."""

    scheduling: BulkScheduling
    jobs: BulkJobs
    service: TimerMessageStore
    recording: Recording | None

    async def open(self) -> BulkJob:
        """Open the job; the driver is told its moment."""
        job = await self.jobs.open(JOB)
        self._note(Told(job.job_ms))
        return job

    async def stage(self, rows: Rows, run: str) -> list[tuple[str, int]]:
        """Stage all parts of a run."""
        job = await self.open()
        parts: list[tuple[str, int]] = []
        for number, blocks in enumerate(rows.parts):
            name = f"{run}-{number}"
            for at, numbers in enumerate(blocks):
                stage = StageBlock(
                    job=JOB, part=name, block=at, is_last=at == len(blocks) - 1, topic=TOPIC
                )
                block = block_of(numbers, rows.refused, job.job_ms)
                part = self.jobs.stage(stage, block.encode())
                if stage.is_last:
                    await self.jobs.finish(job, name, part)
            parts.append((name, sum(map(len, blocks))))
        return parts

    async def commit(self, parts: list[tuple[str, int]]) -> None:
        """Decide the job by these parts and their numbers of rows."""
        wanted = CommitJob(parts=tuple(parts))
        job = self.jobs.get(JOB)
        await self.jobs.commit(job, wanted, born_host=HOST, may_send=lambda _: True)
        self._note(Decided())

    async def run_job(self, rows: Rows, run: str) -> None:
        """What a driver does, from the beginning."""
        job = await self.open()
        if job.state is JobState.OPEN:
            await self.commit(await self.stage(rows, run))

    async def done(self) -> BulkJob:
        """The job when it is done."""
        job = self.jobs.get(JOB)
        for _ in range(2_000):
            if job.state is JobState.DONE:
                return job
            await trio.sleep(0.02)
        raise AssertionError(f"job is {job.state}: {job.retry_error}")

    def _note(self, note: object) -> None:
        if self.recording is not None:
            self.recording.note(note)


Act = Callable[[Desk], Awaitable[None]]


@attrs.frozen
class Found:
    """What a process made of a crash state."""

    state: JobState
    job_ms: int
    arrived: Counter[int]
    """Row to messages on the real topic."""
    refused: list[RefusedRow]
    job_counts: tuple[int, int]


@attrs.frozen
class BulkWorkload:
    """One or more lives on one disk; the processes before the last are killed."""

    rows: Rows
    acts: tuple[Act, ...]
    files: StoreOptions = FILES

    def record(self) -> Recording:
        """Carry it out in virtual time."""
        return trio.run(self._record, clock=trio.testing.MockClock(autojump_threshold=0))

    async def _record(self) -> Recording:
        clock = VirtualClock()
        recording = Recording(clock.now_ms)
        memory = MemoryDisk(now_ms=clock.now_ms)
        disk = RecordingDisk(memory, recording)
        for act in self.acts:
            async with desk(disk, clock, self.files, recording) as one:
                await act(one)
            memory.process_kill()
        return recording

    def faults_in(self, recording: Recording, state: CrashState) -> list[str]:
        """Reopen what a crash has left, and run the job again; what is not as it must be."""
        notes = [
            one.note for one in recording.events[: state.event_count] if isinstance(one, Noted)
        ]
        now_ms = recording.times[state.event_count - 1]
        found = trio.run(
            self._reopen, state, now_ms, clock=trio.testing.MockClock(autojump_threshold=0)
        )
        faults: list[str] = []
        if Decided() in notes and found.state is JobState.OPEN:
            faults.append("the decision was lost")
        moments = {one.job_ms for one in notes if isinstance(one, Told)} | {found.job_ms}
        if len(moments) > 1:
            faults.append(f"several moments: {moments}")
        wanted = Counter(row for row in self.rows.all if row not in self.rows.refused)
        if found.arrived != wanted:
            faults.append(f"arrived {found.arrived}, expected {wanted}")
        refused = Counter(row for _, row, _, _ in found.refused)
        if refused.total() != len(self.rows.refused):
            faults.append(f"refused {found.refused}, expected {set(self.rows.refused)}")
        if found.job_counts != (len(wanted), len(self.rows.refused)):
            faults.append(f"counted {found.job_counts}")
        return faults

    async def _reopen(self, state: CrashState, now_ms: int) -> Found:
        clock = VirtualClock(now_ms)
        disk = MemoryDisk(now_ms=clock.now_ms)
        state.write_to(disk)
        async with desk(disk, clock, self.files, None) as one:
            known = {job.name: job.state for job in one.jobs}
            await one.run_job(self.rows, "rerun")
            job = await one.done()
            wait_ms = job.job_ms + LAST_MS + 2_000 - clock.now_ms()
            await trio.sleep(max(wait_ms, 0) / 1000)
            status = job.status()
            refused, _ = job.refused_rows(disk).page(0, 100)
            return Found(
                state=known.get(JOB, JobState.OPEN),
                job_ms=job.job_ms,
                arrived=arrived(one.service.store),
                refused=refused,
                job_counts=(status.adopted, status.refused),
            )


@asynccontextmanager
async def desk(
    disk: RecordingDisk | MemoryDisk,
    clock: VirtualClock,
    files: StoreOptions,
    recording: Recording | None,
    *,
    ingests: bool = True,
) -> AsyncGenerator[Desk]:
    """One process, killed at the end."""
    async with running(
        disk, clock, store_options=files, timer_options=WHEEL, stop=False
    ) as service:
        unique_ids = UniqueIdGenerator(HOST, 1, instance=1, now_ms=clock.now_ms)
        scheduling = BulkScheduling.build(
            BrokerParts.of(BROKER, service, clock.now_ms, address=ADDRESS, unique_ids=unique_ids)
        )
        async with trio.open_nursery() as nursery:
            if ingests:
                nursery.start_soon(scheduling.ingest_task.run)
            yield Desk(scheduling, scheduling.processor.jobs, service, recording)
            nursery.cancel_scope.cancel()


def block_of(numbers: tuple[int, ...], refused: frozenset[int], job_ms: int) -> BulkBlock:
    """A block of rows: even ones for now, odd ones for later."""
    moments = [
        job_ms + (REFUSED_MS if row in refused else LAST_MS - row) if row % 2 else 0
        for row in numbers
    ]
    bodies = [f"{row}:".ljust(BODY_SIZE, "x") for row in numbers]
    return attrs.evolve(
        small_block(bodies, topic=TOPIC, deliver_ms=moments, keys=[str(row) for row in numbers]),
        queue_ids=np.full(len(numbers), ANY_QUEUE, np.int32),
    )


def arrived(store: MessageStore) -> Counter[int]:
    """Row to records on the real topic."""
    log = store.commit_log
    records = (decode_record(log.read(*place)) for place in log.walk(log.min_offset))
    return Counter(int(one.body.split(b":")[0]) for one in records if one.topic == TOPIC)


SOME = Rows(
    parts=(((0, 1, 2), (3,)), ((4, 5, 7),)),
    refused=frozenset({5}),
)
MANY = Rows(parts=((tuple(range(11, 45, 2)), (1,)),))


async def _whole(one: Desk) -> None:
    await one.run_job(SOME, "run")
    await one.done()


async def _ingest_many(one: Desk) -> None:
    await one.run_job(MANY, "run")
    await one.done()


async def _cut_short(one: Desk) -> None:
    await one.run_job(SOME, "first")
    await trio.sleep(0.001)


async def _stage_only(one: Desk) -> None:
    await one.stage(SOME, "failed")


ASYNC = attrs.evolve(FILES, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
BULK_WORKLOADS = {
    "whole": BulkWorkload(SOME, (_whole,)),
    "columns, async": BulkWorkload(MANY, (_ingest_many,), ASYNC),
    "killed and run again": BulkWorkload(SOME, (_stage_only, _cut_short, _whole), ASYNC),
}
