"""``schedule``: files or the rows of a query into a broker, through the sink.

A job that is not named is named after its input, by content: what runs twice by mistake, or again
after a crash, is scheduled once, and another file, or another query, is another job.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as F

from ..errors import SparkJobError, cause_of
from ..sink import JobReport, SinkOptions, job_report
from ..sink.sink_options import NAME

FORMATS: Mapping[str, str] = {
    "parquet": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
}
"""Ending of a file's name to the format that Spark reads."""
_PACKED = (".gz", ".bz2", ".zst")
_PROPERTY = "properties."
"""How columns are named that hold a property each."""
_CHUNK_SIZE = 1 << 20
_MALFORMED = re.compile(r"\[MALFORMED_RECORD_IN_PARSING.*")


def schedule(frame: DataFrame, options: SinkOptions) -> JobReport:
    """Schedule all rows of a frame, each once, whatever has run under the job's name before.

    Args:
        frame: With the columns of the sink.
        options: Of the sink.

    Raises:
        SparkJobError: A column, an option or a row is refused, or the broker has gone.
    """
    with one_line():
        frame.write.format(NAME).mode("append").options(**options.to_options()).save()
    return job_report(options)


def read_input(
    spark: SparkSession, paths: Sequence[str], file_format: str | None = None
) -> DataFrame:
    """Files, or directories of files, as rows for the sink.

    CSV has a header, and texts alone; a line that is none of its format ends the job.

    Args:
        spark: A session.
        paths: Of one format.
        file_format: Of ``FORMATS``; None: by their names.

    Raises:
        SparkJobError: The format is not clear, or there is nothing to be read.
    """
    found = file_format or format_of(paths)
    try:
        with one_line():
            reader = spark.read.format(found).option("mode", "FAILFAST")
            if found == "csv":
                reader = reader.option("header", "true")
            return reader.load(list(paths))
    except SparkJobError as error:
        raise SparkJobError(f"{', '.join(paths)}: {error}") from None


def fitted(frame: DataFrame) -> DataFrame:
    """A frame whose properties stand in columns ``properties.NAME``, or in a structure, as a map.

    That is how CSV and JSON have them.
    """
    kept: list[Column] = []
    pairs: list[tuple[str, Column]] = []
    for field in frame.schema.fields:
        column = frame[f"`{field.name}`"]
        if field.name.startswith(_PROPERTY):
            pairs.append((field.name.removeprefix(_PROPERTY), column))
        elif field.name == "properties" and isinstance(field.dataType, types.StructType):
            pairs += [(name, column[name]) for name in field.dataType.names]
        else:
            kept.append(column)
    if not pairs:
        return frame
    entries = [one for name, column in pairs for one in (F.lit(name), column.cast("string"))]
    return frame.select(*kept, F.create_map(*entries).alias("properties"))


def format_of(paths: Sequence[str]) -> str:
    """The format of files by their names; of a directory by those of its files.

    Raises:
        SparkJobError: They have none that is known, or several.
    """
    names = [one.name if isinstance(one, Path) else one for path in paths for one in files_of(path)]
    found = {FORMATS.get(_ending(name), "") for name in names}
    if len(found) != 1 or not (only := found.pop()):
        raise SparkJobError(
            f"{', '.join(paths)}: expected names that end in one of {', '.join(FORMATS)}, found "
            f"{', '.join(sorted({_ending(name) or name for name in names})) or 'no files'}: name "
            "the format"
        )
    return only


def content_name(verb: str, paths: Iterable[str], said: Mapping[str, object]) -> str:
    """A name for a job that is the same for the same content.

    Names of files count as they stand below what was named, so that a directory may be moved.

    Args:
        verb: Of the job.
        paths: Files and directories.
        said: What else makes the job another one: a query, a shift.

    Raises:
        SparkJobError: A path is not on this machine: the job needs a name of its own.
    """
    digest = hashlib.blake2b(json.dumps(dict(said), sort_keys=True).encode(), digest_size=10)
    for path in paths:
        files = [one for one in files_of(path) if isinstance(one, Path)]
        if not files:
            raise SparkJobError(
                f"{path}: expected files of this machine, found none: say by --job what makes this "
                "job another one than the last"
            )
        root = Path(path) if Path(path).is_dir() else Path(path).parent
        for file in files:
            digest.update(f"\0{file.relative_to(root)}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as data:
                while chunk := data.read(_CHUNK_SIZE):
                    digest.update(chunk)
    return f"{verb}-{digest.hexdigest()}"


@contextmanager
def one_line() -> Generator[None]:
    """A block in which Spark's own refusals (no such path, no such column) become one line.

    Raises:
        SparkJobError: One of them, or one of ours in the words of a task.
    """
    try:
        yield
    except SparkJobError:
        raise
    except Exception as error:
        cause = cause_of(error) or _malformed(str(error))
        if cause is None and isinstance(error, PySparkException) and error.getCondition():
            cause = str(error).splitlines()[0]
        if cause is None:
            raise
        raise SparkJobError(cause) from None


def files_of(path: str) -> list[Path | str]:
    """The files of a path, in order, without Spark's own; what is not here is left as it is.

    Args:
        path: Of a file or a directory.
    """
    root = Path(path)
    if not root.is_dir():
        return [root if root.is_file() else path]
    return sorted(
        one
        for one in root.rglob("*")
        if one.is_file()
        and not any(part.startswith(("_", ".")) for part in one.relative_to(root).parts)
    )


def _malformed(text: str) -> str | None:
    """The text about a line that is none of its format; it comes in errors of several kinds."""
    found = _MALFORMED.search(text)
    return None if found is None else found[0].strip()


def _ending(name: str) -> str:
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return name.rpartition(".")[2].lower() if "." in name else ""
