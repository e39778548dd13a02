"""Cancels and moves: is there an order of what happened to a message that explains every answer?

Sends, requests and the arrival each took effect at one instant between being asked and being
answered. The search tries orders of these instants that real time allows, and asks the sequential
timer below what each would have answered. A request without an answer may have had its effect at
any time after it was asked, or never.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import attrs

from timermq.client.history import Reschedule

from .histories import Arrival, Attempt, Histories, Life, Mark, Request

STEPS_MAX = 16
"""Requests for one message; orders of more are not tried."""


class Phase(enum.Enum):
    """How far a message has come in the sequential timer."""

    ABSENT = enum.auto()
    WAITING = enum.auto()
    GONE = enum.auto()
    ARRIVED = enum.auto()


@attrs.frozen
class State:
    """The message, as a timer that does one thing at a time has it."""

    phase: Phase
    earliest_ms: int = 0
    latest_ms: float = math.inf
    moment_ms: int | None = None


class _Effect(Protocol):
    def __call__(self, state: State) -> State | None:
        """The state behind it; None where it would not have gone so."""
        ...


@attrs.frozen
class _Step:
    effect: _Effect
    is_certain: bool
    """False: it may never have had its effect."""


def has_order(
    histories: Histories, life: Life, arrival: Arrival | None, *, must_arrive: bool = True
) -> bool:
    """Whether some order explains the answers about a message that was sent once.

    Args:
        histories: For the clock and the horizon.
        life: The message.
        arrival: Where it arrived; None: no consumer saw it.
        must_arrive: Whether it may not be left waiting when its moment is within the horizon.
    """
    (attempt,) = life.attempts
    horizon_ms = histories.horizon_ms(attempt.send.topic)
    steps = [
        _Step(partial(_send, attempt), attempt.ack is not None),
        *(_Step(partial(_request, one), one.answered is not None) for one in life.requests),
        _Step(partial(_arrive, arrival), is_certain=True)
        if arrival
        else _Step(partial(_arrive_unseen, horizon_ms), is_certain=False),
    ]

    def is_end(state: State) -> bool:
        return not (must_arrive and state.phase is Phase.WAITING and state.latest_ms <= horizon_ms)

    before = _real_time(histories, attempt, life.requests, arrival, horizon_ms)
    certain = sum(1 << at for at, step in enumerate(steps) if step.is_certain)
    tried: set[tuple[int, State]] = set()
    todo = [(0, State(Phase.ABSENT))]
    while todo:
        done, state = todo.pop()
        if (done, state) in tried:
            continue
        tried.add((done, state))
        if done & certain == certain and is_end(state):
            return True
        for at, step in enumerate(steps):
            if done >> at & 1 or before[at] & certain & ~done:
                continue
            behind = step.effect(state)
            if behind is not None:
                todo.append((done | 1 << at, behind))
    return False


def as_of(histories: Histories, life: Life, mark: Mark) -> Life:
    """A message as it was known at a mark: requests asked by then, and answers given by then."""

    def is_over(over: Mark | None) -> bool:
        return over is not None and not histories.is_before(mark, over)

    requests = [
        one if is_over(one.answered) else Request(asked=one.asked, event=one.event)
        for one in life.requests
        if is_over(one.asked)
    ]
    return attrs.evolve(life, requests=requests)


def _real_time(
    histories: Histories,
    attempt: Attempt,
    requests: Sequence[Request],
    arrival: Arrival | None,
    horizon_ms: int,
) -> list[int]:
    """For each step the bits of those that were over when it began."""
    asked = [attempt.sent, *(one.asked for one in requests)]
    answered = [attempt.answered, *(one.answered for one in requests)]
    before = [
        sum(
            1 << at
            for at, over in enumerate(answered)
            if over is not None and histories.is_before(over, begun)
        )
        for begun in asked
    ]
    last = len(asked)
    # An arrival happens between the time that it is stamped with and the first sight of it.
    stored_ms = horizon_ms + 1 if arrival is None else arrival.stored_ms
    over_before = [
        over is not None and histories.is_earlier(over.at_ms, stored_ms) for over in answered
    ]
    before.append(sum(1 << at for at, is_over in enumerate(over_before) if is_over))
    if arrival is not None:
        for at, begun in enumerate(asked):
            if histories.is_before(arrival.seen, begun):
                before[at] |= 1 << last
    return before


# -- the sequential timer --------------------------------------------------------------------


def _send(attempt: Attempt, state: State) -> State | None:
    if state.phase is not Phase.ABSENT:
        return None
    return State(Phase.WAITING, attempt.earliest_ms, attempt.latest_ms, attempt.moment_ms)


def _arrive(arrival: Arrival, state: State) -> State | None:
    is_due = state.phase is Phase.WAITING and state.earliest_ms <= arrival.stored_ms
    is_this_moment = None in (state.moment_ms, arrival.deliver_ms) or (
        state.moment_ms == arrival.deliver_ms
    )
    return State(Phase.ARRIVED) if is_due and is_this_moment else None


def _arrive_unseen(horizon_ms: int, state: State) -> State | None:
    """A message that no consumer saw arrived after all of them had left."""
    is_possible = state.phase is Phase.WAITING and state.latest_ms > horizon_ms
    return State(Phase.ARRIVED) if is_possible else None


def _request(request: Request, state: State) -> State | None:
    phase = state.phase
    match request.verdict:
        case "cancelled":
            return _gone(state) if phase in (Phase.WAITING, Phase.GONE) else None
        case "moved":
            return _moved(request) if phase is Phase.WAITING else None
        case "too_late":
            return state if phase is Phase.ARRIVED else None
        case "not_found":
            return None if _is_known(request, state) else state
        case "refused":
            return state
        case "unknown":
            if phase is not Phase.WAITING:
                return None
            is_move = isinstance(request.event, Reschedule)
            return _moved(request) if is_move else _gone(state)


def _is_known(request: Request, state: State) -> bool:
    """Whether ``not_found`` would be wrong.

    What has arrived may have been cleaned away since; what is cancelled is not there to be moved.
    Its delete has no keys of a producer's: when its moment is over, its record may be cleaned.
    """
    if state.phase is not Phase.GONE:
        return state.phase is Phase.WAITING
    is_move = isinstance(request.event, Reschedule)
    return not is_move and not (request.event.key and request.asked.at_ms > state.latest_ms)


def _gone(state: State) -> State:
    return State(Phase.GONE, latest_ms=state.latest_ms)


def _moved(request: Request) -> State:
    event = request.event
    assert isinstance(event, Reschedule)
    moment_ms = request.moved_to_ms
    if moment_ms is not None:
        over_ms = moment_ms if request.answered is None else request.answered.at_ms
        return State(Phase.WAITING, moment_ms, max(moment_ms, over_ms), moment_ms)
    if event.deliver_ms is not None:
        # Without an answer: one that is past by the time that it is done means then.
        return State(Phase.WAITING, event.deliver_ms)
    return State(Phase.WAITING, request.asked.at_ms + (event.delay_ms or 0))
