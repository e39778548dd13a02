"""What does ``timermq bench`` answer on this machine? For the tables of docs/performance.md.

All questions but that of replication, asked once at scale 1, take some twelve minutes, of which
filling a store with ten million messages takes five; the peers take as long again, ``replication``
some three. Do nothing else meanwhile.

Run: ``python perf/record.py questions``; ``--scale 0.1`` asks with less, ``--asks 3`` asks the
quick questions three times, ``--keep`` writes results/questions.json, or replication.json. Names of
questions (``questions steady idle``) ask these again, and leave the other kept answers as they are.
``peers`` asks redis and beanstalkd too, where these are installed: the figures stand side by side,
at equal durability.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from peers import PEER_QUESTIONS, ask_peers
from peers_table import print_peers
from result_files import kept, machine, report

from timermq.bench.question import Figure, Load
from timermq.bench.repeats import ask_repeatedly
from timermq.cli.bench import QUESTIONS

Answer = dict[str, Any]

APART = "replication"
"""The question whose answers stand in a file of their own."""

ASKED = [name for name in QUESTIONS if name != APART]

_NOW = frozenset({"commit", "calibration_ms"})
"""What may differ between answers of one table: each says its own."""


def questions(load: Load, names: Sequence[str], asks: int) -> list[Answer]:
    """The answers to these questions, each beside its floor; the best of ``asks`` repeats."""
    asked = {name: QUESTIONS[name] for name in QUESTIONS if name in names}
    return [one.to_json() for one in ask_repeatedly(asked, load, asks, _tell)]


def _tell(figure: Figure) -> None:
    print(figure.to_json(), file=sys.stderr, flush=True)


def merged(result: Mapping[str, Any], answers: Sequence[Answer], commit: object) -> list[Answer]:
    """The kept answers, with the new ones in their places."""
    fresh: dict[str, Answer] = {one["question"]: {**one, "commit": commit} for one in answers}
    before: list[Answer] = result["answers"]
    return [fresh.get(answer["question"], answer) for answer in before]


def differences(result: Mapping[str, Any], now: Mapping[str, object], scale: float) -> list[str]:
    """What makes a kept result one that answers of now do not belong beside."""
    before = {**result["machine"], "scale": result["scale"]}
    return [
        f"{name}: expected {before.get(name)} as kept, found {value}"
        for name, value in {**now, "scale": scale}.items()
        if name not in _NOW and before.get(name) != value
    ]


def peers(load: Load) -> list[Answer]:
    """The answers of all servers that are installed."""
    answers: list[Answer] = []
    for figure in ask_peers(load, list(PEER_QUESTIONS)):
        answers.append(figure.to_json())
        print(answers[-1], file=sys.stderr, flush=True)
    return answers


def main() -> None:
    """Ask, print and perhaps keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", choices=("questions", "peers", APART))
    parser.add_argument("names", nargs="*", choices=[*ASKED, "all"], default="all")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--asks", type=int, default=1, help="repeats of each quick question")
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    load = Load(scale=args.scale)
    if args.record == "peers":
        answers = peers(load)
        print_peers(answers)
        report("peers", {"scale": args.scale, "answers": answers}, keep=args.keep)
    elif args.record == APART or "all" in args.names:
        names = [APART] if args.record == APART else ASKED
        answers = questions(load, names, args.asks)
        report(args.record, {"scale": args.scale, "answers": answers}, keep=args.keep)
    else:
        _ask_anew(load, args.names, args.asks, keep=args.keep, refuse=parser.error)


def _ask_anew(
    load: Load, names: Sequence[str], asks: int, *, keep: bool, refuse: Callable[[str], object]
) -> None:
    """Some of the questions; with ``keep`` their answers stand beside the others then."""
    result, now = kept("questions"), machine()
    if keep and (found := differences(result, now, load.scale)):
        refuse(f"ask all questions again: {'; '.join(found)}")
    answers = questions(load, names, asks)
    if keep:
        answers = merged(result, answers, now["commit"])
        report("questions", {**result, "answers": answers}, keep=True)
    else:
        report("questions", {"scale": load.scale, "answers": answers}, keep=False)


if __name__ == "__main__":
    main()
