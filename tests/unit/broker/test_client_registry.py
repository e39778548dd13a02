"""Tests of registrations: members of groups, their subscriptions, and who is told of changes."""

import itertools
from collections.abc import Callable

import attrs

from broker_rig import RecordingSession
from timermq.broker.client_registry import ClientRegistry, ConsumerHeartbeat, Subscription
from timermq.remoting import RequestCode

CLUSTERING = ConsumerHeartbeat(
    group="G",
    consume_type="CONSUME_PASSIVELY",
    message_model="CLUSTERING",
    consume_from_where="CONSUME_FROM_LAST_OFFSET",
    subscriptions=[
        Subscription(topic="T", sub_string="*", expression_type="TAG", sub_version=1),
    ],
)


def make_registry(current_time: Callable[[], float] | None = None) -> ClientRegistry:
    """An empty registry; clients expire after two minutes.

    Unless there is a clock, a second goes by whenever one looks at it: no group rests.
    """
    return ClientRegistry(
        current_time=current_time or itertools.count(0.0, 1.0).__next__, expired_after=120
    )


def subscribed(topic: str, version: int, expression: str = "*") -> ConsumerHeartbeat:
    """A heartbeat with one subscription."""
    subscription = Subscription(
        topic=topic, sub_string=expression, expression_type="TAG", sub_version=version
    )
    return attrs.evolve(CLUSTERING, subscriptions=[subscription])


def notified(peer: RecordingSession) -> list[str]:
    """The groups whose change the peer was told of."""
    assert all(
        (one.code, one.flag) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 2) for one in peer.sent
    )
    groups = [one.ext["consumerGroup"] for one in peer.sent]
    peer.sent.clear()
    return groups


def test_the_newcomer_is_told_as_well() -> None:
    """Java misses its first rebalance otherwise."""
    registry, first, second = make_registry(), RecordingSession(), RecordingSession()

    assert registry.register_consumer(first.session, "c1", CLUSTERING)
    assert notified(first) == ["G"]
    assert registry.register_consumer(second.session, "c0", CLUSTERING)
    assert (notified(first), notified(second)) == (["G"], ["G"])
    info = registry.consumer_group("G")
    assert info is not None
    assert info.client_ids == ["c0", "c1"]


def test_the_members_are_printed_once_a_change() -> None:
    """A notice makes all of them ask: each would pay for all, thousands for millions."""
    registry, first, second = make_registry(), RecordingSession(), RecordingSession()
    registry.register_consumer(first.session, "c1", CLUSTERING)
    info = registry.consumer_group("G")
    assert info is not None
    printed = info.consumer_list
    registry.register_consumer(first.session, "c1", CLUSTERING)

    assert info.consumer_list is printed
    assert info.consumer_list == b'{"consumerIdList":["c1"]}'
    registry.register_consumer(second.session, "c0", CLUSTERING)
    assert info.consumer_list == b'{"consumerIdList":["c0","c1"]}'
    registry.register_consumer(first.session, "c2", CLUSTERING)
    assert info.consumer_list == b'{"consumerIdList":["c0","c2"]}'
    registry.unregister_consumer(second.session, "G")
    assert info.consumer_list == b'{"consumerIdList":["c2"]}'


def test_a_repeated_heartbeat_tells_no_member() -> None:
    """Only members and topics count as a change, not versions or expressions."""
    registry, peer = make_registry(), RecordingSession()
    registry.register_consumer(peer.session, "c1", CLUSTERING)
    notified(peer)

    assert not registry.register_consumer(peer.session, "c1", CLUSTERING)
    assert not registry.register_consumer(peer.session, "c1", subscribed("T", 2, "a"))
    assert notified(peer) == []


def test_newer_subscriptions_replace_older_ones() -> None:
    """An older version is a heartbeat that was overtaken."""
    registry, peer = make_registry(), RecordingSession()
    registry.register_consumer(peer.session, "c1", subscribed("T", 5, "a"))
    registry.register_consumer(peer.session, "c1", subscribed("T", 4, "b"))
    info = registry.consumer_group("G")

    assert info is not None
    assert info.subscriptions["T"].sub_string == "a"
    registry.register_consumer(peer.session, "c1", subscribed("T", 6, "c"))
    assert info.subscriptions["T"].sub_string == "c"


def test_topics_no_longer_listed_are_dropped() -> None:
    """A changed set of topics is a change of the group."""
    registry, peer = make_registry(), RecordingSession()
    registry.register_consumer(peer.session, "c1", CLUSTERING)
    notified(peer)

    assert registry.register_consumer(peer.session, "c1", subscribed("U", 1))
    info = registry.consumer_group("G")
    assert info is not None
    assert list(info.subscriptions) == ["U"]
    assert notified(peer) == ["G"]


def test_a_mere_sign_of_life_keeps_the_subscriptions() -> None:
    """A heartbeat without subscriptions of version 2 says only that the client lives."""
    registry, peer = make_registry(), RecordingSession()
    registry.register_consumer(peer.session, "c1", CLUSTERING)
    sign = attrs.evolve(CLUSTERING, subscriptions=[], without_sub=True)

    assert not registry.register_consumer(peer.session, "c1", sign)
    info = registry.consumer_group("G")
    assert info is not None
    assert list(info.subscriptions) == ["T"]


def test_broadcasting_members_share_nothing() -> None:
    """They are not told of each other, nor are groups that are set to silence."""
    registry, peer = make_registry(), RecordingSession()
    registry.register_consumer(
        peer.session, "c1", attrs.evolve(CLUSTERING, message_model="BROADCASTING")
    )
    registry.register_consumer(
        peer.session, "c1", attrs.evolve(CLUSTERING, group="H", notify=False)
    )

    assert notified(peer) == []


def test_the_end_of_a_connection_is_told_to_the_rest() -> None:
    """Go never says goodbye: its connection ends, and the others take over at once."""
    registry, first, second = make_registry(), RecordingSession(), RecordingSession()
    registry.register_consumer(first.session, "c1", CLUSTERING)
    registry.register_consumer(second.session, "c2", CLUSTERING)
    registry.register_producer(second.session, "c2", "PID")
    notified(first)
    notified(second)
    registry.drop(second.session)

    assert notified(first) == ["G"]
    assert notified(second) == []
    assert registry.producers("PID") == {}
    registry.drop(first.session)
    assert registry.consumer_group("G") is None
    assert registry.consumer_groups() == []


def test_goodbye() -> None:
    """A client may leave one group and stay in another."""
    registry, peer = make_registry(), RecordingSession()
    registry.register_consumer(peer.session, "c1", CLUSTERING)
    registry.register_producer(peer.session, "c1", "PID")
    registry.unregister_consumer(peer.session, "G")
    registry.unregister_consumer(peer.session, "unknown")
    registry.unregister_producer(peer.session, "unknown")

    assert registry.consumer_group("G") is None
    assert [info.client_id for info in registry.producers("PID").values()] == ["c1"]


def test_silent_clients_are_closed() -> None:
    """Two minutes without a heartbeat end the connection; one heartbeat starts them anew."""
    now = 0.0
    registry, silent, alive = make_registry(lambda: now), RecordingSession(), RecordingSession()
    registry.register_consumer(silent.session, "c1", CLUSTERING)
    registry.register_producer(alive.session, "c2", "PID")
    now = 100
    registry.register_producer(alive.session, "c2", "PID")
    now = 120
    registry.close_expired()
    assert silent.closed_for is None
    now = 121
    registry.close_expired()

    assert silent.closed_for == "no heartbeat"
    assert alive.closed_for is None
