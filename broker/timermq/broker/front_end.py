"""How clients reach the broker: sockets, connections, and the turns of their requests."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from timermq.remoting.send_run.send_v2 import decode_send_v2
from timermq.remoting.send_run.signed_send_v2 import decode_signed_send_v2

from .connection import Connection
from .dispatcher import Dispatcher
from .options import BrokerOptions
from .reactor import Reactor
from .round_robin import RoundRobin
from .security.tls import Tls
from .server import Listener, Server
from .sockets import Sockets
from .tables import Tables

FIRST_FRAME_ROOM = 131_072
"""Bytes of a first frame, with access control, beside the body of the largest message: its header,
with properties."""


class FrontEnd:
    """Everything between the sockets and the dispatcher.

    Args:
        options: Limits.
        sockets: Those of the connections that come in.
        tls: TLS on each of them.
        tables: Where connections are known, and what they share.
        dispatcher: Knows who works on a request.
        message_size_max: Bytes of a body.
    """

    def __init__(
        self,
        options: BrokerOptions,
        sockets: Sockets,
        tls: Tls,
        tables: Tables,
        dispatcher: Dispatcher,
        *,
        message_size_max: int,
    ) -> None:
        self._options = options
        self._tables = tables
        self._dispatcher = dispatcher
        # Without access control any client's first request may be done: less room for it would
        # only harm a broker that registers with ten thousands of topics.
        self._first_frame_size_max = (
            message_size_max + FIRST_FRAME_ROOM
            if dispatcher.checks_access
            else options.frame_size_max
        )
        self._decode_send = decode_signed_send_v2 if dispatcher.checks_access else decode_send_v2
        self._tls = tls
        self._round_robin = RoundRobin(dispatcher, tables.costly)
        self._reactor = Reactor(sockets, self._round_robin, tables.durable, tables.costly)
        self.server = Server(options, self._connect, tables.clients, sockets, tables.stats.sample)

    async def run(
        self,
        listeners: Sequence[Listener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take requests until cancelled; connections end then.

        Args:
            listeners: Bound; without any, streams come through ``server.serve`` alone.
            task_status: Started when connections are accepted.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tls.run, name="certificates")
            await nursery.start(self._round_robin.run, name="round robin")
            await nursery.start(self._reactor.run, name="reactor")
            await nursery.start(self.server.run, listeners, name="server")
            task_status.started()

    def _connect(self, stream: trio.abc.Stream, remote: tuple[str, int]) -> Connection:
        return Connection(
            stream,
            remote,
            options=self._options,
            pools=self._tables.pools,
            dispatcher=self._dispatcher,
            round_robin=self._round_robin,
            durable=self._tables.durable,
            reactor=self._reactor,
            tls=self._tls,
            decode_send=self._decode_send,
            first_frame_size_max=self._first_frame_size_max,
        )
