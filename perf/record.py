"""What does ``timermq bench`` answer on this machine? For the tables of docs/performance.md.

All nine questions take some twelve minutes at scale 1, of which filling a store with ten million
messages takes five; the peers take as long again. Do nothing else meanwhile.

Run: ``python perf/record.py questions``, or ``peers``; ``--scale 0.1`` asks with less, ``--keep``
writes results/questions.json.
"""

from __future__ import annotations

import argparse
import sys

from kept import report

from timermq.cli.bench import QUESTIONS
from timermq.cli.bench.peers import PEER_QUESTIONS, ask_peers
from timermq.cli.bench.question import Load


def questions(load: Load) -> list[dict[str, object]]:
    """The answers to all questions, each beside its floor."""
    answers: list[dict[str, object]] = []
    for ask in QUESTIONS.values():
        for figure in ask(load):
            answers.append(figure.to_json())
            print(answers[-1], file=sys.stderr, flush=True)
    return answers


def peers(load: Load) -> list[dict[str, object]]:
    """The answers of all servers that are installed."""
    answers: list[dict[str, object]] = []
    for figure in ask_peers(load, list(PEER_QUESTIONS)):
        answers.append(figure.to_json())
        print(answers[-1], file=sys.stderr, flush=True)
    return answers


RECORDS = {"questions": questions, "peers": peers}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", choices=RECORDS)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    answers = RECORDS[args.record](Load(scale=args.scale))
    report(args.record, {"scale": args.scale, "answers": answers}, keep=args.keep)
