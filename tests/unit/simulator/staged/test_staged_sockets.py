"""Sockets of the simulation keep the contract of the kernel's: one suite, both of them."""

from __future__ import annotations

import errno
import select
import socket
import struct
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import attrs
import pytest
import trio
import trio.testing

from timermq.broker.sockets import KernelSockets, Sockets
from timermq.simulator.scenario import NetworkPlan
from timermq.simulator.staged.staged_network import StagedNetwork
from timermq.simulator.staged.staged_sockets import NUMBER_FIRST

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll")

ROUGH = NetworkPlan(pieces_max=3, rough=0.4, window_size=500)


@attrs.frozen
class Ends:
    """A connection: the broker's end, by sockets, and the peer's."""

    sockets: Sockets
    stream: trio.abc.Stream
    peer: trio.abc.HalfCloseableStream
    reset: Callable[[], None]
    """Break it from the peer's side."""

    @property
    def number(self) -> int:
        """The number of the broker's socket."""
        number = self.sockets.number_of(self.stream)
        assert number is not None
        return number

    async def read(self, size_max: int = 1_000) -> bytes:
        """Read as the reactor does: when the poll tells, and again when it was mistaken."""
        while True:
            await self.sockets.wait()
            if self.number in self.told():
                try:
                    return self.sockets.read(self.number, size_max)
                except BlockingIOError:
                    pass

    def write(self, data: bytes) -> int:
        """Write; 0: there is no room."""
        try:
            return self.sockets.write(self.number, data)
        except BlockingIOError:
            return 0

    def write_on(self) -> None:
        """Until it is an error."""
        while True:
            self.write(b"x")

    def told(self) -> list[int]:
        """What the poll tells now."""
        return [number for number, _ in self.sockets.poll(10)]


Connected = Callable[[], AbstractAsyncContextManager[Ends]]


async def staged_ends(plan: NetworkPlan, counts: Counter[str] | None = None) -> Ends:
    """Both ends of a staged connection, under this plan."""
    network = StagedNetwork(Random(1), plan, counts)
    listener = network.listen()
    peer = await network.connect()
    return Ends(listener.sockets, await listener.accept(), peer, peer.cut)


@asynccontextmanager
async def staged() -> AsyncGenerator[Ends]:
    """One whose bytes come in pieces."""
    yield await staged_ends(NetworkPlan(pieces_max=3))


@asynccontextmanager
async def rough() -> AsyncGenerator[Ends]:
    """One that falls short, with a poll that is mistaken."""
    yield await staged_ends(ROUGH)


@asynccontextmanager
async def kernel() -> AsyncGenerator[Ends]:
    """Both ends of a TCP connection over the loopback."""
    sockets = KernelSockets()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        peer = await trio.open_tcp_stream("127.0.0.1", port)
        stream = await listener.accept()

        def reset() -> None:
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.socket.close()

        async with peer, stream:
            yield Ends(sockets, stream, peer, reset)
    sockets.close()


@pytest.fixture(params=[staged, rough, kernel], ids=["staged", "rough", "kernel"])
def connected(request: pytest.FixtureRequest) -> Connected:
    """Makes connections of one kind, staged or the kernel's."""
    made: Connected = request.param
    return made


async def test_a_stream_has_a_number_and_a_peer(connected: Connected) -> None:
    """The same each time; what is no socket has none."""
    async with connected() as ends:
        number = ends.sockets.number_of(ends.stream)
        assert number is not None
        assert number == ends.sockets.number_of(ends.stream)
        assert ends.sockets.peer_of(ends.stream)[0] == "127.0.0.1"
        in_memory, _ = trio.testing.memory_stream_pair()
        assert ends.sockets.number_of(in_memory) is None
        assert await ends.sockets.first_byte(in_memory) is None


@asynccontextmanager
async def polled(sockets: Sockets) -> AsyncGenerator[None]:
    """They are polled for the length of a block, as a broker does."""

    async def poll() -> None:
        while True:
            await sockets.wait()
            sockets.poll(9)
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(poll)
        yield
        nursery.cancel_scope.cancel()


