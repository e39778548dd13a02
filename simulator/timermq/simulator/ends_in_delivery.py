"""Ends while a message leaves: it is cancelled as its slot is open, or the clock goes back then.

What is decided in that second stands in memory alone until a checkpoint has passed it. So these
lives are short, save often, and end some milliseconds behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import attrs

from .clock_steps import is_far_ahead
from .process_disk import Place
from .scenario import ClockFault, EndKind, Life, Scenario, Trigger
from .steps import Cancel, ClientPlan, Item, Move, Send, Step, When

SHARE = 0.3
"""Share of the plans with ends that have such ends too."""
ENDS_MAX = 3
LEAD_MS = 4_000
"""Milliseconds before the message is due, at which a process of its own begins."""
ASKED_MS = (5, 50, 300, 900)
"""Milliseconds before the message is due, at which it is cancelled or moved."""
STEPPED_MS = (0, 1, 5, 20)
"""Milliseconds after its moment, or after the start of a process that finds it overdue, at which
the clock goes back."""
BEHIND_MS = (30, 80, 250, 700)
"""Milliseconds from there to the end of the process."""


def with_ends_in_delivery(scenario: Scenario, kinds: Sequence[EndKind], *, steps: bool) -> Scenario:
    """The plan, or the same with such ends.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.

    Args:
        scenario: The plan.
        kinds: How lives may end.
        steps: Whether the clock may go wrong; by years ahead it is when nothing else happens.
    """
    draw = Random(f"sharp ends of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    sent = _waiting(scenario)
    if is_far_ahead(scenario) or not kinds or not sent or draw.random() >= SHARE:
        return scenario
    lives, faults, asked = list(scenario.lives), list(scenario.clock_faults), list[Step]()
    for due_ms, item in draw.sample(sent, min(len(sent), draw.randint(1, ENDS_MAX))):
        down_ms = 0
        if steps and draw.random() < 0.5:
            # It is due while a process runs, or overdue when one starts.
            down_ms = draw.choice((0, LEAD_MS + 2_000))
            at_ms = max(due_ms - LEAD_MS + down_ms, due_ms) + draw.choice(STEPPED_MS)
            back_ms = draw.choice((10, 999, 2_000, 20_000))
            faults.append(ClockFault(at_ms=at_ms, step_ms=-back_ms))
            faults.append(ClockFault(at_ms=at_ms + 10 * back_ms, step_ms=back_ms))
        else:
            at_ms = max(due_ms - draw.choice(ASKED_MS), 0)
            asked.append(_draw_request(draw, item, at_ms))
        lives.append(Life(end_ms=max(due_ms - LEAD_MS, 0), kind=EndKind.STOP, down_ms=down_ms))
        lives.append(_draw_end(draw, at_ms + draw.choice(BEHIND_MS), kinds))
    return attrs.evolve(
        scenario,
        lives=tuple(sorted(lives, key=lambda life: life.end_ms)),
        clock_faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        clients=(*scenario.clients[:-1], _with_steps(scenario.clients[-1], asked)),
    )


def _waiting(scenario: Scenario) -> list[tuple[int, Item]]:
    """Messages that wait for some seconds, with their moments."""
    return [
        (step.at_ms + item.ahead_ms, item)
        for client in scenario.clients
        for step in client.steps
        if isinstance(step, Send)
        for item in step.items
        if item.when in (When.AT, When.DELAY)
        and 1_000 <= item.ahead_ms <= 60_000
        and step.at_ms + item.ahead_ms < scenario.duration_ms
    ]


def _draw_request(draw: Random, item: Item, at_ms: int) -> Step:
    if draw.random() < 0.7:
        return Cancel(at_ms=at_ms, number=item.number, topic=item.topic)
    ahead_ms = draw.choice((0, 100, 5_000))
    return Move(at_ms=at_ms, number=item.number, topic=item.topic, ahead_ms=ahead_ms)


def _draw_end(draw: Random, end_ms: int, kinds: Sequence[EndKind]) -> Life:
    return Life(
        end_ms=end_ms,
        kind=draw.choice(kinds),
        trigger=draw.choice((Trigger.TIME, Trigger.TIME, Trigger.AWAIT, Trigger.DISK)),
        count=draw.choice((1, 2, 5, 20)),
        place=draw.choice(list(Place)),
        torn=draw.getrandbits(32),
        down_ms=draw.choice((0, 1, 900)),
        saving_ms=draw.choice((10, 50, 200)),
    )


def _with_steps(client: ClientPlan, steps: list[Step]) -> ClientPlan:
    return attrs.evolve(
        client, steps=tuple(sorted((*client.steps, *steps), key=lambda step: step.at_ms))
    )
