"""Which hosts are this machine: a doubt counts against either answer."""

from __future__ import annotations

import pytest

from timermq.broker.loopback import is_loopback, is_loopback_address, may_be_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "::ffff:127.0.0.1", "::1%lo"]
)
def test_addresses_of_this_machine(host: str) -> None:
    """Also in brackets, with a zone, and an IPv4 address in IPv6."""
    assert is_loopback_address(host)
    assert is_loopback(host)
    assert may_be_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "::ffff:10.0.0.1", "", "a", "localhost.a"]
)
def test_what_others_reach(host: str) -> None:
    """Wildcards, addresses and names of a network."""
    assert not is_loopback_address(host)
    assert not is_loopback(host)
    assert not may_be_loopback(host)


def test_names_of_this_machine() -> None:
    """The one name is meant; whether those below it lead here the resolver alone knows."""
    assert not is_loopback_address("localhost")
    assert is_loopback("LocalHost")
    assert not is_loopback("a.localhost")
    assert may_be_loopback("a.localhost")
