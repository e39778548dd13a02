"""The sockets that a broker listens on, and the address that it gives of itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from broker_rig import BROKER
from descriptors import open_count
from timermq.broker.endpoint import Endpoint
from timermq.broker.options import VIP_DISTANCE, BrokerOptions
from timermq.broker.server import bind
from timermq.timerstore.message import pack_host
from unit.broker.test_server import connect, listening_broker

ASKED = attrs.evolve(BROKER, vip_listen_enable=True)
LOCAL = attrs.evolve(BROKER, listen_host="127.0.0.1", listen_port=0)
TRIES = 100
"""Ports that are tried until the one two below is free, too."""


@asynccontextmanager
async def taken_below() -> AsyncGenerator[BrokerOptions]:
    """Options with a port that was free, above one that another program listens on."""
    for _ in range(TRIES):
        other = await bind("127.0.0.1", 0)
        port = other.socket.getsockname()[1] + VIP_DISTANCE
        try:
            await (await bind("127.0.0.1", port)).aclose()
        except OSError:
            await other.aclose()
            continue
        async with other:
            yield attrs.evolve(BROKER, listen_port=port)
        return


async def test_the_vip_channel_is_two_ports_below() -> None:
    """What it brings is served and counted as what comes to the broker's port."""
    for _ in range(TRIES):
        try:
            async with listening_broker(ASKED) as broker:
                endpoint = broker.endpoint
                port = int(endpoint.listen.rpartition(":")[2])
                assert endpoint.vip_listen == f"127.0.0.1:{port - VIP_DISTANCE}"
                peers = [await connect(one) for one in (endpoint.vip_listen, endpoint.listen)]
                for peer in peers:
                    assert (await peer.call(30, {"topic": "T", "queueId": "0"})).code == 0
                assert broker.server.connections == 2
                for peer in peers:
                    await peer.stream.aclose()
                return
        except OSError:  # the port below was taken
            continue
    raise AssertionError(f"{TRIES} ports, and each time the one two below it was taken")


@pytest.mark.parametrize("options", [BROKER, attrs.evolve(BROKER, vip_listen_enable=False)])
async def test_a_port_that_the_system_chose_has_no_vip_channel(options: BrokerOptions) -> None:
    """The one below it may be a neighbour's."""
    endpoint = await Endpoint.bind(options)
    endpoint.close()

    assert endpoint.vip_listen is None
    assert len(endpoint.listeners) == 2


async def test_a_taken_port_below_is_told() -> None:
    """Most clients do not use it: the broker serves without."""
    async with taken_below() as options:
        with capture_logs() as logs:
            endpoint = await Endpoint.bind(options)
        endpoint.close()
        (told,) = logs

        assert endpoint.vip_listen is None
        assert told["log_level"] == "warning"
        below = options.listen_port - VIP_DISTANCE
        assert f"listen on 127.0.0.1:{below}: Address already in use" in told["error"]
        assert "vip_listen_enable=false" in told["remedy"]


async def test_a_taken_port_below_that_is_insisted_on() -> None:
    """The start fails, and gives the other ports back."""
    async with taken_below() as options:
        below = options.listen_port - VIP_DISTANCE
        with pytest.raises(OSError, match=f"listen on 127.0.0.1:{below}: Address already in use"):
            await Endpoint.bind(attrs.evolve(options, vip_listen_enable=True))
        await (await bind("127.0.0.1", options.listen_port)).aclose()


async def test_a_broker_alone_has_one_listener() -> None:
    """Its address is that of the port that the system chose, in records too."""
    endpoint = await Endpoint.bind(
        attrs.evolve(LOCAL, namesrv_listen_enable=False, metrics_listen_enable=False)
    )
    try:
        (listener,) = endpoint.listeners
        assert isinstance(listener, trio.SocketListener)
        port = listener.socket.getsockname()[1]
        assert endpoint.address == endpoint.listen == f"127.0.0.1:{port}"
        assert endpoint.store_host == pack_host("127.0.0.1", port)
        assert (endpoint.namesrv_listen, endpoint.metrics_listen) == (None, None)
    finally:
        endpoint.close()


async def test_name_server_and_metrics_have_ports_of_their_own() -> None:
    """Each is told by its own address."""
    endpoint = await Endpoint.bind(
        attrs.evolve(
            LOCAL,
            namesrv_listen_enable=True,
            namesrv_listen_host="127.0.0.1",
            namesrv_listen_port=0,
            metrics_listen_enable=True,
            metrics_listen_host="127.0.0.1",
            metrics_listen_port=0,
        )
    )
    try:
        addresses = {endpoint.listen, endpoint.namesrv_listen, endpoint.metrics_listen}
        assert len(endpoint.listeners) == 2
        assert len(addresses) == 3
        assert None not in addresses
    finally:
        endpoint.close()


async def test_an_advertised_address_goes_before_the_bound_one() -> None:
    """Clients behind a network's border connect to it; the broker listens where it was told."""
    endpoint = await Endpoint.bind(
        attrs.evolve(
            LOCAL,
            namesrv_listen_enable=False,
            metrics_listen_enable=False,
            advertised_host="127.0.0.9",
            advertised_port=4711,
        )
    )
    endpoint.close()

    assert endpoint.address == "127.0.0.9:4711"
    assert endpoint.listen.startswith("127.0.0.1:")
    assert endpoint.store_host == pack_host("127.0.0.9", 4711)


async def test_a_name_without_an_ipv4_address_is_refused() -> None:
    """A record could not hold it; the error says so, and no socket stays."""
    before = open_count()
    options = attrs.evolve(
        LOCAL,
        namesrv_listen_enable=False,
        metrics_listen_enable=False,
        advertised_host="no-such-host.invalid",
    )
    with pytest.raises(OSError, match="expected an IPv4 address"):
        await Endpoint.bind(options)

    assert open_count() == before
