"""Tests of connections: chunks, broken frames, slow peers, half-closed peers, silence."""

import contextlib
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from broker_rig import BROKER, STORE, Peer, RunningBroker, pull_ext, running_broker, send_ext
from signed import sign, write_rules
from timermq.broker.front_end import FIRST_FRAME_ROOM
from timermq.broker.unread_answers import REST_DIVISOR
from timermq.remoting import Coding, Command, encode_frame
from timermq.timerstore.store_options import FlushDiskType


async def test_frames_in_pieces(autojump_clock: MockClock) -> None:
    """A request that arrives byte by byte is answered like any other."""
    async with running_broker() as running:
        peer = running.connect()
        for byte in encode_frame(Command(105, opaque=7, ext={"topic": "TBW102"})):
            await peer.stream.send_all(bytes([byte]))
        answer = await peer.receive()

    assert answer is not None
    assert (answer.opaque, answer.code) == (7, 0)


@pytest.mark.parametrize("coding", list(Coding))
async def test_answers_follow_the_coding_of_the_request(
    autojump_clock: MockClock, coding: Coding
) -> None:
    """JSON is answered in JSON, and so on."""
    async with running_broker() as running:
        answer = await running.connect().call(105, {"topic": "none"}, coding=coding)

    assert (answer.coding, answer.code) == (coding, 17)


async def test_a_chunk_is_answered_together(autojump_clock: MockClock) -> None:
    """A hundred pipelined sends are one put and all answered."""
    async with running_broker() as running:
        peer = running.connect()
        commands = [Command(10, opaque=n, ext=send_ext("T"), body=b"x") for n in range(100)]
        await peer.send(*commands)
        answers = [await peer.receive() for _ in commands]

    assert [one and one.opaque for one in answers] == list(range(100))
    assert {one and one.code for one in answers} == {0}


async def end_of(running: RunningBroker, data: bytes) -> list[Command]:
    """What the broker answers to some bytes before it closes the connection."""
    peer = running.connect()
    await peer.stream.send_all(data)
    answers: list[Command] = []
    while (answer := await peer.receive()) is not None:
        answers.append(answer)
    return answers


@pytest.mark.parametrize(
    "broken",
    [
        bytes(8),
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\x7f\xff\xff\xff\x00\x00\x00\x10",
        b"\x00\x00\x00\x05\x00\x00\x00\x05x",
        b"\x00\x00\x00\x06\x00\x00\x00\x02{]",
        b"\x00\x00\x00\x06\x07\x00\x00\x02{}",
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    ],
)
async def test_broken_frames_end_the_connection(autojump_clock: MockClock, broken: bytes) -> None:
    """Where the next frame begins is unknown; the requests before it are answered."""
    good = encode_frame(Command(105, opaque=1, ext={"topic": "TBW102"}))
    async with running_broker() as running:
        answers = await end_of(running, good + broken)
        other = await running.connect().call(105, {"topic": "TBW102"})

    assert [(one.opaque, one.code) for one in answers] == [(1, 0)]
    assert other.code == 0


async def test_an_oversized_frame_is_not_waited_for(autojump_clock: MockClock) -> None:
    """Its length alone ends the connection, before anything is kept for it."""
    options = attrs.evolve(BROKER, frame_size_max=1_024)
    frame = encode_frame(Command(10, ext=send_ext("T"), body=bytes(2_000)))
    async with running_broker(options=options) as running:
        assert await end_of(running, frame[:8]) == []


async def test_a_peer_that_has_said_all_still_hears_the_answer(autojump_clock: MockClock) -> None:
    """A closed sending side is no closed connection: flushed answers and pages still come."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with running_broker(store_options=sync) as running:
        peer = running.connect()
        await peer.send(
            Command(10, opaque=1, ext=send_ext("T"), body=b"x"), Command(9002, opaque=2)
        )
        await peer.send_end()
        answers = [await peer.receive(), await peer.receive()]
        assert await peer.receive() is None

    assert {one and one.opaque for one in answers} == {1, 2}
    assert {one and one.code for one in answers} == {0}


async def test_a_peer_that_goes_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    """Its held pull and its registration end with the connection."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        await peer.call(34, body=b'{"clientID":"c","producerDataSet":[{"groupName":"P"}]}')
        await peer.send(Command(11, ext=pull_ext("T", sysFlag="6", queueOffset="1")))
        await wait_all_tasks_blocked()
        assert running.broker.statistics().held_pulls == 1
        await peer.stream.aclose()
        await wait_all_tasks_blocked()

        statistics = running.broker.statistics()
        assert (statistics.held_pulls, statistics.connections) == (0, 0)
        assert running.broker.tables.clients.producers("P") == {}


