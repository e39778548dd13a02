"""How many a second: at full speed, in a burst, and from many clients that wait for each answer."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import attrs

from .broker_process import broker_process
from .calibration import calibration
from .load import ping_pong, pull, send
from .measure import cpu_seconds, own_memory
from .question import Figure, Load, rate_figure
from .server import Server, Start

PULL_TIMEOUT = 60.0
STEADY_MESSAGES = 200_000
BURST_MESSAGES = 200_000
SYNC_MESSAGES = 60_000
STEADY_DELAY_MS = 1_000
"""Delay of each message in the steady questions."""
FAR_DELAY_MS = 3_600_000
"""Delay of messages that are only stored while they are measured."""
LOAD_RATE = 4_000
"""Messages a second that loading a burst is expected to reach at least."""
SYNC_CONNECTIONS = 50
METER_SECONDS = 0.2
"""How long before the instant of a burst measuring begins."""


def steady(load: Load, *, body_size: int = 128, start: Start = broker_process) -> list[Figure]:
    """Send at full speed with a delay of a second each, pulling what becomes due meanwhile."""
    with start() as server:
        count = load.messages(STEADY_MESSAGES)
        workload = server.workload(
            "BenchSteady", count, body_size=body_size, delay_ms=STEADY_DELAY_MS
        )
        with metered(server) as meter, multiprocessing.Pool(2) as pool:
            pulled = pool.apply_async(pull, (workload, "bench", PULL_TIMEOUT))
            started = time.time()
            sending = pool.apply_async(send, (workload,)).get()
            meter.seconds = pulled.get()[1] - started - STEADY_DELAY_MS / 1000
        name, floor = ("steady", 60_000) if body_size == 128 else (f"steady {body_size} B", 40_000)
        figure = meter.figure(name, floor, workload.count)
        figure.facts["sent_per_second"] = round(count / sending)
        return [figure]


def steady_large(load: Load) -> list[Figure]:
    """The same with bodies of a KiB."""
    return steady(load, body_size=1_024)


def burst(
    load: Load, *, start: Start = broker_process, load_rate: float = LOAD_RATE
) -> list[Figure]:
    """Everything due at one instant, a consumer waiting; from that instant to the last arrival."""
    with start() as server:
        workload = server.workload("BenchBurst", load.messages(BURST_MESSAGES))
        instant_ms = int((time.time() + 3 + workload.count / load_rate) * 1000)
        workload = attrs.evolve(workload, deliver_ms=instant_ms)
        # Where delays have a step, what it makes due before the instant is part of the burst.
        early = METER_SECONDS + (workload.dialect.delay_step_ms - 1) / 1000
        with multiprocessing.Pool(2) as pool:
            pool.apply_async(send, (workload,)).get()
            with metered(server) as meter:
                if time.time() > instant_ms / 1000 - early - 0.5:
                    raise RuntimeError(
                        "bench: loading took longer than expected, use a smaller count"
                    )
                pulled = pool.apply_async(pull, (workload, "bench", PULL_TIMEOUT))
                time.sleep(instant_ms / 1000 - early - time.time())
                meter.begin()
                meter.seconds = pulled.get()[1] - instant_ms / 1000
        return [meter.figure("burst", 200_000, workload.count)]


def sync(load: Load, *, start: Start = broker_process) -> list[Figure]:
    """Fifty connections that wait for each answer before they send the next message."""
    return sync_rate(load.messages(SYNC_MESSAGES), start, "sync", 25_000)


def sync_flushed(load: Load) -> list[Figure]:
    """The same, each answer after its message is on the disk."""
    start = partial(broker_process, "SYNC_FLUSH")
    return sync_rate(load.messages(SYNC_MESSAGES // 3), start, "sync flushed", 8_000)


def sync_rate(count: int, start: Start, name: str, floor: float | None) -> list[Figure]:
    """Fifty connections that wait for each answer, of a server that ``start`` starts."""
    with start() as server:
        workload = server.workload(
            "BenchSync", count, delay_ms=FAR_DELAY_MS, connections=SYNC_CONNECTIONS
        )
        with metered(server) as meter, multiprocessing.Pool(1) as pool:
            meter.seconds = pool.apply_async(ping_pong, (workload,)).get()
        return [meter.figure(name, floor, workload.count)]


class Meter:
    """CPU of a broker, and the calibration meanwhile.

    Args:
        process_id: The broker.
    """

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._begun_at = 0.0
        self.seconds = 0.0
        """Duration of the question, by the wall clock."""
        self.cpu_seconds = 0.0
        self.calibration_ms = 0.0
        self.memory = 0

    def begin(self) -> None:
        """Begin to count; earlier use is left out."""
        self._begun_at = cpu_seconds(self._process_id)

    def end(self) -> None:
        """Stop counting; later use is left out."""
        self.cpu_seconds = cpu_seconds(self._process_id) - self._begun_at
        self.memory = own_memory(self._process_id)

    def figure(self, question: str, floor: float | None, messages: int) -> Figure:
        """The answer as ``rate_figure`` makes it, with the broker's memory."""
        figure = rate_figure(
            question,
            floor=floor,
            messages=messages,
            seconds=self.seconds,
            cpu_seconds=self.cpu_seconds,
            calibration_ms=self.calibration_ms,
        )
        figure.facts["own_memory"] = self.memory
        return figure


@contextmanager
def metered(server: Server) -> Generator[Meter]:
    """Measure what a server uses during a block, which says how long it took."""
    meter = Meter(server.process_id)
    with calibration() as calibrated:
        meter.begin()
        yield meter
        meter.end()
    meter.calibration_ms = calibrated.ms
