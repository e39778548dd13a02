"""Run brokers under load and trouble for a while, and judge what came of it: ``make soak``.

Episodes follow each other: on the file system of the temporary directory, then on a small disk
that is filled (where it can be mounted). Each has a fresh store. Exit code 1 and the histories and
store of the episode are left when a promise is broken.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import trio

from timermq.cli.check_history import print_report
from timermq.cli.log_output import LogFormat, configure_logs

from .episode import Judgement, run_episode
from .replica_episode import run_replicas
from .small_disk import SmallDisk, reason_against, small_disk

KILLS_SECONDS_MAX = 300.0
FULL_SECONDS_MAX = 75.0
"""Of load in an episode, by its kind; about half a minute of draining comes after each."""
DRAIN_SECONDS = 45.0
"""What an episode takes besides."""
SECONDS_MIN = 5.0
CLEANING_SECONDS_MIN = 45.0
"""Of load: in less time nothing would be cleaned."""
SHOWN = (
    "acknowledged",
    "delivered",
    "cancelled",
    "moved",
    "lost",
    "early",
    "twice",
    "broken",
    "unanswered",
    "refused",
    "uncertain",
    "kill",
    "stop",
    "end",
    "demote",
    "promote",
    "refused_verb",
    "etcd_kill",
    "disk_full",
    "log_segments_cleaned",
    "timer_log_segments_cleaned",
)


def main() -> int:
    """Run episodes until the time is over; print the ledger."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--cleaning", action="store_true", help="old segments go all the time, most of what came"
    )
    parser.add_argument(
        "--replicas",
        choices=["lease", "promote"],
        help="three brokers instead: etcd decides who leads, or an operator promotes",
    )
    args = parser.parse_args()
    least = CLEANING_SECONDS_MIN if args.cleaning else SECONDS_MIN
    configure_logs(LogFormat.CONSOLE, logging.CRITICAL)  # clients without a broker warn and warn
    if args.replicas is not None:
        return _replicas(args.seconds, args.seed, leased=args.replicas == "lease")
    end = time.monotonic() + args.seconds
    against = reason_against()
    if against is not None:
        print(f"no disk that fills: {against}")
    ledger: Counter[str] = Counter()
    number = 0
    while number == 0 or end - time.monotonic() > DRAIN_SECONDS + least:
        has_small_disk = against is None and number % 2 == 1
        longest = FULL_SECONDS_MAX if has_small_disk else KILLS_SECONDS_MAX
        rest = end - time.monotonic() - DRAIN_SECONDS
        if against is None and number == 0:  # leave room for one of the other kind
            rest -= min(FULL_SECONDS_MAX, rest / 3) + DRAIN_SECONDS
        seconds = max(min(rest, longest), least)
        seed = args.seed * 1_000 + number
        if not _episode(seed, seconds, ledger, has_small_disk=has_small_disk, cleans=args.cleaning):
            print(_line("so far", ledger))
            return 1
        number += 1
    print(_line(f"{number} episodes", ledger))
    return 0


def _replicas(seconds: float, seed: int, *, leased: bool) -> int:
    """Run one episode of three replicas."""
    directory = Path(tempfile.mkdtemp(prefix=f"timermq-soak-replicas-{seed}-"))
    kind = "lease" if leased else "promote"
    print(f"three replicas, {kind}, seed {seed}: {seconds:.0f} s, {directory}", flush=True)
    judgement = run_replicas(directory, seconds, seed, leased=leased)
    ledger: Counter[str] = Counter()
    _count(judgement.clients, ledger)
    print(_line(f"clients of ours, {', '.join(judgement.used)}", ledger))
    gaps = judgement.gaps or (0.0,)
    print(
        f"promotions {judgement.promotions}, {sum(gaps):.0f} of {seconds:.0f} s without a master: "
        f"{statistics.median(gaps):.1f} s as a rule, {max(gaps):.1f} s at most"
    )
    return 0 if _is_clean(judgement.clients, directory) else 1


def _episode(
    seed: int, seconds: float, ledger: Counter[str], *, has_small_disk: bool, cleans: bool
) -> bool:
    """Run one and count it; False when a promise was broken."""
    directory = Path(tempfile.mkdtemp(prefix=f"timermq-soak-{seed}-"))
    kind = "full disk" if has_small_disk else "kills"
    print(f"episode {seed}: {kind}, {seconds:.0f} s, {directory}", flush=True)
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(small_disk(directory / "disk")) if has_small_disk else None
        try:
            judgement = trio.run(run_episode, directory, seconds, seed, disk, cleans)
        except BaseException:
            _keep(disk, directory)
            raise
        _count(judgement, ledger)
        if not judgement.is_clean:
            _keep(disk, directory)
    own: Counter[str] = Counter()
    _count(judgement, own)
    print(_line(f"episode {seed}", own), flush=True)
    return _is_clean(judgement, directory)


def _is_clean(judgement: Judgement, directory: Path) -> bool:
    """Remove the directory when every promise was kept; else tell what was not."""
    if judgement.is_clean:
        shutil.rmtree(directory)
        return True
    for title, report in (("consumers", judgement.seen), ("queues", judgement.held)):
        print(f"\nby what the {title} had:")
        print_report(report)
    print(f"\nthe broker ended with {judgement.exit_code}")
    if judgement.cleaned is not None:
        print(f"segments cleaned, at least one expected of each: {judgement.cleaned}")
    print(f"left for looking: {directory}; timermq check-history {directory}/*.jsonl")
    return False


def _count(judgement: Judgement, ledger: Counter[str]) -> None:
    ledger.update(judgement.held.ledger)
    for name in ("lost", "early", "twice", "broken"):
        ledger[name] += max(judgement.seen.ledger[name] - judgement.held.ledger[name], 0)
    if judgement.cleaned is not None:
        ledger["log_segments_cleaned"] += judgement.cleaned.log
        ledger["timer_log_segments_cleaned"] += judgement.cleaned.timer_log


def _keep(disk: SmallDisk | None, directory: Path) -> None:
    """Save what is on a disk that goes away."""
    if disk is not None:
        shutil.copytree(disk.root / "store", directory / "store")
        for log in disk.root.glob("*.log"):
            shutil.copy(log, directory)


def _line(title: str, ledger: Counter[str]) -> str:
    others = [name for name in ledger if name.startswith(("ended", "not_ready"))]
    return f"{title}: " + ", ".join(f"{name} {ledger[name]}" for name in [*SHOWN, *others])


if __name__ == "__main__":
    sys.exit(main())