async def test_the_first_byte_stays_where_it_is(connected: Connected) -> None:
    """It is read again; at the end there is none."""
    async with connected() as ends, polled(ends.sockets):
        ends.sockets.register(ends.number)
        await ends.peer.send_all(b"x")
        assert await ends.sockets.first_byte(ends.stream) == b"x"
        assert await ends.sockets.first_byte(ends.stream) == b"x"
        assert await ends.read() == b"x"
        await ends.peer.aclose()
        assert await ends.sockets.first_byte(ends.stream) == b""


async def test_the_first_byte_of_a_broken_connection(connected: Connected) -> None:
    """Is an error for each waiting task; and so is a port without a listener."""
    async with connected() as ends, polled(ends.sockets), trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(ConnectionResetError):
                await ends.sockets.first_byte(ends.stream)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        ends.reset()
        nursery.cancel_scope.deadline = trio.current_time() + 10
    assert not nursery.cancel_scope.cancelled_caught


async def test_bytes_come_in_order_and_then_the_end(connected: Connected) -> None:
    """However they were cut; the end is told each time."""
    sent = b"".join(b"%d," % number for number in range(400))
    async with connected() as ends, trio.open_nursery() as nursery:
        ends.sockets.register(ends.number)

        async def send() -> None:
            for at in range(0, len(sent), 100):
                await ends.peer.send_all(sent[at : at + 100])
            await ends.peer.aclose()

        nursery.start_soon(send)
        found = b""
        while data := await ends.read(70):
            assert len(data) <= 70
            found += data
        assert found == sent
        assert await ends.read() == b""


async def test_nothing_has_arrived(connected: Connected) -> None:
    """Reading does not wait, and the poll does."""
    async with connected() as ends:
        ends.sockets.register(ends.number)
        with pytest.raises(BlockingIOError):
            ends.sockets.read(ends.number, 10)
        with trio.move_on_after(0.01) as waiting:
            await ends.sockets.wait()
        assert waiting.cancelled_caught


async def test_the_poll_tells_until_all_is_read(connected: Connected) -> None:
    """Not only of what is new."""
    async with connected() as ends:
        ends.sockets.register(ends.number)
        await ends.peer.send_all(b"abcd")
        await ends.sockets.wait()
        assert [ends.told(), ends.told()] == [[ends.number]] * 2
        found = b""
        while len(found) < 4:
            found += await ends.read(3)
        assert found == b"abcd"
        with trio.move_on_after(0.01) as waiting:
            await ends.sockets.wait()
        assert waiting.cancelled_caught


async def test_unread_bytes_leave_no_room(connected: Connected) -> None:
    """Writing takes as much as goes, then nothing; and again when the peer has read."""
    async with connected() as ends:
        sent = fruitless = 0
        while fruitless < 20:
            size = ends.write(bytes(10_000))
            sent += size
            fruitless = 0 if size else fruitless + 1
        received = 0
        while received < sent:
            received += len(await ends.peer.receive_some(65_536))
        assert received == sent
        assert any(ends.write(b"more") for _ in range(100))


async def test_a_resting_socket(connected: Connected) -> None:
    """Nothing is told of what arrives, until it does not rest any more: then who waits is woken."""
    async with connected() as ends, trio.open_nursery() as nursery:
        ends.sockets.register(ends.number)
        ends.sockets.rest(ends.number, rests=True)
        await ends.peer.send_all(b"x")
        async with polled(ends.sockets):
            await ends.sockets.first_byte(ends.stream)
        assert ends.told() == []
        found: list[bytes] = []

        async def read() -> None:
            found.append(await ends.read())

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert found == []
        ends.sockets.rest(ends.number, rests=False)
    assert found == [b"x"]


async def test_a_break_is_told_of_a_resting_socket(connected: Connected) -> None:
    """By an error, once; then it is at its end, and takes nothing."""
    async with connected() as ends:
        ends.sockets.register(ends.number)
        ends.sockets.rest(ends.number, rests=True)
        ends.reset()
        with pytest.raises(ConnectionResetError):
            await ends.read()
        assert await ends.read() == b""
        with pytest.raises(BrokenPipeError):
            ends.write_on()
        with pytest.raises(OSError, match="not connected"):
            ends.sockets.peer_of(ends.stream)


