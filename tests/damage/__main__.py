"""Damages small stores in every way and prints what came of it: ``make damage SAMPLE=2000``.

Exit code 1: a breach that is not listed in open.toml. Each is repeated by its name:
``PYTHONPATH=tests .venv/bin/python -m damage NAME``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from .damages import Case, Kind, Wanted
from .open_breaches import is_open
from .outcome import Outcome, Verdict, judge
from .stores import NAMES

CHUNK = 20
"""Cases that are handed to a process at a time."""
ROUND = 2_000
"""Cases that are under way at a time."""
SHOWN_MAX = 5
"""Breaches that are listed of one family, kind and fault."""


def main(arguments: Sequence[str]) -> int:
    """Judge the cases; 1 when one is a breach that is not known."""
    parser = argparse.ArgumentParser(prog="make damage", description=__doc__)
    parser.add_argument("names", nargs="*", help="these cases alone")
    parser.add_argument("--sample", type=int, help="so many of them, drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--store", default="", help="stores whose names begin so")
    parser.add_argument("--family", default="", help="families whose places begin so")
    parser.add_argument("--kind", choices=[one.value for one in Kind], help="this kind alone")
    args = parser.parse_args(arguments)
    cases: Iterable[Case] = [Case.named(name) for name in args.names]
    if not args.names:
        wanted = Wanted(
            [name for name in NAMES if name.startswith(args.store)],
            args.family,
            frozenset(Kind) if args.kind is None else frozenset({Kind(args.kind)}),
        )
        sample = args.sample
        cases = wanted.cases() if sample is None else wanted.drawn(sample, args.seed)
    report = Report()
    for case, verdict in verdicts(cases, args.jobs):
        report.add(case, verdict)
    for line in report.lines():
        print(line)
    return 1 if report.new else 0


def verdicts(cases: Iterable[Case], jobs: int) -> Iterator[tuple[Case, Verdict]]:
    """Each case with the verdict on it, in the order of the cases."""
    if jobs == 1:
        yield from ((case, judge(case)) for case in cases)
        return
    left = iter(cases)
    with ProcessPoolExecutor(jobs) as pool:
        while batch := list(itertools.islice(left, ROUND)):
            yield from zip(batch, pool.map(judge, batch, chunksize=CHUNK), strict=True)


class Report:
    """The table family by kind by outcome, and the breaches."""

    def __init__(self) -> None:
        self.new: list[tuple[Case, Verdict]] = []
        """Breaches that are not known."""
        self._counts: defaultdict[tuple[str, str], Counter[Outcome]] = defaultdict(Counter[Outcome])
        self._open = 0

    def add(self, case: Case, verdict: Verdict) -> None:
        """Count a case by its outcome; a breach that is not listed is new."""
        self._counts[case.damage.family.value, case.damage.kind.value][verdict.outcome] += 1
        if verdict.outcome is Outcome.BREACH:
            if is_open(case, verdict):
                self._open += 1
            else:
                self.new.append((case, verdict))

    def lines(self) -> Iterator[str]:
        """The table, as docs/testing.md has it, and the breaches by family, kind and fault."""
        yield "| family | damage | " + " | ".join(one.value for one in Outcome) + " |"
        yield "| --- | --- |" + " ---: |" * len(Outcome)
        for (family, kind), counts in sorted(self._counts.items()):
            numbers = " | ".join(f"{counts[one]:,}" for one in Outcome)
            yield f"| `{family or 'other files'}` | {kind} | {numbers} |"
        total = sum(sum(one.values()) for one in self._counts.values())
        yield f"{total:,} damages, {self._open} known breaches, {len(self.new)} others"
        faults: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list[str])
        for case, verdict in self.new:
            what = verdict.broken[0].partition(":")[0]
            faults[case.damage.family.value, case.damage.kind.value, what].append(
                f"  {case.name}  {'; '.join(verdict.broken)}"
            )
        for (family, kind, what), told in sorted(faults.items()):
            yield f"{family}, {kind}, {what}: {len(told)}"
            yield from told[:SHOWN_MAX]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
