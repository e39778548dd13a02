"""The manifest of an archive: one entry a batch, and what its entry names is the archive.

::

    DIR/_archive/about.json            what is archived
    DIR/_archive/batch-00000007.json   the stretch of the commit log, and its files
    DIR/_archive/run-….json            a run that writes files, or has died while it did
    DIR/date=…/topic_name=…/…          the files; each has the name of its run in its own

Tasks write files under names that no other try gives, in their places. A batch counts from the
moment its entry is there, and that is one step: an entry is made whole, under a number that was
free. So a reader of the manifest sees all files of a batch or none, and no file of a try that
died. The next run removes those, by the name of the run that has left them: in a directory, which
one run at a time has, at once, and in an object store, where a run may live, after a day.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

import msgspec

from timermq.timerstore.disk import Lock
from timermq.timerstore.errors import StoreLockedError

from ...clock.clock import SystemClock
from ..errors import SparkJobError
from .batch import ArchivedFile, Batch
from .lake import Lake
from .lake_place import lake_of
from .moved_files import finish_move

SUFFIX = ".parquet"
ENTRIES = "_archive"
ABOUT = f"{ENTRIES}/about.json"
DEAD_MS = 86_400_000
"""A run in an object store that has no entry after so long is dead; there is no lock to tell."""


class About(msgspec.Struct, frozen=True):
    """The settings of the archive; another job on the same directory is refused."""

    what: str
    internal: bool


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is being written, as tasks and commit need it."""

    place: str
    """The archive's, as driver and executors see it."""
    name: str
    """That no other run has; a part of the name of each of its files."""
    number: int
    low: int
    high: int
    begun_ms: int
    """Epoch milliseconds."""

    def file_name(self, attempt: str, number: int) -> str:
        """The name of a file of an attempt of a task."""
        return f"{self.low:020d}-{self.name}-{attempt}-{number:05d}{SUFFIX}"


