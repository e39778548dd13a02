"""The task that ingests committed jobs: rows go from the parts of a job into the store.

Jobs are taken in the order of their commits, rows in that of their blocks, in batches between
which everything else has its turn. When the wheel has fallen behind, the task rests: a message
that another producer sends now waits behind the rows that were stored before.

**Once (ONCE).** Ingesting is idempotent: every stored message names its row. The job's progress is
written once a second, only of durable rows (ORDERED_DURABILITY); after a start the log behind it
says which rows are there. A row is stored, or refused by a rule and remembered. A row that the
store does not take for the moment (a full disk, a slot under flow control) is retried for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import attrs
import numpy as np
import structlog
import trio

from timermq.pipeline.admission.admission import TimerPutColumns, TimerPutResult
from timermq.pipeline.quarantine.quarantine import HOPELESS
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.run_admission import RunAdmission
from timermq.pipeline.state.backoff import Backoff
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.bulk import RefusedRow
from timermq.remoting.bulk_block import BulkBlock, BulkBlockError
from timermq.timerstore.disk import File, is_for_a_while
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.store_maintenance import INDEX_GATHERED

from ..refusal import RefusedError
from ..sending.message_stamp import MessageStamp
from .block_rows import BlockRows, Numbers, RowsOrigin
from .bulk_job import BulkJob
from .bulk_jobs import BulkJobs
from .bulk_topics import BulkTopics
from .durable_note import save_note
from .ingest_progress import IngestProgress, ingested_rows
from .job_notes import PROGRESS, ProgressNote, parts_digest
from .staged_part import PlacedBlock, StagedPart, blocks_in

NOTE_INTERVAL_S = 1.0
"""Between two writings of the progress: what a start after a kill has to look for in the log."""
BACKLOG_MAX = 8_192
"""Messages of the timer topic that have no place in the wheel yet: some 50 ms of its time."""
INDEX_LAG_MAX = 2 * INDEX_GATHERED
"""Bytes of the log that are not indexed yet: what falls further behind has to be read again, at ten
times the cost of a row. The index begins at half of it."""
BACKLOG_PAUSE_S = 0.005
MESSAGES_MAX = 128
"""Single messages stored together."""
SWEEP_INTERVAL_S = 1800.0

HOPELESS_ROWS = HOPELESS | {PutStatus.WHEEL_TIMER_MSG_ILLEGAL, PutStatus.WHEEL_TIMER_NOT_ENABLE}
"""The same row again can only be refused again; anything else is for a while."""

log = structlog.get_logger("timermq.broker.bulk.ingest_task")


@attrs.define(eq=False)
class _Tried:
    """Rows of a block by the store's answer to them."""

    refused: list[tuple[int, str, str]] = attrs.Factory(list[tuple[int, str, str]])
    """Row of the block, rule, remark."""
    left: list[int] = attrs.Factory(list[int])
    """Rows of the block to retry, by number."""
    error: str | None = None
    """Why the store does not take them now; None when it took all."""


