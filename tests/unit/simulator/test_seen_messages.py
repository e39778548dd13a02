"""What a look-up by key must find."""

from __future__ import annotations

import pytest

from timermq.client.history import Crash, Deliver
from timermq.remoting.stored_message import StoredMessage
from timermq.simulator.draw import draw_scenario
from timermq.simulator.run import simulate
from timermq.simulator.seen_messages import SeenMessages
from timermq.timerstore.index_follower import IndexFollower

CUT = Crash(at_ms=5, who="broker", kind="power")


def arrival(offset: int) -> Deliver:
    """A message at some place of queue 1."""
    return Deliver(
        at_ms=1,
        who="c",
        message_id="M1",
        topic="A",
        queue=1,
        offset=offset,
        stored_ms=1,
        deliver_ms=None,
        received_ms=1,
        group="G",
    )


@pytest.mark.parametrize(
    ("is_sync", "expected"), [(True, {(1, 3), (1, 4), (1, 5)}), (False, {(1, 5)})]
)
def test_a_power_cut_may_take_what_was_not_synced(
    is_sync: bool, expected: set[tuple[int, int]]
) -> None:
    """What was received before it, or asked for before and received later; a kill takes none."""
    seen = SeenMessages(is_sync)
    seen.add(arrival(3), 0)
    seen.hear(CUT)
    seen.add(arrival(4), 0)
    seen.add(arrival(5), 1)
    seen.hear(Crash(at_ms=6, who="broker", kind="kill"))

    assert expected == seen.places("A", "M1")
    assert set() == seen.places("B", "M1")


def nothing(*_: object, **__: object) -> list[bytes]:
    """What an index that has lost everything finds."""
    return []


def test_an_index_that_hides_messages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a look-up for what has been received."""
    scenario = draw_scenario(10, days=0.2)
    assert () == simulate(scenario).faults
    monkeypatch.setattr(IndexFollower, "query", nothing)

    assert [one for one in simulate(scenario).faults if "did not find" in one]


def test_what_left_damaged_is_not_judged_by_a_look_up() -> None:
    """At its own place alone."""
    found = StoredMessage(
        topic="A",
        queue_id=1,
        queue_offset=3,
        phy_offset=0,
        flag=0,
        born_ms=0,
        stored_ms=0,
        reconsume_times=0,
        sys_flag=0,
        body=b"",
        properties={"UNIQ_KEY": "M000001"},
        offset_message_id="",
    )
    seen = SeenMessages(is_sync=True)
    seen.left_damaged.add("A/1@4")
    assert 1 == len(list(seen.faults_of([found], ("A", "M000001"), set())))

    seen.left_damaged.add("A/1@3")
    assert [] == list(seen.faults_of([found], ("A", "M000001"), set()))
