"""Does a message cost more while millions wait?

Timers are appended to a log and linked into slots, so it should not: expected is a flat line from
ten thousand to ten million, in CPU a message as in memory. At each point the same store is filled
up, a broker opened on it, and 20,000 messages with a delay of a second sent and pulled; the median
of the rounds is kept, scaled to the reference machine. Then a thousand of those that wait,
spread over all of them, are cancelled by their unique keys, and as many keys asked for that no
message has.

Run: ``python perf/bench_pending_cost.py [--most N] [--count N] [--keep]``; what is kept
``pictures.py`` draws. Ten million take five minutes to fill and 8 GB of disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import sys
import time
from collections.abc import Iterable

import trio
from result_files import report
from served import answered

from timermq.bench.broker_process import BrokerProcess, broker_process
from timermq.bench.idle_cost import PENDING, fill
from timermq.bench.load import pull, send
from timermq.bench.measure import own_memory
from timermq.bench.rates import PULL_TIMEOUT, STEADY_DELAY_MS, metered
from timermq.remoting import Command, RequestCode
from timermq.remoting.connection import encode_frame

FEWEST = 10_000
MESSAGES = 20_000
ROUNDS = 5
CANCELS = 1_000
NO_MESSAGE = 1 << 40
"""From here on no message has the number."""


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
                    "cancel_us": round(_cancel_us(broker, _spread(pending), "cancelled"), 2),
                    "cancel_nothing_us": round(
                        _cancel_us(broker, range(NO_MESSAGE, NO_MESSAGE + CANCELS), "not_found"), 2
                    ),
                    "own_memory_mib": round(own_memory(broker.process_id) / (1 << 20), 1),
                    "ready_seconds": round(broker.ready_seconds, 2),
                }
            )
            print(points[-1], file=sys.stderr, flush=True)
            broker.stop()
    return points


def _cpu_us(broker: BrokerProcess, topic: str, count: int) -> float:
    """CPU of the broker for a message, from its sending to its pull, at the reference speed."""
    workload = broker.workload(topic, count, delay_ms=STEADY_DELAY_MS)
    with metered(broker) as meter, multiprocessing.Pool(2) as pool:
        pulled = pool.apply_async(pull, (workload, "bench", PULL_TIMEOUT))
        started = time.time()
        pool.apply_async(send, (workload,)).get()
        meter.seconds = pulled.get()[1] - started
    return float(meter.figure(topic, 0, count).facts["normal_cpu_us"])


def _spread(pending: int) -> range:
    """Numbers of pending messages, none of which was taken at a point before."""
    first = len(str(pending))
    step = pending // CANCELS
    return range(first, first + step * CANCELS, step)


def _cancel_us(broker: BrokerProcess, numbers: Iterable[int], verdict: str) -> float:
    """CPU of the broker for the cancel of a message, one after another, at the reference speed."""
    with metered(broker) as meter, socket.create_connection(broker.address) as client:
        started = time.time()
        for opaque, number in enumerate(numbers):
            ext = {"topic": "BenchPending", "uniqueKey": f"{number:032X}"}
            command = Command(RequestCode.CANCEL_MESSAGE, opaque=opaque, ext=ext)
            answer = answered(client, encode_frame(command))
            found = answer.ext.get("verdict", answer.remark)
            if found != verdict:
                raise RuntimeError(f"message {number}: expected {verdict}, found {found}")
        meter.seconds = time.time() - started
    return float(meter.figure("cancel", 0, CANCELS).facts["normal_cpu_us"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=PENDING)
    parser.add_argument("--count", type=int, default=MESSAGES)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    points = measure(args.most, args.count)
    report("pending_cost", {"messages": args.count, "points": points}, keep=args.keep)
