"""How late is each message of a burst, and what is due beside it?

100,000 messages of one topic are due at one instant, 200 a second of another at random
milliseconds around it. The burst leaves at the rate that the broker has, so its last message is as
late as it takes to drain; the neighbours wait for the batches that are on their way, and should not
wait for the burst.

Run: ``python perf/bench_burst_lateness.py [--count N] [--keep]``; what is kept ``pictures.py``
draws.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time

import attrs
from result_files import report

from timermq.bench.broker_process import broker_process
from timermq.bench.lateness import CROWD, NEIGHBOUR_RATE
from timermq.bench.load import arrival_counts, arrivals, send, send_paced
from timermq.bench.rates import LOAD_RATE, PULL_TIMEOUT

AROUND_SECONDS = 3.0
"""Neighbours are sent for so long before the instant, and after it."""
DELAY_MS = (100, 1_000)


def measure(count: int) -> dict[str, object]:
    """Arrivals of the burst as [ms after the instant, how many]; neighbours as [due, ms late]."""
    with broker_process() as server, multiprocessing.Pool(4) as pool:
        crowd = server.workload("BenchCrowd", count)
        other = server.workload("BenchNeighbour", int(NEIGHBOUR_RATE * 2 * AROUND_SECONDS))
        instant = time.time() + AROUND_SECONDS + 2 + count / LOAD_RATE
        crowd = attrs.evolve(crowd, deliver_ms=int(instant * 1000))
        pool.apply_async(send, (crowd,)).get()
        pulled = pool.apply_async(arrival_counts, (crowd, "bench", PULL_TIMEOUT))
        arriving = pool.apply_async(arrivals, (other, "bench", PULL_TIMEOUT))
        time.sleep(max(instant - AROUND_SECONDS - time.time(), 0))
        pool.apply_async(send_paced, (other, NEIGHBOUR_RATE, DELAY_MS)).get()
        burst, neighbours = pulled.get(), arriving.get()
    return {
        "count": count,
        "burst": [[round(moment * 1000 - crowd.deliver_ms, 1), many] for moment, many in burst],
        "neighbours": [
            [due - crowd.deliver_ms, round(arrived - due, 1)] for due, arrived in neighbours
        ],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=CROWD)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    report("burst_lateness", measure(args.count), keep=args.keep)
