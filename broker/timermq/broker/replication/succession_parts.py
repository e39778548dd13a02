"""The succession of a broker, put together of the broker's parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..namesrv.name_server_link import open_tcp
from .agreement import Agreement
from .epochs import EpochFile
from .replica_calls import ReplicaCalls
from .role import MASTER_ID
from .role_note import RoleNote
from .succession import Succession

if TYPE_CHECKING:
    from ..broker import Broker
    from .following import Following


def succession_of(broker: Broker) -> Succession:
    """The succession of a broker that is being made, as its note says.

    Raises:
        StoreFormatError: The note, or the list of epochs, is damaged.
        OSError: The disk refused.
    """
    options, tables, store = broker.options, broker.tables, broker.store

    def followers() -> Sequence[str]:
        return [
            address
            for one in tables.routes.brokers()
            if one.broker_name == options.broker_name
            for broker_id, address in one.addresses.items()
            if broker_id != MASTER_ID
        ]

    def reign(epoch: int) -> None:
        for table in (tables.topics, tables.groups, tables.offsets):
            table.reign(epoch)

    def stand_alone() -> None:
        tables.followers.is_short_handed = True

    made = Succession(
        cluster_name=options.broker_cluster_name,
        broker_name=options.broker_name,
        address=broker.endpoint.address,
        store=store,
        role=broker.role,
        epochs=EpochFile(store.disk, store.root),
        calls=ReplicaCalls(open_tcp),
        link=lambda: broker.following,
        lead=broker.lead,
        follow=broker.follow,
        reign=reign,
        end=broker.go_on,
        followers=followers,
        stand_alone=stand_alone,
        promoted_role=options.lead_role,
        note=RoleNote.load(store.disk, store.root),
    )
    made.begin()
    tables.own.on_rival = made.suspect
    return made


def join_epochs(following: Following, succession: Succession) -> None:
    """Let a follower keep its master's epochs, and compare the logs by them."""
    agreement = Agreement(
        broker_name=succession.broker_name,
        store=succession.store,
        epochs=succession.epochs,
        calls=succession.calls,
        succession=succession,
    )
    following.agree = agreement.agree
    following.compare = agreement.compare
    following.keep_epoch = agreement.keep_epoch
