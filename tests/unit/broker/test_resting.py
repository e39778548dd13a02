"""Tests of connections that rest, end or stop while requests and answers wait."""

from collections.abc import Sequence

import attrs
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from broker_rig import BROKER, STORE, Peer, RunningBroker, pull_ext, running_broker, send_ext
from timermq.broker.costly_requests import ROUND_SECONDS
from timermq.broker.session import Session
from timermq.remoting import Command, FrameConnection
from timermq.remoting.connection import COMMANDS_MAX, Received
from timermq.timerstore.store_options import FlushDiskType

ROUTE = {"topic": "TBW102"}
SMALL_POOL = attrs.evolve(BROKER, unread_outputs_size_max=1 << 20)


async def fill_pool(running: RunningBroker, hosts: Sequence[str]) -> list[Peer]:
    """Peers that do not read, until all together may leave no more unread."""
    await running.connect("10.0.0.9").call(10, send_ext("T"), bytes(60_000))
    peers: list[Peer] = []
    unread = running.broker.tables.pools.unread
    while not unread.is_full:
        peers.append(running.connect_lockstep(hosts[len(peers) % len(hosts)]))
        await peers[-1].send(Command(11, ext=pull_ext("T")))
        await wait_all_tasks_blocked()
    return peers


async def session_of(running: RunningBroker, peer: Peer) -> Session:
    """The session of a peer, as processors see it."""
    sessions: list[Session] = []

    def work(session: Session, command: Command) -> Command:
        sessions.append(session)
        return command.answer(0)

    handlers = running.broker.dispatcher.handlers
    handle, handlers[105] = handlers[105], work
    await peer.call(105)
    handlers[105] = handle
    return sessions[0]


async def all_of(peer: Peer) -> list[Command]:
    """What a peer is given until the end."""
    answers: list[Command] = []
    while (answer := await peer.receive()) is not None:
        answers.append(answer)
    return answers


async def test_a_connection_goes_on_when_others_of_its_address_have_read(
    autojump_clock: MockClock,
) -> None:
    """It has read all of its own answers, and nothing of it waits for its turn: it rests alone."""
    async with running_broker(options=SMALL_POOL) as running:
        producer = running.connect("10.0.0.1")
        await producer.call(105, ROUTE)
        deaf = await fill_pool(running, ["10.0.0.1"])
        assert (await producer.call(10, send_ext("U"), b"x")).code == 0
        for peer in deaf:
            assert await peer.receive() is not None
        await wait_all_tasks_blocked()
        assert not running.broker.tables.pools.unread.used

        with trio.fail_after(10):
            assert (await producer.call(10, send_ext("U"), b"x")).code == 0


async def test_who_has_read_all_is_served_though_others_leave_no_room(
    autojump_clock: MockClock,
) -> None:
    """Nothing of its address is unread any more, but all room is taken by others."""
    async with running_broker(options=SMALL_POOL) as running:
        mine = running.connect_lockstep("10.0.0.1")
        await running.connect().call(10, send_ext("T"), bytes(60_000))
        await mine.send(Command(11, ext=pull_ext("T")))
        await wait_all_tasks_blocked()
        await fill_pool(running, ["10.0.0.2"])
        other = running.connect("10.0.0.1")
        await other.send(Command(105, opaque=7, ext=ROUTE))
        await wait_all_tasks_blocked()
        assert await mine.receive() is not None

        with trio.fail_after(10):
            answer = await other.receive()
        assert answer is not None
        assert answer.opaque == 7


async def test_little_that_is_unread_closes_nothing_when_there_is_no_room(
    autojump_clock: MockClock,
) -> None:
    """Others have filled the room: who is slow for a moment gets the answers to its sends."""
    async with running_broker(options=SMALL_POOL) as running:
        producer = running.connect_lockstep("10.0.0.1")
        session = await session_of(running, producer)
        await fill_pool(running, ["10.0.0.2"])
        for opaque in range(3):
            session.send(Command(0, opaque=opaque, flag=1))
        await wait_all_tasks_blocked()

        for opaque in range(3):
            answer = await producer.receive()
            assert answer is not None
            assert answer.opaque == opaque


