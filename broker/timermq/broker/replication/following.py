"""Following a master: finds it, links to it, and begins again when the link is over.

The log comes over the link of replicas, all else over requests to the master's port for clients.
Before a byte is copied the master is asked who it is and how far its log reaches, and its record at
the end of the own log is compared: a log that has gone another way is not gone on with.

Source: Java ``BrokerController.startService``, ``DefaultHAClient.run``.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import structlog
import trio

from timermq.pipeline.records.deduplication import without_origin
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.causes import causes
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record_check import CheckKind

from ..namesrv.name_server_link import OpenStream
from ..options import BrokerOptions
from ..security.log_limit import LogLimit
from ..security.outward_access import OutwardAccess
from ..tables import Tables
from .follow_link import FollowLink, LinkTimes
from .follow_options import FollowOptions
from .follow_state import FollowError, FollowState
from .follower_greeting import segments_differ
from .greeting import Greeting
from .ha_frames import Epochs, EpochTransfer
from .link_security import follower_context, read_secret
from .master_calls import MasterCalls, MasterFacts, MasterLog, RefusedCallError
from .master_tables import MasterTables
from .role import Role

CONNECT_TIMEOUT = 5.0
"""Seconds for a connection to the master."""
PAUSE_MIN = 0.5
PAUSE_MAX = 15.0
"""Seconds before the next link, at most: twice as long each time."""
JITTER = 0.25
"""Part of the pause that is drawn: many followers do not come back at once."""
HEALTHY_S = 30.0
"""A link that lasted so long was a good one: the next pause is the shortest."""

log = structlog.get_logger("timermq.broker.replication.following")

_FAILURES = (FollowError, OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""Errors that are expected of a link; a full disk is among them."""


@attrs.frozen
class MasterPlace:
    """The addresses at which the master is."""

    address: str | None
    """``host:port`` for clients; None: not known."""
    ha_address: str | None
    """``host:port`` for followers, as a setting or a name server has it."""


