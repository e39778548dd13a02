"""Leads the lives of a seed: in virtual time, and with trio's choices taken from the seed too."""

from __future__ import annotations

from collections import Counter

import attrs
import trio
import trio.testing

from timermq.simulator.run import rare_collecting, seeded_scheduling

from .histories import Lives
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
