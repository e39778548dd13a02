"""The consumer with brokers and messages that are not as they should be."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from scripted_server import (
    BROKER,
    NAMESRV,
    Network,
    ScriptedBroker,
    name_server,
    stored,
)
from timermq.client import UnreadableBodyError
from timermq.client.consumer import HEARTBEAT_SECONDS
from timermq.remoting import Command
from unit.client.consumers import OTHER_BROKER, TWO_BROKERS, bodies, consumer_of, messages, take


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


async def test_a_consumer_without_a_name_server(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """It waits for one, and can be left."""
    network = Network(nursery)
    async with consumer_of(network):
        await trio.sleep(30)

    assert {NAMESRV} == {address for address, _ in network.opened}
    assert BROKER not in network.servers


async def test_a_hostile_property(autojump_clock: trio.testing.MockClock, network: Network) -> None:
    """A message whose moment is none does not end the consumer."""
    broker = ScriptedBroker(network)
    broker.put(stored("T", 0, properties=f"TIMER_DELIVER_MS\x01{'9' * 5000}\x02"))
    async with consumer_of(network) as consumer:
        (message,) = await take(consumer, 1)

    assert message.deliver_ms is None


async def test_a_body_that_does_not_unpack_hinders_no_other(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """A bad producer's message is handed out with what there is; it can be left behind."""
    broker = ScriptedBroker(network)
    broker.put(stored("T", 0), stored("T", 1, body=b"no zlib", sys_flag=1), stored("T", 2))
    async with consumer_of(network) as consumer:
        first, bad, last = await take(consumer, 3)
        await consumer.commit(last)

    assert [b"0", b"2"] == bodies([first, last])
    assert b"no zlib" == bad.raw_body
    with pytest.raises(UnreadableBodyError, match=r"^message T/0@1: body does not unpack: "):
        _ = bad.body
    assert {("T", 0): 3} == broker.offsets


async def test_properties_that_are_no_text_hinder_no_other(
    autojump_clock: trio.testing.MockClock, network: Network
) -> None:
    """What cannot be read of them is replaced, as in Java."""
    broker = ScriptedBroker(network)
    record = stored("T", 0, properties="KEYS\x01abc\x02").replace(b"abc", b"a\xffc")
    broker.put(record, stored("T", 1))
    async with consumer_of(network) as consumer:
        found = await take(consumer, 2)

    assert [b"0", b"1"] == bodies(found)
    assert ("a\ufffdc",) == found[0].keys
