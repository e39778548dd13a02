"""The shared flags of the verbs that schedule: broker, job, and the summary."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..arguments import NAMESRV, OneLineParser, complete_directories, name_servers
from ..client_access import VARIABLES
from ..output import print_json

if TYPE_CHECKING:
    from timermq.pipeline.spark.sink import JobReport, SinkOptions

_Done = TypeVar("_Done")


def add_sink_flags(parser: OneLineParser) -> None:
    """The broker, and where refused rows go."""
    whom = parser.add_mutually_exclusive_group()
    whom.add_argument(
        "--broker", metavar="HOST:PORT", help="the broker (default: the one of the name server)"
    )
    whom.add_argument(
        "--namesrv",
        metavar="HOST:PORT",
        type=name_servers,
        help=f"a name server; several brokers share the rows (default: {NAMESRV})",
    )
    rejects = parser.add_argument(
        "--rejects",
        metavar="DIR",
        help="write refused rows there, as Parquet; without it a refused row fails the job",
    )
    complete_directories(rejects)


def add_job(parser: OneLineParser, default: str) -> None:
    """The name of the job.

    Args:
        parser: Of the verb.
        default: What it is named after.
    """
    parser.add_argument(
        "--job",
        metavar="NAME",
        help=f"what runs under one name is scheduled once (default: made of {default})",
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="return when the job is handed over, before the broker has stored its rows",
    )


def sink_options(args: argparse.Namespace, job: str) -> SinkOptions:
    """The options that the flags and the environment say.

    Raises:
        SparkJobError: One is no value of its kind.
    """
    from timermq.pipeline.spark.sink import SinkOptions

    access_key, secret_key, token = (os.environ.get(name) or None for name in VARIABLES)
    namesrv = args.namesrv or (None if args.broker else NAMESRV)
    given = {
        "broker": args.broker,
        "namesrv": namesrv,
        "job": job,
        "rejects": args.rejects,
        "access_key": access_key,
        "secret_key": secret_key,
        "security_token": token,
    }
    return SinkOptions.parse({name: text for name, text in given.items() if text is not None})


def timed(work: Callable[[], _Done]) -> tuple[_Done, float]:
    """Run a job: its result, and its seconds."""
    begin = time.monotonic()
    done = work()
    return done, time.monotonic() - begin


def job_row(report: JobReport, *, seconds: float | None, was_done: bool) -> dict[str, object]:
    """A job for the summary.

    Args:
        report: Of the job.
        seconds: That it took; None where only several jobs together were timed.
        was_done: An earlier run has handed it over.
    """
    row: dict[str, object] = {
        "job": report.job,
        "state": report.state,
        "handed_over_before": was_done,
        "rows": report.rows,
        "scheduled": report.adopted,
        "refused": dict(report.refused),
        "far": report.far,
        "held_up": report.held_up,
    }
    if seconds is not None:
        row["seconds"] = round(seconds, 3)
        row["rows_per_second"] = 0 if was_done else round(report.rows / seconds)
    return row


def print_job(row: dict[str, object], *, as_json: bool) -> None:
    """Print one job: a line for programs, a line a fact for people."""
    if as_json:
        print_json([row])
        return
    for name, value in row.items():
        if name == "handed_over_before":
            if value:
                print(
                    "before           handed over by an earlier run: another --job sends it again"
                )
        elif isinstance(value, dict):
            rules = ", ".join(f"{rule} {count}" for rule, count in value.items())  # pyright: ignore[reportUnknownVariableType]  # of a report
            print(f"{name:16} {rules or 0}")
        elif value is not None:
            print(f"{name.replace('_per_', '/'):16} {value}")
