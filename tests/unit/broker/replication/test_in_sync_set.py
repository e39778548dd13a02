"""The replicas in sync, and what is confirmed by them."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.replication.in_sync_set import InSyncSet
from unit.broker.replication.test_follower import follower

LAPSE = 15.0


def test_alone_everything_is_confirmed() -> None:
    """Unless more replicas are asked for."""
    alone = InSyncSet(0)

    assert alone.advance(100, 1) == 100
    assert alone.advance(200, 2) == 100


def test_the_slowest_member_decides() -> None:
    """And the confirm offset never falls, whatever a member says."""
    fast, slow = follower(100), follower(100)
    fast.has_all = slow.has_all = True
    found = InSyncSet(100)
    wanted = found.wanted([fast, slow], 0, LAPSE)
    assert wanted is not None
    assert wanted == frozenset({fast, slow})
    found.put_in_force(wanted)
    fast.acknowledged, slow.acknowledged = 300, 200

    assert found.advance(400, 1) == 200
    slow.acknowledged = 150
    assert found.advance(400, 1) == 200


def test_one_that_comes_in_is_waited_for() -> None:
    """It lacks what was confirmed without it; what comes then is not confirmed without it."""
    late = follower(90)
    late.caught_up_at = 0
    found = InSyncSet(100)

    assert found.wanted([late], 1, LAPSE) is None
    assert found.advance(500, 1) == 100
    late.acknowledged = 100
    assert found.wanted([late], 1, LAPSE) == frozenset({late})


def test_one_without_everything_for_long_goes_out() -> None:
    """Then what is stored is confirmed without it."""
    slow = follower(100)
    found = InSyncSet(100, members=frozenset({slow}))
    slow.caught_up_at = 0

    assert found.wanted([slow], LAPSE, LAPSE) is None
    wanted = found.wanted([slow], LAPSE + 1, LAPSE)
    assert wanted is not None
    assert wanted == frozenset()
    found.put_in_force(wanted)
    assert found.advance(500, 1) == 500


def test_a_proposal_counts_until_it_is_agreed() -> None:
    """Both sets: which of them a new master is chosen from is not known."""
    old, new = follower(100), follower(100)
    new.has_all = True
    found = InSyncSet(100, members=frozenset({old}))
    wanted = found.wanted([new], 0, LAPSE)
    assert wanted is not None
    assert wanted == frozenset({new})
    found.propose(wanted)
    old.acknowledged, new.acknowledged = 200, 300
    assert found.wanted([], 100, LAPSE) == frozenset()

    assert found.advance(400, 1) == 200
    found.put_in_force(wanted)
    assert found.advance(400, 1) == 300


@attrs.frozen
class Step:
    """A moment of the story."""

    grown: int
    copied: list[int]
    seconds: float
    is_lost: list[bool]


steps = st.lists(
    st.builds(
        Step,
        grown=st.integers(0, 50),
        copied=st.lists(st.integers(0, 60), min_size=3, max_size=3),
        seconds=st.floats(0, 20),
        is_lost=st.lists(st.booleans(), min_size=3, max_size=3),
    ),
    max_size=30,
)


@given(steps)
def test_no_member_lacks_what_is_confirmed(story: list[Step]) -> None:
    """Whatever the order in which followers are slow, lost and back."""
    log_end, now = 0, 0.0
    linked = {number: follower() for number in range(3)}
    found = InSyncSet(0)
    for step in story:
        now += step.seconds
        log_end += step.grown
        for number, size in enumerate(step.copied):
            if step.is_lost[number]:
                linked[number] = follower(linked[number].acknowledged)
                continue
            one = linked[number]
            one.note_sent(log_end - one.sent, log_end, now)
            one.note_acknowledged(min(one.acknowledged + size, log_end), log_end, now)
        wanted = found.wanted(linked.values(), now, LAPSE)
        if wanted is not None:
            found.put_in_force(wanted)
        before = found.confirm_offset
        confirmed = found.advance(log_end, 1)

        assert before <= confirmed <= log_end
        assert all(one.acknowledged >= confirmed for one in found.members)
