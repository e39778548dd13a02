"""Runs seeds until one breaks a promise, in a process whose sources may hold a planted bug.

A program of its own, started by ``trial``: it says in one line of JSON what it found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from judge.__main__ import quieten
from judge.leading import lead
from timermq.simulator.scenario import FaultKind
from timermq.simulator.seeds import draw_plan
from timermq.simulator.shrinking import kind_of

from .trial import COMPONENTS

ENDLESS_SECONDS = 30.0
"""Of the processor; a bug may also make something work for ever."""
BREACH = re.compile(r"^m\d+: |,? (?:at|for|of|by) \[?\d.*$")
"""What differs from seed to seed in the words of a breach: the message, and where it stands."""


def main() -> None:
    """Print the last seed that was run, and the kind of its fault, if it failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, help="of the simulator; without: lives of the judge")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--lease", action="store_true")
    parser.add_argument("--faults", nargs="*", type=FaultKind, default=())
    parser.add_argument("--seeds", nargs=2, type=int, required=True, help="first and last")
    parser.add_argument("--cpu-seconds", type=float, required=True, help="no seed begins after it")
    parser.add_argument("--below", type=Path, required=True, help="where the sources have to be")
    args = parser.parse_args()
    check_sources(args.below)
    look: Callable[[int], str | None] = judged
    if args.days is not None:
        look = partial(
            simulated,
            days=args.days,
            faults=args.faults,
            brokers=args.brokers,
            has_lease=args.lease,
        )
    else:
        quieten()
    first, last = args.seeds
    count, as_what = 0, None
    for seed in range(first, last + 1):
        if as_what is not None or time.process_time() > args.cpu_seconds:
            break
        count = seed
        as_what = look(seed)
    print(json.dumps({"count": count, "as_what": as_what}))


def simulated(
    seed: int,
    *,
    days: float,
    faults: Sequence[FaultKind],
    brokers: int = 1,
    has_lease: bool = False,
) -> str | None:
    """What a seed of the simulator breaks; None: nothing."""
    # Not its package's attribute of that name, which is the verb.
    run: Any = importlib.import_module("timermq.simulator.run")
    run.CPU_SECONDS_MAX = ENDLESS_SECONDS
    plan = draw_plan(seed, days=days, faults=faults, brokers=brokers, has_lease=has_lease)
    outcome = run.simulate(plan)
    return in_short(outcome.faults) if outcome.faults else None


def judged(seed: int) -> str | None:
    """What a seed of the judge breaks, without names and numbers; None: nothing."""
    signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_SECONDS)
    try:
        breaches = lead(seed).breaches
    except (EndlessError, trio.TrioInternalError):
        breaches = ("it works for ever",)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return BREACH.sub("", breaches[0]).partition(":")[0].strip() if breaches else None


class EndlessError(BaseException):
    """A seed takes longer than any may."""


def _give_up(number: int, frame: object) -> None:
    raise EndlessError


def in_short(faults: Sequence[str]) -> str:
    """The promise that is broken, or what else the first fault is."""
    broken = [kind for kind in map(kind_of, faults) if kind.isupper()]
    text = faults[0].partition(" s: ")[2] if faults[0].startswith("at ") else faults[0]
    return broken[0] if broken else text.partition(":")[0]


def check_sources(below: Path) -> None:
    """Make sure that a bug in the copy is a bug in what runs.

    Raises:
        RuntimeError: A component comes from elsewhere.
    """
    for component in COMPONENTS:
        path = importlib.import_module(f"timermq.{component}").__file__
        if path is None or below.resolve() not in Path(path).resolve().parents:
            raise RuntimeError(f"timermq.{component}: expected it below {below}, found {path}")


if __name__ == "__main__":
    main()
