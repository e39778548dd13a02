"""The table of jobs: what the disk refuses, what is forgotten, what a start finds."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
from trio.testing import MockClock

from broker_rig import BROKER, ROOT, STORE
from bulk_driver import small_block
from fakes import ManualClock
from simulation.crash_selection import LOOKS_AT_ALL
from timermq.broker.bulk.bulk_job import BulkJob
from timermq.broker.bulk.bulk_jobs import HOUR_MS, BulkJobs
from timermq.broker.bulk.durable_note import save_note
from timermq.broker.bulk.job_notes import ProgressNote
from timermq.broker.options import BrokerOptions
from timermq.broker.refusal import RefusedError
from timermq.remoting.bulk import CommitJob, JobState, StageBlock
from timermq.remoting.bulk_block import BulkBlockError
from timermq.simulator.disks.disk_damage import read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.flipped_bit import repaired
from timermq.timerstore.message import pack_host
from timermq.timerstore.message_store import MessageStore

HOST = pack_host("127.0.0.1", 10_911)
BLOCK = small_block(["a", "b"]).encode()
STEP = 1 if LOOKS_AT_ALL else 13
"""Between two bits that are flipped."""
DIRECTORY = f"{ROOT}/timermq-bulk"


@attrs.define(eq=False)
class Table:
    """The jobs of a process."""

    jobs: BulkJobs
    disk: MemoryDisk
    clock: ManualClock

    async def staged(self, name: str, *parts: str) -> BulkJob:
        """An open job with whole parts of two rows each."""
        job = await self.jobs.open(name)
        for part in parts:
            staged = self.jobs.stage(stage(name, part), BLOCK)
            await self.jobs.finish(job, part, staged)
        return job

    async def decide(self, job: BulkJob, *parts: str) -> bool:
        """Hand parts of two rows each over, which decides the job."""
        wanted = CommitJob(parts=tuple((part, 2) for part in parts))
        return await self.jobs.commit(job, wanted, born_host=HOST, may_send=lambda _: True)


def advance(clock: ManualClock, by_ms: int) -> None:
    """Let so many milliseconds pass on the clock."""
    clock.time_ms += by_ms


def stage(
    job: str, part: str, block: int = 0, topic: str = "T", *, last: bool = True
) -> StageBlock:
    """The parameters of a block."""
    return StageBlock(job=job, part=part, block=block, is_last=last, topic=topic)


@asynccontextmanager
async def table(
    disk: MemoryDisk | None = None,
    clock: ManualClock | None = None,
    options: BrokerOptions = BROKER,
) -> AsyncGenerator[Table]:
    """The jobs of one process, in which nothing ingests; the store is abandoned at the end."""
    clock = clock or ManualClock()
    disk = disk or MemoryDisk(now_ms=clock.now_ms)
    store = MessageStore.open(disk, ROOT, STORE, now_ms=clock.now_ms, store_host=HOST)
    yield Table(BulkJobs(store, options, clock.now_ms), disk, clock)
    store.abandon()


async def test_a_full_disk_takes_nothing_and_loses_nothing(autojump_clock: MockClock) -> None:
    """Opening, blocks and the decision are refused for a while, and then done."""
    async with table() as one:
        total = one.disk.total
        job = await one.staged("J", "p")
        one.disk.total = 0
        for act in (
            one.jobs.open("K"),
            one.staged("J", "q"),
            one.decide(job, "p"),
        ):
            with pytest.raises(RefusedError, match="BULK_DISK: ") as caught:
                await act
            assert caught.value.code == 2
        one.disk.total = total
        await one.staged("J", "q")
        assert await one.decide(job, "p", "q")
        await one.staged("K", "x")


async def test_a_failed_sync_of_a_part_begins_it_anew(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file goes, for who knows what of it is on the disk."""
    async with table() as one:
        job = await one.jobs.open("J")
        part = one.jobs.stage(stage("J", "p"), BLOCK)

        async def failing(*_: object) -> None:
            raise OSError(errno.EIO, "lost")

        with monkeypatch.context() as patch:
            patch.setattr(one.disk, "sync", failing)
            with pytest.raises(RefusedError, match="BULK_DISK"):
                await one.jobs.finish(job, "p", part)
        assert one.disk.list_dir(f"{DIRECTORY}/J") == ["job"]
        await one.staged("J", "p")
        assert await one.decide(job, "p")


async def test_a_block_of_another_topic_is_refused(autojump_clock: MockClock) -> None:
    """Rights were asked for by the name that the request states."""
    async with table() as one:
        await one.jobs.open("J")
        with pytest.raises(BulkBlockError, match="expected topic 'U', found 'T'"):
            one.jobs.stage(stage("J", "p", topic="U"), BLOCK)


