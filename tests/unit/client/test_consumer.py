"""The consumer against scripted brokers: shares, offsets, and brokers that misbehave."""

from __future__ import annotations

from typing import Literal

import pytest
import trio
import trio.testing

from scripted_server import (
    BROKER,
    NAMESRV,
    Network,
    ScriptedBroker,
    always,
    joined_routes,
    name_server,
    route,
    stored,
)
from timermq.client import Consumer, ReceivedMessage
from timermq.client.consumer import COMMIT_SECONDS, EXIT_SECONDS, HEARTBEAT_SECONDS
from timermq.client.process_queue import SUSPEND_MS
from timermq.remoting import Command
from timermq.remoting.bodies import HeartbeatData
from timermq.remoting.codes import FLAG_ONEWAY

OTHER_BROKER = "b:10911"
TWO_BROKERS = joined_routes(route(), route(address=OTHER_BROKER, broker_name="broker-b"))


def consumer_of(
    network: Network,
    *topics: str,
    expression: str = "*",
    start_from: Literal["first", "last"] = "first",
) -> Consumer:
    """A consumer in a network."""
    return Consumer(
        NAMESRV,
        group="G",
        topics=dict.fromkeys(topics or ("T",), expression),
        start_from=start_from,
        open_stream=network.open_stream,
        clock_ms=lambda: 5,
    )


async def take(consumer: Consumer, count: int) -> list[ReceivedMessage]:
    """The next messages, not committed."""
    return [await anext(consumer) for _ in range(count)]


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    """What they say."""
    return [one.body for one in messages]


def messages(count: int, first: int = 0) -> list[bytes]:
    """Messages as they are stored in a queue."""
    return [stored("T", offset) for offset in range(first, first + count)]


@pytest.fixture
def network(nursery: trio.Nursery) -> Network:
    """A name server that knows T with one queue."""
    network = Network(nursery)
    name_server(network, {"T": route()})
    return network


async def test_messages_in_order(autojump_clock: trio.testing.MockClock, network: Network) -> None:
    """Messages come in the order of their queue, from the first one on, as they arrive."""
    broker = ScriptedBroker(network)
    broker.put(*messages(300))
    async with consumer_of(network) as consumer:
        found = await take(consumer, 300)
        broker.put(stored("T", 300))
        (last,) = await take(consumer, 1)

    assert [b"%d" % n for n in range(300)] == bodies(found)
    assert ("T", 0, 300, "broker-a", 5) == (
        last.topic,
        last.queue_id,
        last.queue_offset,
        last.broker_name,
        last.received_ms,
    )


