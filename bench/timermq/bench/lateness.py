"""How late: messages at arbitrary milliseconds, on their own and beside a burst.

Lateness is what a consumer sees: from the moment asked for to the arrival of the pull that brings
the message. What the machine itself does to a sleeper is measured in the same run, by a process
that only sleeps until random moments.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from functools import partial

import attrs
import numpy as np
import trio

from .broker_process import broker_process
from .load import arrivals, pull, send, send_paced
from .question import Figure, Load
from .rates import LOAD_RATE, PULL_TIMEOUT
from .server import Start

RATE = 2_000
"""Messages a second of the lateness question."""
DELAY_MS = (100, 10_000)
"""Shortest and longest delay."""
SECONDS = 20.0
NEIGHBOUR_RATE = 200
NEIGHBOUR_SECONDS = 15.0
CROWD = 100_000
WINDOW_MS = 250
"""For so long after its instant a burst has neighbours, however soon it is drained."""
SLEEPERS = 500
OVER_SLEEP_MS = 10.0
"""By how much p99 may be above that of a bare sleeper."""
NEIGHBOUR_MS = 250.0


def lateness(load: Load, *, start: Start = broker_process) -> list[Figure]:
    """Random delays at 2,000 a second, beside sleepers that do nothing else."""
    seconds = load.seconds(SECONDS)
    with start() as server, multiprocessing.Pool(3) as pool:
        workload = server.workload("BenchLateness", int(RATE * seconds))
        sleeping = pool.apply_async(sleep_lateness, (seconds + DELAY_MS[1] / 1000,))
        arriving = pool.apply_async(arrivals, (workload, "bench", PULL_TIMEOUT))
        pool.apply_async(send_paced, (workload, RATE, DELAY_MS)).get()
        late_ms = _late_ms(arriving.get())
        slept_ms = np.array(sleeping.get())
    p50, p99 = np.percentile(late_ms, (50, 99))
    sleep_p99 = float(np.percentile(slept_ms, 99))
    return [
        Figure(
            question="lateness",
            value=float(p99) - sleep_p99,
            unit="ms p99 over a sleeper",
            floor=OVER_SLEEP_MS,
            facts={
                "messages": len(late_ms),
                "p50_ms": round(float(p50), 2),
                "p99_ms": round(float(p99), 2),
                "max_ms": round(float(late_ms.max()), 2),
                "sleeper_p99_ms": round(sleep_p99, 2),
            },
        ),
        Figure(question="early", value=int((late_ms < 0).sum()), unit="messages", floor=0),
    ]


def neighbours(
    load: Load, *, start: Start = broker_process, load_rate: float = LOAD_RATE
) -> list[Figure]:
    """Messages of another topic while a burst of 100,000 drains."""
    with start() as server, multiprocessing.Pool(4) as pool:
        count = load.messages(CROWD)
        seconds = load.seconds(NEIGHBOUR_SECONDS)
        crowd = server.workload("BenchCrowd", count)
        other = server.workload("BenchNeighbour", int(NEIGHBOUR_RATE * seconds))
        instant_ms = int((time.time() + 3 + seconds / 3 + count / load_rate) * 1000)
        crowd = attrs.evolve(crowd, deliver_ms=instant_ms)
        pool.apply_async(send, (crowd,)).get()
        pulled = pool.apply_async(pull, (crowd, "bench", PULL_TIMEOUT))
        arriving = pool.apply_async(arrivals, (other, "bench", PULL_TIMEOUT))
        time.sleep(max(instant_ms / 1000 - seconds / 3 - time.time(), 0))
        pool.apply_async(send_paced, (other, NEIGHBOUR_RATE, (100, 2_000))).get()
        drained = pulled.get()[1]
        rows = np.array(arriving.get())
    end_ms = max(drained * 1000, instant_ms + WINDOW_MS)
    during = rows[(rows[:, 0] >= instant_ms) & (rows[:, 0] <= end_ms)]
    late_ms = during[:, 1] - during[:, 0]
    if not len(late_ms):
        raise RuntimeError("bench: no neighbour was due while the burst drained")
    return [
        Figure(
            question="neighbours of a burst",
            value=float(np.percentile(late_ms, 99)),
            unit="ms p99",
            floor=NEIGHBOUR_MS,
            facts={
                "burst": count,
                "drained_seconds": round(drained - instant_ms / 1000, 3),
                "neighbours": len(late_ms),
                "p50_ms": round(float(np.percentile(late_ms, 50)), 2),
                "max_ms": round(float(late_ms.max()), 2),
            },
        )
    ]


def sleep_lateness(seconds: float) -> list[float]:
    """Milliseconds by which bare ``trio.sleep_until`` is late, for random moments."""
    return trio.run(partial(_sleep, seconds))


async def _sleep(seconds: float) -> list[float]:
    late_ms: list[float] = []
    draw = random.Random(7)  # noqa: S311 - a load, not a secret
    ends = trio.current_time() + seconds

    async def sleeper() -> None:
        while (moment := trio.current_time() + draw.uniform(0.1, 10.0)) < ends:
            await trio.sleep_until(moment)
            late_ms.append((trio.current_time() - moment) * 1000)

    async with trio.open_nursery() as nursery:
        for _ in range(SLEEPERS):
            nursery.start_soon(sleeper)
    return late_ms


def _late_ms(rows: list[tuple[int, float]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([arrived - deliver for deliver, arrived in rows], np.float64)
