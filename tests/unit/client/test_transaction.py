"""Transactions of our own producer against the real broker, in memory and in virtual time."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, RunningBroker, running_broker
from timermq.broker.options import TransactionDelay
from timermq.client import (
    BrokerRefusedError,
    ConnectionLostError,
    Decision,
    ReceivedMessage,
    TransactionProducer,
)
from transaction_rig import bodies, log_records

NAMESRV = "127.0.0.1:9876"


@attrs.define
class Books:
    """What the work has left behind: answers to checks by message id, and who asked."""

    decisions: dict[str, Decision] = attrs.Factory(dict[str, Decision])
    asked: list[str] = attrs.Factory(list[str])

    async def check(self, message: ReceivedMessage) -> Decision:
        """Answer a check by what the work has left behind, else UNKNOWN."""
        await trio.lowlevel.checkpoint()
        self.asked.append(message.message_id)
        return self.decisions.get(message.message_id, Decision.UNKNOWN)


@attrs.define
class Wire:
    """Opens streams to a broker; cut, none are opened and those that were break."""

    broker: RunningBroker
    is_cut: bool = False
    streams: list[trio.abc.Stream] = attrs.Factory(list[trio.abc.Stream])

    async def open_stream(self, _host: str, _port: int) -> trio.abc.Stream:
        """Open one more stream to the broker; cut, it is refused."""
        await trio.lowlevel.checkpoint()
        if self.is_cut:
            raise ConnectionRefusedError
        self.streams.append(self.broker.connect().stream)
        return self.streams[-1]

    async def cut(self) -> None:
        """Nothing goes through any more."""
        self.is_cut = True
        for stream in self.streams:
            await trio.aclose_forcefully(stream)


def producer_of(
    broker: RunningBroker,
    books: Books,
    open_stream: Callable[[str, int], Awaitable[trio.abc.Stream]] | None = None,
) -> TransactionProducer:
    """A producer of the broker."""
    return TransactionProducer(
        NAMESRV,
        group="P",
        check=books.check,
        open_stream=open_stream or Wire(broker).open_stream,
        clock_ms=broker.clock.now_ms,
    )


async def test_a_block_that_is_left_commits(autojump_clock: MockClock) -> None:
    """The message appears behind the block, not before."""
    books = Books()
    async with running_broker() as running, producer_of(running, books) as producer:
        async with producer.transaction("T", b"a", keys=["k"], tag="t") as message_id:
            before = bodies(running.broker)
        (record,) = running.broker.store.query("T", message_id, count_max=9, unique=True)
        await trio.sleep(100)
        found = bodies(running.broker)

    assert (before, found, books.asked) == ([], ["a"], [])
    assert b"KEYS\x01k\x02" in record


async def test_an_error_in_the_block_rolls_back(autojump_clock: MockClock) -> None:
    """An error in the block rolls back, and goes on to the caller."""
    books = Books()
    async with running_broker() as running, producer_of(running, books) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction("T", b"a"):
                _ = 1 // 0
        await trio.sleep(100)
        found = bodies(running.broker)
        statistics = running.broker.transactions.statistics()

    assert (found, books.asked) == ([], [])
    assert (statistics.rolled_back, statistics.open) == (1, 0)


async def test_a_cancelled_block_is_asked_about(autojump_clock: MockClock) -> None:
    """Until the work is known to be done, or not."""
    books = Books()
    async with running_broker() as running, producer_of(running, books) as producer:
        key = ""
        with trio.move_on_after(1):
            async with producer.transaction("T", b"a") as message_id:
                key = message_id
                await trio.sleep_forever()
        await trio.sleep(65)
        before = bodies(running.broker)
        books.decisions[key] = Decision.COMMIT
        await trio.sleep(60)
        found = bodies(running.broker)

    assert (before, found, books.asked) == ([], ["a"], [key, key, key])


@pytest.mark.parametrize(("decision", "expected"), [("COMMIT", ["a"]), ("ROLLBACK", [])])
async def test_an_end_that_does_not_arrive(
    autojump_clock: MockClock, decision: str, expected: list[str]
) -> None:
    """Another producer of the group is asked, also one that has not sent anything."""
    books = Books()
    async with running_broker() as running:
        wire = Wire(running)
        async with producer_of(running, books) as other:
            await other.join("T")
            async with producer_of(running, Books(), wire.open_stream) as producer:
                with pytest.raises(ConnectionLostError):
                    await _cut_off(producer, books, wire, Decision[decision])
            await trio.sleep(60)
            found = bodies(running.broker)

    assert (found, len(books.asked)) == (expected, 1)


async def _cut_off(
    producer: TransactionProducer, books: Books, wire: Wire, decision: Decision
) -> None:
    """A transaction whose end stays with its producer."""
    async with producer.transaction("T", b"a") as message_id:
        books.decisions[message_id] = decision
        await wire.cut()


async def test_a_delay_begins_with_the_commit(autojump_clock: MockClock) -> None:
    """Where the broker allows it; elsewhere the message is refused."""
    options = attrs.evolve(BROKER, transaction_delay=TransactionDelay.AT_COMMIT)
    delay = datetime.timedelta(seconds=30)
    async with (
        running_broker(options=options) as running,
        producer_of(running, Books()) as producer,
    ):
        async with producer.transaction("T", b"a", delay=delay):
            await trio.sleep(20)
        committed_ms = running.clock.now_ms()
        await trio.sleep(29)
        before = bodies(running.broker)
        await trio.sleep(2)
        found = bodies(running.broker)
        (record,) = [one for one in log_records(running.broker) if one.topic == "T"]

    async with running_broker() as running, producer_of(running, Books()) as producer:
        with pytest.raises(BrokerRefusedError) as refused:
            async with producer.transaction("T", b"a", delay=delay):
                pass

    assert (before, found) == ([], ["a"])
    assert 30_000 <= record.store_ms - committed_ms <= 30_010
    assert refused.value.rule == "TRANSACTION_DELAY"


async def test_arguments_that_do_not_go_together(autojump_clock: MockClock) -> None:
    """They are an error before anything is sent."""
    async with running_broker() as running, producer_of(running, Books()) as producer:
        with pytest.raises(ValueError, match="topic T has no queue 99"):
            async with producer.transaction("T", b"a", queue_id=99):
                pass
        statistics = running.broker.transactions.statistics()

    assert statistics.open == 0
