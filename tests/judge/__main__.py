"""Leads the lives of many seeds and judges them: ``make judge SEEDS=1..10000``.

Exit code 1 when a seed breaks a rule: its history is printed, and the command that repeats it.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import structlog

from .leading import ALL, Outcome, lead
from .setting import Fault

CHUNK = 50
"""Seeds that are handed to a process at a time."""


def main(arguments: Sequence[str]) -> int:
    """Judge the seeds; 1 when a rule is broken."""
    parser = argparse.ArgumentParser(prog="make judge", description=__doc__)
    parser.add_argument("seeds", nargs="?", default="1..1000", help="a seed, or FIRST..LAST")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--faults", help="only these, with commas")
    parser.add_argument("--brief", action="store_true", help="a line a breach, no histories")
    args = parser.parse_args(arguments)
    faults = ALL if args.faults is None else faults_named(args.faults)
    more = "" if args.faults is None else f" --faults '{args.faults}'"
    first, _, last = args.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    coverage: Counter[str] = Counter()
    broken: list[Outcome] = []
    for outcome in outcomes(seeds, faults, args.jobs):
        coverage += outcome.coverage
        if outcome.breaches:
            broken.append(outcome)
            print(f"seed {outcome.seed}: {'; '.join(outcome.breaches)}", flush=True)
            if not args.brief:
                print(story(outcome, more), flush=True)
    for what, count in sorted(coverage.items()):
        print(f"{count:>9,}  {what}")
    print(f"{len(seeds)} seeds, {len(broken)} broken: {[one.seed for one in broken]}")
    return 1 if broken else 0


def story(outcome: Outcome, more: str = "") -> str:
    """What happened, and the command that repeats it."""
    again = f"PYTHONPATH=tests .venv/bin/python -m judge {outcome.seed}{more}"
    return "\n".join([*outcome.history, f"again: {again}"])


def faults_named(names: str) -> frozenset[Fault]:
    """Faults by name, divided by commas."""
    return frozenset(Fault(name) for name in names.split(",") if name)


def outcomes(seeds: Sequence[int], faults: frozenset[Fault], jobs: int) -> Iterator[Outcome]:
    """What comes of each seed, in their order."""
    one = partial(lead, faults=faults)
    if jobs == 1 or len(seeds) == 1:
        quieten()
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=quieten) as pool:
        yield from pool.map(one, seeds, chunksize=CHUNK)


def quieten() -> None:
    """What the store logs is not asked for."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