async def test_commits_every_five_seconds_and_at_the_end(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """What ``commit`` was called for is told to the broker; nothing else is."""
    broker = ScriptedBroker(network)
    broker.put(*messages(5))
    async with consumer_of(network) as consumer:
        found = await take(consumer, 5)
        await consumer.commit(found[1])
        await consumer.commit(found[0])
        await trio.sleep(COMMIT_SECONDS + 1)
        running = dict(broker.offsets)
        await trio.sleep(3 * COMMIT_SECONDS)
        commits = len(broker.server.requests(15))
        await consumer.commit(found[3])

    assert {("T", 0): 2} == running
    assert {("T", 0): 4} == broker.offsets
    assert commits == len(broker.server.requests(15)) - 1


async def test_commits_also_when_cancelled(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """A consumer that is cancelled from outside still commits and says goodbye."""
    broker = ScriptedBroker(network)
    broker.put(*messages(2))
    with trio.move_on_after(1) as scope:
        async with consumer_of(network) as consumer:
            await consumer.commit((await take(consumer, 1))[0])
            await trio.sleep_forever()

    assert scope.cancelled_caught
    assert {("T", 0): 1} == broker.offsets
    assert set() == broker.members


async def test_the_end_is_bounded(autojump_clock: trio.testing.MockClock, network: Network) -> None:
    """A broker that is silent does not hold up the end for longer than five seconds."""
    broker = ScriptedBroker(network)
    broker.put(*messages(1))
    async with consumer_of(network) as consumer:
        await consumer.commit((await take(consumer, 1))[0])
        del broker.server.handlers[15], broker.server.handlers[35]
        before = trio.current_time()

    assert EXIT_SECONDS == trio.current_time() - before


async def test_errors_of_the_block_come_out_bare(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """Whoever uses a consumer need not unpack groups."""
    ScriptedBroker(network)
    with pytest.raises(KeyError):
        async with consumer_of(network):
            raise KeyError


async def test_a_group_goes_on_where_it_stands(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """What is committed does not come again."""
    broker = ScriptedBroker(network)
    broker.put(*messages(5))
    broker.offsets["T", 0] = 3
    async with consumer_of(network) as consumer:
        found = await take(consumer, 2)

    assert [b"3", b"4"] == bodies(found)
    assert {("T", 0): 3} == broker.offsets


async def test_where_a_new_group_begins_is_written_down(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """A group that begins behind the last message gets, after a restart, what came meanwhile."""
    broker = ScriptedBroker(network)
    broker.put(*messages(3))
    async with consumer_of(network, start_from="last"):
        await trio.sleep(2 * COMMIT_SECONDS)
    assert {("T", 0): 3} == broker.offsets
    broker.put(*messages(2, first=3))
    async with consumer_of(network, start_from="last") as consumer:
        found = await take(consumer, 2)

    assert [b"3", b"4"] == bodies(found)


async def test_filtered_messages_are_left_behind(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """What the tags leave out is not given out, and not looked at again after a restart."""
    broker = ScriptedBroker(network)
    broker.put(*(stored("T", n, properties=f"TAGS\x01{tag}\x02") for n, tag in enumerate("abcb")))
    async with consumer_of(network, expression="a || c") as consumer:
        found = await take(consumer, 2)
        await trio.sleep(COMMIT_SECONDS)
        uncommitted = dict(broker.offsets)
        for one in found:
            await consumer.commit(one)
        await trio.sleep(SUSPEND_MS / 1000 + COMMIT_SECONDS)

    assert [b"0", b"2"] == bodies(found)
    assert {} == uncommitted or {("T", 0): 0} == uncommitted
    assert {("T", 0): 4} == broker.offsets


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


async def test_a_dead_broker_hinders_no_other(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Heartbeats, rebalancing and pulls of one broker go on while another is down."""
    network = Network(nursery)
    name_server(network, {"T": TWO_BROKERS})
    broker = ScriptedBroker(network, OTHER_BROKER)
    broker.put(*messages(1))
    async with consumer_of(network) as consumer:
        found = await take(consumer, 1)
        before = len(broker.server.requests(34))
        await trio.sleep(HEARTBEAT_SECONDS)

    assert [b"0"] == bodies(found)
    assert len(broker.server.requests(34)) > before


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


async def test_an_offset_that_is_moved(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """After a reset nothing from before it is given out, and it is not committed over."""
    broker = ScriptedBroker(network)
    broker.put(*messages(300))
    async with consumer_of(network) as consumer:
        found = await take(consumer, 10)
        await trio.sleep(1)
        broker.moved["T", 0] = 2
        broker.wake()
        await trio.sleep(1)
        again = await take(consumer, 3)
        broker.queues["T", 0] = broker.queues["T", 0][:5]
        await consumer.commit(again[-1])

    assert [b"%d" % n for n in range(10)] == bodies(found)
    assert [b"2", b"3", b"4"] == bodies(again)
    assert {("T", 0): 5} == broker.offsets


async def test_the_iteration_may_be_slow(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """Pulling waits for the iteration: a bounded number of answers is kept."""
    broker = ScriptedBroker(network)
    broker.put(*messages(5000))
    async with consumer_of(network) as consumer:
        await trio.sleep(5)
        pulls = len(broker.server.requests(11))
        found = await take(consumer, 5000)

    assert 5 == pulls
    assert [b"%d" % n for n in range(5000)] == bodies(found)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (11, Command(0, flag=1)),
        (11, Command(0, flag=1, ext={"nextBeginOffset": "x"})),
        (11, Command(0, flag=1, ext={"nextBeginOffset": "-1"})),
        (11, Command(0, flag=1, ext={"nextBeginOffset": "0"})),
        (11, Command(0, flag=1, ext={"nextBeginOffset": "1"}, body=b"nonsense")),
        (11, Command(26, flag=1, remark="no group")),
        (14, Command(0, flag=1)),
        (14, Command(0, flag=1, ext={"offset": "-5"})),
        (14, Command(1, flag=1, remark="not now")),
        (34, Command(1, flag=1, remark="not now")),
        (38, Command(0, flag=1, body=b"{")),
        (38, Command(1, flag=1, remark="no consumer")),
    ],
)
async def test_a_broker_that_misbehaves_for_a_while(
    code: int,
    answer: Command,
    autojump_clock: trio.testing.MockClock,
    network: Network,
) -> None:
    """Nothing that a broker answers ends the consumer; it tries again, and not in a hurry."""
    broker = ScriptedBroker(network)
    broker.put(*messages(2))
    good = broker.server.handlers[code]

    async def misbehave(command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        return command.answer(answer.code, remark=answer.remark, ext=answer.ext, body=answer.body)

    broker.server.handlers[code] = misbehave
    async with consumer_of(network) as consumer:
        await trio.sleep(30)
        asked = len(broker.server.requests(code))
        broker.server.handlers[code] = good
        found = await take(consumer, 2)

    assert [b"0", b"1"] == bodies(found)
    assert 2 <= asked <= 70


async def test_a_hostile_property(autojump_clock: trio.testing.MockClock, network: Network) -> None:
    """A message whose moment is none does not end the consumer."""
    broker = ScriptedBroker(network)
    broker.put(stored("T", 0, properties=f"TIMER_DELIVER_MS\x01{'9' * 5000}\x02"))
    async with consumer_of(network) as consumer:
        (message,) = await take(consumer, 1)

    assert message.deliver_ms is None


async def test_a_broker_that_comes_back(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """After a restart of the broker the consumer goes on where it was."""
    broker = ScriptedBroker(network)
    broker.put(*messages(1))
    async with consumer_of(network) as consumer:
        (first,) = await take(consumer, 1)
        await consumer.commit(first)
        broker.server.refuses = True
        broker.members.clear()
        for connection in broker.server.connections:
            await connection.stream.aclose()
        await trio.sleep(60)
        broker.server.refuses = False
        broker.put(stored("T", 1))
        (second,) = await take(consumer, 1)
        await consumer.commit(second)

    assert [b"0", b"1"] == bodies([first, second])
    assert {("T", 0): 2} == broker.offsets


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


async def test_a_consumer_without_a_name_server(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """It waits for one, and can be left."""
    network = Network(nursery)
    async with consumer_of(network):
        await trio.sleep(30)

    assert {NAMESRV} == {address for address, _ in network.opened}
    assert BROKER not in network.servers
