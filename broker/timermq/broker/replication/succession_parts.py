"""The succession of a broker, put together of the broker's parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from timermq.pipeline.timer_message_store import TimerMessageStore

from ..options import BrokerOptions
from ..security.outward_access import OutwardAccess
from ..tables import Tables
from .agreement import Agreement
from .epochs import EpochFile
from .next_life import CopyLink, EndLife
from .replica_calls import ReplicaCalls
from .role import MASTER_ID, BrokerRole
from .role_note import RoleNote
from .succession import Succession

if TYPE_CHECKING:
    from .following import Following


def succession_of(
    options: BrokerOptions,
    tables: Tables,
    timer_store: TimerMessageStore,
    *,
    address: str,
    access: OutwardAccess,
    link: Callable[[], CopyLink],
    lead: Callable[[BrokerRole, Callable[[], None]], Awaitable[None]],
    follow: Callable[[], Awaitable[None]],
    end: EndLife,
) -> Succession:
    """The succession of a broker that is being made, as its note says.

    Args:
        options: Settings of the broker.
        tables: Its tables.
        timer_store: The timers over its store.
        address: ``host:port`` at which others reach it.
        access: For requests to other replicas.
        link: See ``Succession``, as the others.
        lead: Lets it lead.
        follow: Parks it.
        end: Ends its life.

    Raises:
        StoreFormatError: The note, or the list of epochs, is damaged.
        OSError: The disk refused.
    """
    store = timer_store.store

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
        timer_store.files.checkpoint.state_version = epoch

    def stand_alone() -> None:
        tables.followers.is_short_handed = True

    made = Succession(
        cluster_name=options.broker_cluster_name,
        broker_name=options.broker_name,
        address=address,
        store=store,
        role=tables.role,
        epochs=EpochFile(store.disk, store.root),
        calls=ReplicaCalls.of(access),
        link=link,
        lead=lead,
        follow=follow,
        reign=reign,
        end=end,
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
