"""Settings of the replication link: bounds, and what only shows when they are taken together."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest

from broker_rig import BROKER
from timermq.broker.options import BrokerOptions
from timermq.broker.replication.ha_frames import BODY_SIZE_MAX, TRANSFER
from timermq.broker.replication.replication_options import HA_LISTEN_PORT, Confirm
from timermq.broker.replication.role import BrokerRole


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ha_tls_cert_path": "c"}, "expected both or neither"),
        ({"ha_tls_trust_cert_path": "t"}, "expected both or neither"),
        ({"ha_tls_key_path": "k"}, "expected a certificate to the key"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, str], reason: str) -> None:
    """A link that checks one side alone is none."""
    with pytest.raises(ValueError, match=reason):
        BrokerOptions(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "port"),
    [
        ({}, None),
        ({"ha_listen_port": 7}, 7),
        ({"broker_role": BrokerRole.ASYNC_MASTER}, HA_LISTEN_PORT),
        ({"broker_role": BrokerRole.SYNC_MASTER, "ha_listen_port": 0}, 0),
        ({"broker_role": BrokerRole.SLAVE}, None),
    ],
)
def test_a_broker_listens_for_followers_if_it_is_asked_to(
    settings: dict[str, Any], port: int | None
) -> None:
    """By the port, or by the role of a broker.conf, which has RocketMQ's port then."""
    assert attrs.evolve(BROKER, **settings).ha_port == port


def test_who_confirms_must_be_able_to_link() -> None:
    """Without a port for followers nothing would ever be confirmed by any."""
    with pytest.raises(ValueError, match="ha_listen_port: expected a port for followers"):
        attrs.evolve(BROKER, confirm=Confirm.REPLICATED)


@pytest.mark.parametrize(
    "settings",
    [
        {"ha_listen_port": 65_536},
        {"ha_transfer_batch_size": BODY_SIZE_MAX - TRANSFER.size},
        {"ha_transfer_batch_size": 1_023},
        {"in_sync_replicas": 0},
        {"min_in_sync_replicas": 0},
        {"slave_timeout_ms": 0},
        {"ha_pinned_size_max": -1},
    ],
)
def test_bounds(settings: dict[str, int]) -> None:
    """A frame must leave room for its head in a slave's buffer, and a replica is one at least."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        attrs.evolve(BROKER, **cast("Any", settings))
