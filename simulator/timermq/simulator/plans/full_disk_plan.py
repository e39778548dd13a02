"""Disks that fill to the last byte at any operation, and file systems that cannot reserve blocks.

A disk that is full so many blocks after some moment fills in the midst of anything that needs
blocks. It has room again while the process lives, after its end, or by pieces: a little, and again
none.
"""

from __future__ import annotations

from random import Random

import attrs

from ..clock_steps import is_far_ahead
from ..scenario import FullDisk, Scenario

SHARE = 0.5
"""Share of the plans in which the disk is full at least once."""
BLOCK_SIZE = 4_096
BLOCKS = (0, 1, 2, 3, 5, 8, 13, 40, 100)
"""How many blocks are left. The newest segments of log and queues have theirs already."""
LENGTHS_MS = (5, 100, 2_000, 30_000, 600_000)
AROUND_MS = (-3_000, -200, -20, -1, 0, 1)
"""Milliseconds from the end of a process to the moment at which the disk is full."""
TIMES_MAX = 3
PLAIN_SHARE = 0.25
"""Share of the plans in which the file system cannot reserve blocks."""


def with_full_disks(scenario: Scenario, rolls_max: int) -> Scenario:
    """The plan, or the same with disks that are full.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.

    Args:
        scenario: The plan.
        rolls_max: Roll windows that a full disk may last: each costs every message a roll.
    """
    draw = Random(f"full disks of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    steps_ms = [step.at_ms for client in scenario.clients for step in client.steps]
    if not steps_ms or is_far_ahead(scenario) or draw.random() >= SHARE:
        return scenario
    longest_ms = rolls_max * scenario.timer.roll_window_ms
    full: list[FullDisk] = []
    for _ in range(draw.randint(1, TIMES_MAX)):
        at_ms = draw.choice(steps_ms)
        if scenario.lives and draw.random() < 0.4:
            at_ms = max(draw.choice(scenario.lives).end_ms + draw.choice(AROUND_MS), 0)
        length_ms = min(draw.choice(LENGTHS_MS), longest_ms)
        room = BLOCK_SIZE * draw.choice(BLOCKS)
        full.append(FullDisk(at_ms=at_ms, until_ms=at_ms + length_ms, room=room))
        if draw.random() < 0.3:
            # There is a little room for a moment, and none again.
            behind_ms = at_ms + length_ms
            full.append(FullDisk(at_ms=behind_ms, until_ms=behind_ms + length_ms, room=BLOCK_SIZE))
    return attrs.evolve(scenario, full_disks=(*scenario.full_disks, *full))


def with_plain_file_systems(scenario: Scenario) -> Scenario:
    """The plan, or the same on a file system without ``fallocate``, as ext3 or NFS 3.

    It is drawn from a generator of its own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"blocks of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    return attrs.evolve(scenario, reserves_blocks=draw.random() >= PLAIN_SHARE)