@attrs.define(eq=False, kw_only=True)
class Following:
    """The task of one broker."""

    options: FollowOptions
    broker_name: str
    role: Role
    store: MessageStore
    tables: MasterTables
    state: FollowState
    named: Callable[[], tuple[str | None, str | None]]
    """The master's addresses for clients and for followers, as a name server has them."""
    open_stream: OpenStream
    """Opens the link to the master."""
    access: OutwardAccess
    """For requests to the master's port for clients."""
    draw: Callable[[], float]
    """A number from 0 to 1, another each time."""
    secret: bytes | None = None
    """Shared with the master."""
    tls: ssl.SSLContext | None = None
    """For links to masters of ours."""
    agree: Callable[[Epochs], int] | None = None
    """Brings the log to where it is equal with a master's; None: it has to be."""
    compare: Callable[[str], Awaitable[None]] | None = None
    """Compares the log with that of a master of ours, by its address for clients; `FollowError`
    where it is no part of it."""
    keep_epoch: Callable[[EpochTransfer], None] | None = None
    """Keeps the epoch of bytes that are about to be copied; `FollowError` of one that may not
    follow."""
    on_agreed: Callable[[], None] = lambda: None
    """Called when the log is known to be a part of the master's."""
    _scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    """Of the links, while it follows."""
    _has_ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    _limits: dict[str, LogLimit] = attrs.field(factory=dict[str, LogLimit], init=False)

    async def run(self) -> None:
        """Follow whenever the broker is a follower, until cancelled.

        Raises:
            StoreFailedError: The store has failed.

        Cancellation: what was copied is in the log.
        """
        await self.role.run_while(is_master=False, work=self._follow_until_stopped)

    async def stop(self) -> None:
        """Copy nothing more, until the broker has led and follows again."""
        if self._scope is not None:
            self._scope.cancel()
            await self._has_ended.wait()

    def behind(self) -> int | None:
        """Bytes of the master's log that were not copied, as known last; None: it is not known."""
        known = self.state.master_end
        return max(known - self.store.commit_log.max_offset, 0) if self.state.links else None

    async def _follow_until_stopped(self) -> None:
        self._has_ended = trio.Event()
        try:
            with trio.CancelScope() as self._scope:
                await self._follow()
        finally:
            self._scope = None
            self._has_ended.set()
        await trio.sleep_forever()

    async def _follow(self) -> None:
        pause = PAUSE_MIN
        while True:
            began = trio.current_time()
            try:
                await self._follow_once()
            except* StoreFailedError:
                raise
            except* _FAILURES as group:
                self._failed(group)
            finally:
                self.state.is_linked = False
            if trio.current_time() - began >= HEALTHY_S:
                pause = PAUSE_MIN
            await trio.sleep(pause * (1 - JITTER * self.draw()))
            pause = min(2 * pause, PAUSE_MAX)

    def _failed(self, group: BaseExceptionGroup[BaseException]) -> None:
        """Keep why, and tell it once a minute."""
        errors = list(causes(group))
        # A link that ends takes its requests along: what is wrong with the log says more.
        errors.sort(key=lambda one: isinstance(one, FollowError) and one.name in ("LINK", "MASTER"))
        first = errors[0]
        error = first if isinstance(first, FollowError) else FollowError("LINK", str(first))
        state = self.state
        state.error = error
        count = self._limits.setdefault(error.name, LogLimit()).take()
        if count:
            log.warning(
                "master is not followed",
                rule=error.name,
                reason=error.text,
                master=state.master_address,
                ha=state.ha_address,
                count=count,
            )

    def _place(self) -> MasterPlace:
        named, ha_named = self.named()
        address, ha_address = self.options.follow or named, self.options.ha_master_address
        if self.options.follow is None and ha_address is None:
            ha_address = ha_named
        if address is None and ha_address is None and self.options.lease is not None:
            raise FollowError("NO_MASTER", "no broker holds the lease yet, or it is not known")
        if address is None and ha_address is None:
            raise FollowError(
                "NO_MASTER",
                "expected a master to follow, found none: give its address (follow, "
                "haMasterAddress), or a name server (namesrvAddr) at which it is registered",
            )
        return MasterPlace(address, ha_address)

    async def _follow_once(self) -> None:
        """Follow until something is wrong."""
        place, state = self._place(), self.state
        state.master_address = self.role.master_address = place.address
        state.ha_address = place.ha_address
        state.own_end = self.store.commit_log.max_offset
        if place.address is None:
            assert place.ha_address is not None
            await self._link(place.ha_address, None, None, None)
            return
        async with self._opened(place.address, self.access.open_replica) as stream:
            calls = MasterCalls(stream, self.access.sign)
            facts, ends = await calls.facts(), await calls.log()
            state.master_end = 0  # a master that has lost its tail counts as it is
            state.told(ends.end, trio.current_time())
            self._check_facts(facts)
            await self._check_logs(calls, facts, ends)
            ha_address = place.ha_address
            if ha_address is None:
                if facts.ha_port is None:
                    raise FollowError(
                        "NO_HA_PORT",
                        f"the master at {place.address} listens for no follower: give it a "
                        "haListenPort, or a brokerRole",
                    )
                ha_address = f"{place.address.rpartition(':')[0]}:{facts.ha_port}"
            state.ha_address = ha_address
            await self.tables.copy_tables(calls)
            await self._link(ha_address, calls, facts, ends)

    def _check_facts(self, facts: MasterFacts) -> None:
        if facts.broker_name and facts.broker_name != self.broker_name:
            raise FollowError(
                "BROKER_NAME",
                f"broker_name: expected {facts.broker_name}, as the master has it, "
                f"found {self.broker_name}",
            )
        own_size = self.store.commit_log.segment_size
        if facts.segment_size is not None and facts.segment_size != own_size:
            raise segments_differ(facts.segment_size, own_size)

    async def _check_logs(self, calls: MasterCalls, facts: MasterFacts, ends: MasterLog) -> None:
        """Whether the own log can be gone on with, by its end.

        Raises:
            FollowError: It cannot; what to do.
        """
        commit_log = self.store.commit_log
        end = commit_log.max_offset
        if self.store.log_copy.is_empty:
            return
        if facts.is_ours and self.compare is not None and self.state.master_address is not None:
            # The epochs tell, and where to cut.
            await self.compare(self.state.master_address)
            return
        if end < ends.start:
            raise FollowError(
                "SLAVE_BEHIND",
                f"the master's log begins at {ends.start}, and the own one ends at {end}: what is "
                "between was cleaned. Stop this broker, move its store away and start it: it "
                "copies all that the master has",
            )
        if end > ends.end:
            raise FollowError(
                "SLAVE_AHEAD",
                f"the own log ends at {end}, and the master's at {ends.end}: this broker has what "
                "its master lacks. Stop it, keep its store, and follow with an empty one",
            )
        await self._check_last_record(calls)

    async def _check_last_record(self, calls: MasterCalls) -> None:
        last = self._last_record()
        if last is None:
            return
        phy_offset, own = last
        try:
            found = await calls.record(phy_offset)
        except RefusedCallError:
            found = b""
        # Masters of ours show no origins.
        if found not in (own, without_origin(own)):
            raise FollowError(
                "SLAVE_DIVERGED",
                f"the record at {phy_offset} is another one than the master's: the logs have gone "
                "different ways. Stop this broker, keep its store, and follow with an empty one",
            )

    def _last_record(self) -> tuple[int, bytes] | None:
        """Position and bytes of the newest record that a queue shows; None without any."""
        newest = max(
            (one for one in self.store.queues() if not one.is_empty),
            key=lambda one: one.max_physic_offset,
            default=None,
        )
        if newest is None:
            return None
        phy_offset, size, _ = newest.units(newest.max_offset - 1, 1)[0].tolist()
        found = self.store.commit_log.check_at(phy_offset, check_crc=True)
        if found is None or found.kind is not CheckKind.RECORD:
            return None
        return phy_offset, self.store.commit_log.read(phy_offset, size)

    async def _link(
        self,
        ha_address: str,
        calls: MasterCalls | None,
        facts: MasterFacts | None,
        ends: MasterLog | None,
    ) -> None:
        state, options = self.state, self.options
        times = LinkTimes(
            heartbeat=options.ha_send_heartbeat_interval_ms / 1000,
            housekeeping=options.ha_housekeeping_interval_ms / 1000,
        )
        is_ours = facts is not None and facts.is_ours
        if self.secret is not None and not is_ours:
            raise FollowError(
                "SECRET",
                "expected a master that proves the shared secret (ha_secret_file), found one that "
                "knows none: it is RocketMQ's, or its address for clients is not known",
            )
        tls = self.tls if is_ours else None
        async with self._opened(ha_address, self.open_stream, tls) as stream:
            link = FollowLink(stream, self.store.log_copy, state, times, trio.current_time)
            if is_ours:
                greeting = Greeting(
                    broker_name=self.broker_name,
                    broker_id=options.follower_id,
                    segment_size=self.store.commit_log.segment_size,
                    nonce="",
                )
                rest = await link.greet(greeting, self.secret)
                agree = self._agree_and_tell
                work = partial(link.copy_epochs, options.follower_id, rest, agree, self.keep_epoch)
            else:
                self.on_agreed()
                work = partial(link.copy_plain, starts_at=None if ends is None else ends.start)
            state.link(trio.current_time())
            log.info("master is followed", master=state.master_address, ha=ha_address)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
                if calls is not None:
                    nursery.start_soon(self.tables.run, calls)

    def _agree_and_tell(self, epochs: Epochs) -> int:
        end = (self.agree or self._agree)(epochs)
        self.on_agreed()
        return end

    def _agree(self, epochs: Epochs) -> int:
        """Go on with a log that is as far as the master's at most."""
        end = self.store.commit_log.max_offset
        if end > epochs.max_offset:
            raise FollowError(
                "SLAVE_AHEAD",
                f"the own log ends at {end}, and the master's at {epochs.max_offset}",
            )
        return end

    @asynccontextmanager
    async def _opened(
        self, address: str, open_stream: OpenStream, tls: ssl.SSLContext | None = None
    ) -> AsyncGenerator[trio.abc.Stream]:
        """A connection, closed at once in the end."""
        host, _, port = address.rpartition(":")
        stream: trio.abc.Stream | None = None
        try:
            with trio.move_on_after(CONNECT_TIMEOUT) as connecting:
                stream = await _connect(open_stream, host.strip("[]"), int(port))
                if tls is not None:
                    secure = trio.SSLStream(stream, tls)
                    await secure.do_handshake()
                    stream = secure
            if connecting.cancelled_caught or stream is None:
                raise FollowError("LINK", f"no connection within {CONNECT_TIMEOUT:g} s")
            yield stream
        finally:
            if stream is not None:
                await trio.aclose_forcefully(stream)