async def test_an_answer_behind_the_end_takes_no_room(autojump_clock: MockClock) -> None:
    """A flush ends when the connection has ended long ago: no client reads that answer."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with running_broker(store_options=sync) as running:
        peer = running.connect()
        session = await session_of(running, peer)
        await peer.stream.aclose()
        await wait_all_tasks_blocked()
        assert not running.broker.server.connections
        session.send(Command(0, flag=1))

        assert running.broker.tables.pools.unread.used == 0


async def test_what_was_read_is_done_at_the_stop(autojump_clock: MockClock) -> None:
    """More one-way requests than are given out at once, and no client receives any more."""
    count, done = 3 * COMMANDS_MAX, 0

    def work(_: Session, command: Command) -> Command:
        nonlocal done
        done += 1
        if done == 1:
            running.nursery.start_soon(running.broker.server.stop)
        autojump_clock.jump(ROUND_SECONDS)
        return command.answer(0)

    async with running_broker() as running:
        peer = running.connect()
        running.broker.dispatcher.handlers[105] = work
        await peer.send(*(Command(105, flag=2) for _ in range(count)))
        assert await all_of(peer) == []

    assert done == count


async def test_a_mistake_in_reading_on_ends_the_connection_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it brought before is answered, and nothing is retried again and again."""
    reads = 0
    requests = FrameConnection.requests

    def read(frames: FrameConnection) -> list[Received]:
        nonlocal reads
        reads += 1
        if frames.size and reads > 2:
            raise ZeroDivisionError
        return requests(frames)

    async with running_broker() as running:
        peer = running.connect()
        monkeypatch.setattr(FrameConnection, "requests", read)
        with capture_logs() as logs:
            await peer.send(*(Command(105, opaque=at, ext=ROUTE) for at in range(100)))
            answers = await all_of(peer)
        monkeypatch.undo()

    assert [one.opaque for one in answers] == list(range(2 * COMMANDS_MAX))
    assert ["connection failed"] == [one["event"] for one in logs if one["log_level"] == "error"]


async def test_a_broken_frame_ends_who_does_not_read(autojump_clock: MockClock) -> None:
    """Its answers have their short time, as those of a peer that closed its sending side."""
    options = attrs.evolve(BROKER, unread_output_size_max=1 << 20)
    async with running_broker(options=options) as running:
        await running.connect("10.0.0.9").call(10, send_ext("T"), bytes(60_000))
        peer = running.connect_lockstep()
        pull = FrameConnection().encode(Command(11, ext=pull_ext("T")))
        await peer.stream.send_all(2 * pull + b"GET / HTTP/1.1\r\n")
        await trio.sleep(10)

        assert running.broker.statistics().connections == 1


async def test_a_frame_has_its_time_behind_a_rest(autojump_clock: MockClock) -> None:
    """The peer was not received from for minutes: so long it could not send the rest."""
    options = attrs.evolve(BROKER, unread_output_size_max=1 << 20)
    async with running_broker(options=options) as running:
        peer = running.connect_lockstep()
        await running.connect().call(10, send_ext("T"), bytes(60_000))
        frame = FrameConnection().encode(Command(105, opaque=9, ext=ROUTE))
        asked = [Command(11, opaque=at, ext=pull_ext("T")) for at in range(30)]
        data = b"".join(map(FrameConnection().encode, asked))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.stream.send_all, data + frame[:20])
            for opaque in range(30):
                await trio.sleep(20)
                answer = await peer.receive()
                assert answer is not None
                assert answer.opaque == opaque
        await trio.sleep(15)
        await peer.stream.send_all(frame[20:])
        answer = await peer.receive()

    assert answer is not None
    assert answer.opaque == 9
