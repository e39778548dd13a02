"""Damage while the broker runs, and how eagerly that looks for it.

The bytes change under a process that has opened the files, in the midst of what it does. Where a
clock is ahead by years nothing else happens. What RocketMQ has begun, or a full disk left, has no
seals: what is damaged there is not promised to be seen.
"""

from __future__ import annotations

from random import Random

import attrs

from timermq.timerstore.file_family import FileFamily

from ..clock_steps import is_far_ahead
from ..disks.disk_damage import DamageKind
from ..scenario import DamageDraw, Life, Rot, Scenario

SHARE = 0.25
"""Share of the plans in which files are damaged so."""
TIMES_MAX = 3
"""How many damages a plan has at most: a disk that damages more is replaced."""
BEHIND_MS = (0, 1, 50, 2_000, 90_000, 1_800_000)
"""Milliseconds from a request to the damage: what the request wrote may be under way still, or at
rest."""
SKIPS = (0, 1, 5, 20, 100)
"""How many changes of the disk come before the damage."""
RATES = (0, 20_000, 4 << 20)
"""Bytes that the broker scrubs in a second; with 0 it does not scrub."""
FAMILIES = (
    (FileFamily.COMMIT_LOG,),
    (FileFamily.TIMER_LOG,),
    (FileFamily.TIMER_LOG, FileFamily.TIMER_WHEEL, FileFamily.CONSUME_QUEUE),
)
"""The families of files that one plan damages."""


def with_rots(scenario: Scenario) -> Scenario:
    """The plan, or the same with damage while the broker runs.

    It is drawn from a generator of its own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"rot of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    steps_ms = [step.at_ms for client in scenario.clients for step in client.steps]
    is_plain = scenario.begun is None and not scenario.full_disks and not is_far_ahead(scenario)
    if not steps_ms or not is_plain or draw.random() >= SHARE:
        return scenario
    rate, families = draw.choice(RATES), draw.choice(FAMILIES)
    rots = [
        Rot(
            at_ms=min(draw.choice(steps_ms) + draw.choice(BEHIND_MS), scenario.duration_ms),
            skip=draw.choice(SKIPS),
            damage=DamageDraw(
                kind=draw.choice(list(DamageKind)),
                seed=draw.getrandbits(32),
                family=draw.choice(families),
            ),
        )
        for _ in range(draw.randint(1, TIMES_MAX))
    ]
    return attrs.evolve(
        scenario,
        store=attrs.evolve(scenario.store, scrub_bytes_per_second=rate, scrub_interval_hours=1),
        lives=tuple(_scrubbed(life, rate) for life in scenario.lives),
        rots=tuple(sorted(rots, key=lambda one: one.at_ms)),
    )


def _scrubbed(life: Life, rate: int) -> Life:
    own = life.settings
    if own is None:
        return life
    store = attrs.evolve(own.store, scrub_bytes_per_second=rate, scrub_interval_hours=1)
    return attrs.evolve(life, settings=attrs.evolve(own, store=store))
