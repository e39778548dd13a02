"""Records that no timer can be made of in a plan, and what is decided about them."""

from __future__ import annotations

from random import Random

import attrs

from ..scenario import Scenario
from ..steps import FIRST_POISON, QUEUES, TOPICS, ClientPlan, Item, Poison, Release

SHARE = 0.25
"""Share of the plans that have such records."""
POISONS_MAX = 5
"""How many such records a client has at most."""
AHEAD_MS = (-5_000, 0, 2_000, 20_000)


def with_poison(scenario: Scenario) -> Scenario:
    """The plan, or the same with such records among the steps of its first client.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"poison of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= SHARE or not scenario.clients:
        return scenario
    return attrs.evolve(
        scenario, clients=(_with_some(draw, scenario.clients[0]), *scenario.clients[1:])
    )


def _with_some(draw: Random, client: ClientPlan) -> ClientPlan:
    times = sorted(step.at_ms for step in client.steps)
    chosen = draw.sample(times, min(len(times), draw.randint(1, POISONS_MAX)))
    poisons = [
        Poison(
            at_ms=at_ms,
            item=Item(
                number=FIRST_POISON + nth,
                topic=draw.choice(TOPICS),
                queue_id=draw.randrange(QUEUES),
                ahead_ms=draw.choice(AHEAD_MS),
            ),
        )
        for nth, at_ms in enumerate(sorted(chosen))
    ]
    behind = [at_ms for at_ms in times if at_ms > min(chosen, default=0)]
    releases = [
        Release(at_ms=at_ms, drops=draw.random() < 0.3)
        for at_ms in draw.sample(behind, min(len(behind), draw.randint(0, 4)))
    ]
    steps = sorted((*client.steps, *poisons, *releases), key=lambda one: one.at_ms)
    return attrs.evolve(client, steps=tuple(steps))
