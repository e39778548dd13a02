"""The consumer against scripted brokers: order, offsets, beginning and end."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from scripted_server import (
    Network,
    ScriptedBroker,
    stored,
)
from timermq.client.consumer import COMMIT_SECONDS, EXIT_SECONDS
from timermq.client.process_queue import SUSPEND_MS
from unit.client.consumers import bodies, consumer_of, messages, take


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
    """A user of a consumer need not unpack groups."""
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
