"""The settings of a lease, and those that must go with them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from broker_rig import BROKER
from timermq.broker.replication.role import BrokerRole

LEASE: dict[str, Any] = {"lease": "etcd://127.0.0.1:2379/orders?ttl=5", "ha_listen_port": 0}


def test_a_broker_with_a_lease_begins_as_a_follower() -> None:
    """It leads when it holds the lease, in the role that its settings name."""
    options = attrs.evolve(BROKER, **LEASE, broker_role=BrokerRole.SYNC_MASTER, broker_id=2)

    assert options.first_role is BrokerRole.SLAVE
    assert options.lead_role is BrokerRole.SYNC_MASTER
    assert options.follower_id == 2
    assert options.may_found


@pytest.mark.parametrize("changed", [{"follow": "a:1"}, {"broker_role": BrokerRole.SLAVE}])
def test_a_broker_that_is_to_follow_founds_no_lease(changed: dict[str, Any]) -> None:
    """It may lead later, as an asynchronous master."""
    options = attrs.evolve(BROKER, **LEASE, **changed)

    assert not options.may_found
    assert options.lead_role is BrokerRole.ASYNC_MASTER


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"lease": "etcd://127.0.0.1/orders"}, "expected HOST:PORT"),
        ({"lease_margin_ms": 2_501}, "lease_margin_ms: expected"),
        ({"ha_listen_port": None}, "ha_listen_port"),
        ({"lease_user": "root"}, "expected both or neither"),
        ({"lease_password_file": "secret"}, "expected both or neither"),
        ({"lease_tls_key_path": "key.pem"}, "expected a certificate to the key"),
        ({"lease_tls_cert_path": "cert.pem"}, "expected etcds://"),
        ({"broker_id": 0}, "broker_id: expected 1 or more"),
        (
            {
                "lease": "etcd://etcd.example:2379/orders",
                "lease_user": "root",
                "lease_password_file": "secret",
            },
            "in plain text",
        ),
    ],
)
def test_settings_that_do_not_go_together(changed: dict[str, Any], expected: str) -> None:
    """The error says what was expected, at the start."""
    with pytest.raises(ValueError, match=expected):
        attrs.evolve(BROKER, **LEASE | changed)


def test_brokers_of_other_machines_need_an_address_of_this_one() -> None:
    """Each one's loopback would be one name for all."""
    far = attrs.evolve(BROKER, **LEASE | {"lease": "etcd://etcd.example:2379/orders"})
    fault = far.address_fault()
    assert fault is not None
    assert "advertised_host" in fault

    assert (
        attrs.evolve(far, listen_host="0.0.0.0", advertised_host="a.example").address_fault()
        is None
    )
    assert attrs.evolve(BROKER, **LEASE).address_fault() is None


def test_a_password_goes_to_this_machine_in_plain_text() -> None:
    """No one else hears it."""
    user: dict[str, Any] = {"lease_user": "root", "lease_password_file": "secret"}

    assert attrs.evolve(BROKER, **LEASE, **user).lease_user == "root"
