"""The listening sockets and the connections that come in through them.

Broker port and name-server port speak the same protocol and are served by the same dispatcher: the
request codes of the two roles do not collide. Connections above the limit, or above the share of
their address, are closed at once; when the process runs out of file descriptors, accepting rests
for a moment and goes on. Connections that have been silent for too long, or have brought no request
that may be done soon enough, are closed by one task that looks through all of them.
"""

from __future__ import annotations

import errno
import gc
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
import trio

from .client_registry import ClientRegistry
from .connection import Connection
from .open_files import room_for_connections
from .options import BrokerOptions
from .pool import Pool
from .security.failed_logins import peer_of
from .security.log_limit import LogLimit
from .sockets import Sockets

SWEEP_INTERVAL = 10.0
"""Seconds between two looks for silent connections and clients, as in RocketMQ."""
BACKLOG = 8_192
"""Connections that the kernel keeps until they are accepted, if its ``somaxconn`` allows so many:
all clients come back at once after a failure of the network."""
COLLECTED_COUNT = 64
"""New connections after which the garbage collector runs over new objects: a millisecond or two. It
counts objects made less objects freed, so by itself it would not begin as long as others end, and
then run over thousands of connections at once, for a tenth of a second."""

Listener = trio.abc.Listener[trio.abc.Stream]
"""A source of connections: a socket, or its stand-in of a simulation."""
MakeConnection = Callable[[trio.abc.Stream, tuple[str, int]], Connection]

log = structlog.get_logger("timermq.broker.server")


class Server:
    """All connections of the process.

    Args:
        options: Limits.
        connect: Makes a connection of an accepted stream.
        clients: Registrations, looked through for those that have expired.
        sockets: Those that are accepted.
        at_sweep: Called when a first connection comes, and every ten seconds while there are any.
    """

    def __init__(
        self,
        options: BrokerOptions,
        connect: MakeConnection,
        clients: ClientRegistry,
        sockets: Sockets,
        at_sweep: Callable[[], Awaitable[None]],
    ) -> None:
        self._options = options
        self._connect = connect
        self._clients = clients
        self._sockets = sockets
        self._at_sweep = at_sweep
        self._connections: set[Connection] = set()
        self._connections_max = options.connections_max
        self._shares = Pool(lambda: self._connections_max)
        """The share of connections that each address has."""
        self._log_limit = LogLimit()
        self._accepting = trio.CancelScope()
        self._all_closed = trio.Event()
        self._first_connected = trio.Event()
        """There are connections to look through: the sweep rests while there is none."""
        self.accepted = 0
        """Connections accepted since the start."""
        self.turned_away = 0
        """Connections closed at once, for want of room."""

    @property
    def connections(self) -> int:
        """Number of connections that are open."""
        return len(self._connections)

    async def run(
        self,
        listeners: Sequence[Listener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve until cancelled; the listeners are closed then, connections as well.

        Args:
            listeners: Bound; without any, streams come through ``serve`` alone.
            task_status: Started when connections are accepted.
        """
        self._connections_max = room_for_connections(self._options.connections_max)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweep, name="idle sweep")
            if listeners:
                await nursery.start(self._accept, listeners, nursery)
            task_status.started()

    async def stop(self) -> None:
        """Accept and receive nothing more, let the answers under way be sent, and wait for that.

        Cancellation: connections that are left end with ``run``.
        """
        self._accepting.cancel()
        for connection in list(self._connections):
            connection.stop()
        while self._connections:
            self._all_closed = trio.Event()
            await self._all_closed.wait()

    async def _accept(
        self,
        listeners: Sequence[Listener],
        nursery: trio.Nursery,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept until ``stop``; the connections live on in ``nursery``."""
        with self._accepting:
            async with trio.open_nursery() as accepting:
                await accepting.start(
                    partial(
                        trio.serve_listeners,
                        self._serve_accepted,
                        list(listeners),
                        handler_nursery=nursery,
                    )
                )
                task_status.started()

    async def serve(self, stream: trio.abc.Stream, remote: tuple[str, int]) -> None:
        """Serve one connection until it ends; its errors end no other one.

        Args:
            stream: The bytes; closed at the end.
            remote: Host and port of the peer.
        """
        if self._accepting.cancel_called:
            # Accepted in the turn before.
            await trio.aclose_forcefully(stream)
            return
        peer = peer_of(f"{remote[0]}:{remote[1]}")
        if not self._shares.take(peer):
            self.turned_away += 1
            if count := self._log_limit.take():
                log.warning(
                    "connections turned away",
                    remote=peer,
                    count=count,
                    of_this_address=self._shares.of(peer),
                    open=len(self._connections),
                )
            await trio.aclose_forcefully(stream)
            return
        self.accepted += 1
        if self.accepted % COLLECTED_COUNT == 0 and gc.isenabled():
            gc.collect(1)
        connection = self._connect(stream, remote)
        self._connections.add(connection)
        self._first_connected.set()
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._shares.give_back(peer)
            if not self._connections:
                self._all_closed.set()
                self._first_connected = trio.Event()

    async def _serve_accepted(self, stream: trio.abc.Stream) -> None:
        try:
            host, port = self._sockets.peer_of(stream)
        except OSError:  # reset before it was accepted
            await trio.aclose_forcefully(stream)
        else:
            await self.serve(stream, (host, port))

    async def _sweep(self) -> None:
        idle = self._options.server_channel_max_idle_time_seconds
        first = self._options.first_request_timeout_seconds
        while True:
            if not self._connections:
                while not self._connections:
                    await self._first_connected.wait()
                await self._at_sweep()
            await trio.sleep(SWEEP_INTERVAL)
            now = trio.current_time()
            for connection in list(self._connections):
                if connection.is_overdue(now - idle):
                    connection.close(f"silent, or no whole request, for {idle} s")
                elif not connection.session.is_known and connection.session.opened_at < now - first:
                    connection.close(f"no request that may be done within {first} s")
            self._clients.close_expired()
            await self._at_sweep()


async def bind(host: str, port: int) -> trio.SocketListener:
    """Listen on one address.

    Args:
        host: Address or name.
        port: 0: a free one.

    Raises:
        OSError: The address cannot be listened on; the message names it.
    """
    try:
        listeners = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except OSError as error:
        raise OSError(error.errno, f"listen on {host}:{port}: {error.strerror or error}") from error
    except UnicodeError as error:  # IDNA refuses the name
        raise OSError(errno.EINVAL, f"listen on {host}:{port}: {error}") from error
    # A name with several addresses: the first one, so that there is one address to tell.
    for other in listeners[1:]:
        await other.aclose()
    return listeners[0]
