"""Tests of answers that wait for the disk."""

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker_rig import BROKER, STORE, RecordingSession, open_broker
from fakes import VirtualClock
from timermq.broker.admin.put_times import PutTimes
from timermq.broker.durable_answers import DurableAnswers
from timermq.broker.replication.followers import Followers
from timermq.broker.unflushed_answer import UnflushedAnswer
from timermq.remoting import Command, ResponseCode
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import FlushDiskType

SYNC = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)


def make_store(disk: MemoryDisk | None = None) -> MessageStore:
    """A store that answers when messages are on the disk."""
    return open_broker(VirtualClock(), disk=disk, store_options=SYNC).store


def alone(store: MessageStore) -> Followers:
    """No followers, and none that is waited for."""
    return Followers(BROKER, store.commit_log, trio.current_time)


def put(store: MessageStore, peer: RecordingSession, opaque: int) -> UnflushedAnswer:
    """The answer to a send that is stored, but not yet on the disk."""
    (result,) = store.put([Message("T", 0, b"x")])
    return UnflushedAnswer(
        peer.session, Command(10, opaque=opaque).answer(ResponseCode.SUCCESS), result.end
    )


async def test_an_answer_follows_its_flush(autojump_clock: MockClock) -> None:
    """What is answered with success is on the disk."""
    store, peer = make_store(), RecordingSession()
    durable = DurableAnswers(store, 10, PutTimes(lambda: 0), alone(store))
    answer = put(store, peer, 1)
    durable.add([answer])
    assert (durable.waiting, peer.session.unflushed) == (1, 1)
    async with trio.open_nursery() as nursery:
        await nursery.start(durable.run)
        await wait_all_tasks_blocked()

        assert store.commit_log.flushed_where >= answer.end
        nursery.cancel_scope.cancel()

    assert [(one.opaque, one.code) for one in peer.sent] == [(1, 0)]
    assert (durable.waiting, peer.session.unflushed) == (0, 0)


async def test_one_flush_serves_all(autojump_clock: MockClock) -> None:
    """Answers of several connections that wait together share one sync."""
    store, peers = make_store(), [RecordingSession() for _ in range(5)]
    durable = DurableAnswers(store, 10, PutTimes(lambda: 0), alone(store))
    durable.add([put(store, peer, 1) for peer in peers])
    before = store.statistics().flush_count
    async with trio.open_nursery() as nursery:
        await nursery.start(durable.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert store.statistics().flush_count == before + 1
    assert [len(peer.sent) for peer in peers] == [1] * 5


async def test_a_failed_flush_is_not_called_durable(autojump_clock: MockClock) -> None:
    """The answer says that the message is stored but not on the disk (10)."""
    disk = MemoryDisk()
    store, peer = make_store(disk), RecordingSession()
    durable = DurableAnswers(store, 10, PutTimes(lambda: 0), alone(store))
    durable.add([put(store, peer, 1)])
    disk.fail_syncs_of = lambda path: "commitlog" in path
    async with trio.open_nursery() as nursery:
        await nursery.start(durable.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    (answer,) = peer.sent
    assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert answer.remark is not None
    assert answer.remark.startswith("FLUSH_DISK_TIMEOUT: flushed to 0, the message ends at ")


async def test_connections_rest_while_too_many_wait(autojump_clock: MockClock) -> None:
    """Room is waited for until a round of answers has gone."""
    store, peer = make_store(), RecordingSession()
    durable = DurableAnswers(store, 2, PutTimes(lambda: 0), alone(store))
    durable.add([put(store, peer, 1)])
    await durable.wait_room()
    durable.add([put(store, peer, 2)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(durable.wait_room)
        await wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        await nursery.start(durable.run)
        await durable.wait_room()
        nursery.cancel_scope.cancel()

    assert len(peer.sent) == 2