async def _connect(open_stream: OpenStream, host: str, port: int) -> trio.abc.Stream:
    try:
        return await open_stream(host, port)
    except OSError as error:
        raise FollowError("LINK", f"no connection to {host}:{port}: {error}") from error


def follow(
    options: BrokerOptions,
    tables: Tables,
    timer_store: TimerMessageStore,
    *,
    named: Callable[[], tuple[str | None, str | None]],
    open_stream: OpenStream,
    access: OutwardAccess,
    draw: Callable[[], float],
) -> Following:
    """The task of a broker.

    Args:
        options: Its settings.
        tables: Those that are copied, among others.
        timer_store: With the store to which the log is copied.
        named: The master's addresses as a name server has them.
        open_stream: Opens the link to the master.
        access: For requests to the master's port for clients.
        draw: A number from 0 to 1, another each time.

    Raises:
        SecretError: The file of the secret cannot be used.
        TlsError: The certificates of the link cannot be used.
    """
    state = tables.follow_state
    return Following(
        options=options,
        broker_name=options.broker_name,
        role=tables.role,
        store=timer_store.store,
        tables=MasterTables(
            options=options,
            timer_store=timer_store,
            topics=tables.topics,
            groups=tables.groups,
            offsets=tables.offsets,
            state=state,
        ),
        state=state,
        on_agreed=tables.followers.follows,
        named=named,
        open_stream=open_stream,
        access=access,
        draw=draw,
        secret=read_secret(options.ha_secret_file),
        tls=follower_context(options),
    )
