"""One job of bulk scheduling: its state, what may be staged for it, what counts of its files."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from bulk_driver import small_block
from timermq.broker.bulk.bulk_job import BulkJob, check_jobs, check_staged
from timermq.broker.bulk.durable_note import save_note
from timermq.broker.bulk.job_notes import (
    COMMIT,
    JOB,
    PROGRESS,
    CommitNote,
    JobNote,
    ProgressNote,
    parts_digest,
)
from timermq.broker.bulk.staged_part import StagedPart
from timermq.broker.refusal import RefusedError
from timermq.remoting.bulk import JobState
from timermq.simulator.disks.memory_disk import MemoryDisk

DIRECTORY = "/bulk/J"
COMMITTED = CommitNote(
    parts=(("p", 2),), topics=("T",), handed_ms=5, born_host=b"", fingerprint="F"
)
DONE = ProgressNote(
    row=2, log_py=70, refused=1, done_ms=9, parts_digest=parts_digest([("p", 2)]), topics=("T",)
)


def job(account: str = "", **changes: Any) -> BulkJob:  # noqa: ANN401 - passed on
    """A job that was opened at 3 ms."""
    return attrs.evolve(
        BulkJob(name="J", directory=DIRECTORY, job_ms=3, used_ms=3, account=account), **changes
    )


async def stored(*notes: tuple[str, object], parts: tuple[str, ...] = ()) -> MemoryDisk:
    """A disk with the files of a job, its parts of two rows each."""
    disk = MemoryDisk(now_ms=lambda: 8)
    disk.make_dirs(DIRECTORY)
    for name, note in notes:
        await save_note(disk, f"{DIRECTORY}/{name}", note)
    for name in parts:
        part = StagedPart(path=f"{DIRECTORY}/{name}")
        part.append(disk, small_block(["a", "b"]).encode(), 2, "T")
        await part.finish(disk)
    return disk


@pytest.mark.parametrize(
    ("commit", "progress", "state", "rows", "scan_py"),
    [
        (None, None, JobState.OPEN, 0, None),
        (COMMITTED, None, JobState.COMMITTED, 2, None),
        (COMMITTED, ProgressNote(row=1, log_py=50), JobState.COMMITTED, 2, 50),
        (None, DONE, JobState.DONE, 2, None),
    ],
)
def test_the_notes_decide_the_state(
    commit: CommitNote | None,
    progress: ProgressNote | None,
    state: JobState,
    rows: int,
    scan_py: int | None,
) -> None:
    """Only a committed job with progress has rows to be looked for in the log."""
    one = job(commit=commit, progress=progress)

    assert (one.state, one.status().rows, one.scan_py) == (state, rows, scan_py)
    assert one.topics == (() if state is JobState.OPEN else ("T",))


def test_rows_are_adopted_or_refused() -> None:
    """The status counts both, up to the progress on the disk."""
    status = job(progress=DONE, retry_error="no room").status()

    assert (status.adopted, status.refused, status.held_up) == (1, 1, "no room")


@pytest.mark.parametrize("notes", [{"commit": COMMITTED}, {"progress": DONE}])
def test_a_job_is_known_by_its_parts(notes: dict[str, Any]) -> None:
    """In any order; also when it is done, and the commit is gone."""
    one = job(**notes)

    assert one.is_made_of((("p", 2),))
    assert not one.is_made_of((("p", 3),))
    assert not job().is_made_of((("p", 2),))


@pytest.mark.parametrize(
    ("one", "found", "is_refused"),
    [
        (job(commit=COMMITTED), "F", False),
        (job(commit=COMMITTED), "G", True),
        (job(commit=COMMITTED), "", False),
        (job(progress=DONE), "G", False),
        (job(), "G", False),
    ],
)
def test_other_rows_under_a_committed_name_are_refused(
    one: BulkJob, found: str, *, is_refused: bool
) -> None:
    """Where one side has stated no fingerprint there is nothing to compare."""
    if not is_refused:
        one.check_fingerprint(found)
        return
    with pytest.raises(RefusedError) as refusal:
        one.check_fingerprint(found)
    assert (refusal.value.rule, refusal.value.code) == ("BULK_JOB_DIFFERS", 29)


async def test_a_job_is_loaded_with_its_whole_parts() -> None:
    """The newest file says when it was used last; nothing without the note of its opening."""
    disk = await stored((JOB, JobNote(job_ms=3, owner="o")), (COMMIT, COMMITTED), parts=("p",))
    one = BulkJob.load(disk, DIRECTORY, "J")

    assert one is not None
    assert (one.state, one.owner, one.was_found) == (JobState.COMMITTED, "o", True)
    assert (one.used_ms, one.parts["p"].rows) == (8, 2)
    assert BulkJob.load(disk, "/bulk/K", "K") is None


async def test_a_job_that_is_done_has_no_commit_and_no_parts() -> None:
    """A process that ended before it had removed them has left the files."""
    disk = await stored(
        (JOB, JobNote(job_ms=3)), (COMMIT, COMMITTED), (PROGRESS, DONE), parts=("p",)
    )
    one = BulkJob.load(disk, DIRECTORY, "J")
    assert one is not None
    assert (one.state, one.commit, one.parts) == (JobState.DONE, None, {})
    one.clean(disk)

    assert disk.list_dir(DIRECTORY) == [JOB, PROGRESS]


async def test_a_commit_drops_the_parts_that_it_does_not_name() -> None:
    """While the job is open every whole part stays; what is half written never does."""
    disk = await stored((JOB, JobNote(job_ms=3)), parts=("p", "q"))
    begun = StagedPart(path=f"{DIRECTORY}/r")
    begun.append(disk, small_block(["a"]).encode(), 1, "T")
    one = BulkJob.load(disk, DIRECTORY, "J")
    assert one is not None
    one.clean(disk)
    assert disk.list_dir(DIRECTORY) == [JOB, "p.part", "q.part"]
    one.commit = COMMITTED
    one.clean(disk)

    assert (disk.list_dir(DIRECTORY), list(one.parts)) == ([JOB, "p.part"], ["p"])


def test_an_account_gets_as_many_jobs_as_are_left_for_others() -> None:
    """Jobs that are done do not count; without accounts one driver may have all."""
    done = job(progress=DONE)
    check_jobs([done, job("a")], 3, "a")
    check_jobs([job(), job()], 3, "")
    for jobs, account in (([job("a"), job("a")], "a"), ([job(), job(), job()], "")):
        with pytest.raises(RefusedError) as refusal:
            check_jobs(jobs, 3, account)
        assert (refusal.value.rule, refusal.value.code) == ("BULK_JOBS_MAX", 2)


def test_bytes_of_parts_are_shared_as_jobs_are() -> None:
    """The bytes of all jobs count for the limit, those of the account for its share."""
    mine = job("a", parts={"p": StagedPart(path="", size=40)})
    check_staged([mine], 100, "a", 60)
    check_staged([mine], 100, "b", 60)
    with pytest.raises(RefusedError, match="found 40, 40 of this one, and 61 more") as refusal:
        check_staged([mine], 100, "a", 61)
    assert refusal.value.rule == "BULK_STAGED_MAX"
    other = job("b", parts={"p": StagedPart(path="", size=30)})
    with pytest.raises(RefusedError, match="BULK_STAGED_MAX"):
        check_staged([mine, other], 100, "a", 1)
