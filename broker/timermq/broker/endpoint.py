"""The sockets that a broker listens on, and the address that it gives of itself."""

from __future__ import annotations

import socket

import attrs
import trio

from timermq.timerstore.message import pack_host

from .options import BrokerOptions
from .server import Listener, bind
from .sockets import KernelSockets, Sockets


@attrs.frozen(kw_only=True)
class Endpoint:
    """The broker's listening address and its name; bound before the store is touched."""

    listeners: tuple[Listener, ...]
    address: str
    """``host:port`` that clients are told to connect to."""
    listen: str
    metrics_listener: trio.SocketListener | None = None
    namesrv_listen: str | None
    """None without a port of its own for the name server's role; the broker port has both."""
    store_host: bytes
    """``address`` as records and message ids hold it."""
    sockets: Sockets = attrs.field(factory=KernelSockets)
    """Reads and writes the connections that come in."""

    @classmethod
    async def bind(cls, options: BrokerOptions) -> Endpoint:
        """Bind the sockets of the options.

        Raises:
            OSError: An address cannot be listened on, or the advertised name has no IPv4 address.
        """
        main = await bind(options.listen_host, options.listen_port)
        listeners = [main]
        metrics: trio.SocketListener | None = None
        try:
            if options.serves_namesrv:
                listeners.append(
                    await bind(options.namesrv_listen_host, options.namesrv_listen_port)
                )
            if options.metrics_listen_enable:
                metrics = await bind(options.metrics_listen_host, options.metrics_listen_port)
            host = options.advertised_host or options.listen_host
            port = options.advertised_port or main.socket.getsockname()[1]
            return cls(
                listeners=tuple(listeners),
                address=f"{host}:{port}",
                listen=_name(main),
                namesrv_listen=_name(listeners[1]) if len(listeners) > 1 else None,
                metrics_listener=metrics,
                store_host=pack_host(await _ipv4_address(host), port),
            )
        except BaseException:
            for listener in (*listeners, *filter(None, (metrics,))):
                listener.socket.close()
            raise

    @property
    def metrics_listen(self) -> str | None:
        """Address of the metrics; None when they are not served."""
        return None if self.metrics_listener is None else _name(self.metrics_listener)

    def close(self) -> None:
        """Close the listening sockets, and what waits for the others."""
        self.sockets.close()
        for listener in (*self.listeners, self.metrics_listener):
            if isinstance(listener, trio.SocketListener):
                listener.socket.close()


def _name(listener: trio.SocketListener) -> str:
    host, port = listener.socket.getsockname()[:2]
    return f"{host}:{port}"


async def _ipv4_address(host: str) -> str:
    """The IPv4 address of a name: what message ids and records hold, and C++ clients understand."""
    try:
        found = await trio.socket.getaddrinfo(
            host, None, family=socket.AF_INET, type=socket.SOCK_STREAM
        )
    except OSError as error:
        raise OSError(f"advertised host {host}: expected an IPv4 address: {error}") from error
    return str(found[0][4][0])
