"""How far behind a follower is: in bytes as the master told, in time since it had all of that."""

from __future__ import annotations

from timermq.broker.replication.follow_state import FollowError, FollowState


def test_a_follower_that_never_had_all_has_no_time() -> None:
    """It is behind by what the master has told of."""
    state = FollowState()
    state.told(500, 10)
    assert (state.row(12).behind, state.row(12).behind_ms) == (500, None)

    state.link(12)
    state.copied(200, 200, 180, 13)
    row = state.row(14)
    assert (row.behind, row.behind_ms, row.is_linked, row.error) == (320, None, True, None)
    assert state.per_second(14) == 100


def test_the_time_begins_when_it_had_all() -> None:
    """With a link and all that is known it is not behind; without one time goes on."""
    state = FollowState()
    state.link(0)
    state.told(500, 10)
    state.copied(500, 500, 500, 11)
    assert (state.row(99).behind, state.row(99).behind_ms) == (0, 0)

    state.told(700, 100)
    assert (state.row(101).behind, state.row(101).behind_ms) == (200, 90_000)
    state.copied(200, 700, 700, 102)
    state.is_linked, state.error = False, FollowError("LINK", "gone")
    row = state.row(105)
    assert (row.behind, row.behind_ms, row.error) == (0, 3_000, "LINK: gone")
    assert state.per_second(105) == 0