async def test_a_peer_that_is_gone_takes_nothing(connected: Connected) -> None:
    """Sooner or later; what it sent before is still read."""
    async with connected() as ends:
        ends.sockets.register(ends.number)
        await ends.peer.send_all(b"x")
        await ends.peer.aclose()
        assert await ends.read() == b"x"
        with pytest.raises(OSError, match=r"(?i)reset|broken pipe"):
            ends.write_on()


async def test_what_is_registered(connected: Connected) -> None:
    """A socket is so once at most; a closed one is no socket, and told of no more."""
    async with connected() as ends:
        number = ends.number
        with pytest.raises(FileNotFoundError):
            ends.sockets.unregister(number)
        ends.sockets.register(number)
        with pytest.raises(FileExistsError):
            ends.sockets.register(number)
        ends.sockets.unregister(number)
        with pytest.raises(FileNotFoundError):
            ends.sockets.rest(number, rests=True)
        await ends.peer.send_all(b"x")
        async with polled(ends.sockets):
            await ends.sockets.first_byte(ends.stream)
        assert ends.told() == []
        ends.sockets.register(number)
        await ends.sockets.wait()
        await ends.stream.aclose()
        assert (ends.number, ends.told()) == (-1, [])
        for act in (
            lambda: ends.sockets.read(number, 1),
            lambda: ends.sockets.write(number, b"x"),
            lambda: ends.sockets.register(number),
            lambda: ends.sockets.unregister(number),
        ):
            with pytest.raises(OSError, match=r"(?i)bad file descriptor") as found:
                act()
            assert found.value.errno == errno.EBADF


async def test_rough_sockets_do_all_that_a_kernel_may() -> None:
    """Each is counted, so that it shows what a plan has met."""
    counts = Counter[str]()
    ends = await staged_ends(ROUGH, counts)
    ends.sockets.register(ends.number)
    for _ in range(50):
        await ends.peer.send_all(b"abcd")
        found = b""
        while len(found) < 4:
            found += await ends.read()
        ends.told()
        ends.write(b"abcd")

    assert [] == [
        name
        for name in ("short read", "short write", "poll mistaken")
        if not counts[f"sockets: {name}"]
    ]


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "write"])
async def test_a_connection_that_breaks_behind_a_part_of_it(is_read: bool) -> None:
    """What was read is kept, what was written is lost; a calm network breaks nothing more."""
    network = StagedNetwork(Random(1), NetworkPlan(breaks=1.0))
    listener = network.listen()
    streams = [(await network.connect(), await listener.accept()) for _ in range(2)]
    (peer, stream), (other, calm) = streams
    sockets = listener.sockets
    number = sockets.number_of(stream)
    assert number is not None
    await peer.send_all(b"abcd")
    if is_read:
        assert sockets.read(number, 3) == b"abc"
    else:
        assert sockets.write(number, b"abc") == 3
    with pytest.raises(ConnectionResetError):
        sockets.read(number, 3)
    with pytest.raises(trio.BrokenResourceError):
        await peer.receive_some()
    network.calm()
    number = sockets.number_of(calm)
    assert number is not None
    for _ in range(10):
        sockets.write(number, b"abc")
    assert await other.receive_some() == b"abc"


async def test_numbers_are_given_out_again() -> None:
    """The lowest one that is free, as the kernel does; it is not registered for that."""
    network = StagedNetwork(Random(1))
    listener = network.listen()
    sockets = listener.sockets
    for _ in range(3):
        await network.connect()
    first, second, third = [await listener.accept() for _ in range(3)]
    assert [NUMBER_FIRST, NUMBER_FIRST + 1] == [*map(sockets.number_of, (first, second))]
    sockets.register(NUMBER_FIRST)
    first.close()
    assert sockets.number_of(third) == NUMBER_FIRST
    sockets.register(NUMBER_FIRST)
