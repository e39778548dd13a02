"""trio's choices taken from a seed, for runs that are to be the same byte for byte."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

GARBAGE_COUNT = 50_000
"""Objects between two looks for rings of them; Python's own 700 take a seventh of the time."""


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
