"""Runs one plan to its outcome: in virtual time, with everything random taken from the seed.

trio shuffles the tasks that are ready; here it shuffles them by the seed. What the broker logs as
an error is a fault like any other, unless its process is being killed. So is a run that does not
come to its end, in virtual time or in the processor's.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import structlog
import trio
from structlog.typing import EventDict

from timermq.remoting.causes import causes

from .causes_in_words import in_words
from .final_check import EXPECTED_REASON
from .outcome import Outcome
from .recovery_rows import QUARANTINED, TIMERS
from .replicas.replica_scenario import ReplicaScenario
from .replicas.replica_world import ReplicaWorld
from .scenario import Scenario
from .staged.staged_time import StagedTime
from .world import World

PATIENCE_SECONDS = 30 * 86_400.0
"""Virtual seconds beyond a plan's duration; after them something waits for ever."""
CPU_SECONDS_MAX = 300.0
"""Seconds of the processor; after them something works for ever."""


MISREAD = "broken frame"
"""The event of a frame that no client here sends: the connection lost or invented bytes."""
CUT_OFF = "no room for"
"""Why a broker cuts off who does not read; here everybody does."""
TOLD_OF_FAULTS = frozenset({"clock is UNSAFE", "transaction discarded: not decided in time"})
"""Errors that a broker rightly logs of what was done to it."""


SKIPPED = "offsets of a queue skipped: its newest file does not tell its end"
"""A recovery's warning."""
GARBAGE_COUNT = 50_000
"""Objects between two looks for rings of them; Python's own 700 take a seventh of the time."""


class EndlessError(BaseException):
    """Something works for ever; no ``except Exception`` of the broker may take it."""


def simulate(scenario: Scenario | ReplicaScenario) -> Outcome:
    """Carry out a plan; the same plan has the same outcome, byte for byte."""
    clock = StagedTime()
    with seeded_scheduling(scenario.seed), rare_collecting(), _universal_time():
        world = World(scenario) if isinstance(scenario, Scenario) else ReplicaWorld(scenario)
        try:
            with _limited_processor():
                trio.run(_simulate, world, scenario.duration_ms, clock=clock)
        except BaseException as error:
            is_endless = any(isinstance(one, EndlessError) for one in causes(error))
            if not isinstance(error, Exception) and not is_endless:
                raise
            world.faults.append(f"the simulation did not end: {in_words(error)}")
    return world.judge(int(clock.current_time() * 1000))


async def _simulate(world: World | ReplicaWorld, duration_ms: int) -> None:
    with _logged_errors(world), trio.fail_after(duration_ms / 1000 + PATIENCE_SECONDS):
        await world.run()


@contextmanager
def _universal_time() -> Generator[None]:
    """Have local time be the same on every machine: cleaning has its hours."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


@contextmanager
def _limited_processor() -> Generator[None]:
    """End what works for ever; only in the main thread, where signals arrive."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise EndlessError(f"it took more than {CPU_SECONDS_MAX:g} seconds of the processor")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _logged_errors(world: World | ReplicaWorld) -> Generator[None]:
    """Errors that the broker logs are faults; recoveries and warnings are counted."""

    def complain(_logger: object, name: str, event: EventDict) -> EventDict:
        if "decision" in event:
            world.counts[f"{TIMERS}: {event['decision']}"] += 1
        elif event["event"] == "message quarantined":
            world.counts[f"{QUARANTINED}: {event['reason']}"] += 1
        elif event["event"] == SKIPPED:
            world.tell_skip(event["topic"], event["queue_id"], event["goes_on_at"])
        elif name != "info":
            world.counts[f"log: {event['event']}"] += 1
        is_expected = event["event"] in TOLD_OF_FAULTS or event.get("reason") == EXPECTED_REASON
        is_expected |= name == "error" and world.expects_error(event["event"])
        if event["event"] == MISREAD or CUT_OFF in str(event.get("reason", "")):
            world.complain(f"the broker ends a connection: {dict(event)}")
        if name == "error" and not world.is_dying and not is_expected:
            world.complain(f"the broker logs an error: {dict(event)}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.format_exc_info, complain],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def seeded_scheduling(seed: int) -> Generator[None]:
    """Have trio's scheduler decide by a seed, in the way that it has for Hypothesis.

    Otherwise it decides by chance, and by the order in which tasks happen to stand in memory.
    """
    scheduler: Any = importlib.import_module("trio._core._run")
    name = "_ALLOW_DETERMINISTIC_SCHEDULING"
    before, state = getattr(scheduler, name), scheduler._r.getstate()
    setattr(scheduler, name, True)
    scheduler._r.seed(seed)
    try:
        yield
    finally:
        setattr(scheduler, name, before)
        scheduler._r.setstate(state)


@contextmanager
def rare_collecting() -> Generator[None]:
    """Look for garbage less often: a run leaves little that only the collector finds."""
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_COUNT, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
