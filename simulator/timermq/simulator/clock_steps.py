"""Steps of the wall clock by weeks and years, and operators who accept a clock, right or wrong.

A clock that is back by years makes all wait in the slot that the broker stands at, so it may be set
right at any time, with kills in between. One that is ahead is held back as wrong: what asks for a
moment by it is beyond the longest delay, and refused. Once it is believed the broker has to pass
the years. What is sent by the new time meanwhile would roll through them, a window at a time, for
hours of the processor. So such a step comes while no client sends and no process ends.

When an operator accepts the clock, messages that were held back go out, and a wheel that a wrong
clock took ahead is made again.
"""

from __future__ import annotations

from random import Random

import attrs

from .scenario import SAVING_MS, ClockFault, Scenario
from .steps import AcceptClock

DAY_MS = 86_400_000
SIZES_MS = (40 * DAY_MS, 365 * DAY_MS, 3 * 365 * DAY_MS)
"""Milliseconds: longer than any delay of a plan, and shorter than files are kept."""
SHARE = 0.3
"""Share of the plans that have such a step, if there is room for it."""
BEGUN_MS = 4 * SAVING_MS
"""Milliseconds after which a broker has written down what time it is."""
LATE_MS = 90_000
"""Milliseconds by which steps of clients and ends of processes are late at most."""
SPANS_MS = (1, 50, 3_000, 60_000, 500_000, 3_600_000)
"""Milliseconds from a step to the one that undoes it."""
ACCEPTED_SHARE = 0.4
"""Share of the clock steps after which an operator accepts the clock."""
ACCEPTED_MS = (1, 60, 2_000, 60_000)
"""Milliseconds from the step to the operator's word."""


def with_large_steps(scenario: Scenario) -> Scenario:
    """The plan, mostly as it is, else with a step by years and mostly the one that undoes it.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was.
    """
    draw = Random(f"far steps of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    if draw.random() >= SHARE:
        return scenario
    size_ms = draw.choice(SIZES_MS)
    way = draw.choice((_step_back, _step_back, _step_that_is_held, _step_that_is_believed))
    found = way(draw, scenario)
    if found is None:
        return scenario
    at_ms, until_ms = found
    step_ms = -size_ms if way is _step_back else size_ms
    steps = [*scenario.clock_faults, ClockFault(at_ms=at_ms, step_ms=step_ms)]
    if until_ms < scenario.duration_ms:
        # Else it is set right behind the last life, as all clocks are.
        steps.append(ClockFault(at_ms=until_ms, step_ms=-step_ms))
    steps.sort(key=lambda one: one.at_ms)
    return attrs.evolve(scenario, clock_faults=tuple(steps))


Span = tuple[int, int]
"""When a clock goes wrong, and when it is set right."""


def _step_back(draw: Random, scenario: Scenario) -> Span | None:
    """A span in the midst of requests, or around the end of a process."""
    ends_ms = [life.end_ms for life in scenario.lives]
    at_ms = _draw_moment(draw, scenario)
    if ends_ms and draw.random() < 0.5:
        life = draw.choice(scenario.lives)
        about_ms = (-3_000, -100, -1, 0, life.down_ms // 2, life.down_ms, 1_000)
        at_ms = life.end_ms + draw.choice(about_ms)
    is_begun = min([at_ms, *ends_ms]) >= BEGUN_MS
    return (at_ms, at_ms + draw.choice(SPANS_MS)) if is_begun else None


def _step_that_is_held(draw: Random, scenario: Scenario) -> Span | None:
    """A span in the midst of requests. A process that starts meanwhile would believe the clock."""
    at_ms = _draw_moment(draw, scenario)
    until_ms = at_ms + draw.choice(SPANS_MS)
    is_calm = all(
        until_ms < life.end_ms or life.end_ms + life.down_ms + LATE_MS < at_ms
        for life in scenario.lives
    )
    is_held = until_ms - at_ms < scenario.timer.clock_doubt_ms
    return (at_ms, until_ms) if is_held and is_calm and not _may_fail(scenario) else None


def _step_that_is_believed(draw: Random, scenario: Scenario) -> Span | None:
    """A span in which nothing else happens, until the broker has passed the years and saved it."""
    options = scenario.timer
    needed_ms = options.clock_doubt_ms + options.clock_check_interval_ms + BEGUN_MS
    busy_ms = sorted(
        [
            *(step.at_ms for client in scenario.clients for step in client.steps),
            *(fault.at_ms for fault in scenario.clock_faults),
            *(ms for life in scenario.lives for ms in (life.end_ms, life.end_ms + life.down_ms)),
            scenario.duration_ms,
        ]
    )
    quiet = [
        (first_ms + LATE_MS, next_ms - needed_ms)
        for first_ms, next_ms in zip([0, *busy_ms], busy_ms, strict=False)
        if first_ms + LATE_MS < next_ms - needed_ms
    ]
    if not quiet or _may_fail(scenario):
        return None
    at_ms = draw.randint(*draw.choice(quiet))
    return at_ms, at_ms + needed_ms + draw.choice((0, 3_600_000, scenario.duration_ms))


def _draw_moment(draw: Random, scenario: Scenario) -> int:
    """Draw a time at which a client does something."""
    moments = [step.at_ms for client in scenario.clients for step in client.steps]
    return draw.choice(moments or [0])


def is_far_ahead(scenario: Scenario) -> bool:
    """Whether the clock is ahead by years at some time. Then no fault of the disk is added."""
    return any(fault.step_ms >= min(SIZES_MS) for fault in scenario.clock_faults)


def _may_fail(scenario: Scenario) -> bool:
    """Whether a process may end outside the plan, or may be unable to save how far it is."""
    return bool(scenario.disk_faults or scenario.full_disks)


def with_accepted_clocks(scenario: Scenario) -> Scenario:
    """The plan, or the same with clocks that are accepted by the first client.

    They are drawn from a generator of their own: the rest of a seed's plan is what it was. A clock
    that is wrong by years is not accepted: what waits by the other time would roll through them.
    """
    draw = Random(f"accepted clocks of {scenario.seed}")  # noqa: S311 - a plan, not a secret
    is_far = any(abs(fault.step_ms) >= min(SIZES_MS) for fault in scenario.clock_faults)
    if is_far or not scenario.clients:
        return scenario
    accepted = [
        AcceptClock(at_ms=fault.at_ms + draw.choice(ACCEPTED_MS))
        for fault in scenario.clock_faults
        if fault.step_ms and draw.random() < ACCEPTED_SHARE
    ]
    first = scenario.clients[0]
    steps = sorted((*first.steps, *accepted), key=lambda one: one.at_ms)
    clients = (attrs.evolve(first, steps=tuple(steps)), *scenario.clients[1:])
    return attrs.evolve(scenario, clients=clients)
