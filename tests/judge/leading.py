"""Leads the lives of a seed: in virtual time, and with trio's choices taken from the seed too."""

from __future__ import annotations

import gc
import importlib
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import attrs
import trio
import trio.testing

from .lives import Lives
from .mortal_disk import Steps
from .setting import Fault

ALL = frozenset(Fault)


@attrs.frozen
class Outcome:
    """What came of a seed."""

    seed: int
    breaches: tuple[str, ...]
    history: tuple[str, ...]
    coverage: Counter[str]


@contextmanager
def seeded_scheduling(seed: int) -> Generator[None]:
    """Have trio choose among tasks that are ready by a seed, as it does for Hypothesis."""
    scheduler: Any = importlib.import_module("trio._core._run")
    switch = "_ALLOW_DETERMINISTIC_SCHEDULING"
    before, state = getattr(scheduler, switch), scheduler._r.getstate()
    setattr(scheduler, switch, True)
    scheduler._r.seed(seed)
    try:
        yield
    finally:
        setattr(scheduler, switch, before)
        scheduler._r.setstate(state)


@contextmanager
def rare_collecting() -> Generator[None]:
    """Look for garbage less often: lives leave little that only the collector finds."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def lead(seed: int, faults: frozenset[Fault] = ALL) -> Outcome:
    """Lead all lives of a seed; the same seed has the same history, byte for byte.

    Args:
        seed: Decides everything.
        faults: Faults that may come.
    """
    with seeded_scheduling(seed), rare_collecting():
        steps = Steps()
        clock = trio.testing.MockClock(autojump_threshold=0)
        lives = trio.run(_lead, seed, faults, steps, clock=clock, instruments=[steps])
    return Outcome(seed, tuple(lives.breaches), tuple(lives.history), lives.coverage)


async def _lead(seed: int, faults: frozenset[Fault], steps: Steps) -> Lives:
    lives = Lives(seed, faults, steps)
    await lives.run()
    if not lives.breaches:
        lives.judge_end()
    return lives
