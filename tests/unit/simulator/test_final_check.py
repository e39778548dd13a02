"""The end of a simulation: until when it lasts."""

from __future__ import annotations

import pytest

from timermq.client.history import Ack, ClockStep, Event, Refused, Reschedule, Send
from timermq.simulator.final_check import (
    LEVEL_MAX_MS,
    SETTLE_MAX,
    SETTLE_SECONDS,
    last_moment_ms,
)

YEARS_MS = 3 * 365 * 86_400_000
SETTLED_MS = round(SETTLE_MAX * SETTLE_SECONDS * 1000)


def send(*, deliver_ms: int | None = None, delay_ms: int | None = None) -> Send:
    """A message that leaves at 100 ms."""
    return Send(
        at_ms=100, who="p", message_id="m", topic="T", deliver_ms=deliver_ms, delay_ms=delay_ms
    )


@pytest.mark.parametrize(
    ("events", "last_ms"),
    [
        ([], 0),
        ([send()], 100 + LEVEL_MAX_MS),
        ([send(delay_ms=50)], 150 + LEVEL_MAX_MS),
        ([send(deliver_ms=90_000_000)], 90_000_000),
        (
            [send(), Reschedule(at_ms=1, who="p", op=1, topic="T", deliver_ms=80_000_000)],
            80_000_000,
        ),
        (
            [
                send(),
                Ack(at_ms=1, who="p", message_id="m", queue=0, offset=0, deliver_ms=70_000_000),
            ],
            70_000_000,
        ),
    ],
)
def test_it_lasts_until_the_last_moment_that_was_asked_for(
    events: list[Event], last_ms: int
) -> None:
    """Or promised: a level may be the longest of the broker's."""
    assert last_moment_ms(events) == last_ms


def test_a_refused_message_is_waited_for_only_as_a_level() -> None:
    """Its moment counts for nothing: it was never stored."""
    events: list[Event] = [
        send(deliver_ms=90_000_000),
        Refused(at_ms=101, who="p", message_id="m", rule="R"),
    ]

    assert last_moment_ms(events) == 100 + LEVEL_MAX_MS


@pytest.mark.parametrize(
    ("by_ms", "counts"), [(-SETTLED_MS - 1, True), (-SETTLED_MS, False), (YEARS_MS, False)]
)
def test_a_clock_that_was_years_ahead_counts_until_that_moment(by_ms: int, *, counts: bool) -> None:
    """A broker that believed it stands there; a smaller step back settles by itself."""
    step = ClockStep(at_ms=YEARS_MS, who="clock", by_ms=by_ms)

    assert (last_moment_ms([step]) == YEARS_MS) == counts
