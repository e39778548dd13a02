"""Operators that say that the wall clock is right, whether it is or not.

What is held back goes out then, and a wheel that a wrong clock took ahead is made anew.
"""

from __future__ import annotations

from random import Random

import attrs

from .clock_steps import SIZES_MS
from .scenario import Scenario
from .steps import AcceptClock

SHARE = 0.4
"""Share of the clock steps after which an operator accepts the clock."""
BEHIND_MS = (1, 60, 2_000, 60_000)
"""Milliseconds from the step to the operator's word."""


def with_accepted_clocks(scenario: Scenario) -> Scenario:
    """The plan, or the same with clocks that are accepted by the first client.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was. A clock
    that is wrong by years is not accepted: what waits by the other time would roll through them.
    """
    draw = Random(f"accepted clocks of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    is_far = any(abs(fault.step_ms) >= min(SIZES_MS) for fault in scenario.clock_faults)
    if is_far or not scenario.clients:
        return scenario
    accepted = [
        AcceptClock(at_ms=fault.at_ms + draw.choice(BEHIND_MS))
        for fault in scenario.clock_faults
        if fault.step_ms and draw.random() < SHARE
    ]
    first = scenario.clients[0]
    steps = sorted((*first.steps, *accepted), key=lambda one: one.at_ms)
    clients = (attrs.evolve(first, steps=tuple(steps)), *scenario.clients[1:])
    return attrs.evolve(scenario, clients=clients)
