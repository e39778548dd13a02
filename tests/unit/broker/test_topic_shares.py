"""Topics made for clients: for one no more than are left."""

from __future__ import annotations

import pytest

from timermq.broker.refusal import RefusedError
from timermq.broker.topic_shares import TopicShares


def takes(shares: TopicShares, owner: str, *, topics_left: int, queues_left: int = 1_000) -> bool:
    """Whether a topic of eight queues may be made for an owner."""
    try:
        shares.take(owner, "T", 8, topics_left=topics_left, queues_left=queues_left)
    except RefusedError:
        return False
    return True


def test_an_owner_has_at_most_what_is_left() -> None:
    """With two topics it may have a third while three are left."""
    shares = TopicShares()

    assert takes(shares, "10.0.0.1", topics_left=5)
    assert takes(shares, "10.0.0.1", topics_left=4)
    assert not takes(shares, "10.0.0.1", topics_left=2)
    assert takes(shares, "10.0.0.1", topics_left=3)


def test_queues_are_shared_as_topics_are() -> None:
    """Few topics of many queues take the room of others as well."""
    shares = TopicShares()
    assert takes(shares, "10.0.0.1", topics_left=100)

    assert not takes(shares, "10.0.0.1", topics_left=100, queues_left=8)
    assert takes(shares, "10.0.0.1", topics_left=100, queues_left=9)


def test_a_refused_topic_is_not_counted() -> None:
    """The owner has what was made for it; the others have shares of their own."""
    shares = TopicShares()
    assert takes(shares, "10.0.0.1", topics_left=2)
    for _ in range(3):
        assert not takes(shares, "10.0.0.1", topics_left=1)

    assert takes(shares, "10.0.0.1", topics_left=2)
    assert takes(shares, "10.0.0.2", topics_left=1)


def test_the_broker_itself_has_no_share() -> None:
    """What it needs is made as long as there is room."""
    shares = TopicShares()

    assert all(takes(shares, "", topics_left=1) for _ in range(9))


def test_a_refusal_tells_what_was_made_and_what_is_left() -> None:
    """An operator sees from it that a client makes topics without end."""
    shares = TopicShares()
    shares.take("10.0.0.1", "T", 8, topics_left=3, queues_left=24)
    with pytest.raises(RefusedError) as caught:
        shares.take("10.0.0.1", "U", 8, topics_left=1, queues_left=16)

    assert (caught.value.code, caught.value.rule) == (1, "TOPICS_SHARE")
    assert "no room for U: 1 topics with 8 queues were made" in caught.value.remark
    assert "and 1 topics with 16 queues are left" in caught.value.remark
