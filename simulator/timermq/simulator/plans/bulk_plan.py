"""Bulk jobs in a plan: run again by others, with the same rows or other ones, near ends of life."""

from __future__ import annotations

from random import Random

import attrs

from ..clock_steps import is_far_ahead
from ..scenario import Scenario
from ..steps import FIRST_ROW, QUEUES, ROWS_MAX, TOPICS, Item, Schedule, Step, When

SHARE = 0.25
"""Share of the plans that have bulk jobs."""
JOBS_MAX = 2
RUNS_MAX = 4
"""How often a job runs at most. At the end of the plan it runs once more."""
OTHERS_SHARE = 0.3
"""Share of the runs that bring other rows under the same name."""
BEFORE_END_MS = (0, 1, 3, 10, 40, 200)
"""Milliseconds from the beginning of a run to the end of a process."""


def with_bulk_jobs(scenario: Scenario) -> Scenario:
    """The plan, or the same with such jobs among the steps of its clients.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was. Where a
    clock is ahead by years nothing else happens.
    """
    draw = Random(f"bulk jobs of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    times = [step.at_ms for client in scenario.clients for step in client.steps]
    if not times or is_far_ahead(scenario) or draw.random() >= SHARE:
        return scenario
    added: list[list[Step]] = [[] for _ in scenario.clients]
    for job in range(draw.randint(1, JOBS_MAX)):
        rows = [_draw_rows(draw, scenario, job, variant) for variant in (0, 1)]
        for _ in range(draw.randint(1, RUNS_MAX)):
            at_ms = draw.choice(times)
            if scenario.lives and draw.random() < 0.5:
                at_ms = max(draw.choice(scenario.lives).end_ms - draw.choice(BEFORE_END_MS), 0)
            variant = int(draw.random() < OTHERS_SHARE)
            run = Schedule(at_ms=at_ms, job=f"J{job}", variant=variant, rows=rows[variant])
            draw.choice(added).append(run)
    clients = tuple(
        attrs.evolve(
            client, steps=tuple(sorted((*client.steps, *runs), key=lambda step: step.at_ms))
        )
        for client, runs in zip(scenario.clients, added, strict=True)
    )
    return attrs.evolve(scenario, clients=clients)


def _draw_rows(draw: Random, scenario: Scenario, job: int, variant: int) -> tuple[Item, ...]:
    longest_ms = scenario.timer.timer_max_delay_sec * 1000
    near_ms = min(4 * scenario.timer.roll_window_ms, longest_ms)
    topic = draw.choice(TOPICS)
    first = FIRST_ROW + 2 * ROWS_MAX * job + ROWS_MAX * variant
    return tuple(
        Item(
            number=first + nth,
            topic=topic,
            queue_id=draw.randrange(QUEUES),
            when=draw.choice((When.NOW, When.AT, When.AT)),
            # The last one is later than the wheel takes, at any time of the plan.
            ahead_ms=draw.choice((0, 1, 700, near_ms, near_ms // 2, 2 * longest_ms + 10**9)),
            body_size=draw.choice((8, 40, 600)),
        )
        for nth in range(draw.choice((1, 3, 10, 40)))
    )
