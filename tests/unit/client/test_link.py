"""Connections of a client: shared, in order, never cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing

from scripted_server import Network, always, silent
from timermq.client import ConnectionLostError, NoAnswerError, RequestTimeoutError
from timermq.client.background import BackgroundTasks
from timermq.client.link import (
    CONNECT_TIMEOUT,
    OUTBOX_SIZE_MAX,
    Links,
    reconnect_pause,
    split_address,
)
from timermq.remoting import Command, FrameConnection, LocalProtocolError

A = "a:1"


def ignore(_address: str, _command: Command) -> None:
    """What a server asks for is not of interest."""


async def failure(links: Links, *, timeout: float = 2.0, body: bytes = b"") -> NoAnswerError:
    """The error of one request."""
    with pytest.raises(NoAnswerError) as caught:
        await links.call(A, Command(7, body=body), timeout)
    return caught.value


async def test_answers_find_their_requests(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Many requests share one connection, and the answers may come in any order."""

    async def later(command: Command) -> Command:
        await trio.sleep(10 - int(command.ext["n"]))
        return command.answer(0, ext=command.ext)

    network = Network(nursery)
    server = network.server(A, {7: later})
    got: list[str] = []

    async def ask(links: Links, n: int) -> None:
        answer = await links.call(A, Command(7, ext={"n": str(n)}), 20)
        assert str(n) == answer.ext["n"]
        got.append(answer.ext["n"])

    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, network.open_stream)
        async with trio.open_nursery() as asking:
            for n in range(10):
                asking.start_soon(ask, links, n)
        assert [A] == links.addresses()

    assert [str(n) for n in reversed(range(10))] == got
    assert 1 == len(server.connections)
    assert 10 == len({command.opaque for command in server.received})


async def test_frames_are_joined_and_never_cut(autojump_clock: trio.testing.MockClock) -> None:
    """A caller that gives up while its frame is being written does not spoil the connection."""
    theirs, ours = trio.testing.lockstep_stream_pair()

    async def open_stream(_host: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return theirs

    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, open_stream)
        with trio.move_on_after(1):
            await links.call(A, Command(1, body=bytes(1000)), 60)
        frames = FrameConnection()
        tasks.start_soon(links.call, A, Command(2), 60)
        tasks.start_soon(links.call, A, Command(3), 60)
        codes: list[int] = []
        while len(codes) < 3:
            frames.receive_data(bytes(await ours.receive_some(7)))
            codes += [command.code for command in frames.events()]
        tasks.cancel_scope.cancel()

    assert [1, {2, 3}] == [codes[0], set(codes[1:])]


async def test_deadline(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    """A request without an answer fails in time; its late answer is dropped."""

    async def late(command: Command) -> Command:
        await trio.sleep(3)
        return command.answer(0)

    network = Network(nursery)
    network.server(A, {7: late, 8: always()})
    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, network.open_stream)
        error = await failure(links, timeout=2)
        assert 2.0 == trio.current_time()
        await trio.sleep(5)
        assert 0 == (await links.call(A, Command(8))).code

    assert isinstance(error, RequestTimeoutError)
    assert error.may_have_arrived
    assert "a:1: no answer within 2 s (request 7)" == str(error)


async def test_unsent_requests_say_so(autojump_clock: trio.testing.MockClock) -> None:
    """While the connection is being opened nothing has left: sending again is safe."""
    opened: list[float] = []

    async def open_stream(_host: str, _port: int) -> trio.abc.Stream:
        opened.append(trio.current_time())
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    errors: list[NoAnswerError] = []

    async def ask(links: Links, timeout: float) -> None:
        errors.append(await failure(links, timeout=timeout))

    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, open_stream)
        async with trio.open_nursery() as asking:
            asking.start_soon(ask, links, 1.0)
            for _ in range(5):
                asking.start_soon(ask, links, 60.0)
        assert CONNECT_TIMEOUT == trio.current_time()
        assert [] == links.addresses()

    assert [RequestTimeoutError] + [ConnectionLostError] * 5 == [type(one) for one in errors]
    assert not any(one.may_have_arrived for one in errors)
    assert "a:1: cannot connect: no connection in time (request 7)" == str(errors[-1])
    assert [0.0] == opened


