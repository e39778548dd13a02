"""Messages given back: the request, and what the real broker makes of it, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from broker_rig import RunningBroker, running_broker
from timermq.client import (
    BrokerRefusedError,
    Consumer,
    HistoryWriter,
    NoRouteError,
    Producer,
    ReceivedMessage,
)
from timermq.client.consumer import send_back_request
from unit.client.test_producer_consumer import NAMESRV, opener


def received(broker_name: str = "broker-a", **properties: str) -> ReceivedMessage:
    """A message at position 256."""
    return ReceivedMessage(
        topic="%RETRY%G",
        queue_id=0,
        queue_offset=0,
        message_id="K",
        offset_message_id="7F00000100002A9F0000000000000100",
        keys=(),
        tags="",
        properties=properties,
        raw_body=b"x",
        born_ms=1,
        stored_ms=1,
        received_ms=1,
        deliver_ms=None,
        reconsume_times=1,
        broker_name=broker_name,
    )


def producer_of(broker: RunningBroker) -> Producer:
    """A producer of the broker."""
    return Producer(NAMESRV, open_stream=opener(broker), clock_ms=broker.clock.now_ms)


def consumer_of(
    broker: RunningBroker, topics: Mapping[str, str], *, retries: bool, group: str = "G"
) -> Consumer:
    """A consumer of the broker."""
    return Consumer(
        NAMESRV,
        group=group,
        topics=topics,
        start_from="first",
        retries=retries,
        open_stream=opener(broker),
        clock_ms=broker.clock.now_ms,
    )


def test_the_request() -> None:
    """It names the message by its position, and the topic that it had at first."""
    assert send_back_request("G", received(RETRY_TOPIC="T"), 3).ext == {
        "group": "G",
        "offset": "256",
        "delayLevel": "3",
        "originMsgId": "K",
        "originTopic": "T",
        "unitMode": "false",
    }


async def test_it_comes_again(autojump_clock: trio.testing.MockClock) -> None:
    """After ten seconds, after the level that is asked for, and as a dead letter in the end."""
    async with running_broker() as broker, producer_of(broker) as producer:
        await producer.send("T", b"x", tag="a")
        async with consumer_of(broker, {"T": "*"}, retries=True) as consumer:
            first = await anext(consumer)
            given_back_ms = broker.clock.now_ms()
            await consumer.send_back(first)
            await consumer.commit(first)
            second = await anext(consumer)
            await consumer.send_back(second, level=1)
            await consumer.commit(second)
            third = await anext(consumer)
            await consumer.give_up(third)
            await consumer.commit(third)
        async with consumer_of(broker, {"%DLQ%G": "*"}, retries=False, group="H") as audit:
            letter = await anext(audit)

    tries = [first, second, third, letter]
    assert [0, 1, 2, 3] == [one.reconsume_times for one in tries]
    assert ["T", "%RETRY%G", "%RETRY%G", "%DLQ%G"] == [one.topic for one in tries]
    assert {"T"} == {one.original_topic for one in tries}
    assert {first.message_id} == {one.message_id for one in tries}
    assert given_back_ms + 10_000 == second.stored_ms
    assert second.stored_ms + 1_000 <= third.stored_ms
    assert (b"x", "a") == (letter.body, letter.tags)


async def test_what_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """Without retries nothing would come again; a level below 0, a message of nowhere."""
    async with running_broker() as broker, producer_of(broker) as producer:
        await producer.send("T", b"x")
        async with consumer_of(broker, {"T": "*"}, retries=False) as consumer:
            message = await anext(consumer)
            with pytest.raises(ValueError, match="expected a consumer with retries=True"):
                await consumer.send_back(message)
            with pytest.raises(NoRouteError, match="no route to broker broker-b"):
                await consumer.give_up(received("broker-b"))
            with pytest.raises(BrokerRefusedError) as refused:
                await consumer.give_up(received())
        async with consumer_of(broker, {"T": "*"}, retries=True) as consumer:
            with pytest.raises(ValueError, match="level: expected 0 or more, found -1"):
                await consumer.send_back(message, level=-1)

    assert refused.value.rule == "MESSAGE_NOT_FOUND"


def test_a_history_knows_no_retries(tmp_path: Path) -> None:
    """What comes again would look like a message that arrived twice."""
    with (
        HistoryWriter(tmp_path / "history") as history,
        pytest.raises(ValueError, match="retries or with a history, found both"),
    ):
        Consumer(NAMESRV, group="G", topics={"T": "*"}, retries=True, history=history)
