"""The manifest of an archive: one entry a batch, and what its entry names is the archive.

::

    DIR/_archive/about.json            what is archived
    DIR/_archive/batch-00000007.json   the stretch of the commit log, and its files
    DIR/_archive/run-….json            a run that writes files, or has died while it did
    DIR/date=…/topic_name=…/…          the files; each has the name of its run in its own

Tasks write files under names that no other try gives, in their places. A batch counts from the
moment its entry is there, and that is one step: an entry is made whole, under a number that was
free. So a reader of the manifest sees all files of a batch or none, and no file of a try that
died. The next run removes those, by the name of the run that has left them.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

import msgspec

from timermq.timerstore.errors import StoreLockedError
from timermq.timerstore.os_disk import OsDisk

from ..errors import SparkJobError
from ..options import absolute

SUFFIX = ".parquet"
ENTRIES = "_archive"


class ArchivedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a batch."""

    path: str
    """Under the archive."""
    rows: int = 0
    size: int = 0
    """Bytes; 0 in entries of version 0.1.0, which tell neither."""
    staged: str = ""
    """In entries of version 0.1.0: its place under ``DIR.staging`` before it was moved."""


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entry of a batch."""

    number: int
    low: int
    """Start of the stretch, a position in the commit log."""
    high: int
    """Its end, and the start of the next one."""
    rows: int
    files: list[ArchivedFile]
    run: str = ""
    """That has written it; none in entries of version 0.1.0."""


class About(msgspec.Struct, frozen=True):
    """The settings of the archive; another job on the same directory is refused."""

    what: str
    internal: bool


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is being written, as tasks and commit need it."""

    directory: str
    """The archive's, as driver and executors see it."""
    name: str
    """That no other run has; a part of the name of each of its files."""
    number: int
    low: int
    high: int

    def file_name(self, attempt: str, number: int) -> str:
        """The name of a file of an attempt of a task."""
        return f"{self.low:020d}-{self.name}-{attempt}-{number:05d}{SUFFIX}"


