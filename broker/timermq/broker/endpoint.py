"""The sockets that a broker listens on, and the address that it gives of itself."""

from __future__ import annotations

import socket

import attrs
import structlog
import trio

from timermq.timerstore.message import pack_host

from .options import VIP_DISTANCE, BrokerOptions
from .server import Listener, bind
from .sockets import KernelSockets, Sockets

log = structlog.get_logger("timermq.broker.endpoint")


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
    vip_listen: str | None = None
    """None without RocketMQ's VIP channel."""
    store_host: bytes
    """``address`` as records and message ids hold it."""
    ha_listener: Listener | None = None
    """Where followers link; None: they cannot."""
    ha_listen: str | None = None
    ha_address: str = ""
    """``host:port`` that followers are told to connect to; empty without a listener."""
    sockets: Sockets = attrs.field(factory=KernelSockets)
    """Reads and writes the connections that come in."""

    @classmethod
    async def bind(cls, options: BrokerOptions) -> Endpoint:
        """Bind the sockets of the options.

        Raises:
            OSError: An address cannot be listened on, or the advertised name has no IPv4 address.
        """
        main = await bind(options.listen_host, options.listen_port)
        namesrv: trio.SocketListener | None = None
        metrics: trio.SocketListener | None = None
        vip: trio.SocketListener | None = None
        followers: trio.SocketListener | None = None
        try:
            if options.serves_namesrv:
                namesrv = await bind(options.namesrv_listen_host, options.namesrv_listen_port)
            if options.metrics_listen_enable:
                metrics = await bind(options.metrics_listen_host, options.metrics_listen_port)
            followers = await _bind_ha(options)
            own_port = main.socket.getsockname()[1]
            # It is the last one, so that it takes no port that a setting names.
            vip = await _bind_vip(options, own_port)
            host = options.advertised_host or options.listen_host
            port = options.advertised_port or own_port
            return cls(
                listeners=tuple(one for one in (main, namesrv, vip) if one is not None),
                address=f"{host}:{port}",
                listen=_name(main),
                namesrv_listen=None if namesrv is None else _name(namesrv),
                vip_listen=None if vip is None else _name(vip),
                metrics_listener=metrics,
                ha_listener=followers,
                ha_listen=None if followers is None else _name(followers),
                ha_address=_ha_address(host, followers),
                store_host=pack_host(await _ipv4_address(host), port),
            )
        except BaseException:
            for listener in filter(None, (main, namesrv, metrics, vip, followers)):
                listener.socket.close()
            raise

    @property
    def metrics_listen(self) -> str | None:
        """Address of the metrics; None when they are not served."""
        return None if self.metrics_listener is None else _name(self.metrics_listener)

    def close(self) -> None:
        """Close the listening sockets, and what waits for the others."""
        self.sockets.close()
        for listener in (*self.listeners, self.metrics_listener, self.ha_listener):
            if isinstance(listener, trio.SocketListener):
                listener.socket.close()


async def _bind_ha(options: BrokerOptions) -> trio.SocketListener | None:
    """Listen for followers, if a setting asks for it.

    Raises:
        OSError: The port cannot be had; the message names the setting.
    """
    if options.ha_port is None:
        return None
    try:
        return await bind(options.ha_listen_host or options.listen_host, options.ha_port)
    except OSError as error:
        raise OSError(error.errno, f"ha_listen_port (haListenPort): {error.strerror}") from error


def _ha_address(host: str, listener: trio.SocketListener | None) -> str:
    """The advertised host with the port of the followers' listener."""
    return "" if listener is None else f"{host}:{listener.socket.getsockname()[1]}"


async def _bind_vip(options: BrokerOptions, own_port: int) -> trio.SocketListener | None:
    """Listen on the port of RocketMQ's VIP channel.

    Args:
        options: ``vip_listen_enable`` says whether to.
        own_port: The broker's port; the VIP channel's is ``VIP_DISTANCE`` below it.

    Returns:
        None if the channel is off, or its port is taken and the channel is not required.

    Raises:
        OSError: The channel is required, and its port cannot be listened on.

    Source: Java ``BrokerController.initializeRemotingServer``.
    """
    wanted = options.vip_listen_enable
    if wanted is False or (wanted is None and options.listen_port == 0):
        return None
    port = own_port - VIP_DISTANCE
    try:
        if port < 1:
            raise OSError(f"no port {VIP_DISTANCE} below {own_port}")
        return await bind(options.listen_host, port)
    except OSError as error:
        if wanted:
            raise
        log.warning(
            "no VIP channel: clients with vipChannelEnabled cannot send",
            error=str(error),
            remedy="free the port, or set vip_listen_enable=false",
        )
        return None


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
