"""Does a message cost more while millions wait?

Timers are appended to a log and linked into slots, so it should not: expected is a flat line from
ten thousand to ten million, in CPU a message as in memory. At each point the same store is filled
up, a broker opened on it, and 20,000 messages with a delay of a second sent and pulled; the median
of the rounds is kept, scaled to the reference machine.

Run: ``python perf/bench_pending_cost.py [--most N] [--count N] [--keep]``; what is kept
``pictures.py`` draws. Ten million take five minutes to fill and 8 GB of disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time

import trio
from kept import report

from timermq.cli.bench.broker_process import BrokerProcess, broker_process
from timermq.cli.bench.load import pull, send
from timermq.cli.bench.measure import own_memory
from timermq.cli.bench.rates import PULL_TIMEOUT, STEADY_DELAY_MS, metered
from timermq.cli.bench.standing import PENDING, fill

FEWEST = 10_000
MESSAGES = 20_000
ROUNDS = 5


def measure(most: int, count: int) -> list[dict[str, object]]:
    """A point for each power of ten up to ``most``."""
    points: list[dict[str, object]] = []
    pending = 0
    with broker_process(start=False) as broker:
        while (target := max(pending * 10, FEWEST)) <= most:
            trio.run(fill, broker.store, range(pending, target))
            pending = target
            broker.start()
            rounds = [_cpu_us(broker, f"Bench{pending}x{turn}", count) for turn in range(ROUNDS)]
            points.append(
                {
                    "pending": pending,
                    "cpu_us": round(statistics.median(rounds), 2),
                    "rounds": [round(one, 2) for one in rounds],
                    "own_memory_mib": round(own_memory(broker.process_id) / (1 << 20), 1),
                    "ready_seconds": round(broker.ready_seconds, 2),
                }
            )
            print(points[-1], file=sys.stderr, flush=True)
            broker.stop()
    return points


def _cpu_us(broker: BrokerProcess, topic: str, count: int) -> float:
    """CPU of the broker for a message, from its sending to its pull, at the reference speed."""
    shot = broker.shot(topic, count, delay_ms=STEADY_DELAY_MS)
    with metered(broker) as meter, multiprocessing.Pool(2) as pool:
        pulled = pool.apply_async(pull, (shot, "bench", PULL_TIMEOUT))
        started = time.time()
        pool.apply_async(send, (shot,)).get()
        meter.seconds = pulled.get()[1] - started
    return float(meter.figure(topic, 0, count).facts["normal_cpu_us"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=PENDING)
    parser.add_argument("--count", type=int, default=MESSAGES)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    points = measure(args.most, args.count)
    report("pending_cost", {"messages": args.count, "points": points}, keep=args.keep)
