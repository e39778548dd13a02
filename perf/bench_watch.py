"""What does somebody who looks on take of a busy broker's throughput?

The steady question of ``timermq bench`` is asked in turns of a broker that is not watched and of
one with eight watchers, each of which gets four snapshots a second as ``timermq top`` asks for
them: one alone would be lost in what else a machine does. Both sides stand in one run; the medians
of the CPU a message are compared, and an eighth of the difference is what one watcher takes.

Run: ``python perf/bench_watch.py``; ``--rounds`` of both sides, ``--keep`` writes the result. Ends
with 1 when a watcher takes more than its bound.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
from collections.abc import Generator
from contextlib import contextmanager

import trio
from result_files import report

from timermq.bench.broker_process import broker_process
from timermq.bench.question import Load
from timermq.bench.rates import steady
from timermq.bench.server import Server, Start
from timermq.client.watch import open_watch
from timermq.remoting import WatchView

WATCHERS = 8
SHARE_MAX = 3.0
"""Per cent of the throughput that one may take."""


@contextmanager
def watched() -> Generator[Server]:
    """A broker with watchers, in a process of their own."""
    with broker_process() as server:
        address = f"{server.address[0]}:{server.address[1]}"
        looking = multiprocessing.Process(target=trio.run, args=(look, address), daemon=True)
        looking.start()
        yield server
        looking.terminate()
        looking.join()


async def look(address: str) -> None:
    """Watch until the process is ended."""
    async with trio.open_nursery() as nursery:
        for _ in range(WATCHERS):
            nursery.start_soon(look_alone, address)


async def look_alone(address: str) -> None:
    """Take snapshots as one watcher, until it is cancelled."""
    async with open_watch(address, WatchView()) as watch:
        while True:
            await watch.receive()


def cpu_us(start: Start) -> float:
    """CPU of the broker a message, normalised."""
    (figure,) = steady(Load(), start=start)
    return float(figure.facts["normal_cpu_us"])


def measure(rounds: int) -> dict[str, object]:
    """Ask both sides in turns, and compare the medians of the CPU."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(rounds):
        alone.append(cpu_us(broker_process))
        beside.append(cpu_us(watched))
        print(f"alone {alone[-1]} us, watched {beside[-1]} us", file=sys.stderr, flush=True)
    before, after = statistics.median(alone), statistics.median(beside)
    share = 100 * (1 - before / after) / WATCHERS
    return {
        "question": "throughput that one watcher takes",
        "watchers": WATCHERS,
        "bound": SHARE_MAX,
        "value": round(share, 2),
        "unit": f"%: {WATCHERS} make of {before} µs of CPU a message {after}",
        "passes": share <= SHARE_MAX,
        "alone_us": alone,
        "watched_us": beside,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="write results/watch.json")
    args = parser.parse_args()
    result = measure(args.rounds)
    report("watch", {"answers": [result]}, keep=args.keep)
    sys.exit(not result["passes"])