async def test_a_peer_that_does_not_read_is_cut_off(autojump_clock: MockClock) -> None:
    """What it leaves unread is bounded: it is not read from, then closed for its silence."""
    options = attrs.evolve(BROKER, unread_output_size_max=65_536)
    async with running_broker(options=options) as running:
        peer = running.connect_lockstep()
        async with trio.open_nursery() as nursery:

            async def ask_for_ever() -> None:
                with contextlib.suppress(trio.BrokenResourceError):
                    while True:
                        await peer.send(Command(206))

            nursery.start_soon(ask_for_ever)
            await trio.sleep(60)
            assert running.broker.statistics().connections == 1
            assert running.broker.statistics().requests[206] < 100
            await trio.sleep(80)

            assert running.broker.statistics().connections == 0


async def test_held_answers_beyond_the_limit_close_the_connection(
    autojump_clock: MockClock,
) -> None:
    """What was held for a peer that does not read does not pile up either."""
    options = attrs.evolve(BROKER, unread_output_size_max=65_536)
    async with running_broker(options=options) as running:
        slow, producer = running.connect_lockstep(), running.connect()
        await producer.call(10, send_ext("T"), b"x")
        wanted = Command(11, ext=pull_ext("T", sysFlag="6", queueOffset="1"))
        await slow.send(*[wanted] * 10)
        await wait_all_tasks_blocked()
        await producer.call(10, send_ext("T"), bytes(30_000))
        await wait_all_tasks_blocked()

        assert running.broker.statistics().connections == 1


async def test_a_peer_that_reads_is_given_what_is_larger_than_the_limit(
    autojump_clock: MockClock,
) -> None:
    """It leaves nothing unread, however large a message is: or it would never get that."""
    options = attrs.evolve(BROKER, unread_output_size_max=1_024)
    async with running_broker(options=options) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), bytes(30_000))
        answer = await peer.call(11, pull_ext("T"))

    assert answer.code == 0
    assert len(answer.body) > 30_000


async def test_a_mistake_in_writing_an_answer_ends_its_connection_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is known, so one is made, where the one task for all held pulls answers two of them."""

    def fail(command: Command) -> bytes:
        if command.is_response and command.opaque == 666:
            raise ZeroDivisionError
        return encode_frame(command)

    monkeypatch.setattr("timermq.broker.connection.encode_frame", fail)
    async with running_broker() as running:
        bad, good, producer = running.connect(), running.connect(), running.connect()
        await producer.call(10, send_ext("T"), b"x")
        wanted = pull_ext("T", sysFlag="6", queueOffset="1")
        await bad.send(Command(11, opaque=666, ext=wanted))
        await wait_all_tasks_blocked()
        await good.send(Command(11, opaque=667, ext=wanted))
        await wait_all_tasks_blocked()
        with capture_logs() as logs:
            await producer.call(10, send_ext("T"), b"x")
            answer = await good.receive()
            assert await bad.receive() is None

        assert running.broker.statistics().connections == 2
    assert answer is not None
    assert (answer.opaque, answer.code) == (667, 0)
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["answer not encoded"]


async def test_a_connection_that_comes_with_the_stop_is_closed(autojump_clock: MockClock) -> None:
    """It was accepted in the turn before: nothing waits for it, and nothing holds the stop up."""
    async with running_broker() as running:
        peer = running.connect()
        await running.broker.server.stop()
        assert await peer.receive() is None
        stopped_at = trio.current_time()

    assert stopped_at < 1


async def test_silence_ends_a_connection(autojump_clock: MockClock) -> None:
    """Two minutes without a byte in either direction, and not before."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(105, {"topic": "TBW102"})
        await trio.sleep(115)
        assert running.broker.statistics().connections == 1
        await trio.sleep(20)

        assert running.broker.statistics().connections == 0
        assert await peer.receive() is None


async def test_a_silent_client_is_forgotten_though_its_connection_lives(
    autojump_clock: MockClock,
) -> None:
    """Requests without heartbeats do not keep a registration."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(34, body=b'{"clientID":"c","producerDataSet":[{"groupName":"P"}]}')
        with contextlib.suppress(trio.BrokenResourceError):
            while True:
                await peer.send(Command(105, ext={"topic": "TBW102"}))
                if await peer.receive() is None:
                    break
                await trio.sleep(5)
        closed_at = trio.current_time()

    assert 120 <= closed_at <= 135


async def test_a_connection_has_a_short_time_for_its_first_request(
    autojump_clock: MockClock,
) -> None:
    """Who connects and says nothing, or nothing whole, keeps no place for long."""
    async with running_broker() as running:
        silent, slow, known = (running.connect() for _ in range(3))
        await known.call(105, {"topic": "TBW102"})
        frame = encode_frame(Command(105, ext={"topic": "TBW102"}))
        for at in range(4):
            await slow.stream.send_all(frame[at : at + 1])
            await trio.sleep(12)
        assert await silent.receive() is None
        assert await slow.receive() is None

        assert trio.current_time() < 50
        assert running.broker.statistics().connections == 1
        assert (await known.call(105, {"topic": "TBW102"})).code == 0


async def test_a_frame_has_to_be_whole_in_time(autojump_clock: MockClock) -> None:
    """Also one of a client that is known: a byte now and then keeps no memory for ever."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(105, {"topic": "TBW102"})
        frame = encode_frame(Command(105, ext={"topic": "TBW102"}))
        for at in range(20):
            try:
                await peer.stream.send_all(frame[at : at + 1])
            except trio.BrokenResourceError:
                break
            await trio.sleep(10)

        assert 120 <= trio.current_time() <= 150


