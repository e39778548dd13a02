"""The events for the files between two processes: loss, damage, or a run of RocketMQ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random

import attrs

from timermq.timerstore.file_family import FileFamily

from ..clock_steps import is_far_ahead
from ..disks.disk_damage import DamageKind
from ..scenario import DamageDraw, EndKind, FaultKind, Life, Loss, Rest, Scenario

SHARE = 0.3
"""Share of the plans that have such a time, for each kind of it."""
LIFE_SHARE = 0.4
"""Share of the processes of these plans after which it comes."""
ROLLS_MAX = 100
"""How often each message that waits may roll when the timer checkpoint is lost or damaged."""
DAMAGES_MAX = 2
"""How many damages a plan has at most: a disk that damages more is replaced."""
LOSSES = (
    (Loss.WHEEL,),
    (Loss.WHEEL,),
    (Loss.TIMER_LOG_END,),
    (Loss.TIMER_LOG,),
    (Loss.WHEEL, Loss.TIMER_LOG_END),
    (Loss.WHEEL, Loss.TIMER_LOG),
    (Loss.TIMER_CHECKPOINT,),
    (Loss.WHEEL, Loss.TIMER_LOG, Loss.TIMER_CHECKPOINT),
    (Loss.TIMER_CHECKPOINT, Loss.WHEEL),
    (Loss.TIMER_CHECKPOINT, Loss.TIMER_LOG_END),
    (Loss.STORE_CHECKPOINT,),
    (Loss.INDEX,),
    (Loss.SEALS,),
)


DAMAGED = (
    (FileFamily.COMMIT_LOG,),
    (
        FileFamily.TIMER_LOG,
        FileFamily.TIMER_WHEEL,
        FileFamily.CONSUME_QUEUE,
        FileFamily.SEALS,
        FileFamily.STORE_CHECKPOINT,
        FileFamily.TIMER_CHECKPOINT,
        FileFamily.CONFIG,
    ),
)
"""The targets of one plan's damage: the commit log, or files that can be made again from it."""


def with_rests(scenario: Scenario, faults: Collection[FaultKind]) -> Scenario:
    """The plan, or the same with such times between lives.

    They are drawn from generators of their own: the rest of a seed's plan is what it was. Where a
    clock is ahead by years nothing else happens.

    What is damaged has lost no file and was never RocketMQ's: both cost seals, and damage that
    nothing seals is not promised to be seen.

    Args:
        scenario: The plan.
        faults: Which of them there may be.
    """
    if is_far_ahead(scenario):
        return scenario
    lives = scenario.lives
    bounded = ROLLS_MAX * scenario.timer.roll_window_ms
    if FaultKind.DAMAGE in faults and scenario.begun is None:
        draw = Random(f"damage of {scenario.seed}")  # noqa: S311 - a plan, not a secret
        if draw.random() < SHARE:
            families = draw.choice(DAMAGED)
            return attrs.evolve(scenario, lives=_with_damages(draw, lives, families, bounded))
    if FaultKind.LOST in faults:
        draw = Random(f"lost files of {scenario.seed}")  # noqa: S311 - a plan, not a secret
        if draw.random() < SHARE:
            lives = tuple(_with_losses(draw, life, bounded) for life in lives)
    if FaultKind.ROCKETMQ in faults:
        draw = Random(f"rocketmq in {scenario.seed}")  # noqa: S311 - a plan, not a secret
        if draw.random() < SHARE:
            lives = tuple(_with_rocketmq(draw, life) for life in lives)
    return attrs.evolve(scenario, lives=lives)


def _with_losses(draw: Random, life: Life, bounded_ms: int) -> Life:
    if draw.random() >= LIFE_SHARE:
        return life
    losses = _draw_losses(draw, life, bounded_ms)
    return attrs.evolve(life, rest=attrs.evolve(_rest(life), losses=losses))


def _with_rocketmq(draw: Random, life: Life) -> Life:
    """Let RocketMQ serve the store after a stop in order, mostly with all files."""
    if draw.random() >= LIFE_SHARE:
        return life
    rest = attrs.evolve(_rest(life), is_rocketmq=True)
    if not rest.losses and draw.random() < 0.6:
        # The files of the timers come first.
        rest = attrs.evolve(rest, losses=draw.choice(LOSSES[:6]))
    return attrs.evolve(life, kind=EndKind.STOP, rest=rest)


def _with_damages(
    draw: Random, lives: tuple[Life, ...], families: Sequence[FileFamily], bounded_ms: int
) -> tuple[Life, ...]:
    chosen = draw.sample(range(len(lives)), min(len(lives), draw.randint(1, DAMAGES_MAX)))
    damaged = list(lives)
    for nth in chosen:
        is_early = lives[nth].end_ms <= bounded_ms
        damage = DamageDraw(
            kind=draw.choice(list(DamageKind)),
            seed=draw.getrandbits(32),
            family=draw.choice(
                [one for one in families if is_early or one is not FileFamily.TIMER_CHECKPOINT]
            ),
        )
        rest = attrs.evolve(_rest(lives[nth]), damages=(damage,))
        damaged[nth] = attrs.evolve(lives[nth], rest=rest)
    return tuple(damaged)


def _draw_losses(draw: Random, life: Life, bounded_ms: int) -> tuple[Loss, ...]:
    """Without its checkpoint the wheel is read from its oldest slot: all that waits rolls along."""
    losses = draw.choice(LOSSES)
    if life.end_ms > bounded_ms:
        return tuple(one for one in losses if one is not Loss.TIMER_CHECKPOINT)
    return losses


def _rest(life: Life) -> Rest:
    return Rest() if life.rest is None else life.rest
