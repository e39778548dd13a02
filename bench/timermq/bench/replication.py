"""What a follower costs its master, whether it keeps up, and how fast an empty one catches up.

Master, follower and load share this machine: the follower takes as much of it as the master. So the
rates are those of one broker's CPU, as in the other questions: of the master's, and of the
follower's where it catches up.
"""

from __future__ import annotations

import multiprocessing
import time
from functools import partial

import attrs

from .broker_process import broker_process
from .calibration import calibration
from .followed import (
    LOOK_SECONDS,
    followed_broker,
    progress_of,
    wait_level,
    wait_linked,
    wait_timers,
)
from .load import pull, send
from .measure import cpu_seconds
from .question import Figure, Load
from .rates import FAR_DELAY_MS, PULL_TIMEOUT, SYNC_MESSAGES, steady, sync_rate
from .server import free_port

COST_MAX = 25.0
"""Percent of the throughput that an asynchronous follower may take."""
SYNC_FLOOR = 15_000
BURST_MESSAGES = 1_000_000
BURST_SAMPLE = 50
"""This part of the burst is sent before, to learn how fast the machine loads it …"""
BURST_PATIENCE = 2.0
"""… and it is due when it could have been loaded so often."""
BURST_LEVEL_S = 1.0
"""Seconds after a burst until the follower has all of it."""
CATCH_UP_MESSAGES = 400_000
CATCH_UP_BODY = 1_024
CATCH_UP_FLOOR = 300.0
SYNC_SETTINGS = ("broker_role=SYNC_MASTER", "in_sync_replicas=2", "slave_timeout_ms=30000")


def replication(load: Load) -> list[Figure]:
    """Steady sends, answers that wait for a follower, a burst, and an empty follower."""
    awaited = sync_rate(
        load.messages(SYNC_MESSAGES // 3),
        partial(followed_broker, SYNC_SETTINGS),
        "sync replicated",
        SYNC_FLOOR,
    )
    return [*_cost(load), *awaited, _burst(load), _catch_up(load)]


def _cost(load: Load) -> list[Figure]:
    """Steady sends with a follower, and the part of the rate without one that it takes."""
    (alone,) = steady(load)
    (followed,) = steady(load, start=followed_broker)
    followed = attrs.evolve(followed, question="steady followed", floor=None)
    cost = Figure(
        question="replication cost",
        value=100 * (1 - followed.value / alone.value),
        unit="% of the throughput",
        floor=COST_MAX,
        facts={
            "cpu_us": followed.facts["cpu_us"],
            "alone_cpu_us": alone.facts["cpu_us"],
            "alone_calibration_ms": alone.facts["calibration_ms"],
            "calibration_ms": followed.facts["calibration_ms"],
        },
    )
    return [followed, cost]


def _burst(load: Load) -> Figure:
    """A burst of one instant: how long after its last message the follower has all of it."""
    with followed_broker() as master:
        workload = master.workload("BenchFollowedBurst", load.messages(BURST_MESSAGES))
        part = max(workload.count // BURST_SAMPLE, 1)
        sample = attrs.evolve(workload, topic="BenchSample", count=part, delay_ms=FAR_DELAY_MS)
        loading_s = BURST_PATIENCE * send(sample) * workload.count / part
        instant = time.time() + 3 + loading_s
        workload = attrs.evolve(workload, deliver_ms=int(instant * 1000))
        with multiprocessing.Pool(2) as pool:
            sent_s = pool.apply_async(send, (workload,)).get()
            loaded = wait_level(master)
            if time.time() > instant:
                raise RuntimeError("bench: loading took longer than expected, use a smaller count")
            pulled = pool.apply_async(
                pull, (workload, "bench", instant - time.time() + PULL_TIMEOUT)
            )
            arrived_at = pulled.get()[1]
            looked_at, left = time.time(), progress_of(master)
            level = wait_level(master)
            level_at = time.time()
        return Figure(
            question="burst followed",
            value=level_at - looked_at,
            unit="s behind",
            floor=BURST_LEVEL_S,
            facts={
                "messages": workload.count,
                "behind_bytes": left.behind or 0,
                "burst_mb": round((level.size - loaded.size) / 1e6),
                "per_second": round(workload.count / (arrived_at - instant)),
                "sent_per_second": round(workload.count / sent_s),
            },
        )


def _catch_up(load: Load) -> Figure:
    """What an empty follower copies with a second of its CPU, until it has the whole log.

    An empty broker's start costs as much CPU as the follower's: that of the master is left out.
    """
    with broker_process(settings=(f"ha_listen_port={free_port()}",)) as master:
        start_s = cpu_seconds(master.process_id)
        workload = master.workload(
            "BenchCatchUp",
            load.messages(CATCH_UP_MESSAGES),
            body_size=CATCH_UP_BODY,
            delay_ms=FAR_DELAY_MS,
        )
        send(workload)
        host, port = master.address
        master_s = cpu_seconds(master.process_id)
        with calibration() as calibrated, broker_process(follow=f"{host}:{port}") as follower:
            linked, linked_at = wait_linked(master), time.perf_counter()
            size = wait_level(master).size
            seconds = max(time.perf_counter() - linked_at, LOOK_SECONDS)
            cpu_s = max(cpu_seconds(follower.process_id) - start_s, LOOK_SECONDS)
            master_s = cpu_seconds(master.process_id) - master_s
            wait_timers(follower)
            ready_s = max(cpu_seconds(follower.process_id) - start_s, LOOK_SECONDS)
    per_byte = 1e9 / size
    return Figure(
        question="catch-up",
        value=1e3 / (cpu_s * per_byte * calibrated.share),
        unit="MB/core-s",
        floor=CATCH_UP_FLOOR,
        more_is_better=True,
        facts={
            "size_mb": round(size / 1e6),
            "seen_mb_per_second": round((linked.behind or 0) / 1e6 / seconds),
            "cpu_us": round(cpu_s * 1e6 / workload.count, 2),
            "cpu_s_per_gb": round(cpu_s * per_byte, 2),
            "timers_cpu_s_per_gb": round(ready_s * per_byte, 2),
            "master_cpu_s_per_gb": round(master_s * per_byte, 2),
            "calibration_ms": round(calibrated.ms, 2),
        },
    )
