"""Files that a job publishes beside what the broker gets: refused rows, messages of the far future.

Tasks write below ``_staging``, the commit lists what counts, and one rename publishes it::

    ROOT/_staging/JOB/tasks/ATTEMPT/…      what an attempt of a task writes
    ROOT/_staging/JOB/runs/RUN/…           what one commit is about to hand over, with its list
    ROOT/job=JOB/…                         that of the commit whose parts the broker has taken

The list is on the disk before the hand-over. A driver that dies behind the hand-over leaves it to
the next run with the same job: the broker is asked about each list whether its parts were taken.
Spark passes over names that begin with ``_``, so the directory is a table at all times.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import attrs
import cattrs

from ..errors import SparkJobError
from .part_writer import Part

STAGING = "_staging"
LIST = "_list.json"


@attrs.frozen(kw_only=True)
class RunList:
    """The parts of one commit."""

    parts: tuple[Part, ...]
    """Of the broker."""
    rows: int
    """Published in this directory."""
    by_rule: Mapping[str, int] = attrs.Factory(dict[str, int])
    """Of the refused rows."""


class PublishedFiles:
    """The files of one job in one directory.

    Args:
        root: The directory, which all executors and the driver see.
        job: Name of the job.
    """

    def __init__(self, root: str, job: str) -> None:
        self.published = Path(root) / f"job={job}"
        self._staging = Path(root) / STAGING / job

    def attempt(self, name: str) -> Path:
        """The directory for an attempt of a task.

        Raises:
            SparkJobError: The directory cannot be made.
        """
        directory = self._staging / "tasks" / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SparkJobError(f"{directory}: expected to write there: {error.strerror}") from None
        return directory

    def forget(self, name: str) -> None:
        """Remove what an attempt has written."""
        shutil.rmtree(self._staging / "tasks" / name, ignore_errors=True)

    def gather(self, run: str, attempts: Iterable[str], listed: RunList) -> None:
        """Put what some attempts have written together, and list it, durably.

        Raises:
            SparkJobError: A file is not there: the executors write into another directory.
        """
        directory = self._staging / "runs" / run
        directory.mkdir(parents=True)
        for name in attempts:
            source = self._staging / "tasks" / name
            if not source.is_dir():
                raise SparkJobError(
                    f"{source}: expected what a task has written, found nothing: the directory "
                    "must be one that all executors and the driver see"
                )
            for file in sorted(one for one in source.rglob("*") if one.is_file()):
                target = directory / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                file.rename(target)
        with (directory / LIST).open("w") as out:
            json.dump(attrs.asdict(listed), out)
            out.flush()
            os.fsync(out.fileno())
        for one in [directory, *(path for path in directory.rglob("*") if path.is_dir())]:
            sync_directory(one)

    def publish(self, run: str | None, was_taken: Callable[[Sequence[Part]], bool]) -> None:
        """Publish what was handed over, once, and let the rest go.

        Args:
            run: The one whose parts were taken; None if it is not known which.
            was_taken: Asks the broker about a list of parts.
        """
        runs = self._staging / "runs"
        if not self.published.exists() and runs.is_dir():
            names = [run] if run is not None else sorted(one.name for one in runs.iterdir())
            for name in names:
                listed = read_list(runs / name)
                if listed is not None and (run is not None or was_taken(listed.parts)):
                    (runs / name).rename(self.published)
                    sync_directory(self.published.parent)
                    break
        shutil.rmtree(self._staging, ignore_errors=True)

    def add(self, name: str, write: Callable[[Path, str], None]) -> None:
        """Add a file to what is published, unless it is there; may be repeated after a death.

        Args:
            name: Of the file, without its ending.
            write: Writes it, durably, into a directory, under a name without its ending.

        Raises:
            SparkJobError: The directory cannot be written.
        """
        target = self.published / f"{name}.parquet"
        if target.exists():
            return
        made = self.attempt(name)
        write(made, name)
        self.published.mkdir(exist_ok=True)
        (made / target.name).rename(target)
        sync_directory(self.published)
        sync_directory(self.published.parent)
        shutil.rmtree(self._staging, ignore_errors=True)

    def summary(self) -> RunList | None:
        """The published files; None for none."""
        return read_list(self.published)


def read_list(directory: Path) -> RunList | None:
    """The list of a run; None while it is not whole."""
    try:
        found = json.loads((directory / LIST).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return cattrs.structure(found, RunList)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
