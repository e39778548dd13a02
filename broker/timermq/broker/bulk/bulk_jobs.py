"""The jobs of a store: opened, staged, committed, remembered, and forgotten.

Each has a directory under ``timermq-bulk/``, which RocketMQ does not look at. What a request is
answered with is durable: a job's moment, a whole part, the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import structlog
import trio

from timermq.remoting.bulk import CommitJob, JobState, StageBlock
from timermq.remoting.bulk_block import BLOCK_SIZE_MAX, BulkBlock, BulkBlockError
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.message_store import MessageStore

from ..options import BrokerOptions
from ..refusal import RefusedError
from .bulk_job import BulkJob, check_jobs, check_staged
from .durable_note import save_note
from .job_notes import COMMIT, JOB, CommitNote, JobNote
from .staged_part import StagedPart, blocks_in

DIRECTORY = "timermq-bulk"
"""Under the store's root."""
HOUR_MS = 3_600_000
STAGING_PARTS_MAX = 10_000
"""Parts of a job that are staged at a time: those that count, and those of attempts that failed."""

log = structlog.get_logger("timermq.broker.bulk.bulk_jobs")


class BulkJobs:
    """The table of jobs.

    Args:
        store: Where their rows are ingested; its disk and root hold the files.
        options: Limits.
        now_ms: The wall clock.
    """

    def __init__(
        self, store: MessageStore, options: BrokerOptions, now_ms: Callable[[], int]
    ) -> None:
        self.committed = trio.Event()
        """Set when a job waits for its rows to be ingested."""
        self._store = store
        self._disk: Disk = store.disk
        self._root = f"{store.root}/{DIRECTORY}"
        self._options = options
        self._now_ms = now_ms
        self._jobs: dict[str, BulkJob] = {}
        self._damaged: dict[str, str] = {}
        self._opening = trio.Lock()
        self._load()

    def __iter__(self) -> Iterator[BulkJob]:
        return iter(list(self._jobs.values()))

    @property
    def staged_size(self) -> int:
        """Bytes of the parts of all jobs on the disk."""
        return sum(job.staged_size for job in self._jobs.values())

    def pending(self) -> list[BulkJob]:
        """The jobs whose rows are still to be ingested, in the order of their commits."""
        found = [job for job in self._jobs.values() if job.state is JobState.COMMITTED]
        return sorted(found, key=_commit_ms)

    def get(self, name: str) -> BulkJob:
        """A job that is known.

        Raises:
            RefusedError: There is none (29), or it cannot be read (1).
        """
        job = self._jobs.get(name)
        if job is None:
            if name in self._damaged:
                raise RefusedError(
                    ResponseCode.SYSTEM_ERROR, "BULK_DAMAGED", f"job {name}: {self._damaged[name]}"
                )
            raise not_open(name)
        job.used_ms = self._now_ms()
        return job

    # -- opening ------------------------------------------------------------------------------

    async def open(self, name: str, owner: str = "", account: str = "") -> BulkJob:
        """Begin a job, unless it is known; its moment is durable then.

        Args:
            name: Of the job.
            owner: The stream that is to own it; empty: any driver.
            account: Who opens it; see ``JobNote``.

        Raises:
            RefusedError: It belongs to another owner (29), there are too many (2), the disk refuses
                (2), it cannot be read (1).

        Cancellation: the job is known, or not.
        """
        async with self._opening:
            if name in self._jobs or name in self._damaged:
                job = self.get(name)
                if owner and job.owner != owner:
                    raise _unknown(
                        "BULK_OWNER", f"job {name} belongs to {job.owner!a}, found {owner!a}"
                    )
                return job
            check_jobs(self, self._options.bulk_jobs_max, account)
            directory, now_ms = f"{self._root}/{name}", self._now_ms()
            try:
                changed = self._disk.make_dirs(directory)
                note = JobNote(job_ms=now_ms, owner=owner, account=account)
                await save_note(self._disk, f"{directory}/{JOB}", note)
                for one in changed:
                    await self._disk.sync_dir(one)
            except OSError as error:
                raise _no_room(error) from error
            job = BulkJob(
                name=name,
                directory=directory,
                job_ms=now_ms,
                owner=owner,
                account=account,
                used_ms=now_ms,
            )
            self._jobs[name] = job
            return job

    # -- staging ------------------------------------------------------------------------------

    def stage(self, stage: StageBlock, block: bytes) -> StagedPart:
        """Write a block of a part down; ``finish`` makes the part durable.

        Raises:
            BulkBlockError: It is no block, or of another topic (13).
            RefusedError: It does not follow the one before, the job is decided, or a limit is
                reached (2).
        """
        job = self.get(stage.job)
        if job.state is not JobState.OPEN:
            raise _unknown("BULK_HANDED_OVER", f"job {job.name} is {job.state}")
        found = BulkBlock.decode(block)
        if found.topic != stage.topic:
            raise BulkBlockError(f"expected topic {stage.topic!a}, found {found.topic!a}")
        if len(block) > BLOCK_SIZE_MAX and len(found) > 1:
            raise BulkBlockError(f"expected at most {BLOCK_SIZE_MAX} bytes, found {len(block)}")
        part = job.parts.get(stage.part)
        if part is not None and part.repeats(stage.block, block):
            if part.has_last != stage.is_last:
                raise _order(stage, part)
            return part
        if stage.block == 0 and (part is None or not part.has_last):
            self._check_room(job, len(block))
            part = StagedPart(path=job.path(stage.part))
            job.parts[stage.part] = part
        elif part is None:
            raise _unknown("BULK_PART_UNKNOWN", f"part {stage.part} begins with block 0")
        elif part.has_last or stage.block != part.blocks:
            raise _order(stage, part)
        else:
            self._check_room(job, len(block))
        try:
            part.append(self._disk, block, len(found), found.topic)
        except OSError as error:
            raise _no_room(error) from error
        part.has_last = stage.is_last
        return part

    async def finish(self, job: BulkJob, name: str, part: StagedPart) -> None:
        """Make a part whose last block has arrived durable.

        Raises:
            RefusedError: The disk refuses (2), or the part was dropped meanwhile.

        Cancellation: the part is whole, or its last block may be sent again.
        """
        async with job.lock:
            if job.parts.get(name) is not part:
                raise _unknown("BULK_PART_UNKNOWN", f"part {name} was dropped")
            if part.is_whole:
                return
            try:
                with trio.CancelScope(shield=True):
                    await part.finish(self._disk)
            except OSError as error:
                # A sync that failed is never retried: the part begins again, in another file.
                del job.parts[name]
                part.remove(self._disk)
                raise _no_room(error) from error

    def _check_room(self, job: BulkJob, size: int) -> None:
        if len(job.parts) >= STAGING_PARTS_MAX:
            raise _busy("BULK_PARTS_MAX", f"expected at most {STAGING_PARTS_MAX} parts of a job")
        check_staged(self, self._options.bulk_staged_size_max, job.account, size)
        refusal = self._store.writeable()
        if refusal is not None:
            raise _busy("BULK_DISK", refusal)

    # -- the commit ---------------------------------------------------------------------------

    async def commit(
        self,
        job: BulkJob,
        wanted: CommitJob,
        *,
        born_host: bytes,
        may_send: Callable[[str], bool],
    ) -> bool:
        """Commit a job: its parts are decided, if they are not yet.

        Returns:
            Whether these are the parts that count.

        Raises:
            RefusedError: A part is not there, is damaged or has other rows, the driver may not send
                to one of its topics, the disk refuses (2), or other rows were committed before.
                Nothing has changed.

        Cancellation: the job is committed, or not.
        """
        async with job.lock:
            if job.state is JobState.OPEN:
                topics = await self._verify(job, wanted, may_send)
                note = CommitNote(
                    parts=wanted.parts,
                    topics=topics,
                    handed_ms=self._commit_ms(),
                    born_host=born_host,
                    fingerprint=wanted.fingerprint,
                    log_py=self._store.commit_log.flushed_where,
                )
                with trio.CancelScope(shield=True):
                    await self._decide(job, note)
            job.check_fingerprint(wanted.fingerprint)
            return job.is_made_of(wanted.parts)

    def _commit_ms(self) -> int:
        """A moment after the commits of all pending jobs, whatever the clock does."""
        last_ms = max(map(_commit_ms, self.pending()), default=0)
        return max(self._now_ms(), last_ms + 1)

    async def _decide(self, job: BulkJob, note: CommitNote) -> None:
        path = job.path(COMMIT)
        try:
            await save_note(self._disk, path, note)
        except OSError as error:
            if self._disk.exists(path):
                # Renamed, but who knows whether for good: the next start tells.
                self._store.fail(error)
            raise _no_room(error) from error
        job.commit = note
        job.clean(self._disk)
        log.info("bulk job committed", job=job.name, parts=len(note.parts), rows=note.rows)
        self.committed.set()

    async def _verify(
        self, job: BulkJob, wanted: CommitJob, may_send: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """Check every byte of the parts; returns the topics that are in them."""
        topics: dict[str, None] = {}
        for name, rows in wanted.parts:
            part = job.parts.get(name)
            if part is None or not part.is_whole:
                raise _unknown("BULK_PART_UNKNOWN", f"part {name} is not staged as a whole")
            found = 0
            file = self._disk.open(part.file_path, read_only=True)
            try:
                for place in blocks_in(file):
                    block = BulkBlock.decode(place.read(file))
                    found += len(block)
                    topics[block.topic] = None
                    await trio.lowlevel.checkpoint()
            except BulkBlockError as error:
                raise RefusedError(
                    ResponseCode.SYSTEM_ERROR,
                    "BULK_PART_DAMAGED",
                    f"part {name}, behind row {found}: {error.remark}; stage it again by another "
                    "name",
                ) from error
            finally:
                file.close()
            if found != rows:
                raise _unknown("BULK_ROWS", f"part {name}: expected {rows} rows, found {found}")
        if not all(map(may_send, topics)):
            raise RefusedError(
                ResponseCode.NO_PERMISSION, "NO_PERMISSION", "no right to send to a topic of it"
            )
        return tuple(topics)

    # -- letting go ---------------------------------------------------------------------------

    async def drop(self, job: BulkJob, names: Sequence[str], prefix: str) -> int:
        """Let parts of an open job go; how many there were."""
        async with job.lock:
            if job.state is not JobState.OPEN:
                return 0
            wanted = {name for name in names if name in job.parts}
            if prefix:
                wanted.update(name for name in job.parts if name.startswith(prefix))
            for name in wanted:
                job.parts.pop(name).remove(self._disk)
            return len(wanted)

    async def sweep(self) -> int:
        """Forget jobs that stay open for long, and old ones that are done.

        Returns:
            How many are forgotten.
        """
        now_ms, options = self._now_ms(), self._options
        done = [job for job in self if job.state is JobState.DONE]
        done.sort(key=_done_ms)
        spare = len(done) - options.bulk_remembered_max
        until_ms = now_ms - options.bulk_remembered_hours * HOUR_MS
        old = [job for at, job in enumerate(done) if at < spare or _done_ms(job) < until_ms]
        until_ms = now_ms - options.bulk_open_hours * HOUR_MS
        old += [job for job in self if job.state is JobState.OPEN and job.used_ms < until_ms]
        for job in old:
            async with job.lock:
                if job.state is JobState.OPEN and job.used_ms >= until_ms:
                    continue
                del self._jobs[job.name]
                with trio.CancelScope(shield=True):
                    await self._remove(job)
        return len(old)

    async def _remove(self, job: BulkJob) -> None:
        log.info("bulk job forgotten", job=job.name, state=str(job.state))
        # The note goes first, for good: files without it are not a job.
        self._disk.remove(job.path(JOB))
        await self._disk.sync_dir(job.directory)
        self._clear(job.directory)

    def _clear(self, directory: str) -> None:
        for file in self._disk.list_dir(directory):
            self._disk.remove(f"{directory}/{file}")
        self._disk.remove_dir(directory)

    # -- the start ----------------------------------------------------------------------------

    def _load(self) -> None:
        for name in self._disk.list_dir(self._root):
            directory = f"{self._root}/{name}"
            try:
                job = BulkJob.load(self._disk, directory, name)
            except StoreFormatError as error:
                log.error("bulk job cannot be read, and is left as it is", job=name, error=error)
                self._damaged[name] = str(error)
                continue
            if job is None:
                self._clear(directory)
                continue
            job.clean(self._disk)
            self._jobs[name] = job
        if self.pending():
            self.committed.set()


def _commit_ms(job: BulkJob) -> int:
    return 0 if job.commit is None else job.commit.handed_ms


def _done_ms(job: BulkJob) -> int:
    return 0 if job.progress is None else job.progress.done_ms or 0


def _order(stage: StageBlock, part: StagedPart) -> RefusedError:
    expected = "no more blocks" if part.has_last else f"block {part.blocks}"
    return _unknown(
        "BULK_ORDER", f"part {stage.part}: expected {expected}, found block {stage.block}"
    )


def not_open(name: str) -> RefusedError:
    """The refusal for a job that is not there, or belongs to another account."""
    return _unknown(
        "BULK_JOB", f"job {name} is not open: begin with BULK_OPEN, by a name of your own"
    )


def _unknown(rule: str, text: str) -> RefusedError:
    return RefusedError(ResponseCode.INVALID_PARAMETER, rule, text)


def _busy(rule: str, text: str) -> RefusedError:
    return RefusedError(ResponseCode.SYSTEM_BUSY, rule, text)


def _no_room(error: OSError) -> RefusedError:
    return _busy("BULK_DISK", str(error))
