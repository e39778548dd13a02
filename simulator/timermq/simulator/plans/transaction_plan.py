"""Transactions in a plan: committed, rolled back, left open, and decided when the broker asks."""

from __future__ import annotations

from random import Random

import attrs

from ..scenario import Scenario
from ..steps import FIRST_TRANSACTION, QUEUES, TOPICS, ClientPlan, Decision, Item, Transact, When

SHARE = 0.4
"""Share of the plans whose clients have transactions."""
DELAYED_SHARE = 0.4
"""Share of the plans in which transactions may ask for a moment."""
AHEAD_MS = (0, 1, 500, 3_000, 25_000)
TRANSACTIONS_MAX = 12
"""How many transactions a client has at most."""


def with_transactions(scenario: Scenario) -> Scenario:
    """The plan, or the same with transactions among the steps of its clients.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"transactions of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= SHARE:
        return scenario
    clients = tuple(_with_some(draw, client) for client in scenario.clients)
    return attrs.evolve(scenario, clients=clients)


def _with_some(draw: Random, client: ClientPlan) -> ClientPlan:
    times = [step.at_ms for step in client.steps]
    chosen = draw.sample(times, min(len(times) // 4, draw.randint(0, TRANSACTIONS_MAX)))
    made = [
        Transact(
            at_ms=at_ms,
            item=Item(
                number=FIRST_TRANSACTION + 100 * client.number + nth,
                topic=draw.choice(TOPICS),
                queue_id=draw.randrange(QUEUES),
                body_size=draw.choice((8, 40, 600)),
            ),
            decision=(decision := draw.choice(list(Decision))),
            checked=draw.choice((Decision.COMMIT, Decision.ROLLBACK))
            if decision is Decision.UNKNOWN
            else decision,
        )
        for nth, at_ms in enumerate(sorted(chosen))
    ]
    steps = sorted((*client.steps, *made), key=lambda one: one.at_ms)
    return attrs.evolve(client, steps=tuple(steps))


def with_delayed_transactions(scenario: Scenario) -> Scenario:
    """The plan, or the same with moments for half of its transactions, counted from the commit.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"delayed transactions of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= DELAYED_SHARE:
        return scenario
    clients = tuple(
        attrs.evolve(
            client,
            steps=tuple(
                _delayed(draw, step) if isinstance(step, Transact) else step
                for step in client.steps
            ),
        )
        for client in scenario.clients
    )
    return attrs.evolve(scenario, clients=clients, delays_commits=True)


def _delayed(draw: Random, step: Transact) -> Transact:
    when = draw.choice((When.NOW, When.NOW, When.AT, When.DELAY, When.LEVEL))
    item = attrs.evolve(
        step.item,
        when=when,
        ahead_ms=draw.choice(AHEAD_MS) if when in (When.AT, When.DELAY) else 0,
        level=draw.randint(1, 4) if when is When.LEVEL else 0,
    )
    return attrs.evolve(step, item=item)
