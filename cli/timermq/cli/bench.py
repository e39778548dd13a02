"""Measure this machine: rates, bursts, lateness, memory, each beside the floor that is promised.

A broker is started on a throw-away store, with real sockets; the load comes from processes of its
own. Rates are judged by the broker's CPU a message, scaled by a calibration loop to the machine
that the floors were set on. Quick questions are asked several times, and the repeat that other work
disturbed least counts. Ends with 1 when a figure is outside its floor.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from timermq.bench.idle_cost import idle, pending
from timermq.bench.lateness import lateness, neighbours
from timermq.bench.question import Figure, Load, Question
from timermq.bench.rates import burst, steady, steady_large, sync, sync_flushed
from timermq.bench.repeats import ASKED_ONCE, REPEATS, ask_repeatedly
from timermq.bench.replication import replication

from .arguments import count, positive

QUESTIONS: Mapping[str, Question] = {
    "steady": steady,
    "steady-1k": steady_large,
    "burst": burst,
    "sync": sync,
    "sync-flushed": sync_flushed,
    "lateness": lateness,
    "neighbours": neighbours,
    "pending": pending,
    "idle": idle,
    "replication": replication,
}

_BESIDE = (
    *("per_second", "cpu_us", "alone_cpu_us", "calibration_ms", "p50_ms", "max_ms", "limit"),
    *("behind_bytes", "seen_mb_per_second", "cpu_s_per_gb", "timers_cpu_s_per_gb"),
)
"""Facts that the table shows beside a figure."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Which questions are asked, with what load, and how often."""
    parser.add_argument(
        "questions",
        nargs="*",
        choices=[*QUESTIONS, "all"],
        default="all",
        metavar="QUESTION",
        help=f"all, or some of {', '.join(QUESTIONS)}",
    )
    parser.add_argument(
        "--scale", type=positive, default=1.0, help="size of the load; the floors are for 1"
    )
    parser.add_argument("--count", type=count, help="messages, in place of the questions' own")
    parser.add_argument(
        "--asks",
        type=count,
        default=REPEATS,
        metavar="N",
        help=f"repeats of each question, but of {' and '.join(sorted(ASKED_ONCE))} "
        f"(default: {REPEATS})",
    )
    parser.add_argument("--json", action="store_true", help="one object a line")


def run(args: argparse.Namespace) -> int:
    """Ask the questions, print the answers."""
    names: list[str] = list(QUESTIONS) if "all" in args.questions else args.questions
    load = Load(scale=args.scale, count=args.count)
    figures = ask_repeatedly({name: QUESTIONS[name] for name in names}, load, args.asks, _tell)
    if args.json:
        for figure in figures:
            print(json.dumps(figure.to_json()), flush=True)
    else:
        _print_table(figures)
    return 0 if all(figure.passes for figure in figures) else 1


def _tell(figure: Figure) -> None:
    """One repeat: the table comes minutes later."""
    value = _rounded(figure.value)
    print(f"timermq: bench: {figure.question}: {value} {figure.unit}", file=sys.stderr, flush=True)


def _rounded(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _print_table(figures: list[Figure]) -> None:
    table = Table("question", title="timermq bench")
    for name in ("figure", "floor", "unit", ""):
        table.add_column(name, justify="left" if name == "unit" else "right")
    table.add_column("beside it")
    for one in figures:
        beside = [f"{name} {one.facts[name]}" for name in _BESIDE if name in one.facts]
        if one.asked[1:]:
            beside.append(f"asked {' | '.join(map(_rounded, one.asked))}")
        table.add_row(
            one.question,
            _rounded(one.value),
            "" if one.floor is None else f"{one.floor:,.0f}",
            one.unit,
            "ok" if one.passes else "MISSED",
            ", ".join(beside),
        )
    Console().print(table)
