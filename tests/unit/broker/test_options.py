"""Tests of the broker's settings."""

from typing import Any

import pytest

from timermq.broker.options import BrokerOptions


def test_defaults_listen_on_loopback_only() -> None:
    """Without configuration nothing but loopback is bound."""
    options = BrokerOptions()

    assert ("127.0.0.1", 10911) == (options.listen_host, options.listen_port)
    assert ("127.0.0.1", 9876) == (options.namesrv_listen_host, options.namesrv_listen_port)


def test_two_thousand_connections_fit() -> None:
    """The default limit leaves room for two thousand connections."""
    assert BrokerOptions().connections_max >= 2000


def test_a_lock_outlasts_its_holder() -> None:
    """A client is at work for 30 seconds behind its last renewal: a lock lasts longer."""
    with pytest.raises(ValueError, match="rebalance_lock_max_live_ms"):
        BrokerOptions(rebalance_lock_max_live_ms=34_999)

    assert BrokerOptions(rebalance_lock_max_live_ms=35_000).rebalance_lock_max_live_ms == 35_000


@pytest.mark.parametrize("port", [1, 2])
def test_a_port_without_one_two_below(port: int) -> None:
    """Who insists on the VIP channel learns that there is no place for it."""
    with pytest.raises(ValueError, match="listen_port: expected 0 or a port above 2 with vip_"):
        BrokerOptions(listen_port=port, vip_listen_enable=True)

    assert BrokerOptions(listen_port=port).vip_listen_enable is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_wildcard_is_never_advertised(host: str) -> None:
    """Listening everywhere needs an address that clients can be told."""
    with pytest.raises(ValueError, match="advertised_host: expected an address"):
        BrokerOptions(listen_host=host)
    with pytest.raises(ValueError, match="advertised_host: expected an address"):
        BrokerOptions(advertised_host=host)

    assert BrokerOptions(listen_host=host, advertised_host="192.0.2.1").listen_host == host


@pytest.mark.parametrize("listen", ["127.0.0.1", "localhost", "::1"])
def test_an_address_without_a_listener_is_not_advertised(listen: str) -> None:
    """As of a broker.conf with brokerIP1 alone: RocketMQ listens everywhere by default."""
    fault = BrokerOptions(advertised_host="192.0.2.1", listen_host=listen).address_fault()

    assert fault == (
        "listen_host (bindAddress): expected an address that 192.0.2.1, which is advertised "
        "(advertised_host, brokerIP1), leads to, such as 192.0.2.1 or 0.0.0.0, "
        f"found {listen!r}, which only this machine reaches"
    )
    for here in ("127.0.0.2", None):
        assert BrokerOptions(listen_host=listen, advertised_host=here).address_fault() is None


@pytest.mark.parametrize("name_server", ["192.0.2.9:9876", "names:9876", "localhost.example:9876"])
def test_loopback_is_not_registered_elsewhere(name_server: str) -> None:
    """Clients of a name server on another machine would look for the broker on their own."""
    fault = BrokerOptions(namesrv_addr=f"127.0.0.1:9876;{name_server}").address_fault()

    assert fault == (
        "advertised_host (brokerIP1): expected an address at which clients of the name server "
        f"{name_server} reach this broker, and listen_host (bindAddress) to match, "
        "found none, and listen_host '127.0.0.1', which only this machine reaches"
    )
    reached = BrokerOptions(namesrv_addr=name_server, listen_host="192.0.2.1")
    meant = BrokerOptions(namesrv_addr=name_server, advertised_host="127.0.0.1")
    assert reached.address_fault() is meant.address_fault() is None


@pytest.mark.parametrize("name_server", ["127.0.0.1:9876", "localhost:9876", "[::1]:9876"])
def test_a_cluster_on_one_machine(name_server: str) -> None:
    """Loopback is registered with name servers that are there too."""
    assert BrokerOptions(namesrv_addr=name_server).address_fault() is None


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 128, "naïve"])
def test_names_that_become_topics_are_checked(name: str) -> None:
    """Broker and cluster name two topics, and topics name directories."""
    with pytest.raises(ValueError, match="broker_name: expected 1 to 127 of the characters"):
        BrokerOptions(broker_name=name)
    with pytest.raises(ValueError, match="broker_cluster_name: expected 1 to 127"):
        BrokerOptions(broker_cluster_name=name)


def test_permission_bits() -> None:
    """Bit 4 lets messages out, bit 2 lets them in."""
    assert BrokerOptions(broker_permission=6).is_readable
    assert BrokerOptions(broker_permission=6).is_writeable
    assert not BrokerOptions(broker_permission=4).is_writeable
    assert not BrokerOptions(broker_permission=2).is_readable


@pytest.mark.parametrize(
    ("changes", "addresses"),
    [
        ({}, []),
        ({"listen_host": "0.0.0.0", "advertised_host": "10.0.0.1"}, ["0.0.0.0:10911"]),
        ({"namesrv_listen_host": "::"}, [":::9876"]),
        ({"namesrv_listen_host": "::", "namesrv_listen_enable": False}, []),
        ({"listen_host": "10.0.0.1", "acl_enable": True, "acl_file": "a.yml"}, []),
    ],
)
def test_addresses_without_access_control(changes: dict[str, Any], addresses: list[str]) -> None:
    """Beyond loopback without access control."""
    assert addresses == BrokerOptions(**changes).open_addresses()
