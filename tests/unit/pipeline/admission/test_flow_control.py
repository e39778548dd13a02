"""Flow control: free below the limit, ever less likely above it, closed at twice the limit."""

from __future__ import annotations

import random

import pytest

from timermq.pipeline.admission import flow_control
from timermq.pipeline.admission.flow_control import FlowControl
from timermq.pipeline.state.timer_options import CONGEST_OFF, TimerOptions

LIMIT = 100
SLOT_MS = 1_700_000_000_000


class FixedDraw(random.Random):
    """Draws the same number each time."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        """The same number at every draw."""
        return self.value


def at_most(limit: int) -> TimerOptions:
    """Options with so many messages a slot."""
    return TimerOptions(timer_congest_num_each_slot=limit)


def admitted(control: FlowControl, count: int, slot_ms: int = SLOT_MS) -> int:
    """How many of so many messages are let in."""
    return sum(not control.refuses(slot_ms) for _ in range(count))


@pytest.mark.parametrize(
    ("linked", "draw", "refused"),
    [
        (0, 0.0, False),
        (LIMIT, 0.0, False),
        (LIMIT + 1, 0.0099, True),
        (LIMIT + 1, 0.0101, False),
        (LIMIT + 50, 0.49, True),
        (LIMIT + 50, 0.51, False),
        (2 * LIMIT - 1, 0.9999, False),
        (2 * LIMIT, 0.999999, True),
        (5 * LIMIT, 0.999999, True),
    ],
)
def test_probability_rises(linked: int, draw: float, refused: bool) -> None:
    """0 at the limit, 1 at twice the limit, straight between."""
    control = FlowControl(at_most(LIMIT), lambda _: linked, FixedDraw(draw))

    assert refused == control.refuses(SLOT_MS)


def test_a_burst_is_seen_while_it_arrives() -> None:
    """Messages that are not linked yet count; the most a slot takes is twice the limit."""
    control = FlowControl(at_most(LIMIT), lambda _: 0, random.Random(1))
    count = admitted(control, 10_000)

    assert LIMIT < count <= 2 * LIMIT
    assert admitted(control, 1, SLOT_MS + 1000) == 1


def test_linked_messages_count_once() -> None:
    """Once linked they are in the slot's own number, no longer among the admitted."""
    linked = {SLOT_MS: 0}
    control = FlowControl(
        at_most(LIMIT),
        lambda slot_ms: linked[slot_ms],
        FixedDraw(0.0),
    )
    assert LIMIT + 1 == admitted(control, 1_000)
    linked[SLOT_MS] = LIMIT - 1
    control.settled()

    assert 2 == admitted(control, 1_000)


def test_off() -> None:
    """Switched off nothing is refused, and nothing is counted."""
    control = FlowControl(at_most(CONGEST_OFF), lambda _: 2**40, FixedDraw(0.0))

    assert 50 == admitted(control, 50)


def test_slots_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many slots the oldest counts are forgotten, never the newest."""
    monkeypatch.setattr(flow_control, "PENDING_SLOTS_MAX", 3)
    control = FlowControl(at_most(1), lambda _: 0, FixedDraw(0.0))
    for slot_ms in (0, 1000, 2000, 3000):
        assert 2 == admitted(control, 2, slot_ms)

    assert 0 == admitted(control, 1, 3000)
    assert 1 == admitted(control, 1, 0)


@pytest.mark.parametrize(("count", "taken"), [(3, True), (4, False)])
def test_many_are_taken_when_none_would_be_refused(count: int, taken: bool) -> None:
    """The last may find as many as the limit before it; nothing is counted otherwise."""
    flow = FlowControl(at_most(4), lambda _: 1, draw=FixedDraw(0.0))

    assert flow.takes_all([SLOT_MS, *[SLOT_MS + 1000] * 5]) is False
    assert flow.takes_all([SLOT_MS]) is True
    assert flow.takes_all([SLOT_MS] * count) is taken
    assert flow.refuses(SLOT_MS) is taken
