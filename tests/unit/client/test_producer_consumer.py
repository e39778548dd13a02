"""Producer and consumer against the real broker, over streams in memory and in virtual time."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest
import trio

from broker_rig import RunningBroker, running_broker
from fakes import START_MS
from timermq.client import (
    BrokerRefusedError,
    ConnectionLostError,
    Consumer,
    OutgoingMessage,
    Producer,
    ReceivedMessage,
    Verdict,
)

NAMESRV = "127.0.0.1:9876"


def opener(broker: RunningBroker) -> Callable[[str, int], Awaitable[trio.abc.Stream]]:
    """Every address leads to this broker."""

    async def open_stream(_host: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return broker.connect().stream

    return open_stream


def producer_of(broker: RunningBroker) -> Producer:
    """A producer of the broker."""
    return Producer(NAMESRV, open_stream=opener(broker), clock_ms=broker.clock.now_ms)


def consumer_of(
    broker: RunningBroker,
    topics: dict[str, str],
    start_from: Literal["first", "last"] = "first",
) -> Consumer:
    """A consumer of the broker."""
    return Consumer(
        NAMESRV,
        group="G",
        topics=topics,
        start_from=start_from,
        open_stream=opener(broker),
        clock_ms=broker.clock.now_ms,
    )


async def receive(consumer: Consumer, count: int) -> list[ReceivedMessage]:
    """The next messages, each committed."""
    found: list[ReceivedMessage] = []
    async for message in consumer:
        found.append(message)
        await consumer.commit(message)
        if len(found) == count:
            break
    return found


async def test_there_and_back(autojump_clock: trio.testing.MockClock) -> None:
    """Messages for a moment, after a delay, by level and for now come back on their millisecond."""
    at_ms = START_MS + 4_321
    async with running_broker() as broker, producer_of(broker) as producer:
        await producer.send("T", b"now", keys=["k1", "k2"], tag="a", properties={"p": "v"})
        at = await producer.send("T", b"at", at=at_ms)
        await producer.send("T", b"delay", delay=datetime.timedelta(milliseconds=1_500))
        await producer.send("T", b"level", level=2)
        async with consumer_of(broker, {"T": "*"}) as consumer:
            found = {message.body: message for message in await receive(consumer, 4)}

    now = found[b"now"]
    assert at_ms == at.deliver_ms
    assert at.message_id == found[b"at"].message_id
    assert at_ms == found[b"at"].deliver_ms == found[b"at"].stored_ms
    assert START_MS + 1_500 == found[b"delay"].stored_ms
    assert START_MS + 5_000 == found[b"level"].stored_ms
    assert (("k1", "k2"), "a", "v") == (now.keys, now.tags, now.properties["p"])
    assert now.deliver_ms is None


async def test_batch_of_many_topics(autojump_clock: trio.testing.MockClock) -> None:
    """One call sends messages of several topics and moments; the receipts are in order."""
    messages = [
        OutgoingMessage(topic=f"T{n % 3}", body=b"%d" % n, at=START_MS + 1_000 + n)
        for n in range(30)
    ]
    async with running_broker() as broker, producer_of(broker) as producer:
        receipts = await producer.send_batch(messages)
        async with consumer_of(broker, {"T0": "*", "T1": "*", "T2": "*"}) as consumer:
            found = await receive(consumer, 30)

    assert [one.at for one in messages] == [one.deliver_ms for one in receipts]
    assert {one.message_id for one in receipts} == {one.message_id for one in found}


async def test_tag_filter(autojump_clock: trio.testing.MockClock) -> None:
    """A consumer gets the tags that it asked for, and no others."""
    async with running_broker() as broker, producer_of(broker) as producer:
        for tag in ("a", "b", "c", "a"):
            await producer.send("T", tag.encode(), tag=tag)
        async with consumer_of(broker, {"T": "a || c"}) as consumer:
            found = await receive(consumer, 3)

    assert [b"a", b"a", b"c"] == sorted(one.body for one in found)


async def test_cancel(autojump_clock: trio.testing.MockClock) -> None:
    """Cancelled, too late and not found are answers; a handle that is none is refused."""
    async with running_broker() as broker, producer_of(broker) as producer:
        soon = await producer.send("T", b"soon", delay=datetime.timedelta(seconds=1))
        late = await producer.send("T", b"late", delay=datetime.timedelta(seconds=9))
        assert late.recall_handle is not None
        assert soon.recall_handle is not None
        await trio.sleep(3)
        verdicts = [
            await producer.cancel("T", late.recall_handle),
            await producer.cancel("T", soon.recall_handle),
        ]
        with pytest.raises(BrokerRefusedError) as refused:
            await producer.cancel("T", "nonsense")
        await trio.sleep(20)
        statistics = broker.broker.timer_store.statistics()

    assert [Verdict.CANCELLED, Verdict.TOO_LATE] == verdicts
    assert refused.value.rule == "RECALL_HANDLE"
    assert (1, 1) == (statistics.delivered, statistics.cancelled)


async def test_refusal_names_its_rule(autojump_clock: trio.testing.MockClock) -> None:
    """A moment too far ahead is refused by the broker's rule."""
    async with running_broker() as broker, producer_of(broker) as producer:
        with pytest.raises(BrokerRefusedError) as refused:
            await producer.send("T", b"far", delay=datetime.timedelta(days=400))

    assert refused.value.rule == "TIMER_DELAY_TOO_LONG"


