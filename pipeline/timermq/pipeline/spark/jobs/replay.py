"""``replay``: a time range of an archive once more, moved in time.

An archive is a table with the columns of ``timermq.delivered``, as ``archive`` writes it: Parquet
by date and topic. Messages keep their distances: each is due as long after the new beginning as it
was due after the old one. Bodies that producers have compressed go unpacked.

A batch of the archive, or a file that is of none, is a job of its own, named after its content:
what an archive has grown by is scheduled by the next run, and what was scheduled is not again.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from timermq.timerstore.body_codec import UNPACKED_SIZE_MAX, unpacked
from timermq.timerstore.message import SysFlag
from timermq.timerstore.record_spans import RecordError

from ..archive.archive_log import entries, is_archive
from ..archive.batches import listed_paths, portions
from ..archive.directory_lake import DirectoryLake
from ..errors import SparkJobError
from ..moment_text import Moment, moment_ms
from ..sink import JobReport, SinkOptions
from ..sink.job_report import was_handed_over
from .schedule import one_line, read_input, schedule

NEEDED = ("topic", "body", "properties", "deliver_ms", "stored_ms")
OWN_NAMES = (
    "UNIQ_KEY",
    "DELAY",
    "REAL_TOPIC",
    "REAL_QID",
    "MSG_REGION",
    "TRACE_ON",
    "CLUSTER",
    "WAIT",
    "INNER_NUM",
    "TRAN_MSG",
)
"""Properties of the first life of a message; it gets new ones. So do all that begin TIMER_."""
_NAME_END, _VALUE_END = "\x01", "\x02"


def _first(given: Moment) -> int:
    return moment_ms(given, "replay: from_ms")


def _behind(given: Moment) -> int:
    return moment_ms(given, "replay: to_ms")


@attrs.frozen(kw_only=True)
class Replay:
    """Which messages of an archive are scheduled once more, and when."""

    from_ms: int = attrs.field(converter=_first)
    """First moment, in any form of ``Moment``. A message that asked for none counts by the moment
    at which it was stored."""
    to_ms: int = attrs.field(converter=_behind)
    """The moment behind the last one."""
    shift_ms: int
    """Added to each moment."""
    topics: frozenset[str] = frozenset()
    """Only these; none for all."""

    def said(self) -> dict[str, object]:
        """The settings that make it another replay of the same files."""
        return {**attrs.asdict(self), "topics": sorted(self.topics)}


@attrs.frozen
class Replayed:
    """One bulk job of a replay, and whether it is new."""

    report: JobReport
    was_done: bool
    """An earlier run has handed it over."""


def replay(
    spark: SparkSession, directory: str, what: Replay, options: SinkOptions
) -> list[Replayed]:
    """Schedule a range of an archive, each message once however often this runs.

    Args:
        spark: A session with the sink.
        directory: The archive's, which all executors and the driver see.
        what: The range, and where it goes.
        options: Of the sink; the jobs' names are made here.

    Raises:
        SparkJobError: The directory is no archive, or not on this machine; or a job is refused:
            those before it are scheduled, and another run goes on.
    """
    local = directory.removeprefix("file:")
    root = Path(os.path.realpath(local))  # all spellings are one place, and Spark's answers in it
    if not root.is_dir():
        raise SparkJobError(
            f"{directory}: expected a directory of this machine, found none: say by --job what "
            "makes this replay another one than the last"
        )
    known, done = entries(DirectoryLake(str(root))), list[Replayed]()
    if known and not any(batch.files for batch in known):
        return done  # of a store that had delivered nothing yet
    archive = rows_of(spark, str(root))
    with one_line():
        held = chosen(archive, what).select("_metadata.file_path").distinct()
        places = [
            Path(unquote(urlsplit(str(row[0])).path)).relative_to(root).as_posix()
            for row in held.collect()
        ]
    for portion in portions(root, places, known):
        one = attrs.evolve(options, job=portion.job(what.said()))
        was_done = was_handed_over(one)
        with one_line():
            archive = spark.read.option("basePath", str(root)).parquet(*portion.paths)
        done.append(Replayed(schedule(replayed(archive, what), one), was_done))
    return done


def rows_of(spark: SparkSession, directory: str) -> DataFrame:
    """The rows of an archive, which are those of its manifest, or of another table.

    Args:
        spark: A session.
        directory: As it was named.

    Raises:
        SparkJobError: There is nothing to be read.
    """
    root = Path(directory.removeprefix("file:"))
    lake = DirectoryLake(str(root))
    if not is_archive(lake):
        return read_input(spark, [directory], "parquet")
    paths = listed_paths(root, entries(lake))
    if not paths:
        raise SparkJobError(f"{directory}: expected files to read, found none")
    return read_input(spark, paths, "parquet")


def chosen(archive: DataFrame, what: Replay) -> DataFrame:
    """The messages of an archive that were due in the range.

    Raises:
        SparkJobError: The table is no archive.
    """
    for name in NEEDED:
        if name not in archive.columns:
            raise SparkJobError(
                f"archive: column {name}: expected the columns of timermq.delivered, found "
                f"{', '.join(archive.columns)}"
            )
    moment = _moment(archive)
    found = archive.where((moment >= what.from_ms) & (moment < what.to_ms))
    return found.where(archive.topic.isin(*what.topics)) if what.topics else found


def replayed(archive: DataFrame, what: Replay) -> DataFrame:
    """Rows for the sink of the messages that were due in the range.

    Args:
        archive: With the columns ``NEEDED``.
        what: The range, and where it goes.

    Raises:
        SparkJobError: The table is no archive; when it is read, also that a body does not unpack.
    """
    body = archive.body
    if "sys_flag" in archive.columns:
        # Bodies that are as they were sent do not go through Python.
        packed = F.when(archive.sys_flag.bitwiseAND(int(SysFlag.COMPRESSED)) != 0, body)
        unpack = F.udf(_unpacked, "binary", useArrow=False)
        body = F.coalesce(unpack(packed, archive.sys_flag, archive.stored_ms), body).alias("body")
    return chosen(archive, what).select(
        archive.topic,
        body,
        (_moment(archive) + what.shift_ms).alias("deliver_at"),
        _properties(archive.properties).alias("properties"),
    )


def _moment(archive: DataFrame) -> Column:
    return F.coalesce(archive.deliver_ms, archive.stored_ms)


def _properties(text: Column) -> Column:
    """The properties that the producer gave, as a map; of what stands twice the last one counts.

    As ``timermq.timerstore.properties.parse``. Spark's map of entries ends a job at a second one.
    """
    pieces = F.split(text.cast("string"), _VALUE_END)
    given = F.filter(pieces, _is_given)

    def is_last(piece: Column, at: Column) -> Column:
        behind = F.slice(given, at + 2, F.size(given))
        return ~F.exists(behind, lambda other: _name(other) == _name(piece))

    def pair(piece: Column) -> Column:
        value = piece.substr(F.instr(piece, _NAME_END) + 1, F.length(piece))
        return F.struct(_name(piece).alias("key"), value.alias("value"))

    return F.map_from_entries(F.transform(F.filter(given, is_last), pair))


def _name(piece: Column) -> Column:
    return F.substring_index(piece, _NAME_END, 1)


def _unpacked(body: bytes | None, sys_flag: int, stored_ms: int) -> bytes | None:
    """A body as its producer wrote it; None for None."""
    if body is None:
        return None
    try:
        place = f"archive: message stored at {stored_ms}"
        return unpacked(bytes(body), sys_flag, place, size_max=UNPACKED_SIZE_MAX)
    except RecordError as error:
        raise SparkJobError(str(error)) from None


def _is_given(piece: Column) -> Column:
    """Whether a piece is a property that has a name and a value and is none of the first life's."""
    mark, name = F.instr(piece, _NAME_END), _name(piece)
    is_whole = (mark > 1) & (mark < F.length(piece))
    return is_whole & ~name.isin(*OWN_NAMES) & ~name.startswith("TIMER_")
