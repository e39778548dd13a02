"""The kernel's sockets: connections that begin."""

from __future__ import annotations

import select
from contextlib import AsyncExitStack

import pytest
import trio

from timermq.broker.sockets import BEGINNING_MAX, KernelSockets

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="needs epoll")

COUNT = 5 * BEGINNING_MAX


async def test_connections_that_begin_together_go_on_a_few_at_a_time() -> None:
    """Each wakes a task: thousands that say something at once, or end, would hold up all else."""
    sockets, begun = KernelSockets(), list[bytes | None]()
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await stack.enter_async_context(listener)

        async def begin(stream: trio.SocketStream) -> None:
            begun.append(await sockets.first_byte(stream))

        peers: list[trio.SocketStream] = []
        for _ in range(COUNT):
            peers.append(await trio.open_tcp_stream(*listener.socket.getsockname()))
            nursery.start_soon(begin, await stack.enter_async_context(await listener.accept()))
        for index, peer in enumerate(peers):
            if index % 2:
                await peer.send_all(b"x")
            else:
                await peer.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert begun == []
        counts: list[int] = []
        while len(begun) < COUNT:
            await sockets.wait()
            sockets.poll(256)
            await trio.testing.wait_all_tasks_blocked()
            counts.append(len(begun))
        for peer in peers:
            await peer.aclose()
    sockets.close()

    assert counts == [BEGINNING_MAX * at for at in range(1, 6)]
    assert sorted(map(str, begun)) == ["b''"] * (COUNT // 2) + ["b'x'"] * (COUNT // 2)


async def test_who_does_not_wait_any_more_is_not_told() -> None:
    """Its socket may be closed then, and its number another's."""
    sockets = KernelSockets()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, await trio.open_tcp_stream(*listener.socket.getsockname()) as peer:
        stream = await listener.accept()
        with trio.CancelScope() as scope:
            scope.cancel()
            await sockets.first_byte(stream)
        await peer.send_all(b"x")
        await stream.aclose()
        assert sockets.poll(256) == []
    sockets.close()
