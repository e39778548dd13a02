"""Makes a plan that breaks a promise smaller: fewer clients, faults, lives and steps, and shorter.

Whatever can be left out while the same promise stays broken is left out, the largest parts first.
The number of runs is bounded, not their time, so that a seed always shrinks to the same plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import attrs

from .replicas.replica_scenario import ReplicaScenario
from .scenario import NetworkPlan, Scenario
from .steps import ClientPlan, Send, Step

RUNS_MAX = 150
"""Runs that shrinking may take."""

T = TypeVar("T")
Plan = TypeVar("Plan", bound=Scenario | ReplicaScenario)


def kind_of(fault: str) -> str:
    """The identity of a fault: the promise's name, or the beginning of the words."""
    text = fault.partition(" s: ")[2] if fault.startswith("at ") else fault
    return " ".join(text.split()[: 1 if text.split()[0].isupper() else 4])


def shrink(
    scenario: Plan, still_fails: Callable[[Plan], bool], *, runs_max: int = RUNS_MAX
) -> Plan:
    """The smallest plan found that fails in the same way.

    Args:
        scenario: One that fails.
        still_fails: Runs a smaller one.
        runs_max: How often it may be called.
    """
    runs = 0
    smallest, found = scenario, True
    while found:
        found = False
        for smaller in _smaller_plans(smallest):
            if runs >= runs_max:
                return smallest
            runs += 1
            if still_fails(smaller):
                smallest, found = smaller, True
                break
    return smallest


def size_of(scenario: Scenario) -> int:
    """How much a plan holds: clients, lives, faults of the clock, and steps."""
    steps = sum(len(client.steps) for client in scenario.clients)
    disk = len(scenario.disk_faults) + len(scenario.full_disks) + len(scenario.cleanings_ms)
    disk += len(scenario.rots)
    rests = sum(life.rest is not None for life in scenario.lives)
    begun = 0 if scenario.begun is None else len(scenario.begun.items)
    others = len(scenario.clients) + len(scenario.lives) + len(scenario.clock_faults)
    return others + steps + disk + rests + begun


def _smaller_plans(plan: Plan) -> Iterator[Plan]:
    smaller = _smaller(plan) if isinstance(plan, Scenario) else _smaller_replicas(plan)
    yield from cast("Iterator[Plan]", smaller)


def _smaller_replicas(plan: ReplicaScenario) -> Iterator[ReplicaScenario]:
    """Plans of replicas with something left out."""
    for faults in _without(plan.faults):
        yield attrs.evolve(plan, faults=faults)
    if plan.network != NetworkPlan():
        yield attrs.evolve(plan, network=NetworkPlan())
    if any(plan.skews_ms):
        yield attrs.evolve(plan, skews_ms=(0,) * plan.brokers)
    if plan.sync_max_ms:
        yield attrs.evolve(plan, sync_max_ms=0)
    for clients in itertools.chain(_without(plan.clients), _fewer_steps(plan.clients)):
        yield attrs.evolve(plan, clients=clients)


def _fewer_steps(clients: tuple[ClientPlan, ...]) -> Iterator[tuple[ClientPlan, ...]]:
    """Fewer steps, or messages, of one of the clients."""
    for at, client in enumerate(clients):
        for steps in itertools.chain(_without(client.steps), _shorter_sends(client.steps)):
            yield (*clients[:at], attrs.evolve(client, steps=steps), *clients[at + 1 :])


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Plans with something left out, those with much left out first."""
    last_ms = max(
        [
            *(step.at_ms for client in scenario.clients for step in client.steps),
            *(life.end_ms for life in scenario.lives),
        ],
        default=0,
    )
    if last_ms + 1 < scenario.duration_ms:
        yield attrs.evolve(scenario, duration_ms=last_ms + 1)
    if scenario.network != NetworkPlan():
        yield attrs.evolve(scenario, network=NetworkPlan())
    if scenario.sync_max_ms:
        yield attrs.evolve(scenario, sync_max_ms=0)
    for clients in _without(scenario.clients):
        yield attrs.evolve(scenario, clients=clients)
    if not scenario.reserves_blocks:
        yield attrs.evolve(scenario, reserves_blocks=True)
    yield from _less_begun(scenario)
    for lives in _without(scenario.lives):
        yield attrs.evolve(scenario, lives=lives)
    yield from _plainer_lives(scenario)
    for faults in _without(scenario.clock_faults):
        yield attrs.evolve(scenario, clock_faults=faults)
    for disk_faults in _without(scenario.disk_faults):
        yield attrs.evolve(scenario, disk_faults=disk_faults)
    for full_disks in _without(scenario.full_disks):
        yield attrs.evolve(scenario, full_disks=full_disks)
    for rots in _without(scenario.rots):
        yield attrs.evolve(scenario, rots=rots)
    for cleanings_ms in _without(scenario.cleanings_ms):
        yield attrs.evolve(scenario, cleanings_ms=cleanings_ms)
    for clients in _fewer_steps(scenario.clients):
        yield attrs.evolve(scenario, clients=clients)


def _plainer_lives(scenario: Scenario) -> Iterator[Scenario]:
    """All lives with the plan's own settings, then each without what happens to the files."""
    plain = tuple(attrs.evolve(life, settings=None, is_repaired=False) for life in scenario.lives)
    if plain != scenario.lives:
        yield attrs.evolve(scenario, lives=plain)
    for at, life in enumerate(scenario.lives):
        if life.rest is not None:
            without = attrs.evolve(life, rest=None)
            lives = (*scenario.lives[:at], without, *scenario.lives[at + 1 :])
            yield attrs.evolve(scenario, lives=lives)


def _less_begun(scenario: Scenario) -> Iterator[Scenario]:
    """Less of what RocketMQ has left, or nothing at all."""
    begun = scenario.begun
    if begun is not None:
        yield attrs.evolve(scenario, begun=None)
        for items in filter(None, _without(begun.items)):
            yield attrs.evolve(scenario, begun=attrs.evolve(begun, items=items))


def _shorter_sends(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The steps with fewer messages in one of the sends."""
    for at, step in enumerate(steps):
        if isinstance(step, Send):
            for items in filter(None, _without(step.items)):
                yield (*steps[:at], attrs.evolve(step, items=items), *steps[at + 1 :])


def _without(parts: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """The parts without all, halves, quarters and so on of them, down to single ones."""
    size = len(parts)
    while size:
        for start in range(0, len(parts), size):
            yield (*parts[:start], *parts[start + size :])
        size //= 2