class IngestTask:
    """Ingests the jobs of a store; ``run`` is its task.

    Args:
        jobs: The jobs.
        timer_store: The timer service that stores the rows.
        run_admission: Admits the runs among the rows.
        bulk_topics: Says where a topic's rows may go.
        stamp: What the broker adds to every message.
    """

    def __init__(
        self,
        *,
        jobs: BulkJobs,
        timer_store: TimerMessageStore,
        run_admission: RunAdmission,
        bulk_topics: BulkTopics,
        stamp: MessageStamp,
    ) -> None:
        self.ingested = 0
        """Rows stored since the start."""
        self.refused = 0
        self.backoff = Backoff()
        """Retries of rows that the store does not take now."""
        self._jobs = jobs
        self._timer_store = timer_store
        self._store = timer_store.store
        self._run_admission = run_admission
        self._bulk_topics = bulk_topics
        self._own = stamp.own
        self._own_names = frozenset(name.decode() for name in stamp.keys)
        self._store.pins.add("bulk jobs", self.needed_from)
        self._work: IngestProgress | None = None

    def needed_from(self) -> int | None:
        """Lowest position of the log behind which a start would look for rows; None for none.

        Of each job that is not through, whether it is in hand or waits behind another.
        """
        jobs = (
            self._jobs.pending() if self._work is None else [*self._jobs.pending(), self._work.job]
        )
        return min((one for job in jobs if (one := job.scan_py) is not None), default=None)

    async def run(self) -> None:
        """Ingest jobs as they are committed, and forget old ones, for ever.

        Raises:
            OSError: The disk failed.
            StoreFailedError: A sync failed.

        Cancellation: stored rows are in the commit log; the next start finds them there.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweep)
            while True:
                for job in self._jobs.pending():
                    await self.ingest(job)
                self._jobs.committed = trio.Event()
                if not self._jobs.pending():
                    await self._jobs.committed.wait()

    async def _sweep(self) -> None:
        while True:
            await self._jobs.sweep()
            await trio.sleep(SWEEP_INTERVAL_S)

    async def ingest(self, job: BulkJob) -> None:
        """Ingest the rows of a committed job that are left; see ``run``."""
        note = job.commit
        assert note is not None
        progress = job.progress or ProgressNote(row=0, log_py=note.log_py or 0)
        known = np.zeros(0, np.int64)
        if job.was_found and (job.progress is not None or note.log_py is not None):
            known = await ingested_rows(
                self._store.commit_log,
                first_py=progress.log_py,
                tag=job.tag.encode(),
                first=progress.row,
            )
            log.info("bulk job goes on", job=job.name, row=progress.row, found=len(known))
        self._work = work = IngestProgress(
            job=job,
            note=note,
            refused_rows=job.refused_rows(self._store.disk),
            row=progress.row,
            refused=progress.refused,
            known=known,
            reached=progress,
        )
        if job.progress is None:
            # Before the first row: without it none is in the log, even after a power cut.
            work.reach(self._store.commit_log.max_offset)
            await self._note(work, work.reached)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._note_now_and_then, work)
            await self._ingest_parts(work)
            nursery.cancel_scope.cancel()
        work.reach(self._store.commit_log.max_offset)
        done = attrs.evolve(
            work.reached,
            done_ms=self._timer_store.clock.now_ms(),
            parts_digest=parts_digest(note.parts),
            topics=note.topics,
            fingerprint=note.fingerprint,
        )
        await self._note(work, done)
        self._go_on(work)
        self._work = None
        job.commit, job.was_found = None, False
        job.clean(self._store.disk)
        log.info("bulk job done", job=job.name, rows=work.row, refused=work.refused)

    async def _ingest_parts(self, work: IngestProgress) -> None:
        first = 0
        for name, rows in work.note.parts:
            if first + rows > work.row:
                await self._ingest_part(work, name, first, rows)
            first += rows

    async def _ingest_part(self, work: IngestProgress, name: str, first: int, rows: int) -> None:
        """The rows of a part that are left; ``first`` is the number of its first row in the job."""
        part = work.job.parts.get(name) or StagedPart(path=work.job.path(name), is_whole=True)
        try:
            with closing(self._store.disk.open(part.file_path, read_only=True)) as file:
                for place, block in _blocks(file, work.row - first):
                    await self._ingest_block(work, name, first, place.first_row, block)
                    await trio.lowlevel.checkpoint()
        except (BulkBlockError, FileNotFoundError) as error:
            # Every byte was good at the commit: the disk has lost them since.
            remark = f"BULK_PART_DAMAGED: part {name}: {error}"
            log.error("part of a bulk job is damaged", job=work.job.name, error=remark)
            numbers = np.setdiff1d(np.arange(work.row, first + rows), work.known)
            lost = [(row - first, "BULK_PART_DAMAGED", remark) for row in numbers.tolist()]
            await self._refuse(work, name, lost)
            work.row = first + rows

    async def _ingest_block(
        self, work: IngestProgress, name: str, part_first: int, at: int, block: BulkBlock
    ) -> None:
        """All rows of a block that begins with row ``at`` of its part."""
        first, rows = part_first + at, np.arange(len(block), dtype=np.int64)
        left = rows[(first + rows >= work.row) & ~np.isin(first + rows, work.known)]
        refused: list[tuple[int, str, str]] = []
        while len(left):
            tried = await self._try(work, first, block, left)
            refused += tried.refused
            left = np.array(tried.left, np.int64)
            if tried.error is not None:
                await self._back_off(work, len(left), tried.error)
        self._go_on(work)
        await self._refuse(work, name, [(at + row, rule, text) for row, rule, text in refused])
        work.row = first + len(block)
        if self._store.options.is_sync_flush:
            # Queues show synced messages only; no producer asks for the sync of these.
            await self._store.wait_flushed(self._store.commit_log.max_offset)
        work.reach(self._store.commit_log.max_offset)

    async def _try(
        self, work: IngestProgress, first: int, block: BulkBlock, left: Numbers
    ) -> _Tried:
        """Put rows of a block, as many as the store takes now."""
        tried = _Tried()
        try:
            queues = self._bulk_topics.queues(block.topic)
        except RefusedError as error:
            if self._bulk_topics.is_for_a_while(error):
                tried.left, tried.error = left.tolist(), error.remark
            else:
                tried.refused = [(row, error.rule, error.remark) for row in left.tolist()]
            return tried
        rows = BlockRows(
            block,
            RowsOrigin(
                tag=work.job.tag.encode(),
                first=first,
                job_ms=work.job.job_ms,
                born_host=work.note.born_host,
                own=self._own,
                own_names=self._own_names,
                queues=queues,
                body_size_max=self._store.options.max_message_size,
            ),
        )
        faults = rows.faults()
        if faults:
            tried.refused = [(row, *faults[row]) for row in left.tolist() if row in faults]
            left = np.setdiff1d(left, np.array(list(faults), np.int64))
        now_ms = self._timer_store.clock.now_ms()
        groups, single = rows.runs(
            left, now_ms=now_ms, latest_ms=self._timer_store.admission.latest_ms(now_ms)
        )
        for group in groups:
            stored = self._run_admission.put(rows.columns(group))
            if isinstance(stored, TimerPutColumns):
                self.ingested += len(group)
            else:
                self._sort(tried, group.tolist(), stored)
            await self._turn()
        for at in range(0, len(single), MESSAGES_MAX):
            some = single[at : at + MESSAGES_MAX]
            self._sort(tried, some.tolist(), self._timer_store.put(rows.messages(some)))
            await self._turn()
        return tried

    def _sort(self, tried: _Tried, rows: Sequence[int], results: Sequence[TimerPutResult]) -> None:
        """Note what became of rows that were put one by one."""
        for row, one in zip(rows, results, strict=True):
            result = one.result
            remark = result.remark or result.status.name
            if result.status.is_stored:
                self.ingested += 1
            elif result.status in HOPELESS_ROWS:
                tried.refused.append((row, one.rule or result.status.name, remark))
            else:
                tried.left.append(row)
                tried.error = remark

    async def _turn(self) -> None:
        """Everything else has its turn, and wheel and index come near."""
        await trio.lowlevel.checkpoint()
        while self._is_behind():  # noqa: ASYNC110 - nothing says when it is less
            await trio.sleep(BACKLOG_PAUSE_S)

    def _is_behind(self) -> bool:
        """Whether wheel or index are behind the rows that were stored before."""
        queue = self._store.queue(TIMER_TOPIC, 0)
        reached = self._timer_store.state.commit_queue_offset
        if queue is not None and queue.max_offset - reached > BACKLOG_MAX:
            return True
        now = self._store.statistics()
        return now.max_phy_offset - now.indexed_to > INDEX_LAG_MAX

    async def _refuse(
        self, work: IngestProgress, part: str, rows: Sequence[tuple[int, str, str]]
    ) -> None:
        """Write refused rows down; they are durable with the next progress."""
        found: list[RefusedRow] = [(part, *row) for row in sorted(rows)]
        while found:
            try:
                work.refused_rows.append(found)
            except OSError as error:
                if not is_for_a_while(error):
                    raise
                await self._back_off(work, len(found), str(error))
                continue
            self.refused += len(found)
            work.refused += len(found)
            found = []

    async def _note_now_and_then(self, work: IngestProgress) -> None:
        """Write the progress beside the ingestion, which does not wait for the disk meanwhile."""
        while True:
            await trio.sleep(NOTE_INTERVAL_S)
            await self._save(work, work.reached)

    async def _note(self, work: IngestProgress, note: ProgressNote) -> None:
        """Write a progress that nothing goes on without: it is tried until it is written."""
        while not await self._save(work, note):
            await self._back_off(work, 0, "the progress of the job cannot be written")

    async def _save(self, work: IngestProgress, note: ProgressNote) -> bool:
        """Whether the note is written, behind what it says."""
        if not await self._store.wait_flushed(note.log_py):
            return False
        # A log that ends before the place noted here is damaged then, not cut by a power cut.
        await self._store.flush(noted=True)
        try:
            await work.refused_rows.sync()
            with trio.CancelScope(shield=True):
                await save_note(self._store.disk, work.job.path(PROGRESS), note)
        except OSError as error:
            if not is_for_a_while(error):
                raise
            log.warning("no room for the progress of a bulk job, saved later", error=str(error))
            return False
        work.job.progress = note
        return True

    def _go_on(self, work: IngestProgress) -> None:
        """The store takes rows of the job again, if it was retried at all."""
        if work.job.retry_error is not None:
            self.backoff.over()
            work.job.retry_error = None

    async def _back_off(self, work: IngestProgress, count: int, error: str) -> None:
        """The store takes nothing just now: say so, and pause."""
        self.backoff.again(count, self._timer_store.clock.now_ms(), error)
        work.job.retry_error = error
        if self.backoff.is_news:
            log.warning("bulk job waits for the store", job=work.job.name, count=count, error=error)
        await trio.sleep(self.backoff.pause_s(self._timer_store.options.retry_interval_ms))


def _blocks(file: File, first: int) -> Iterator[tuple[PlacedBlock, BulkBlock]]:
    """The blocks of a part that have rows from ``first`` on."""
    for place in blocks_in(file):
        if place.first_row + place.rows > first:
            yield place, BulkBlock.decode(place.read(file))
