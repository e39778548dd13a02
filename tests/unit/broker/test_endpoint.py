"""The sockets that a broker listens on, and the address that it gives of itself."""

from __future__ import annotations

import attrs
import pytest
import trio

from broker_rig import BROKER
from descriptors import open_count
from timermq.broker.endpoint import Endpoint
from timermq.timerstore.message import pack_host

LOCAL = attrs.evolve(BROKER, listen_host="127.0.0.1", listen_port=0)


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
