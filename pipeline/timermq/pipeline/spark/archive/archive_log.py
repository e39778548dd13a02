"""The list of an archive: one entry a batch, written before its files take their places.

::

    DIR/_archive/about.json            what is archived
    DIR/_archive/batch-00000007.json   the stretch of the commit log, and its files
    DIR/date=…/topic_name=…/…          the files: only of batches that have an entry
    DIR.staging/                       those of the batch that is being written

A batch counts from the moment its entry is there. Its files are then renamed into their places, by
this process or, if it dies, by the next one; the entry says when that is done, and from then on
they may be removed or rewritten. A file that is lost before is told, not passed over. So a job that
reads the Parquet files, with Spark or without, never sees a message twice, and sees all of them
once the job has ended. (Spark's own Parquet sink leaves files of tries that died among the others,
and a log that only Spark reads.)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from timermq.timerstore.errors import StoreLockedError
from timermq.timerstore.os_disk import OsDisk

from ..errors import SparkJobError
from ..options import absolute

SUFFIX = ".parquet"
ENTRIES = "_archive"


class ArchivedFile(msgspec.Struct, frozen=True):
    """A file of a batch."""

    staged: str
    """Under the staging directory."""
    path: str
    """Under the archive."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of a batch."""

    number: int
    low: int
    """Start of the stretch, a position in the commit log."""
    high: int
    """Its end, and the start of the next one."""
    rows: int
    files: list[ArchivedFile]
    is_published: bool = False
    """They have been in their places, durably; an entry of an older version does not say so."""


class About(msgspec.Struct, frozen=True):
    """The settings of the archive; another job on the same directory is refused."""

    what: str
    internal: bool


class Book:
    """The entries of one archive; one run at a time has it, up to ``close``.

    Args:
        directory: Of the archive; made if it is missing.
        about: What is archived.

    Raises:
        SparkJobError: The directory is the archive of something else, or no archive; or another run
            has it; or no directory can stand beside it.
    """

    def __init__(self, directory: str, about: About) -> None:
        self.directory = place_of(directory)
        self.staging = staging_of(self.directory)
        self._entries = self.directory / ENTRIES
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
        paths = _entry_paths(self.directory)
        return msgspec.json.decode(paths[-1].read_bytes(), type=Batch) if paths else None

    def begin(self) -> Batch | None:
        """Finish what a process that died had begun, and clear its staging; the newest entry.

        Raises:
            SparkJobError: A file of the newest batch is lost.
        """
        last = self.last()
        if last is not None and not last.is_published:
            last = self._publish(last)
        shutil.rmtree(self.staging, ignore_errors=True)
        return last

    def add(self, low: int, high: int, rows: int) -> Batch:
        """Make what stands in the staging directory a batch.

        Raises:
            OSError: The disk refused, or staging is on another file system; the batch counts if its
                entry is there.
            SparkJobError: A file that was staged is lost.
        """
        last = self.last()
        number = 0 if last is None else last.number + 1
        staged = sorted(self.staging.glob(f"**/*{SUFFIX}"))
        files: list[ArchivedFile] = []
        for at, path in enumerate(staged):
            place = path.relative_to(self.staging)
            name = f"{low:020d}-{at:05d}{SUFFIX}"
            files.append(ArchivedFile(str(place), str(place.with_name(name))))
        _sync(staged)
        # Up to the name of the staging directory: an entry never stands without its files.
        _sync(_folders(staged, self.staging.parent))
        batch = Batch(number=number, low=low, high=high, rows=rows, files=files)
        self._write_entry(batch)
        batch = self._publish(batch)
        shutil.rmtree(self.staging, ignore_errors=True)
        return batch

    def _publish(self, batch: Batch) -> Batch:
        """Put the files of a batch in their places, those that are there stay; the new entry."""
        self._check_files(batch)
        targets = [self.directory / file.path for file in batch.files]
        for file, target in zip(batch.files, targets, strict=True):
            source = self.staging / file.staged
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
        _sync(_folders(targets, self.directory))
        published = msgspec.structs.replace(batch, is_published=True)
        self._write_entry(published)
        return published

    def _check_files(self, batch: Batch) -> None:
        """Refuse to go on behind a batch that has lost files."""
        lost = [
            file
            for file in batch.files
            if not (self.staging / file.staged).exists()
            and not (self.directory / file.path).exists()
        ]
        if lost:
            entry = self._entry_path(batch.number)
            raise SparkJobError(
                f"{entry}: expected its files in {self.staging}, or in their places already, found "
                f"neither of {len(lost)} out of {len(batch.files)}, the first {lost[0].path}: put "
                "them back; or remove the entry and all files */*/"
                f"{batch.low:020d}-*{SUFFIX}, and the batch is archived again; or, if they were "
                'removed on purpose, write "is_published":true into the entry'
            )

    def _write_entry(self, batch: Batch) -> None:
        _write(self._entry_path(batch.number), msgspec.json.encode(batch))

    def _entry_path(self, number: int) -> Path:
        return self._entries / f"batch-{number:08d}.json"


def place_of(directory: str) -> Path:
    """The whole path of an archive: ``.`` has no name that staging could stand beside.

    Raises:
        SparkJobError: It is the root of the file system, or on another machine.
    """
    path = Path(absolute(directory))
    if not path.name:
        raise SparkJobError(
            f"{directory}: expected a directory that another one can stand beside, found the root "
            "of the file system"
        )
    return path


def staging_of(directory: Path) -> Path:
    """The directory of a batch's files before they are in their places."""
    return directory.with_name(f"{directory.name}.staging")


def entries(directory: Path) -> list[Batch]:
    """All batches of an archive, the first one first; none of a directory that is no archive."""
    return [msgspec.json.decode(path.read_bytes(), type=Batch) for path in _entry_paths(directory)]


def _entry_paths(directory: Path) -> list[Path]:
    return sorted((directory / ENTRIES).glob("batch-*.json"))


def _shown(about: About) -> str:
    return f"{about.what} messages{' with internal topics' if about.internal else ''}"


def _make(path: Path) -> None:
    """Make a directory and what is missing above it, durably."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    _sync(one.parent for one in missing)


def _folders(files: Iterable[Path], root: Path) -> set[Path]:
    """The directories of some files, and those above them up to a root, which is one of them."""
    return {folder for path in files for folder in path.parents if folder.is_relative_to(root)}


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, durably."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(data)
    _sync([temporary])
    temporary.replace(path)
    _sync([path.parent])


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
