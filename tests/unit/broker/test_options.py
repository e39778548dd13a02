"""Tests of the broker's settings."""

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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_wildcard_is_never_advertised(host: str) -> None:
    """Listening everywhere needs an address that clients can be told."""
    with pytest.raises(ValueError, match="advertised_host: expected an address"):
        BrokerOptions(listen_host=host)
    with pytest.raises(ValueError, match="advertised_host: expected an address"):
        BrokerOptions(advertised_host=host)

    assert BrokerOptions(listen_host=host, advertised_host="192.0.2.1").listen_host == host


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
