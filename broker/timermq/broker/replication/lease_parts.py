"""The lease of a broker, put together of the broker's parts."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from timermq.timerstore.message_store import MessageStore

from ..namesrv.name_server_link import OpenStream
from ..options import BrokerOptions
from .followers import Followers
from .lease_keeper import LeaseKeeper
from .lease_place import LeasePlace
from .lease_state import LeaseState
from .leased_lead import LeasedLead, lease_of
from .succession import Succession

INSTANCE_SIZE = 16
"""Bytes that are drawn for a life of a broker."""


def keeper_of(
    options: BrokerOptions,
    succession: Succession,
    followers: Followers,
    store: MessageStore,
    *,
    park: Callable[[], Awaitable[None]],
    steady_ms: Callable[[], float],
    open_stream: OpenStream,
) -> LeaseKeeper:
    """The keeper of a broker that is being made; its store is written while it leads alone.

    Args:
        options: Settings of the broker, with a lease.
        succession: Has the broker lead.
        followers: Those in sync are named in the lease.
        store: Written while the broker leads.
        park: Lets the broker write nothing more; it may stop already.
        steady_ms: A clock that cannot be set, milliseconds.
        open_stream: Opens a connection to the engine.

    Raises:
        TlsError: The certificates cannot be used.
    """
    assert options.lease is not None
    state = LeaseState(
        name=succession.address,
        broker_id=options.follower_id,
        instance=secrets.token_hex(INSTANCE_SIZE),
        timing=LeasePlace.parse(options.lease).timing(options.lease_margin_ms),
        may_found=options.may_found,
    )
    lead = LeasedLead(
        succession, park, lambda: followers.in_sync.confirm_offset, lambda: state.epoch
    )
    keeper = LeaseKeeper(lease_of(options, open_stream), state, lead, steady_ms)
    succession.claim = keeper.claim
    followers.guard = keeper.agree
    store.write_while(keeper.refusal)
    return keeper
