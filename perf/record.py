"""What does ``timermq bench`` answer on this machine? For the tables of docs/performance.md.

All nine questions, asked once at scale 1, take some twelve minutes, of which filling a store with
ten million messages takes five; the peers take as long again. Do nothing else meanwhile.

Run: ``python perf/record.py questions``, or ``peers``; ``--scale 0.1`` asks with less, ``--asks 3``
asks the quick questions three times, ``--keep`` writes results/questions.json. Names of questions
(``questions steady idle``) ask these anew, and leave the other kept answers as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kept import kept, machine, report

from timermq.cli.bench import QUESTIONS
from timermq.cli.bench.peers import PEER_QUESTIONS, ask_peers
from timermq.cli.bench.question import Figure, Load, Question

Answer = dict[str, Any]

ASKED_ONCE = frozenset({"pending", "idle"})
"""Questions that take minutes, or are not touched by what else goes on."""
_NOW = frozenset({"commit", "calibration_ms"})
"""What may differ between answers of one table: each says its own."""


def questions(load: Load, names: Sequence[str], asks: int) -> list[Answer]:
    """The answers to these questions, each beside its floor; the best of ``asks`` askings."""
    asked = {name: QUESTIONS[name] for name in QUESTIONS if name in names}
    rounds = [ask_all(load, asked)]
    quick = {name: ask for name, ask in asked.items() if name not in ASKED_ONCE}
    # Round by round: the minutes between two askings are more than a bad moment lasts.
    rounds += [ask_all(load, quick) for _ in range(asks - 1)]
    return [
        best_of([found[question] for found in rounds if question in found])
        for question in rounds[0]
    ]


def ask_all(load: Load, asked: Mapping[str, Question]) -> dict[str, Figure]:
    """Ask each once; the figures by what they answer, in the order of the questions."""
    figures: dict[str, Figure] = {}
    for ask in asked.values():
        for figure in ask(load):
            figures[figure.question] = figure
            print(figure.to_json(), file=sys.stderr, flush=True)
    return figures


def best_of(askings: Sequence[Figure]) -> Answer:
    """The asking that other work on the machine disturbed least, and the values of all.

    Of what must not happen at all, the worst: other work does not bring it about.
    """
    if askings[0].floor == 0:
        chosen = max(askings, key=lambda figure: figure.value)
    else:
        chosen = min(askings, key=_disturbed)
    if len(askings) == 1:
        return chosen.to_json()
    return {**chosen.to_json(), "asked": [round(figure.value, 3) for figure in askings]}


def _disturbed(figure: Figure) -> float:
    """What other work can only add to: CPU or lateness as seen, before it is set against others.

    A calibration or a sleeper that was disturbed would make the figure itself look better.
    """
    for seen in ("cpu_us", "p99_ms"):
        if seen in figure.facts:
            return float(figure.facts[seen])
    return figure.value


def merged(result: Mapping[str, Any], answers: Sequence[Answer], commit: object) -> list[Answer]:
    """The kept answers, with those that were given anew in their places."""
    anew: dict[str, Answer] = {one["question"]: {**one, "commit": commit} for one in answers}
    before: list[Answer] = result["answers"]
    return [anew.get(answer["question"], answer) for answer in before]


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
    parser.add_argument("record", choices=("questions", "peers"))
    parser.add_argument("names", nargs="*", choices=[*QUESTIONS, "all"], default="all")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--asks", type=int, default=1, help="askings of each quick question")
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    load = Load(scale=args.scale)
    if args.record == "peers":
        report("peers", {"scale": args.scale, "answers": peers(load)}, keep=args.keep)
    elif "all" in args.names:
        answers = questions(load, list(QUESTIONS), args.asks)
        report("questions", {"scale": args.scale, "answers": answers}, keep=args.keep)
    else:
        _ask_anew(load, args.names, args.asks, keep=args.keep, refuse=parser.error)


def _ask_anew(
    load: Load, names: Sequence[str], asks: int, *, keep: bool, refuse: Callable[[str], object]
) -> None:
    """Some of the questions; with ``keep`` their answers stand beside the others then."""
    result, now = kept("questions"), machine()
    if keep and (found := differences(result, now, load.scale)):
        refuse(f"ask all questions anew: {'; '.join(found)}")
    answers = questions(load, names, asks)
    if keep:
        answers = merged(result, answers, now["commit"])
        report("questions", {**result, "answers": answers}, keep=True)
    else:
        report("questions", {"scale": load.scale, "answers": answers}, keep=False)


if __name__ == "__main__":
    main()