class Book:
    """The entries of one archive; one run at a time has it, up to ``close``.

    Args:
        directory: Of the archive; made if it is missing.
        about: What is archived.

    Raises:
        SparkJobError: The directory is the archive of something else, or no archive; or another run
            has it.
    """

    def __init__(self, directory: str, about: About) -> None:
        self.directory = place_of(directory)
        self._entries = self.directory / ENTRIES
        self._dead: list[str] = []
        """Runs that had their notes when this one began."""
        path = self._entries / "about.json"
        if not path.exists() and any(self.directory.glob(f"**/*{SUFFIX}")):
            raise SparkJobError(
                f"{self.directory}: expected an archive or a directory without Parquet files, "
                "found such files and no _archive/about.json"
            )
        _make(self._entries)
        try:
            self._lock = OsDisk().lock(f"{self._entries}/lock")
        except StoreLockedError:
            raise SparkJobError(
                f"{self.directory}: expected no other run, found one that archives into it: "
                "wait for its end"
            ) from None
        try:
            self._check(path, about)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other runs have it."""
        self._lock.release()

    def _check(self, path: Path, about: About) -> None:
        if path.exists():
            found = msgspec.json.decode(path.read_bytes(), type=About)
            if found != about:
                raise SparkJobError(
                    f"{self.directory}: expected the archive of {_shown(about)}, found that of "
                    f"{_shown(found)}: name another directory"
                )
            return
        _write(path, msgspec.json.encode(about))

    def last(self) -> Batch | None:
        """The newest entry; None in a new archive."""
        return last_entry(self.directory)

    def begin(self) -> Batch | None:
        """Remove what runs have left that died; the newest entry.

        Raises:
            OSError: A file cannot be removed.
        """
        last = self.last()
        if last is not None:
            self._finish_move(last)
            self._note(last.run).unlink(missing_ok=True)  # it died behind its entry
        for unfinished in self._entries.glob("*.tmp"):
            unfinished.unlink()
        notes = sorted(self._entries.glob("run-*.json"))
        self._dead = [note.stem.removeprefix("run-") for note in notes]
        self._remove_files()
        return last

    def begin_batch(self, low: int, high: int) -> Run:
        """Note, durably, that files of a batch are about to be written."""
        last, name = self.last(), uuid.uuid4().hex
        number = 0 if last is None else last.number + 1
        run = Run(directory=str(self.directory), name=name, number=number, low=low, high=high)
        _write(self._note(name), msgspec.json.encode(run))
        return run

    def end_batch(self, run: Run) -> Batch:
        """Forget a run that has its entry, which is returned, and those that have died."""
        found = _entry(entry_path(self.directory, run.number))
        self._remove_files()  # a task that has outlived its driver may have come later
        listed = {file.path.rpartition("/")[2] for file in found.files}
        for folder in {(self.directory / file.path).parent for file in found.files}:
            for path in folder.glob(f"*-{run.name}-*"):
                if path.name not in listed:
                    path.unlink()  # of a task that was tried again
        for name in (run.name, *self._dead):
            self._note(name).unlink()
        self._dead = []
        return found

    def _remove_files(self) -> None:
        """Remove the files of runs that have died without their entry."""
        for name in self._dead:
            for path in self.directory.rglob(f"*-{name}-*"):
                path.unlink()

    def _note(self, name: str) -> Path:
        return self._entries / f"run-{name}.json"

    def _finish_move(self, batch: Batch) -> None:
        """Put in place what a run of version 0.1.0 had begun to move when it died."""
        staging = self.directory.with_name(f"{self.directory.name}.staging")
        for file in batch.files:
            source, target = staging / file.staged, self.directory / file.path
            if file.staged and source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
        if any(file.staged for file in batch.files):
            shutil.rmtree(staging, ignore_errors=True)


def commit(run: Run, files: Iterable[ArchivedFile]) -> Batch:
    """Make some files a batch, in one step; again with the same run it changes nothing.

    Raises:
        OSError: The disk refused; the batch counts if its entry is there.
        SparkJobError: A file is not there as a task has written it, or another run has the number.
    """
    directory = Path(run.directory)
    chosen = sorted(files, key=lambda file: file.path)
    _check_files(directory, chosen)
    # An entry never stands without its files: their names are durable before it.
    paths = [directory / file.path for file in chosen]
    _sync({folder for path in paths for folder in path.parents if folder.is_relative_to(directory)})
    batch = Batch(
        number=run.number,
        low=run.low,
        high=run.high,
        rows=sum(file.rows for file in chosen),
        files=chosen,
        run=run.name,
    )
    path = entry_path(directory, run.number)
    if not _write_new(path, msgspec.json.encode(batch)) and _entry(path).run != run.name:
        raise SparkJobError(
            f"{path}: expected no entry, found that of another run: run it again, and one at a time"
        )
    return batch


def has_entry(run: Run) -> bool:
    """Whether a batch has its entry, this one's or another's."""
    return entry_path(Path(run.directory), run.number).exists()


def _check_files(directory: Path, files: Iterable[ArchivedFile]) -> None:
    """Compare what this process sees of a batch with what the tasks have written."""
    for file in files:
        path = directory / file.path
        found = path.stat().st_size if path.exists() else None
        if found != file.size:
            raise SparkJobError(
                f"{path}: expected the {file.size} bytes that a task has written, found "
                f"{'no file' if found is None else found}: the directory must be one that all "
                "executors and the driver see"
            )


def place_of(directory: str) -> Path:
    """The whole path of an archive: executors have working directories of their own.

    Raises:
        SparkJobError: It is on another machine.
    """
    return Path(absolute(directory))


def entries(directory: Path) -> list[Batch]:
    """All batches of an archive, the first one first; none of a directory that is no archive."""
    return [_entry(path) for path in _entry_paths(directory)]


def last_entry(directory: Path) -> Batch | None:
    """The newest batch of an archive; None without any."""
    paths = _entry_paths(directory)
    return _entry(paths[-1]) if paths else None


def is_archive(directory: Path) -> bool:
    """Whether a directory has a manifest."""
    return (directory / ENTRIES / "about.json").exists()


def entry_path(directory: Path, number: int) -> Path:
    """The file of a batch's entry."""
    return directory / ENTRIES / f"batch-{number:08d}.json"


def sync_file(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entry_paths(directory: Path) -> list[Path]:
    return sorted((directory / ENTRIES).glob("batch-*.json"))


def _entry(path: Path) -> Batch:
    return msgspec.json.decode(path.read_bytes(), type=Batch)


def _shown(about: About) -> str:
    return f"{about.what} messages{' with internal topics' if about.internal else ''}"


def _make(path: Path) -> None:
    """Make a directory and what is missing above it, durably."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    _sync(one.parent for one in missing)


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, durably."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(data)
    sync_file(temporary)
    temporary.replace(path)
    sync_file(path.parent)


def _write_new(path: Path, data: bytes) -> bool:
    """Write a file in one step, durably, unless there is one already; whether it was written."""
    temporary = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    temporary.write_bytes(data)
    sync_file(temporary)
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_file(path.parent)
    return True


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        sync_file(path)