async def test_who_may_not_send_does_not_commit(autojump_clock: MockClock) -> None:
    """Any account that has staged the parts."""
    async with table() as one:
        job = await one.staged("J", "p")
        wanted = CommitJob(parts=(("p", 2),))
        with pytest.raises(RefusedError, match="NO_PERMISSION"):
            await one.jobs.commit(job, wanted, born_host=HOST, may_send=lambda _: False)
        assert job.state is JobState.OPEN


async def test_jobs_that_are_not_handed_over_are_forgotten(autojump_clock: MockClock) -> None:
    """After hours without a request, also if a process ended meanwhile."""
    clock = ManualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with table(disk, clock) as one:
        await one.staged("old", "p")
        advance(clock, BROKER.bulk_open_hours * HOUR_MS)
        await one.staged("new", "p")
        assert await one.jobs.sweep() == 0
    async with table(disk, clock) as one:
        advance(clock, 1)
        assert await one.jobs.sweep() == 1
        assert disk.list_dir(DIRECTORY) == ["new"]
        with pytest.raises(RefusedError, match="BULK_JOB: job old is not open"):
            one.jobs.get("old")


async def test_a_decided_job_is_never_swept(autojump_clock: MockClock) -> None:
    """However long it waits to be ingested; its other parts go at once."""
    clock = ManualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with table(disk, clock) as one:
        job = await one.staged("J", "p", "q")
        await one.decide(job, "p")
        assert disk.list_dir(f"{DIRECTORY}/J") == ["handed_over", "job", "p.part"]
    advance(clock, 10_000 * HOUR_MS)
    async with table(disk, clock) as one:
        assert await one.jobs.sweep() == 0
        assert [job.name for job in one.jobs.pending()] == ["J"]


async def test_jobs_are_ingested_in_the_order_of_their_commits(
    autojump_clock: MockClock,
) -> None:
    """Also when the clock stands still, or goes back."""
    async with table() as one:
        for name in ("b", "a", "c"):
            job = await one.staged(name, "p")
            await one.decide(job, "p")
            advance(one.clock, -1)
        assert [job.name for job in one.jobs.pending()] == ["b", "a", "c"]


async def test_a_note_that_cannot_be_read_is_left_as_it_is(autojump_clock: MockClock) -> None:
    """Its job is refused by name; the others are served."""
    disk = MemoryDisk()
    async with table(disk) as one:
        await one.staged("J", "p")
        await one.staged("K", "p")
    file = disk.open(f"{DIRECTORY}/J/job")
    file.write(0, b"????")
    async with table(disk) as one:
        for act in (one.jobs.open("J"), one.jobs.open("J")):
            with pytest.raises(RefusedError, match=r"BULK_DAMAGED: job J: .* expected the CRC"):
                await act
        assert await one.decide(await one.jobs.open("K"), "p")
        assert disk.list_dir(f"{DIRECTORY}/J") == ["job", "p.part"]


@pytest.mark.slow
@pytest.mark.parametrize("note", ["job", "handed_over", "progress"])
async def test_every_damage_of_a_note(autojump_clock: MockClock, note: str) -> None:
    """Any bit, any length: the job is refused by name, nothing changes, and it can be put back."""
    disk = MemoryDisk()
    async with table(disk) as one:
        job = await one.staged("J", "p")
        await one.decide(job, "p")
        progress = ProgressNote(row=1, log_py=0, fingerprint="f", topics=("T",))
        await save_note(disk, job.path("progress"), progress)
        path = job.path(note)
        good = disk.open(path).read(0, 1 << 20)
    flips = (repaired(good, at // 8, at % 8) for at in range(0, 8 * len(good), STEP))

    for bad in (*flips, *(good[:size] for size in range(len(good)))):
        put(disk, path, bad)
        before = read_image(disk, DIRECTORY)
        async with table(disk) as one:
            with pytest.raises(RefusedError, match="BULK_DAMAGED: job J: "):
                one.jobs.get("J")
            assert not one.jobs.pending()
        assert before == read_image(disk, DIRECTORY)
    put(disk, path, good)
    async with table(disk) as one:
        assert one.jobs.get("J").state is JobState.COMMITTED


def put(disk: MemoryDisk, path: str, data: bytes) -> None:
    """Replace the bytes of a file."""
    file = disk.open(path)
    file.truncate(len(data))
    file.write(0, data)


async def test_what_is_left_of_a_job_that_went_is_removed(autojump_clock: MockClock) -> None:
    """A directory without a note is none."""
    disk = MemoryDisk()
    disk.make_dirs(f"{DIRECTORY}/J")
    disk.open(f"{DIRECTORY}/J/p.part", create=True).write(0, b"x")
    async with table(disk) as one:
        assert disk.list_dir(DIRECTORY) == []
        assert (await one.jobs.open("J")).parts == {}
