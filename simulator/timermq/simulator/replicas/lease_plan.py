"""Draws what a lease adds to a plan for replicas: its times, faults of its engine, more events."""

from __future__ import annotations

from random import Random

import attrs

from .replica_scenario import Blow, LeasePlan, ReplicaFault, ReplicaScenario

EVENTS_MAX = 4
"""Events of one plan that are the lease's."""
_TIMES_MS = ((2_000, 200), (4_000, 500), (10_000, 1_000))
"""How long a lease holds, and the margin of its holder."""
_DOWN_MS = (300, 2_000, 6_000, 15_000, 40_000)
_APART = 0.8
"""Share of the margin that clocks of two brokers may differ by in the time of a lease."""


def with_lease(plan: ReplicaScenario) -> ReplicaScenario:
    """The plan of a seed with a lease in the operator's place; all that is acknowledged counts."""
    draw = Random(f"lease of {plan.seed} {plan.brokers}")  # noqa: S311 - a plan, not a secret
    ttl_ms, margin_ms = draw.choice(_TIMES_MS)
    faults = [_without_operator(one) for one in plan.faults]
    times = [step.at_ms for client in plan.clients for step in client.steps] or [0]
    faults += [_draw_event(draw, times) for _ in range(draw.randint(1, EVENTS_MAX))]
    off = _APART * margin_ms / ttl_ms / 2
    return attrs.evolve(
        plan,
        is_confirmed=True,
        faults=tuple(sorted(faults, key=lambda one: one.at_ms)),
        lease=LeasePlan(
            ttl_ms=ttl_ms,
            margin_ms=margin_ms,
            rates=tuple(draw.choice((1.0, 1 - off, 1 + off)) for _ in range(plan.brokers)),
            slow=draw.choice((0.0, 0.05, 0.2)),
            slow_max_ms=draw.choice((200, ttl_ms, 3 * ttl_ms)),
            lost=draw.choice((0.0, 0.02, 0.08)),
        ),
    )


def _draw_event(draw: Random, times: list[int]) -> ReplicaFault:
    """An event at the time of a request."""
    return ReplicaFault(
        at_ms=max(draw.choice(times) + draw.randint(-20, 2_000), 0),
        blow=draw.choice((Blow.AWAY, Blow.PARTED, Blow.PARTED, Blow.SPLIT)),
        hits_master=draw.random() < 0.7,
        count=draw.randrange(10),
        down_ms=draw.choice(_DOWN_MS),
    )


def _without_operator(fault: ReplicaFault) -> ReplicaFault:
    """The event with a stop in place of a planned switch, which a lease does by itself."""
    if fault.blow is not Blow.DEMOTE:
        return fault
    return attrs.evolve(fault, blow=Blow.STOP, hits_master=True)
