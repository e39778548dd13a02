"""How far a follower is, and since when it has not had everything."""

from __future__ import annotations

from timermq.broker.replication.follower import Follower


def follower(acknowledged: int = 0) -> Follower:
    """A follower that has just been linked."""
    return Follower(
        address="h:1",
        broker_id=1,
        begun_from=acknowledged,
        sent=acknowledged,
        acknowledged=acknowledged,
        heard_at=0,
        acknowledged_at=0,
    )


def test_one_that_is_far_behind_has_never_caught_up() -> None:
    """Acknowledging what was sent is not enough: the log has grown meanwhile."""
    one = follower()
    one.note_sent(10, 1_000, 1.0)
    one.note_acknowledged(10, 1_000, 2.0)

    assert not one.is_fresh(2.0, 15)


def test_under_load_it_is_as_fresh_as_what_it_has() -> None:
    """It has all that the log held when the mark was set, though more has come since."""
    one = follower()
    one.note_sent(100, 100, 1.0)
    one.note_acknowledged(50, 150, 2.0)
    assert one.caught_up_at == float("-inf")
    one.note_acknowledged(100, 200, 3.0)

    assert one.caught_up_at == 1.0
    assert one.is_fresh(16.0, 15)
    assert not one.is_fresh(16.1, 15)


def test_an_idle_one_stays_fresh() -> None:
    """Nothing is stored for an hour; when something is, it counts from then."""
    one = follower(100)
    one.note_acknowledged(100, 100, 1.0)
    assert one.is_fresh(3_600.0, 15)
    one.note_sent(10, 110, 3_600.0)

    assert one.is_fresh(3_615.0, 15)
    assert not one.is_fresh(3_615.1, 15)


def test_the_rate_is_of_the_last_whole_second() -> None:
    """It falls to nothing when nothing is sent."""
    one = follower()
    one.note_sent(10, 100, 5.0)
    one.note_sent(10, 100, 5.5)

    assert one.sent_per_second(5.9) == 0
    assert one.sent_per_second(6.0) == 20
    assert one.sent_per_second(6.9) == 20
    assert one.sent_per_second(7.0) == 0
