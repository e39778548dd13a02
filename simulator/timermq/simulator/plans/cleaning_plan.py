"""Cleaning within the day: small segments, short retention, disks that are nearly full.

Without it a store of a day keeps all its segments, and nothing that cleaning takes away is missed.
It comes by its interval, and at moments of the plan: where messages are due and before a process
ends, since what cleaning relies on may be newer than what is durable.
"""

from __future__ import annotations

from random import Random

import attrs

from ..clock_steps import is_far_ahead
from ..scenario import FullDisk, Scenario
from ..steps import Step

SHARE = 0.7
"""Share of the plans in which old segments are removed."""
SEGMENT_SIZES = (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 17)
HOURS = ("00;01;02;03;04;05;06;07;08;09;10;11;12;13;14;15;16;17;18;19;20;21;22;23", "03;12;23")
ENDS_MS = (-900, -100, -5, 0)
"""Milliseconds from a cleaning to the end of a process, as negative numbers."""
CLEANINGS_MAX = 24
"""How many cleanings a plan has at most, besides those of the interval."""
NEARLY_FULL = (80, 88, 88)
"""Percent of the disk in use: from 80 on old segments go at any hour, from 88 on the oldest goes
whatever its age."""


def with_cleaning(scenario: Scenario) -> Scenario:
    """The plan, or mostly the same with a store that cleans.

    It is drawn from a generator of its own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"cleaning of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= SHARE:
        return scenario
    store = attrs.evolve(
        scenario.store,
        mapped_file_size_commit_log=draw.choice(SEGMENT_SIZES),
        file_reserved_time_hours=draw.choice((0, 0, 1, 3)),
        clean_resource_interval_ms=draw.choice((60_000, 600_000, 3_600_000)),
        delete_when=draw.choice(HOURS),
        delete_file_batch_max=draw.choice((1, 10, 100)),
        disk_space_clean_forcibly_ratio=draw.choice((85, 100)),
    )
    return attrs.evolve(
        scenario,
        store=store,
        cleanings_ms=_draw_moments(draw, scenario),
        full_disks=(*scenario.full_disks, *_draw_nearly_full(draw, scenario)),
    )


def _draw_moments(draw: Random, scenario: Scenario) -> tuple[int, ...]:
    """Moments before processes end, and while clients work."""
    ends = [life.end_ms + draw.choice(ENDS_MS) for life in scenario.lives]
    busy = [step.at_ms + draw.choice((0, 500, 5_000)) for step in _steps(scenario)]
    moments = [one for one in ends if draw.random() < 0.7]
    moments += draw.sample(busy, min(len(busy), CLEANINGS_MAX // 2))
    return tuple(sorted(max(one, 0) for one in moments[:CLEANINGS_MAX]))


def _draw_nearly_full(draw: Random, scenario: Scenario) -> tuple[FullDisk, ...]:
    """Make the disk nearly full from some moment on, for seconds or minutes."""
    steps = _steps(scenario)
    if not steps or is_far_ahead(scenario) or draw.random() < 0.4:
        return ()
    at_ms = draw.choice(steps).at_ms
    return (
        FullDisk(
            at_ms=at_ms,
            until_ms=at_ms + draw.choice((20_000, 100_000, 600_000)),
            used_percent=draw.choice(NEARLY_FULL),
        ),
    )


def _steps(scenario: Scenario) -> list[Step]:
    return [step for client in scenario.clients for step in client.steps]
