"""Tests of the broker as a whole: what it promises across start, stop and kill."""

import attrs
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from broker_rig import (
    BROKER,
    ROOT,
    STORE,
    TIMER,
    RunningBroker,
    open_broker,
    pull_ext,
    running_broker,
    send_ext,
    split_records,
)
from fakes import VirtualClock
from timermq.broker.broker import Broker
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import load_json
from timermq.timerstore.message import Message
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import FlushDiskType


async def delivered(running: RunningBroker, topic: str = "T") -> list[bytes]:
    """The bodies in queue 0 of a topic."""
    answer = await running.connect().call(11, pull_ext(topic))
    return [decode_record(data).body for data in split_records(answer.body)]


async def test_ready_is_logged_with_the_addresses(autojump_clock: MockClock) -> None:
    """An operator learns from the log when and where it takes requests."""
    with capture_logs() as logs:
        async with running_broker():
            pass
    events = [one["event"] for one in logs]

    assert events.index("broker ready") < events.index("broker stopped")
    ready = logs[events.index("broker ready")]
    assert (ready["address"], ready["broker"], ready["store"]) == (
        "127.0.0.1:10911",
        "broker-a",
        ROOT,
    )


async def test_a_message_arrives_at_its_moment(autojump_clock: MockClock) -> None:
    """A held pull is answered in the very millisecond that was asked for."""
    async with running_broker() as running:
        producer, consumer = running.connect(), running.connect()
        due_ms = running.clock.now_ms() + 5_250
        await producer.call(10, send_ext("T", f"TIMER_DELIVER_MS\x01{due_ms}\x02"), b"later")
        answer = await consumer.call(11, pull_ext("T", sysFlag="6"))

        assert running.clock.now_ms() == due_ms
        assert decode_record(answer.body).body == b"later"


async def test_a_recalled_message_does_not_arrive(autojump_clock: MockClock) -> None:
    """A recall answered with success is kept; the message beside it comes."""
    async with running_broker() as running:
        peer = running.connect()
        sent: list[Command] = [
            await peer.call(
                10,
                send_ext("T", f"UNIQ_KEY\x01K{n}\x02TIMER_DELAY_MS\x015000\x02"),
                b"%d" % n,
            )
            for n in range(2)
        ]
        await trio.sleep(1)
        recalled = await peer.call(370, {"topic": "T", "recallHandle": sent[0].ext["recallHandle"]})
        assert recalled.code == 0
        await trio.sleep(10)

        assert await delivered(running) == [b"1"]


