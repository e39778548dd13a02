"""A broker as one replica of its name: its role, and how that changes while it serves.

The base of ``Broker``, which has the services: here is what a change of role does to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import structlog
import trio

from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.message_store import MessageStore

from ..dispatcher import Dispatcher
from ..endpoint import Endpoint
from ..namesrv.name_server_link import NameServerLinks, OpenStream
from ..options import BrokerOptions
from ..security.outward_access import OutwardAccess
from ..tables import Tables
from ..transactions.transactions import Transactions
from .link_security import follower_context, read_secret
from .next_life import NextLife
from .parked_requests import ParkedRequests
from .role import BrokerRole, Role
from .succession import Succession
from .succession_parts import join_epochs, succession_of

if TYPE_CHECKING:
    from .following import Following
    from .lease_keeper import LeaseKeeper
    from .sectors_from_replicas import SectorsFromReplicas

FOLLOWS = "this broker follows a master"
"""Why nothing is taken by a follower."""

log = structlog.get_logger("timermq.broker.replication.replica")


class Replica(ABC):
    """The role of a broker; its parts are made by ``Broker``."""

    options: BrokerOptions
    endpoint: Endpoint
    store: MessageStore
    timer_store: TimerMessageStore
    tables: Tables
    role: Role
    name_servers: NameServerLinks
    transactions: Transactions
    dispatcher: Dispatcher
    succession: Succession
    next_life: NextLife | None = None
    """How the broker goes on, once ``run`` has returned; None: it was stopped."""
    _open_stream: OpenStream
    _outward: OutwardAccess
    _draw: Callable[[], float]
    _stop_requested: trio.Event

    @abstractmethod
    def request_stop(self) -> None:
        """Begin a graceful stop of all services."""

    @abstractmethod
    def abort(self) -> None:
        """End all services at once."""

    def _make_succession(self) -> Succession:
        return succession_of(
            self.options,
            self.tables,
            self.timer_store,
            address=self.endpoint.address,
            access=self._outward,
            link=lambda: self.following,
            lead=self.lead,
            follow=self.follow,
            end=self.go_on,
        )

    def abandon(self) -> None:
        """Give files and lock back behind ``abort``, once ``run`` has returned."""
        self.timer_store.files.close()
        self.store.abandon()

    def go_on(self, next_life: NextLife, *, at_once: bool) -> None:
        """End, to go on in another role; nothing more is written.

        Args:
            next_life: Which one.
            at_once: As ``abort`` does; otherwise open requests are answered before.
        """
        self.next_life = next_life
        if at_once:
            self._park()
            self.abort()
        else:
            self.request_stop()

    @cached_property
    def following(self) -> Following:
        """The task that copies the master's log, made at its first use."""
        # Imported late: most brokers follow none.
        from .following import follow

        following = follow(
            self.options,
            self.tables,
            self.timer_store,
            named=self.name_servers.master,
            open_stream=self._open_stream,
            access=self._outward,
            draw=self._draw,
        )
        join_epochs(following, self.succession)
        return following

    async def _put_back_sectors(self) -> None:
        """Put damaged sectors of the log back as other replicas have them."""
        old, found = self.store.commit_log.old, trio.Event()
        self.store.put_back = self._put_back_soon
        if not old.damaged:
            old.on_damaged = found.set
            await found.wait()
        await self._sectors.run()

    async def _put_back_soon(self) -> None:
        await self._sectors.put_back_soon()

    @cached_property
    def _sectors(self) -> SectorsFromReplicas:
        """What puts damaged sectors back, made when the first one is found."""
        # Imported late: most logs have no damage.
        from .sectors_from_replicas import SectorsFromReplicas

        options = self.options
        return SectorsFromReplicas(
            store=self.store,
            broker_name=options.broker_name,
            address=self.endpoint.address,
            known=self.succession.replicas,
            servers=options.registers_with,
            calls=self.succession.calls,
            open_stream=self._open_stream,
            on_put_back=self.timer_store.scrub.note_put_back,
            secret=read_secret(options.ha_secret_file),
            tls=follower_context(options),
        )

    def _lease_keeper(self, steady_ms: Callable[[], float]) -> LeaseKeeper | None:
        if self.options.lease is None:
            return None
        # Imported late, as the above.
        from .lease_parts import keeper_of

        return keeper_of(
            self.options,
            self.succession,
            self.tables.followers,
            self.store,
            park=self.rest,
            steady_ms=steady_ms,
            open_stream=self._open_stream,
        )

    async def lead(
        self,
        role: BrokerRole = BrokerRole.ASYNC_MASTER,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Let a follower lead from here on: requests that write are taken, timers deliver.

        Nothing may be copied any more. Returns when it leads; what the log has is neither missed
        nor delivered twice.

        Args:
            role: One of a master.
            begin: Called in the step in which the role changes, before anything is written.

        Raises:
            RuntimeError: It changes its role just now, or stops.

        Cancellation: it leads all the same, soon.
        """
        await self.timer_store.lead(lambda: self._take_role(role, begin))

    async def follow(self) -> None:
        """Let a master follow from here on: what is under way is written, then nothing more.

        Raises:
            RuntimeError: It changes its role just now, or stops.

        Cancellation: it follows all the same, soon.
        """
        await self.timer_store.follow(lambda: self._take_role(BrokerRole.SLAVE, lambda: None))

    async def rest(self) -> None:
        """Let a master write nothing more, until it leads again or follows.

        Cancellation: as of ``follow``.
        """
        if self._stop_requested.is_set():  # the timers end, or have ended
            self._park()
            return
        await self.follow()

    def _take_role(self, role: BrokerRole, begin: Callable[[], None]) -> None:
        """Take a role in one step; no stage of the timers runs."""
        begin()
        if role.is_master:
            self.store.unpark()
            self.tables.restore_topics(self.store.queues())
            self.transactions.begin_anew()
            self.dispatcher.unpark()
        else:
            self._park()
        self.role.become(role)
        log.info("role taken", broker=self.options.broker_name, role=role.value)

    def _park(self) -> None:
        self.store.park(FOLLOWS)
        self.dispatcher.park(ParkedRequests(self.role, self.options.slave_read_enable))

    async def _follow_master(self) -> None:
        await self.role.wait(is_master=False)
        await self.following.run()