async def test_a_first_frame_may_be_large(autojump_clock: MockClock) -> None:
    """A broker registers with as many topics as it has, and has said nothing before."""
    async with running_broker() as running:
        body = bytes(2 * STORE.max_message_size + FIRST_FRAME_ROOM)
        assert (await running.connect().call(105, {"topic": "TBW102"}, body)).code == 0


async def test_the_first_frame_of_a_stranger_is_no_larger_than_a_message(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """With access control nothing is kept for a length that only an account may name."""
    large = (BROKER.frame_size_max - 4).to_bytes(4, "big") + bytes(4)
    options = attrs.evolve(BROKER, acl_enable=True, acl_file=write_rules(tmp_path))
    async with running_broker(options=options) as running:
        new, known = running.connect(), running.connect()
        await known.send(sign(Command(105, ext={"topic": "TBW102"}), "powerless"))
        assert await known.receive() is not None
        await new.stream.send_all(large)
        await known.stream.send_all(large)
        assert await new.receive() is None
        await wait_all_tasks_blocked()

        assert running.broker.statistics().connections == 1


async def test_unfinished_frames_of_one_address_leave_room_for_others(
    autojump_clock: MockClock,
) -> None:
    """Connections that begin large frames and do not finish them have half of the room."""
    options = attrs.evolve(BROKER, unfinished_frames_size_max=1 << 20)
    part = (1 << 20).to_bytes(4, "big") + bytes(200_000)
    async with running_broker(options=options) as running:
        many = [running.connect("10.0.0.1") for _ in range(5)]
        other = running.connect("10.0.0.2")
        for peer in (*many, other):
            await peer.call(105, {"topic": "TBW102"})
        for peer in many:
            await peer.stream.send_all(part)
            await wait_all_tasks_blocked()
        await other.stream.send_all(part)
        await wait_all_tasks_blocked()
        pools = running.broker.tables.pools

        assert running.broker.statistics().connections == 3
        assert pools.frames.of("10.0.0.1") == 2 * len(part)
        assert pools.frames.of("10.0.0.2") == len(part)
        for peer in (*many, other):
            await peer.stream.aclose()
        await wait_all_tasks_blocked()
        assert pools.frames.used == 0


async def test_answers_that_one_address_does_not_read_leave_room_for_others(
    autojump_clock: MockClock,
) -> None:
    """Forty slow readers ask again and again: what is worked out for them has a bound together."""
    options = attrs.evolve(BROKER, unread_outputs_size_max=1 << 20)
    async with running_broker(options=options) as running:
        reader = running.connect("10.0.0.2")
        await reader.call(10, send_ext("T"), bytes(60_000))
        slow = [running.connect_lockstep("10.0.0.1") for _ in range(40)]
        asked = [Command(11, opaque=at, ext=pull_ext("T")) for at in range(20)]
        for peer in slow:
            await peer.send(*asked)
        await wait_all_tasks_blocked()
        unread = running.broker.tables.pools.unread

        assert 1 << 19 < unread.of("10.0.0.1") < (1 << 20) + 200_000
        assert len((await reader.call(11, pull_ext("T"))).body) > 60_000
        async with trio.open_nursery() as nursery:
            for peer in slow:
                nursery.start_soon(_read_all, peer, len(asked))
        await wait_all_tasks_blocked()
        assert unread.used == 0


async def _read_all(peer: Peer, count: int) -> None:
    for opaque in range(count):
        answer = await peer.receive()
        assert answer is not None
        assert answer.opaque == opaque


async def test_a_chunk_of_costly_requests_is_not_worked_off_at_once(
    autojump_clock: MockClock,
) -> None:
    """A peer that pipelines a thousand large answers has those that fit its room, no more."""
    async with running_broker() as running:
        peer = running.connect_lockstep()
        producer = running.connect()
        await producer.call(10, send_ext("T"), bytes(60_000))
        asked = [Command(11, opaque=at, ext=pull_ext("T")) for at in range(1_000)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(peer.send, *asked))
            await wait_all_tasks_blocked()
            rest = BROKER.unread_output_size_max // REST_DIVISOR

            assert rest < running.broker.tables.pools.unread.used < rest + 200_000
            await _read_all(peer, 1_000)
