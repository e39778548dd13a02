"""The lease of a broker, put together of the broker's parts."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from .lease_keeper import LeaseKeeper
from .lease_place import LeasePlace
from .lease_state import LeaseState
from .leased_lead import LeasedLead, lease_of

if TYPE_CHECKING:
    from ..broker import Broker

INSTANCE_SIZE = 16
"""Bytes that are drawn for a life of a broker."""


def keeper_of(broker: Broker, steady_ms: Callable[[], float]) -> LeaseKeeper:
    """The keeper of a broker that is being made; its store is written while it leads alone.

    Args:
        broker: With its succession.
        steady_ms: A clock that cannot be set, milliseconds.

    Raises:
        TlsError: The certificates cannot be used.
    """
    options = broker.options
    assert options.lease is not None
    state = LeaseState(
        name=broker.endpoint.address,
        broker_id=options.follower_id,
        instance=secrets.token_hex(INSTANCE_SIZE),
        timing=LeasePlace.parse(options.lease).timing(options.lease_margin_ms),
        may_found=options.may_found,
    )
    lead = LeasedLead(broker.succession, broker.rest, lambda: state.epoch)
    keeper = LeaseKeeper(lease_of(options), state, lead, steady_ms)
    broker.succession.claim = keeper.claim
    broker.tables.followers.guard = keeper.agree
    broker.store.write_while(keeper.refusal)
    return keeper
