"""Damaged sectors of the commit log, put back from other replicas while the broker serves.

The scrub and the readers find sectors that are not as they were written. The replicas that this
broker knows are read at the same positions, one after the other, and what fits the seal of a sector
is written in its place. What no replica has stays as it is, and is asked for again later.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import attrs
import structlog
import trio

from timermq.pipeline.state.signal import Signal
from timermq.timerstore.disk import is_for_a_while
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.sector_repair import DamagedSector, SectorRepair

from ..namesrv.name_server_link import OpenStream
from ..security.log_limit import LogLimit
from .peer_log import PeerLog, PeerLogError, opened_peer_log
from .replica_calls import NoReplicaError

SECTORS_PER_MINUTE_MAX = 1_024
"""Sectors that are asked for in a minute, 512 KiB: a disk that loses more is to be replaced."""
MINUTE_S = 60.0
RETRY_S_MAX = 3_600.0
"""Seconds until replicas are asked again for what none had; from a minute on, doubled each time."""
SOON_S = 5.0
"""Seconds that a due message waits for its bytes, once a minute at most."""

log = structlog.get_logger("timermq.broker.replication.sectors_from_replicas")


class BrokersOfName(Protocol):
    """Asks name servers for the brokers of a name."""

    async def brokers(self, server: str, name: str) -> Iterable[str]:
        """Addresses of the brokers of a name; NoReplicaError of a server that does not answer."""
        ...


class NotePutBack(Protocol):
    """Notes that a sector was put back."""

    def __call__(self, *, is_told: bool) -> None:
        """Note one; ``is_told``: a scrub had told of it."""
        ...


@attrs.define(eq=False, kw_only=True)
class SectorsFromReplicas:
    """The task of one broker.

    Args:
        store: Its store.
        broker_name: The name that replicas share.
        address: ``host:port`` of this broker.
        known: Addresses of replicas that this broker knows.
        servers: Name servers that may know more.
        calls: Asks them.
        open_stream: Opens a connection.
        on_put_back: Told of each sector.
        secret: Shared with replicas; None: without.
        tls: For links to them.
    """

    store: MessageStore
    broker_name: str
    address: str
    known: Callable[[], Iterable[str]]
    servers: Sequence[str]
    calls: BrokersOfName
    open_stream: OpenStream
    on_put_back: NotePutBack
    secret: bytes | None = None
    tls: ssl.SSLContext | None = None
    _repair: SectorRepair = attrs.field(init=False)
    _found: Signal = attrs.field(factory=Signal, init=False)
    """Sectors were found damaged that were not known."""
    _asked_at: dict[int, float] = attrs.field(factory=dict[int, float], init=False)
    """Position of a sector to trio's time when replicas were asked for it."""
    _left_of_minute: int = attrs.field(default=SECTORS_PER_MINUTE_MAX, init=False)
    _minute_began_at: float = attrs.field(default=float("-inf"), init=False)
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _limits: dict[str, LogLimit] = attrs.field(factory=dict[str, LogLimit], init=False)

    def __attrs_post_init__(self) -> None:
        old = self.store.commit_log.old
        self._repair = SectorRepair(old)
        old.on_damaged = self._found.set
        if old.damaged:
            self._found.set()
        self.store.put_back = self.put_back_soon

    async def run(self) -> None:
        """Put back what is found damaged, until cancelled.

        Raises:
            StoreFailedError: The disk did not take it.

        Cancellation: a sector is as it was, or put back.
        """
        old, pause = self.store.commit_log.old, MINUTE_S
        while True:
            if not old.damaged:
                await self._found.wait()
            before = len(old.damaged)
            await self._put_back()
            is_new = not old.damaged or await self._found.wait_at_most(pause)
            has_helped = is_new or len(old.damaged) < before
            pause = MINUTE_S if has_helped else min(2 * pause, RETRY_S_MAX)

    async def put_back_soon(self) -> None:
        """Put back what can be in a few seconds: something that is due waits for it.

        Raises:
            StoreFailedError: The disk did not take it.
        """
        with trio.move_on_after(SOON_S):
            await self._put_back()

    async def _put_back(self) -> None:
        """Ask the replicas for the damaged sectors that were not asked for in the last minute."""
        async with self._turn:
            wanted = self._take_wanted()
            if not wanted:
                return
            try:
                for address in await self._replicas():
                    wanted = await self._from_replica(address, wanted)
                    if not wanted:
                        return
            except OSError as error:
                if not is_for_a_while(error):
                    self.store.fail(error)
                self._warn("no room", str(error))
            self._warn("left", f"no replica has the bytes of {len(wanted)} damaged sectors")

    def _take_wanted(self) -> list[DamagedSector]:
        now = trio.current_time()
        if now - self._minute_began_at >= MINUTE_S:
            self._minute_began_at, self._left_of_minute = now, SECTORS_PER_MINUTE_MAX
        wanted = [
            one
            for one in self._repair.find()
            if now - self._asked_at.get(one.position, float("-inf")) >= MINUTE_S
        ][: self._left_of_minute]
        self._left_of_minute -= len(wanted)
        known = self.store.commit_log.old.damaged
        self._asked_at = {at: when for at, when in self._asked_at.items() if at in known}
        self._asked_at |= {one.position: now for one in wanted}
        return wanted

    async def _replicas(self) -> list[str]:
        """Addresses of other brokers of the name."""
        found = list(self.known())
        for server in self.servers:
            try:
                found += await self.calls.brokers(server, self.broker_name)
            except NoReplicaError as error:
                self._warn(server, str(error))
        return [one for one in dict.fromkeys(found) if one != self.address]

    async def _from_replica(
        self, address: str, wanted: Sequence[DamagedSector]
    ) -> list[DamagedSector]:
        """Put back what one replica has; the sectors that are left."""
        left = list(wanted)
        try:
            async with opened_peer_log(
                address, self.open_stream, secret=self.secret, tls=self.tls
            ) as peer:
                if peer.facts.broker_name != self.broker_name:
                    return left
                for one in wanted:
                    if await self._put_back_one(one, peer):
                        left.remove(one)
        except PeerLogError as error:
            self._warn(address, str(error))
        return left

    async def _put_back_one(self, one: DamagedSector, peer: PeerLog) -> bool:
        data = b""
        while len(data) < one.size:
            more = await peer.read(one.position + len(data), one.size - len(data))
            if not more:
                return False
            data += more
        file = self._repair.write(one, data)
        if file is None:
            return False
        await self.store.disk.sync(file)
        is_told = self.store.commit_log.old.put_back(one.position)
        self.on_put_back(is_told=is_told)
        offset = one.position % self.store.commit_log.segment_size
        log.warning("damaged sector put back", path=file.path, offset=offset, replica=peer.place)
        return True

    def _warn(self, about: str, reason: str) -> None:
        if count := self._limits.setdefault(about, LogLimit()).take():
            log.warning("damaged sectors are not put back", reason=reason, count=count)
