"""Measure this machine: rates, bursts, lateness, memory, each beside the floor that is promised.

A broker is started on a throw-away store, with real sockets; the load comes from processes of its
own. Rates are judged by the broker's CPU a message, scaled by a calibration loop to the machine
that the floors were set on. Quick questions are asked several times, and the asking that other work
disturbed least counts. Ends with 1 when a figure is outside its floor.

With ``--peers`` the same questions go to redis and beanstalkd too, where these are installed; the
figures stand side by side, at equal durability.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from timermq.bench.askings import ASKED_ONCE, ASKINGS, ask_repeatedly
from timermq.bench.lateness import lateness, neighbours
from timermq.bench.peers import PEER_QUESTIONS, ask_peers
from timermq.bench.peers_table import print_peers
from timermq.bench.question import Figure, Load, Question
from timermq.bench.rates import burst, steady, steady_large, sync, sync_flushed
from timermq.bench.standing import idle, pending

from .arguments import UsageError, count, positive

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
}

_BESIDE = ("per_second", "cpu_us", "calibration_ms", "p50_ms", "max_ms", "limit")
"""Facts that the table shows beside a figure."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Flags of ``timermq bench``."""
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
        default=ASKINGS,
        metavar="N",
        help=f"askings of each question, but of {' and '.join(sorted(ASKED_ONCE))} "
        f"(default: {ASKINGS}; peers are asked once)",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help=f"beside redis and beanstalkd; of the questions, {', '.join(PEER_QUESTIONS)}",
    )
    parser.add_argument("--json", action="store_true", help="one object a line")


def run(args: argparse.Namespace) -> int:
    """Ask the questions, print the answers.

    Raises:
        UsageError: A question was named that peers are not asked.
    """
    asked = PEER_QUESTIONS if args.peers else QUESTIONS
    names: list[str] = list(asked) if "all" in args.questions else args.questions
    for name in names:
        if name not in asked:
            raise UsageError(f"bench: peers are asked {', '.join(asked)}, found {name!r}")
    load = Load(scale=args.scale, count=args.count)
    if args.peers:
        return _run_peers(load, names, args.json)
    figures = ask_repeatedly({name: QUESTIONS[name] for name in names}, load, args.asks, _tell)
    if args.json:
        for figure in figures:
            print(json.dumps(figure.to_json()), flush=True)
    else:
        _print_table(figures)
    return 0 if all(figure.passes for figure in figures) else 1


def _run_peers(load: Load, names: list[str], as_json: bool) -> int:
    answers: list[dict[str, object]] = []
    for figure in ask_peers(load, names):
        answers.append(figure.to_json())
        if as_json:
            print(json.dumps(answers[-1]), flush=True)
    if not as_json:
        print_peers(answers)
    return 0 if answers else 1


def _tell(figure: Figure) -> None:
    """One asking: the table comes minutes later."""
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