async def test_offsets_survive_the_consumer(autojump_clock: trio.testing.MockClock) -> None:
    """What was committed does not come again to the next consumer of the group."""
    async with running_broker() as broker, producer_of(broker) as producer:
        for n in range(8):
            await producer.send("T", b"%d" % n)
        async with consumer_of(broker, {"T": "*"}) as consumer:
            first = await receive(consumer, 8)
        await producer.send("T", b"new")
        async with consumer_of(broker, {"T": "*"}) as consumer:
            second = await receive(consumer, 1)

    assert len(first) == 8
    assert [b"new"] == [one.body for one in second]


async def test_consumer_before_the_topic(autojump_clock: trio.testing.MockClock) -> None:
    """A consumer of a topic that is not there yet gets what is sent to it later."""
    async with (
        running_broker() as broker,
        producer_of(broker) as producer,
        consumer_of(broker, {"Later": "*"}) as consumer,
    ):
        await trio.sleep(5)
        await producer.send("Later", b"first")
        found = await receive(consumer, 1)

    assert [b"first"] == [one.body for one in found]


async def test_behind_the_last_message(autojump_clock: trio.testing.MockClock) -> None:
    """A new group that asks for it gets nothing of what was there when it came."""
    async with running_broker() as broker, producer_of(broker) as producer:
        for n in range(8):
            await producer.send("T", b"%d" % n)
        async with consumer_of(broker, {"T": "*"}, "last") as consumer:
            await trio.sleep(1)
            await producer.send("T", b"new")
            found = await receive(consumer, 1)

    assert [b"new"] == [one.body for one in found]


async def test_behind_the_last_message_of_no_topic(autojump_clock: trio.testing.MockClock) -> None:
    """What is sent to a topic that was not there when the consumer came is new: all of it."""
    async with (
        running_broker() as broker,
        producer_of(broker) as producer,
        consumer_of(broker, {"Later": "*"}, "last") as consumer,
    ):
        await trio.sleep(5)
        for n in range(8):
            await producer.send("Later", b"%d" % n)
        found = await receive(consumer, 8)

    assert {b"%d" % n for n in range(8)} == {one.body for one in found}


async def test_no_connection() -> None:
    """Without a broker a send fails by name."""

    async def refuse(_host: str, _port: int) -> trio.abc.Stream:
        raise ConnectionRefusedError("nothing there")

    async with Producer(NAMESRV, open_stream=refuse) as producer:
        with pytest.raises(ConnectionLostError, match="cannot connect"):
            await producer.send("T", b"x")


@pytest.mark.parametrize(
    "arguments",
    [
        {"at": 1, "level": 2},
        {"at": datetime.datetime(2026, 1, 1)},
        {"delay": datetime.timedelta(seconds=-1)},
        {"keys": ["two words"]},
    ],
)
def test_arguments(arguments: dict[str, object]) -> None:
    """What the broker could only refuse is refused before it is sent."""
    with pytest.raises(ValueError, match="expected"):
        OutgoingMessage(topic="T", body=b"", **arguments)  # type: ignore[arg-type]  # the case


def test_namesrv_is_checked() -> None:
    """A client without a name server is refused at once."""
    with pytest.raises(ValueError, match="expected host:port"):
        Producer(" ; ")