async def test_tables_and_messages_survive_a_clean_stop(autojump_clock: MockClock) -> None:
    """Topics, offsets, messages and timers are there at the next start; nothing is recovered."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"now")
        await peer.call(10, send_ext("T", "TIMER_DELAY_MS\x0160000\x02"), b"later")
        commit = {"topic": "T", "queueId": "0", "consumerGroup": "G", "commitOffset": "1"}
        await peer.call(15, commit)
    assert not disk.exists(f"{ROOT}/abort")
    await trio.sleep(20)
    async with running_broker(disk=disk) as running:
        assert running.broker.store.recovery.last_exit_ok
        peer = running.connect()
        topic = running.broker.tables.topics.get("T")
        assert topic is not None
        assert topic.read_queue_nums == 4
        answer = await peer.call(14, {"topic": "T", "queueId": "0", "consumerGroup": "G"})
        assert answer.ext == {"offset": "1"}
        assert await delivered(running) == [b"now"]
        await trio.sleep(60)
        assert await delivered(running) == [b"now", b"later"]


async def test_a_kill_loses_nothing_acknowledged(autojump_clock: MockClock) -> None:
    """Messages and timers are in the page cache when they are answered, and so is their topic."""
    disk = MemoryDisk()
    clock = VirtualClock()
    broker = open_broker(clock, disk=disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        peer = RunningBroker(broker, clock, nursery).connect()
        await peer.call(10, send_ext("T"), b"now")
        await peer.call(10, send_ext("T", "TIMER_DELAY_MS\x0160000\x02"), b"later")
        await peer.stream.aclose()
        broker.abort()
    disk.process_kill()
    assert disk.exists(f"{ROOT}/abort")
    async with running_broker(disk=disk) as running:
        assert not running.broker.store.recovery.last_exit_ok
        assert await delivered(running) == [b"now"]
        await trio.sleep(70)
        assert await delivered(running) == [b"now", b"later"]


async def test_a_topic_that_only_the_store_knows_is_restored() -> None:
    """Its messages would be unreadable otherwise."""
    disk = MemoryDisk()
    clock = VirtualClock()
    first = open_broker(clock, disk=disk)
    first.tables.topics.create_in_send("T", default_topic="TBW102", default_topic_queue_nums=4)
    first.store.put([Message("T", 2, b"x")])
    disk.process_kill()
    second = open_broker(clock, disk=disk)
    topic = second.tables.topics.get("T")

    assert load_json(disk, f"{ROOT}/config/topics.json") is None
    assert topic is not None
    assert topic.read_queue_nums == 8


@pytest.mark.parametrize(
    ("queue_id", "nums"),
    [
        (3, {"defaultTopicQueueNums": "4"}),
        (11, {"defaultTopicQueueNums": "16", "defaultTopic": "DefaultCluster"}),
    ],
)
async def test_what_waits_for_a_topic_that_a_kill_forgot(
    autojump_clock: MockClock, queue_id: int, nums: dict[str, str]
) -> None:
    """Acknowledged before its topic's table was on the disk: it can be read when it arrives.

    Another queue of the topic has a message already, so that the topic is known by it alone.
    """
    disk, clock = MemoryDisk(), VirtualClock()
    disk.sync_seconds = lambda: 0.05
    broker = open_broker(clock, disk=disk)
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the nursery raises, of syncs
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            peer = RunningBroker(broker, clock, nursery).connect()
            await peer.call(10, send_ext("T", **nums), b"now")
            delay = "TIMER_DELAY_MS\x0160000\x02"
            await peer.call(10, send_ext("T", delay, queueId=str(queue_id), **nums), b"later")
            disk.process_kill()
            broker.abort()
            nursery.cancel_scope.cancel()
    assert caught.value.split(OSError)[1] is None
    assert load_json(disk, f"{ROOT}/config/topics.json") is None
    async with running_broker(disk=disk) as running:
        await trio.sleep(70)
        answer = await running.connect().call(11, pull_ext("T", queueId=str(queue_id)))

    assert [decode_record(data).body for data in split_records(answer.body)] == [b"later"]


async def test_a_stop_answers_what_is_under_way(autojump_clock: MockClock) -> None:
    """Sends that wait for their flush are answered before the connection goes."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with running_broker(store_options=sync) as running:
        peer = running.connect()
        await peer.send(*[Command(10, opaque=n, ext=send_ext("T"), body=b"x") for n in range(3)])
        await wait_all_tasks_blocked()
        running.broker.request_stop()
        answers = [await peer.receive() for _ in range(3)]
        assert await peer.receive() is None

    assert [one and one.code for one in answers] == [0, 0, 0]


async def test_a_stop_has_a_bound(autojump_clock: MockClock) -> None:
    """A peer that never takes its answers does not keep the broker from stopping."""
    clock = VirtualClock()
    broker = open_broker(clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        peer = RunningBroker(broker, clock, nursery).connect_lockstep()
        await peer.send(Command(206))
        await wait_all_tasks_blocked()
        start = trio.current_time()
        broker.request_stop()

    # The connection ends by itself: it lingers for a while, then the broker goes without it.
    assert 0 < trio.current_time() - start <= 10


async def test_cancelling_is_a_graceful_stop(autojump_clock: MockClock) -> None:
    """A cancelled broker leaves a store as one that was asked to stop."""
    disk = MemoryDisk()
    broker = open_broker(VirtualClock(), disk=disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        nursery.cancel_scope.cancel()

    assert not disk.exists(f"{ROOT}/abort")


async def test_a_store_in_use_is_not_opened() -> None:
    """Two brokers on one store would destroy it."""
    disk = MemoryDisk()
    clock = VirtualClock()
    open_broker(clock, disk=disk)
    with pytest.raises(Exception, match="lock"):
        await Broker.open(
            disk=disk,
            root=ROOT,
            options=BROKER,
            store_options=STORE,
            timer_options=TIMER,
            clock=clock,
        )
