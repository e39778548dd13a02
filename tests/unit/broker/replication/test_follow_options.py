"""Settings of the role: what goes together, and what the role and the id are without them."""

from __future__ import annotations

from typing import Any

import pytest

from timermq.broker.options import BrokerOptions
from timermq.broker.replication.role import BrokerRole


@pytest.mark.parametrize(
    ("settings", "role", "broker_id"),
    [
        ({}, BrokerRole.ASYNC_MASTER, 1),
        ({"broker_role": BrokerRole.SYNC_MASTER, "broker_id": 0}, BrokerRole.SYNC_MASTER, 1),
        ({"broker_role": BrokerRole.SLAVE}, BrokerRole.SLAVE, 1),
        ({"follow": "a:1"}, BrokerRole.SLAVE, 1),
        ({"follow": "[::1]:10911", "broker_id": 3}, BrokerRole.SLAVE, 3),
    ],
)
def test_the_role_at_the_start(settings: dict[str, Any], role: BrokerRole, broker_id: int) -> None:
    """A master unless there is one to follow; the id is that of a follower."""
    options = BrokerOptions(**settings)
    assert (options.first_role, options.follower_id) == (role, broker_id)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"broker_role": BrokerRole.SLAVE, "broker_id": 0},
            "expected 1 or more with broker_role S",
        ),
        ({"broker_id": 2}, "expected 0 with broker_role ASYNC_MASTER, found 2"),
        ({"follow": "a:1", "broker_role": BrokerRole.SYNC_MASTER}, "expected SLAVE, or none"),
        ({"follow": "a"}, "follow: expected HOST:PORT, found 'a'"),
        ({"ha_master_address": "a:1;b:2"}, "ha_master_address: expected HOST:PORT"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, Any], said: str) -> None:
    """It is refused at the start, by the name of the setting."""
    with pytest.raises(ValueError, match=said):
        BrokerOptions(**settings)


def test_where_a_follower_registers() -> None:
    """With its name servers, or, without any, with the master."""
    assert BrokerOptions(follow="a:1").registers_with == ["a:1"]
    assert BrokerOptions(follow="a:1", namesrv_addr="n:1;m:2").registers_with == ["n:1", "m:2"]
    assert BrokerOptions().registers_with == []
