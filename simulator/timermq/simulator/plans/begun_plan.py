"""Stores that RocketMQ has begun: messages wait for classic levels, some of them are delivered."""

from __future__ import annotations

from random import Random

import attrs

from ..scenario import Begun, Scenario
from ..steps import FIRST_BEGUN, QUEUES, TOPICS, Item, When

SHARE = 0.2
"""Share of the plans that begin with such a store."""
ITEMS_MAX = 12
LEVELS = (1, 1, 2, 3, 4)


def with_begun_stores(scenario: Scenario) -> Scenario:
    """The plan, or the same over such a store.

    It is drawn from a generator of its own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"begun by rocketmq {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= SHARE:
        return scenario
    items = tuple(
        Item(
            number=FIRST_BEGUN + nth,
            topic=draw.choice(TOPICS),
            queue_id=draw.randrange(QUEUES),
            when=When.LEVEL,
            level=draw.choice(LEVELS),
            body_size=draw.choice((8, 40, 600)),
        )
        for nth in range(draw.randint(1, ITEMS_MAX))
    )
    arrived = draw.choice((0, 0, 1, 2))
    known = draw.choice((None, 0, arrived))
    return attrs.evolve(scenario, begun=Begun(items=items, arrived=arrived, known=known))
