"""Draws a seed into a plan for replicas: clients as one broker has them, and what befalls them."""

from __future__ import annotations

from random import Random

import attrs

from ..plans.base_plan import DAY_MS, draw_base
from ..process_disk import Place
from ..scenario import FaultKind, Scenario, Trigger
from ..steps import ClientPlan, LookUp, Move, Send, Step
from .lease_plan import with_lease
from .replica_scenario import Blow, ReplicaFault, ReplicaScenario

FAULTS_MAX = 6
"""Events of one plan."""
AHEAD_MAX_MS = 600_000
"""How far ahead messages ask for a moment: replicas have much to say to each other meanwhile."""
ROLLS_AHEAD_MAX_MS = 1_200_000
"""… and where the wheel may be too short for that."""
SLOTS, WINDOW = 7_200, 900
"""Of a wheel that holds all."""
_ROLLING = (2, 3)
"""Of five seeds those whose messages may go round the wheel."""
_SKEWS_MS = (0, 0, 1, -40, 400, -900)
_BLOWS = (
    Blow.KILL, Blow.KILL, Blow.KILL, Blow.POWER, Blow.DISK, Blow.STOP, Blow.CUT, Blow.SILENCE,
    Blow.SPLIT, Blow.DEMOTE,
)  # fmt: skip


def draw_replicas(
    seed: int,
    *,
    brokers: int = 2,
    days: float = 1.0,
    rolls: bool | None = None,
    has_lease: bool = False,
) -> ReplicaScenario:
    """The plan of a seed.

    Args:
        seed: Decides everything.
        brokers: Two or three.
        days: Virtual days; it goes on until everything has arrived.
        rolls: Whether the wheel may be too short for the delays, so that messages go round; None:
            the seed decides.
        has_lease: Whether a lease says who leads, in place of an operator.
    """
    draw = Random(f"replicas of {seed}")  # noqa: S311 - a plan, not a secret
    base = draw_base(seed, int(days * DAY_MS), frozenset({FaultKind.NETWORK}))
    is_confirmed = draw.random() < 0.6
    rolls = seed % 5 in _ROLLING if rolls is None else rolls
    ahead_max_ms = ROLLS_AHEAD_MAX_MS if rolls else AHEAD_MAX_MS
    wheel = base.timer
    if not rolls:
        wheel = attrs.evolve(wheel, slots_total=SLOTS, timer_roll_window_slot=WINDOW)
    plan = ReplicaScenario(
        seed=seed,
        brokers=brokers,
        duration_ms=base.duration_ms,
        is_confirmed=is_confirmed,
        # A segment of a few records would be all that a test of this size cuts at.
        store=attrs.evolve(base.store, disk_space_warning_level_ratio=100),
        timer=attrs.evolve(
            wheel,
            timer_precision_ms=1_000,
            clock_step_max_ms=3_600_000,
            clock_doubt_ms=0,
        ),
        network=attrs.evolve(
            base.network,
            delay_max_ms=draw.choice((0, 2, 40, 200)),
            window_size=draw.choice((500, 4_096, 65_536)),
        ),
        clients=tuple(_fitting(one, ahead_max_ms, looks_up=is_confirmed) for one in base.clients),
        faults=_draw_faults(draw, base),
        skews_ms=tuple(draw.choice(_SKEWS_MS) for _ in range(brokers)),
        sync_max_ms=base.sync_max_ms,
        transfer_size=draw.choice((1_024, 4_096, 1 << 20)),
    )
    return with_lease(plan) if has_lease else plan


def _fitting(plan: ClientPlan, ahead_max_ms: int, *, looks_up: bool) -> ClientPlan:
    """The steps of a client, with moments that come soon.

    What was found by its key may be lost where nothing is confirmed.
    """
    steps = (
        _sooner(one, ahead_max_ms) for one in plan.steps if looks_up or not isinstance(one, LookUp)
    )
    return attrs.evolve(plan, steps=tuple(steps))


def _sooner(step: Step, ahead_max_ms: int) -> Step:
    match step:
        case Send(items=items):
            sooner = tuple(
                attrs.evolve(one, ahead_ms=_ahead(one.ahead_ms, ahead_max_ms)) for one in items
            )
            return attrs.evolve(step, items=sooner)
        case Move(ahead_ms=ahead_ms):
            return attrs.evolve(step, ahead_ms=_ahead(ahead_ms, ahead_max_ms))
        case _:
            return step


def _ahead(ahead_ms: int, ahead_max_ms: int) -> int:
    return ahead_ms if ahead_ms < ahead_max_ms else ahead_ms % ahead_max_ms


def _draw_faults(draw: Random, base: Scenario) -> tuple[ReplicaFault, ...]:
    """Events at the times of requests, where something is under way."""
    times = [step.at_ms for client in base.clients for step in client.steps] or [0]
    count = draw.randint(1, FAULTS_MAX)
    moments = sorted(max(draw.choice(times) + draw.randint(-20, 2_000), 0) for _ in range(count))
    return tuple(_draw_fault(draw, at_ms) for at_ms in moments)


def _draw_fault(draw: Random, at_ms: int) -> ReplicaFault:
    blow = draw.choice(_BLOWS)
    return ReplicaFault(
        at_ms=at_ms,
        blow=blow,
        hits_master=draw.random() < 0.7,
        promotes=draw.random() < 0.75,
        trigger=draw.choice(list(Trigger)),
        count=draw.choice((1, 2, 5, 30, 200)) + draw.randrange(10),
        place=draw.choice(list(Place)),
        down_ms=draw.choice((0, 1, 900, 5_000, 30_000)),
        kills_promoted=draw.choice((0, 0, 1, 20, 100, 400)) and draw.randint(1, 400),
    )
