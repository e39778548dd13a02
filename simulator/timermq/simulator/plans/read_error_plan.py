"""Reads that fail: of a log, a queue, a table, the wheel, at a start and while the broker runs."""

from __future__ import annotations

from random import Random

import attrs

from ..clock_steps import is_far_ahead
from ..disks.fault_plan import Operation
from ..scenario import DiskFault, Scenario

SHARE = 0.3
"""Share of the plans in which reads fail."""
TIMES_MAX = 3
BEFORE_END_MS = (0, 1, 50, 500)
"""Milliseconds from the fault to the end of a process: the next one meets it as it starts."""
SKIPS = (0, 1, 2, 5, 12, 30, 80)
"""How many reads succeed before one fails."""


def with_read_errors(scenario: Scenario) -> Scenario:
    """The plan, or the same with reads that fail.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"read errors of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    steps_ms = [step.at_ms for client in scenario.clients for step in client.steps]
    if not steps_ms or is_far_ahead(scenario) or draw.random() >= SHARE:
        return scenario
    faults = list(scenario.disk_faults)
    for _ in range(draw.randint(1, TIMES_MAX)):
        at_ms = draw.choice(steps_ms)
        if scenario.lives and draw.random() < 0.6:
            at_ms = max(draw.choice(scenario.lives).end_ms - draw.choice(BEFORE_END_MS), 0)
        faults.append(DiskFault(at_ms=at_ms, operation=Operation.READ, skip=draw.choice(SKIPS)))
    return attrs.evolve(scenario, disk_faults=tuple(sorted(faults, key=lambda one: one.at_ms)))