async def test_a_lost_connection_fails_everybody_at_once(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Requests under way fail when the server closes; the next one opens a new connection."""
    network = Network(nursery)
    server = network.server(A, {8: always()})
    errors: list[NoAnswerError] = []

    async def ask(links: Links) -> None:
        errors.append(await failure(links, timeout=60))

    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, network.open_stream)
        async with trio.open_nursery() as asking:
            for _ in range(3):
                asking.start_soon(ask, links)
            await trio.sleep(1)
            await server.connections[0].stream.aclose()
        assert 1.0 == trio.current_time()
        assert 0 == (await links.call(A, Command(8))).code

    assert ["a:1: closed by the server (request 7)"] * 3 == [str(one) for one in errors]
    assert all(one.may_have_arrived for one in errors)
    assert 2 == len(server.connections)


async def test_reconnecting_waits_longer_each_time(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """After a failure the next attempt waits, up to a limit, until one succeeds."""
    network = Network(nursery)
    server = network.server(A, {7: always()})
    server.refuses = True
    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, network.open_stream)
        for _ in range(7):
            assert not (await failure(links)).may_have_arrived
        server.refuses = False
        await links.call(A, Command(7))
        await server.connections[0].stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        server.refuses = True
        await failure(links)
    times = [time for _, time in network.opened]

    pauses = [round(after - before, 6) for before, after in pairwise(times)]
    assert [0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6, 0.0] == pauses
    assert [0.1, 1.6, 1.6] == [reconnect_pause(1), reconnect_pause(5), reconnect_pause(10**6)]


async def test_broken_frames_lose_the_connection(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """After a frame that cannot be read nothing of the connection can be."""
    network = Network(nursery)
    server = network.server(A, {7: silent})
    errors: list[NoAnswerError] = []

    async def ask(links: Links) -> None:
        errors.append(await failure(links))

    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, network.open_stream)
        async with trio.open_nursery() as asking:
            asking.start_soon(ask, links)
            await trio.sleep(1)
            await server.connections[0].stream.send_all(bytes(8))

    assert str(errors[0]).startswith("a:1: FRAME_SIZE: expected 4 to")


async def test_answers_before_a_broken_frame_count(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A broken frame in the same piece as an answer does not take the answer along."""
    network = Network(nursery)

    async def answer_and_break(command: Command) -> None:
        frame = FrameConnection().encode(command.answer(0))
        await server.connections[0].stream.send_all(frame + bytes(8))

    server = network.server(A, {7: answer_and_break})
    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, network.open_stream)
        answer = await links.call(A, Command(7))
        await trio.testing.wait_all_tasks_blocked()

        assert 0 == answer.code
        assert [] == links.addresses()


async def test_requests_of_the_server_are_handed_on(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """What is no response goes to the callback, with the address it came from."""
    network = Network(nursery)
    server = network.server(A, {7: always()})
    pushed: list[tuple[str, int]] = []
    async with BackgroundTasks() as tasks:
        links = Links(
            tasks, lambda address, one: pushed.append((address, one.code)), network.open_stream
        )
        await links.call(A, Command(7))
        await server.connections[0].push(Command(40, opaque=1), Command(0, opaque=99, flag=1))
        await trio.testing.wait_all_tasks_blocked()

    assert [(A, 40)] == pushed


async def test_what_is_queued_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """Above the limit requests wait for room, and fail when their time is over."""
    theirs, _ours = trio.testing.lockstep_stream_pair()

    async def open_stream(_host: str, _port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return theirs

    errors: list[NoAnswerError] = []

    async def ask(links: Links) -> None:
        errors.append(await failure(links, timeout=9, body=bytes(OUTBOX_SIZE_MAX // 2 + 1)))

    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, open_stream)
        async with trio.open_nursery() as asking:
            for _ in range(5):
                asking.start_soon(ask, links)
        assert 9.0 == trio.current_time()

    assert [True, False, False, False, False] == sorted(
        (one.may_have_arrived for one in errors), reverse=True
    )


async def test_a_closed_client_sends_nothing(nursery: trio.Nursery) -> None:
    """After its end a client says that it is closed."""
    network = Network(nursery)
    async with BackgroundTasks() as tasks:
        links = Links(tasks, ignore, network.open_stream)

    assert "a:1: the client is closed" == str(await failure(links))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "a",
        ":1",
        "a:",
        "a:x",
        "a:65536",
        "a:1:",
        "a:٣",
        "a:00000099999",
        "[:3",
        "[]:3",
        "a:" + "0" * 5000,
    ],
)
async def test_addresses_are_checked(address: str, nursery: trio.Nursery) -> None:
    """An address is host and port."""
    links = Links(nursery, ignore)
    with pytest.raises(LocalProtocolError, match="expected host:port"):
        await links.call(address, Command(7))


def test_ipv6_addresses() -> None:
    """An IPv6 host stands in brackets."""
    assert ("::1", 9876) == split_address("[::1]:9876")
    assert ("a", 65_535) == split_address("a:65535")
