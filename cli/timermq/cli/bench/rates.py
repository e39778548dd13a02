"""How many a second: at full speed, in a burst, and from many clients that wait for each answer."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Generator
from contextlib import contextmanager

import attrs

from .broker_process import BrokerProcess, broker_process
from .load import Shot, ping_pong, pull, send
from .measure import calibrate, cpu_seconds, own_memory
from .question import Figure, Load, rate_figure

PULL_TIMEOUT = 60.0
STEADY_DELAY_MS = 1_000
"""Delay of each message in the steady questions."""
FAR_DELAY_MS = 3_600_000
"""Delay of messages that are only stored while they are measured."""
LOAD_RATE = 4_000
"""Messages a second that loading a burst is expected to reach at least."""
SYNC_CONNECTIONS = 50


def steady(load: Load, *, body_size: int = 128) -> list[Figure]:
    """Send at full speed with a delay of a second each, pulling what becomes due meanwhile."""
    with broker_process() as broker:
        shot = Shot(
            address=broker.address,
            topic="BenchSteady",
            count=load.messages(200_000),
            body_size=body_size,
            delay_ms=STEADY_DELAY_MS,
            skip=1,
        )
        make_topic(shot)
        with _metered(broker) as meter, multiprocessing.Pool(2) as pool:
            pulled = pool.apply_async(pull, (shot, "bench", PULL_TIMEOUT))
            started = time.time()
            pool.apply_async(send, (shot,)).get()
            meter.seconds = pulled.get()[1] - started - STEADY_DELAY_MS / 1000
        name, floor = ("steady", 60_000) if body_size == 128 else (f"steady {body_size} B", 40_000)
        return [meter.figure(name, floor, shot.count)]


def steady_large(load: Load) -> list[Figure]:
    """The same with bodies of a KiB."""
    return steady(load, body_size=1_024)


def burst(load: Load) -> list[Figure]:
    """Everything due at one instant, a consumer waiting; from that instant to the last arrival."""
    with broker_process() as broker:
        shot = Shot(
            address=broker.address,
            topic="BenchBurst",
            count=load.messages(200_000),
            body_size=128,
            skip=1,
        )
        make_topic(shot)
        instant_ms = int((time.time() + 3 + shot.count / LOAD_RATE) * 1000)
        shot = attrs.evolve(shot, deliver_ms=instant_ms)
        with multiprocessing.Pool(2) as pool:
            pool.apply_async(send, (shot,)).get()
            if time.time() * 1000 > instant_ms - 1000:
                raise RuntimeError("bench: loading took longer than expected, use a smaller count")
            pulled = pool.apply_async(pull, (shot, "bench", PULL_TIMEOUT))
            time.sleep(instant_ms / 1000 - 0.2 - time.time())
            with _metered(broker) as meter:
                meter.seconds = pulled.get()[1] - instant_ms / 1000
        return [meter.figure("burst", 200_000, shot.count)]


def sync(load: Load, *, flush: str = "ASYNC_FLUSH") -> list[Figure]:
    """Fifty connections that wait for each answer before they send the next message."""
    with broker_process(flush) as broker:
        shot = Shot(
            address=broker.address,
            topic="BenchSync",
            count=load.messages(60_000 if flush == "ASYNC_FLUSH" else 20_000),
            body_size=128,
            delay_ms=FAR_DELAY_MS,
            connections=SYNC_CONNECTIONS,
        )
        make_topic(shot)
        with _metered(broker) as meter, multiprocessing.Pool(1) as pool:
            meter.seconds = pool.apply_async(ping_pong, (shot,)).get()
        name, floor = ("sync", 25_000) if flush == "ASYNC_FLUSH" else ("sync flushed", 8_000)
        return [meter.figure(name, floor, shot.count)]


def sync_flushed(load: Load) -> list[Figure]:
    """The same, each answer after its message is on the disk."""
    return sync(load, flush="SYNC_FLUSH")


def make_topic(shot: Shot) -> None:
    """One message makes the topic with its queues; its pull leaves it behind."""
    one = attrs.evolve(shot, count=shot.queue_count, delay_ms=1, deliver_ms=0, skip=0)
    send(attrs.evolve(one, connections=1))
    pull(one, "bench-warm", PULL_TIMEOUT)


class _Meter:
    """CPU of a broker, and the calibration before and after."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """What the question took, by the wall clock."""
        self.cpu_seconds = 0.0
        self.calibration_ms = 0.0
        self.memory = 0

    def figure(self, question: str, floor: float, messages: int) -> Figure:
        """The answer."""
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
def _metered(broker: BrokerProcess) -> Generator[_Meter]:
    meter = _Meter()
    before_ms, before_cpu = calibrate(), cpu_seconds(broker.process_id)
    yield meter
    meter.cpu_seconds = cpu_seconds(broker.process_id) - before_cpu
    meter.calibration_ms = (before_ms + calibrate()) / 2
    meter.memory = own_memory(broker.process_id)
