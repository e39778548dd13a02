"""Simulate days of a broker under faults, from one seed: nothing lost, early or twice.

The real broker runs in it; disk, clock, network and clients are staged. A seed decides everything
and always has the same history. Ends with 1 when a promise is broken; then the plan of the first
such seed is made as small as it goes, and shown with what everybody saw.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from timermq.client.history import FORMAT, VERSION
from timermq.simulator.draw import ALL_FAULTS
from timermq.simulator.outcome import Outcome
from timermq.simulator.progress import Progress
from timermq.simulator.replicas.replica_scenario import ReplicaScenario
from timermq.simulator.report import report_lines
from timermq.simulator.run import simulate
from timermq.simulator.scenario import FaultKind, Scenario
from timermq.simulator.seed_results import SeedResults
from timermq.simulator.seeds import SeedResult, draw_plan, run_seeds
from timermq.simulator.shrinking import kind_of, shrink

from .arguments import OneLineParser, UsageError, add_json, count, positive
from .output import print_json, print_table

COLUMNS = ("seed", "digest", "crashes", "operations", "cpu_seconds", "broken")


def prepare_parser(parser: OneLineParser) -> None:
    """Which seeds, how long, and what may go wrong."""
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=_seeds, default=range(1, 2), dest="seeds", metavar="N")
    seeds.add_argument(
        "--seeds", type=_seeds, dest="seeds", metavar="A..B", help="many: both ends included"
    )
    parser.add_argument("--days", type=positive, default=1.0, help="virtual days (default: 1)")
    parser.add_argument(
        "--faults",
        type=_faults,
        default=ALL_FAULTS,
        metavar="LIST",
        help=f"what may go wrong: {','.join(kind.value for kind in FaultKind)}; none; "
        "default: all of them",
    )
    parser.add_argument(
        "--brokers",
        type=count,
        choices=(1, 2, 3),
        default=1,
        help="brokers of one name, with faults of their own (default: 1)",
    )
    parser.add_argument(
        "--lease", action="store_true", help="which of several leads says a lease, no operator"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="add the result of each seed to it; seeds in it that kept every promise are not run",
    )
    parser.add_argument("--jobs", type=count, default=1, help="processes (default: 1)")
    parser.add_argument(
        "--history", metavar="FILE", help="write what everybody saw, of the last or failing seed"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the seeds; tell of each that fails at once, then print what came of all of them."""
    if args.lease and args.brokers == 1:
        raise UsageError("simulate: argument --lease: expected --brokers 2 or 3, found one broker")
    kept = _results_of(args)
    results = [] if kept is None else list(kept.load(args.seeds))
    known = {one.seed for one in results}
    with Progress(len(args.seeds), Console(stderr=True)) as progress:
        for result in results:
            progress.add(result)
        if known:
            progress.tell(f"{len(known)} seeds stand in {args.results}")
        for result in run_seeds(
            [seed for seed in args.seeds if seed not in known],
            days=args.days,
            faults=args.faults,
            jobs=args.jobs,
            brokers=args.brokers,
            has_lease=args.lease,
        ):
            results.append(result)
            progress.add(result)
            if kept is not None:
                kept.add([result])
            if result.faults:
                progress.tell(f"{_command(args, result.seed)}: {result.faults[0]}")
            if args.json:
                print_json([result.row()])
                sys.stdout.flush()
    results.sort(key=lambda one: one.seed)
    broken = [result for result in results if result.faults]
    if not args.json:
        _print_results(results, broken)
        print(progress.tally.words())
        for name, number in sorted(progress.tally.counts.items()):
            print(f"{number:>9} {name}")
    shown = broken[0] if broken else results[-1]
    if kept is not None and broken:
        # Of many seeds the smallest plan may take hours.
        for one in broken:
            _tell(f"repeat it with: {_command(args, one.seed)}")
        return 1
    if broken or args.history is not None:
        scenario = draw_plan(
            shown.seed,
            days=args.days,
            faults=args.faults,
            brokers=args.brokers,
            has_lease=args.lease,
        )
        outcome = _shrunk(scenario, shown.faults) if broken else simulate(scenario)
        if args.history is not None:
            _write(args.history, outcome)
        if broken:
            # Beside --json it is for people all the same.
            file = sys.stderr if args.json else sys.stdout
            print("\n".join(report_lines(outcome)), file=file)
            _tell(f"repeat it with: {_command(args, shown.seed)}")
    return 1 if broken else 0


def _results_of(args: argparse.Namespace) -> SeedResults | None:
    if args.results is None:
        return None
    run_with = {
        "days": float(args.days),
        "brokers": args.brokers,
        "lease": args.lease,
        "faults": ",".join(sorted(kind.value for kind in args.faults)),
    }
    return SeedResults(args.results, run_with)


def _print_results(results: list[SeedResult], broken: list[SeedResult]) -> None:
    """A table of single seeds, of many only the failing ones."""
    rows = results if len(results) <= 20 else broken
    print_table(
        [
            {
                **one.row(),
                "digest": one.digest[:16],
                "cpu_seconds": f"{one.cpu_ms / 1000:.1f}",
                "broken": len(one.faults) or None,
            }
            for one in rows
        ],
        COLUMNS,
    )


def _shrunk(scenario: Scenario | ReplicaScenario, faults: tuple[str, ...]) -> Outcome:
    """The outcome of the smallest plan that breaks the same promise."""
    kinds = set(map(kind_of, faults))
    smallest = simulate(scenario)

    def still_fails(smaller: Scenario | ReplicaScenario) -> bool:
        nonlocal smallest
        outcome = simulate(smaller)
        if kinds.isdisjoint(map(kind_of, outcome.faults)):
            return False
        smallest = outcome
        return True

    _tell("a promise is broken; making the plan smaller …")
    shrink(scenario, still_fails)
    return smallest


def _command(args: argparse.Namespace, seed: int) -> str:
    words = ["timermq simulate", f"--seed {seed}"]
    if args.days != 1:
        words.append(f"--days {args.days:g}")
    if args.brokers != 1:
        words.append(f"--brokers {args.brokers}")
    if args.lease:
        words.append("--lease")
    if args.faults != ALL_FAULTS:
        names = ",".join(kind.value for kind in FaultKind if kind in args.faults)
        words.append(f"--faults {names or 'none'}")
    return " ".join(words)


def _write(path: str, outcome: Outcome) -> None:
    header = {"format": FORMAT, "version": VERSION}
    lines = msgspec.json.Encoder().encode_lines([header, *outcome.events])
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(lines)


def _tell(text: str) -> None:
    print(f"timermq: simulate: {text}", file=sys.stderr)


def _seeds(text: str) -> range:
    """``N``, or ``A..B`` with both ends."""
    first, mark, last = text.partition("..")
    numbers = (first, last) if mark else (first,)
    if not all(one.isascii() and one.isdecimal() and len(one) <= 18 for one in numbers):
        raise argparse.ArgumentTypeError(f"expected N or A..B below 10^18, found {text!r}")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise argparse.ArgumentTypeError(f"expected A..B with A at most B, found {text!r}")
    return seeds


def _faults(text: str) -> frozenset[FaultKind]:
    """Kinds of faults, divided by commas."""
    if text == "none":
        return frozenset()
    try:
        return frozenset(FaultKind(one.strip()) for one in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
