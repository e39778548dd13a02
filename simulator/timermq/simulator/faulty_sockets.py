"""Sockets that do less than they are asked for, and connections that break in the middle of it."""

from __future__ import annotations

from random import Random

import attrs

from .scenario import Scenario

SHARE = 0.5
"""Of the plans: sockets are rough in them."""


def with_rough_sockets(scenario: Scenario) -> Scenario:
    """The plan, or the same with sockets that fall short, and small buffers on both sides of them.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"sockets of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= SHARE:
        return scenario
    network = attrs.evolve(
        scenario.network,
        window_size=draw.choice((500, 4_096, 65_536)),
        rough=draw.choice((0.02, 0.1, 0.4)),
        breaks=draw.choice((0.0, 0.002, 0.01)),
        receive_size=draw.choice((40, 512, 65_536)),
        unread_output_size_max=draw.choice((1 << 14, 1 << 15, 64 << 20)),
    )
    return attrs.evolve(scenario, network=network)
