"""``promote``: messages of the far future wait in Parquet; those whose time comes go to the broker.

The directory has files by due day, at any depth, as the sink's option ``far`` writes them::

    DIR/…/due_day=2031-05-01/NAME.parquet      topic, body, deliver_at and what else the sink takes

A file goes to the broker as a whole, as a job of its own that is named after its place and its
content: late files of a day are taken, and what was taken is not taken again, however often this
runs or dies. The broker remembers a job for a month; the mark ``DIR/_promoted/JOB.json`` for ever.
It is written once before the hand-over, with the moment of the job, by which the broker's memory
can be told from a new job of the same name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import attrs
from pyspark.sql import SparkSession

from timermq.remoting.bulk import JobState

from ..errors import SparkJobError
from ..sink import JobReport, SinkOptions, job_report
from ..sink.broker_link import BrokerLink
from ..sink.bulk_job import BulkJob
from ..sink.published_files import sync_directory
from ..sink.window import check_window
from .schedule import content_name, one_line, schedule

MARKS = "_promoted"
_DAY = re.compile(r"due_day=(\d{4}-\d\d-\d\d)")


@attrs.frozen
class FarFile:
    """A file of far messages."""

    path: Path
    day_ms: int
    """Begin of its day, UTC: nothing in it is due earlier."""


@attrs.define(kw_only=True)
class Promoted:
    """The files that one run has promoted, and those that it could not."""

    files: int = 0
    """Within the window."""
    before: int = 0
    """Of them those that an earlier run has promoted."""
    reports: list[JobReport] = attrs.Factory(list[JobReport])
    """Of each file that was promoted now."""
    failed: list[str] = attrs.Factory(list[str])
    """Files that could not be promoted, and why."""


def promote(
    spark: SparkSession, directory: str, options: SinkOptions, *, window_ms: int, now_ms: int
) -> Promoted:
    """Hand over the files whose day begins within a window.

    Args:
        spark: A session with the sink.
        directory: Of the far messages, which all executors and the driver see.
        options: Of the sink; the name of the job begins those of the files' jobs.
        window_ms: From now on. With the day that begins at its end it is to be within the broker's
            maximum, and runs are to follow each other faster.
        now_ms: Epoch milliseconds.

    Raises:
        SparkJobError: The window is too wide, or there is no broker.
    """
    found = Promoted()
    if not Path(directory).is_dir():
        raise SparkJobError(f"{directory}: expected a directory of far messages, found none")
    for file in far_files(directory):
        if file.day_ms >= now_ms + window_ms:
            continue
        found.files += 1
        place = file.path.relative_to(directory).as_posix()
        name = content_name(options.job, [str(file.path)], {"place": place})
        mark = Path(directory) / MARKS / f"{name}.json"
        if _is_done(mark):
            found.before += 1
            continue
        try:
            one = attrs.evolve(options, job=name, wait=True)
            found.reports.append(_promote_file(spark, file, mark, one, window_ms))
        except SparkJobError as error:
            found.failed.append(f"{place}: {error}")
    return found


def far_files(directory: str) -> Iterator[FarFile]:
    """The files of all days, the first day first.

    Raises:
        SparkJobError: A folder names no day.
    """
    root = Path(directory)
    found: list[FarFile] = []
    for path in root.rglob("*.parquet"):
        place = path.relative_to(root)
        if any(part.startswith(("_", ".")) for part in place.parts):
            continue
        days = [match for part in place.parts if (match := _DAY.fullmatch(part))]
        try:
            day = date.fromisoformat(days[-1][1])
        except (IndexError, ValueError):
            raise SparkJobError(
                f"{path}: expected a folder due_day=YYYY-MM-DD above it, found none"
            ) from None
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        found.append(FarFile(path, int(begin.timestamp()) * 1000))
    return iter(sorted(found, key=lambda file: (file.day_ms, file.path)))


def _promote_file(
    spark: SparkSession, file: FarFile, mark: Path, options: SinkOptions, window_ms: int
) -> JobReport:
    with BrokerLink.of(options) as link:
        opened = BulkJob(link, options.job).open()
    check_window(window_ms, opened.limits, whole_days=True)
    _check_mark(mark, opened.job_ms)
    _write_mark(mark, {"file": str(file.path), "job_ms": opened.job_ms, "done": False})
    if opened.state is JobState.OPEN:
        with one_line():
            frame = spark.read.parquet(str(file.path))
        report = schedule(frame, options)
    else:
        with BrokerLink.of(options) as link:
            BulkJob(link, options.job).until_done()
        report = job_report(options)
    _write_mark(mark, {"file": str(file.path), "job_ms": opened.job_ms, "done": True})
    return report


def _check_mark(mark: Path, job_ms: int) -> None:
    """Refuse a file that may have been handed over in a job that the broker has forgotten."""
    try:
        said = json.loads(mark.read_text())
    except FileNotFoundError:
        return
    if said["job_ms"] != job_ms:
        raise SparkJobError(
            f"{mark}: expected the broker to know the job of {said['job_ms']}, found that it has "
            "forgotten it, and whether it was handed over: remove the mark if it was not, write "
            '"done": true into it if it was'
        )


def _is_done(mark: Path) -> bool:
    try:
        return json.loads(mark.read_text())["done"] is True
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, KeyError):
        raise SparkJobError(f"{mark}: expected the mark of a promoted file") from None


def _write_mark(mark: Path, said: dict[str, object]) -> None:
    """Replace a mark in one step, and sync file and directory."""
    mark.parent.mkdir(exist_ok=True)
    temporary = mark.with_name(f"{mark.name}.{os.getpid()}")
    with temporary.open("w") as out:
        json.dump(said, out)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(mark)
    sync_directory(mark.parent)