class Book:
    """The entries of one archive; one run at a time has that of a directory, up to ``close``.

    Args:
        directory: Of the archive, or a URL; made if it is missing.
        about: What is archived.
        now_ms: The time, epoch ms; that of the system otherwise.

    Raises:
        SparkJobError: The directory is the archive of something else, or no archive; or another run
            has it.
    """

    def __init__(
        self,
        directory: str,
        about: About,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.lake = lake_of(directory)
        self._now_ms = SystemClock().now_ms if now_ms is None else now_ms
        self._dead: list[str] = []
        """Runs that were dead when this one began."""
        if self.lake.size(ABOUT) is None and self.lake.has_files(SUFFIX):
            raise SparkJobError(
                f"{self.lake.place}: expected an archive or a directory without Parquet files, "
                f"found such files and no {ABOUT}"
            )
        try:
            self._lock: Lock | None = self.lake.lock(f"{ENTRIES}/lock")
        except StoreLockedError:
            raise SparkJobError(
                f"{self.lake.place}: expected no other run, found one that archives into it: "
                "wait for its end"
            ) from None
        try:
            self._check(about)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other runs have it."""
        if self._lock is not None:
            self._lock.release()

    def _check(self, about: About) -> None:
        data = self.lake.get(ABOUT)
        if data is None:
            self.lake.put(ABOUT, msgspec.json.encode(about))
            return
        found = msgspec.json.decode(data, type=About)
        if found != about:
            raise SparkJobError(
                f"{self.lake.place}: expected the archive of {_shown(about)}, found that of "
                f"{_shown(found)}: name another directory"
            )

    def begin(self) -> Batch | None:
        """Remove what runs have left that died; the newest entry.

        Raises:
            OSError: A file cannot be removed.
        """
        last = last_entry(self.lake)
        if last is not None:
            finish_move(self.lake.place, last)
            self.lake.remove(_note(last.run))  # it died behind its entry
        names = self.lake.names(ENTRIES)
        if self._lock is not None:
            for name in names:
                if name.endswith(".tmp"):
                    self.lake.remove(f"{ENTRIES}/{name}")
        self._dead = [
            name.removeprefix("run-").removesuffix(".json")
            for name in names
            if name.startswith("run-") and name.endswith(".json") and self._is_dead(name)
        ]
        self._remove_files()
        return last

    def _is_dead(self, name: str) -> bool:
        """Whether the run of a note is."""
        if self._lock is not None:
            return True
        data = self.lake.get(f"{ENTRIES}/{name}")
        if data is None:
            return False
        return msgspec.json.decode(data, type=Run).begun_ms < self._now_ms() - DEAD_MS

    def begin_batch(self, low: int, high: int) -> Run:
        """Note, durably, that files of a batch are about to be written."""
        last = last_entry(self.lake)
        run = Run(
            place=self.lake.place,
            name=uuid.uuid4().hex,
            number=0 if last is None else last.number + 1,
            low=low,
            high=high,
            begun_ms=self._now_ms(),
        )
        self.lake.put(_note(run.name), msgspec.json.encode(run))
        return run

    def end_batch(self, run: Run) -> Batch:
        """Forget a run that has its entry, which is returned, and those that have died."""
        found = _entry(self.lake, entry_name(run.number))
        self._remove_files()  # a task that has outlived its driver may have come later
        listed = {file.path for file in found.files}
        for folder in {path.rpartition("/")[0] for path in listed}:
            for name in self.lake.of_run(run.name, folder):
                if name not in listed:
                    self.lake.remove(name)  # of a try that does not count
        for name in (run.name, *self._dead):
            self.lake.remove(_note(name))
        self._dead = []
        return found

    def _remove_files(self) -> None:
        """Remove the files of runs that have died without their entry."""
        for run in self._dead:
            for name in self.lake.of_run(run):
                self.lake.remove(name)


def commit(run: Run, files: Iterable[ArchivedFile]) -> Batch:
    """Make some files a batch, in one step; again with the same run it changes nothing.

    Raises:
        OSError: The disk refused; the batch counts if its entry is there.
        SparkJobError: A file is not there as a task has written it, or another run has the number.
    """
    lake = lake_of(run.place)
    chosen = sorted(files, key=lambda file: file.path)
    _check_files(lake, chosen)
    # An entry never stands without its files: their names are durable before it.
    lake.make_durable(file.path for file in chosen)
    batch = Batch(
        number=run.number,
        low=run.low,
        high=run.high,
        rows=sum(file.rows for file in chosen),
        files=chosen,
        run=run.name,
    )
    name = entry_name(run.number)
    if not lake.put_new(name, msgspec.json.encode(batch)) and _entry(lake, name).run != run.name:
        raise SparkJobError(
            f"{lake.place}/{name}: expected no entry, found that of another run: run it again, and "
            "one at a time"
        )
    return batch


def has_entry(run: Run) -> bool:
    """Whether a batch has its entry, this one's or another's."""
    return lake_of(run.place).size(entry_name(run.number)) is not None


def _check_files(lake: Lake, files: Iterable[ArchivedFile]) -> None:
    """Compare what this process sees of a batch with what the tasks have written."""
    for file in files:
        found = lake.size(file.path)
        if found != file.size:
            raise SparkJobError(
                f"{lake.place}/{file.path}: expected the {file.size} bytes that a task has "
                f"written, found {'no file' if found is None else found}: the directory must be "
                "one that all executors and the driver see"
            )


def entries(lake: Lake) -> list[Batch]:
    """All batches of an archive, the first one first; none of a place that is no archive."""
    return [_entry(lake, name) for name in _entry_names(lake)]


def last_entry(lake: Lake) -> Batch | None:
    """The newest batch of an archive; None without any."""
    names = _entry_names(lake)
    return _entry(lake, names[-1]) if names else None


def is_archive(lake: Lake) -> bool:
    """Whether a place has a manifest."""
    return lake.size(ABOUT) is not None


def entry_name(number: int) -> str:
    """The file of a batch's entry."""
    return f"{ENTRIES}/batch-{number:08d}.json"


def _entry_names(lake: Lake) -> list[str]:
    names = lake.names(ENTRIES)
    return [
        f"{ENTRIES}/{name}" for name in names if name.startswith("batch-") and name[-5:] == ".json"
    ]


def _entry(lake: Lake, name: str) -> Batch:
    data = lake.get(name)
    if data is None:
        raise SparkJobError(f"{lake.place}/{name}: expected an entry, found none: run it again")
    return msgspec.json.decode(data, type=Batch)


def _note(run: str) -> str:
    return f"{ENTRIES}/run-{run}.json"


def _shown(about: About) -> str:
    return f"{about.what} messages{' with internal topics' if about.internal else ''}"
