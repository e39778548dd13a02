"""The consumer among others: its share of the queues, its heartbeats, its commits."""

from __future__ import annotations

import trio
import trio.testing

from scripted_server import (
    Network,
    ScriptedBroker,
    always,
    name_server,
    route,
    stored,
)
from timermq.client.consumer import HEARTBEAT_SECONDS
from timermq.remoting import Command
from timermq.remoting.bodies import HeartbeatData
from timermq.remoting.codes import FLAG_ONEWAY
from unit.client.consumers import TWO_BROKERS, bodies, consumer_of, messages, take


async def test_queues_of_one_number_on_two_brokers(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A commit is for the broker that the message came from."""
    network = Network(nursery)
    name_server(network, {"T": TWO_BROKERS})
    brokers = {"broker-a": ScriptedBroker(network), "broker-b": ScriptedBroker(network, "b:10911")}
    async with consumer_of(network) as consumer:
        await trio.sleep(1)
        for one in brokers.values():
            one.members |= brokers["broker-a"].members
        brokers["broker-a"].put(*messages(3))
        first = await take(consumer, 3)
        brokers["broker-b"].put(*messages(2))
        second = await take(consumer, 2)
        await consumer.commit(first[2])

    assert ["broker-a"] * 3 + ["broker-b"] * 2 == [one.broker_name for one in first + second]
    assert 3 == brokers["broker-a"].offsets["T", 0]
    assert 0 == brokers["broker-b"].offsets["T", 0]


async def test_heartbeat(autojump_clock: trio.testing.MockClock, network: Network) -> None:
    """A heartbeat says the group, where it begins and what it wants."""
    broker = ScriptedBroker(network)
    async with consumer_of(network, "T", expression="a || b", start_from="last"):
        await trio.sleep(2 * HEARTBEAT_SECONDS + 1)
    beat = HeartbeatData.decode(broker.server.requests(34)[0].body)
    (group,) = beat.consumers
    (subscription,) = group.subscriptions

    assert ("G", "CONSUME_FROM_LAST_OFFSET") == (group.group_name, group.consume_from_where)
    assert ("T", "a || b", 5) == (
        subscription.topic,
        subscription.sub_string,
        subscription.sub_version,
    )
    assert beat.client_id == broker.server.requests(35)[0].ext["clientID"]
    assert len(broker.server.requests(34)) >= 4


async def test_members_share_the_queues(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """After the broker's word every member takes its share; what it leaves is committed first."""
    network = Network(nursery)
    name_server(network, {"T": route(queues=2)})
    broker = ScriptedBroker(network)
    for queue_id in range(2):
        broker.put(stored("T", 0, queue_id=queue_id), queue_id=queue_id)
    async with consumer_of(network) as one:
        found = await take(one, 2)
        for message in found:
            await one.commit(message)
        async with consumer_of(network) as other:
            await trio.sleep(1)
            for flag in (FLAG_ONEWAY, 0):
                await broker.server.connections[0].push(Command(40, opaque=1, flag=flag))
            await trio.sleep(1)
            running = dict(broker.offsets)
            for queue_id in range(2):
                broker.put(stored("T", 1, queue_id=queue_id), queue_id=queue_id)
            shares = [(await take(member, 1))[0].queue_id for member in (one, other)]

    assert [0, 1] == sorted(shares)
    assert len(running) >= 1
    assert set(running.values()) == {1}


async def test_topics_that_are_not_there_yet(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """They are looked for once a second, however many there are."""
    network = Network(nursery)
    routes: dict[str, bytes] = {}
    server = name_server(network, routes)
    broker = ScriptedBroker(network)
    async with consumer_of(network, "A", "B", "T") as consumer:
        await trio.sleep(60.5)
        asked = len(server.received)
        routes["T"] = route()
        broker.put(*messages(1))
        found = await take(consumer, 1)

    assert [b"0"] == bodies(found)
    assert 180 <= asked <= 200


async def test_commits_of_a_queue_that_is_gone_are_ignored(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """Its messages come again elsewhere."""
    broker = ScriptedBroker(network)
    broker.put(*messages(1))
    async with consumer_of(network) as consumer:
        (message,) = await take(consumer, 1)
        broker.server.handlers[38] = always(body=b'{"consumerIdList":["somebody else"]}')
        await broker.server.connections[0].push(Command(40, opaque=1, flag=FLAG_ONEWAY))
        await trio.sleep(1)
        await consumer.commit(message)

    assert {("T", 0): 0} == broker.offsets
