"""A session for one job of the command line: flags, progress bar, errors in one line."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from timermq.pipeline.state.timer_options import PRECISIONS_MS

from ..arguments import OneLineParser, UsageError, add_json, complete_directories
from .progress import shown_progress

if TYPE_CHECKING:
    from timermq.pipeline.spark import SparkSession


def add_session_flags(parser: OneLineParser) -> None:
    """Add the flags for Spark's master and the form of results."""
    parser.add_argument(
        "--master",
        metavar="URL",
        help="where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://URL (default: this "
        "machine, or what spark-submit says)",
    )
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=VALUE",
        help="a setting of Spark, such as spark.driver.memory=4g; may be repeated",
    )
    add_json(parser)


def add_store(parser: OneLineParser, *, is_read: bool = True) -> None:
    """The store, as driver and executors see it.

    Args:
        parser: Of the job.
        is_read: And no more than that; a job that writes wants it for itself.
    """
    whether = (
        ", or s3://BUCKET/PREFIX; it may be served"
        if is_read
        else "; one that is served is refused"
    )
    store = parser.add_argument(
        "--store", required=True, metavar="DIR", help=f"the store's directory{whether}"
    )
    complete_directories(store)


def add_stores(parser: OneLineParser) -> None:
    """The store, or several: a list of what ``named_stores`` reads."""
    store = parser.add_argument(
        "--store",
        required=True,
        action="append",
        metavar="DIR",
        help="the store's directory, or s3://BUCKET/PREFIX; it may be served; a pattern such as "
        "'/data/*/store', or BROKER=DIR; may be repeated",
    )
    complete_directories(store)


def add_precision(parser: OneLineParser) -> None:
    """Add the flag for the value that a store of RocketMQ does not tell of its wheel."""
    parser.add_argument(
        "--timer-precision-ms",
        type=int,
        choices=PRECISIONS_MS,
        help="width of the wheel's slots, where RocketMQ was set to another one than a second",
    )


def add_out(parser: OneLineParser, what: str) -> None:
    """Add the flag for the target of results.

    Args:
        parser: Of the job.
        what: They are.
    """
    out = parser.add_argument("--out", metavar="DIR", help=f"write {what} into this directory")
    complete_directories(out)


def setting(text: str) -> tuple[str, str]:
    """Key and value of a setting of Spark, ``spark.KEY=VALUE``."""
    key, mark, value = text.partition("=")
    if not (mark and key.startswith("spark.")):
        raise argparse.ArgumentTypeError(f"expected spark.KEY=VALUE, found {text!r}")
    return key, value


@contextmanager
def session_for(args: argparse.Namespace, name: str) -> Generator[SparkSession]:
    """A session with all tables registered, for the length of a job; one that runs is shared.

    Args:
        args: Of a parser with the session's flags.
        name: Of the job.

    Raises:
        UsageError: PySpark is not installed.
        NoSparkError: There is no Java.
        SparkJobError: What one of Spark's processes refused, in its words.
    """
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        raise UsageError("spark: expected PySpark 4.3, found none: pip install 'timermq[spark]'")
    from timermq.pipeline.spark import (
        SparkJobError,
        SparkSession,
        cause_of,
        register,
        spark_session,
    )

    logging.getLogger("SQLQueryContextLogger").disabled = True  # says again what is raised
    others = SparkSession.getActiveSession()

    settings: Mapping[str, str] = dict(args.setting)
    with kept_quiet() as log_path:
        spark = spark_session(master=args.master, name=f"timermq {name}", settings=settings)
    try:
        register(spark)
        with shown_progress(spark):
            yield spark
    except Exception as error:
        cause = cause_of(error)
        if cause is not None:
            raise SparkJobError(cause) from None
        error.add_note(f"what Spark logged: {log_path}")
        raise
    else:
        log_path.unlink()
    finally:
        if others is None:
            spark.stop()


@contextmanager
def kept_quiet() -> Generator[Path]:
    """A block whose processes write to a file what would go to standard error, now and later.

    Spark's remarks about the machine are none about the job.

    Returns:
        The file, which the caller removes.
    """
    handle, name = tempfile.mkstemp(prefix="timermq-spark-", suffix=".log")
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield Path(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)
