"""How the members of a group divide queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.client.allocate import allocate
from timermq.client.route import TopicQueue


@given(queue_count=st.integers(0, 20), member_count=st.integers(1, 8))
def test_every_queue_has_one_owner(queue_count: int, member_count: int) -> None:
    """Each queue goes to exactly one member, and shares differ by one at most."""
    queues = [TopicQueue("T", "broker-a", n, "127.0.0.1:10911") for n in range(queue_count)]
    members = [f"m{n}" for n in range(member_count)]
    shares = [allocate(queues, members, member) for member in members]
    sizes = [len(share) for share in shares]

    assert queues == sorted((q for share in shares for q in share), key=lambda one: one.queue_id)
    assert max(sizes) - min(sizes) <= 1


def test_a_stranger_gets_nothing() -> None:
    """A client that is not in the list takes no queue."""
    assert [] == allocate([TopicQueue("T", "b", 0, "a:1")], ["m1"], "m2")
