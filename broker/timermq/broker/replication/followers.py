"""The followers of a master: their links, what they have, and what that lets the master do.

Plain code that is told what happens. What waits for followers registers a function, which is called
when a follower has acknowledged more or the set of those in sync has changed.

Source: Java ``DefaultHAService``, ``AutoSwitchHAService``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs

from timermq.timerstore.commit_log import CommitLog

from .follower import Follower
from .in_sync_set import InSyncSet, Members
from .link_refusal import LinkRefusedError
from .replication_options import Confirm, ReplicationOptions

Guard = Callable[[frozenset[int | None]], Awaitable[bool]]
"""Takes the ids of the followers that shall count (None of RocketMQ's with DefaultHA); True when
that was agreed and is known where a new master is chosen."""

_NEVER = 1 << 63
"""A position behind all others."""
SILENCE_BEATS = 2
"""Heartbeats without a word from a follower after which another link may take its id."""


@attrs.frozen
class FollowerRow:
    """A follower as operators see it."""

    address: str
    broker_id: int | None
    acknowledged: int
    behind: int
    """Bytes of the log that it has not acknowledged."""
    is_in_sync: bool
    sent: int
    """Position up to which the log was sent."""
    sent_per_second: int
    """Bytes in the last whole second."""
    silent_ms: int
    """Milliseconds since it last acknowledged something new; 0 when it has everything."""

    @property
    def name(self) -> str:
        """Its host and id, which stay from link to link; its address if it says no id."""
        if self.broker_id is None:
            return self.address
        return f"{self.address.rpartition(':')[0]}#{self.broker_id}"


@attrs.frozen
class FollowersSummary:
    """All linked followers together, as one line shows them."""

    linked: int = 0
    in_sync: int = 0
    behind: int = 0
    """Bytes that the one most behind lacks."""
    silent_ms: int = 0
    """How long that one, or another, has acknowledged nothing new, the longest."""

    @classmethod
    def of(cls, rows: Sequence[FollowerRow]) -> FollowersSummary:
        """The summary of all rows."""
        return cls(
            linked=len(rows),
            in_sync=sum(row.is_in_sync for row in rows),
            behind=max((row.behind for row in rows), default=0),
            silent_ms=max((row.silent_ms for row in rows), default=0),
        )


class Followers:
    """All followers of one master.

    Args:
        options: What is asked of them.
        log: The master's log.
        current_time: trio's time.
    """

    def __init__(
        self, options: ReplicationOptions, log: CommitLog, current_time: Callable[[], float]
    ) -> None:
        self._options = options
        self._log = log
        self._current_time = current_time
        self._linked: dict[Follower, Callable[[str], None]] = {}
        """Follower to what ends its link, for a reason."""
        self.in_sync = InSyncSet(log.max_offset if self.is_confirmed_alone else 0)
        self.is_sync = False
        """This broker is a SYNC_MASTER."""
        self.is_short_handed = False
        """It has taken the lead over: until as many are in sync as ``in_sync_replicas`` asks for,
        the first time, answers wait for no more than ``min_in_sync_replicas`` asks for."""
        self.guard: Guard | None = None
        """Agrees to the set in sync before it is in force; None: it is in force at once."""
        self.is_agreement_due = False
        """Another set in sync is wanted than is in force, and the guard has not agreed to it."""
        self.is_settled = True
        """Whether readers may see what stood in the log at the start: it is confirmed."""
        self._settled_at = 0
        self._wake_readers: Callable[[], None] | None = None
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called when more is acknowledged, or the set in sync has changed."""
        self._listeners.append(listener)

    def __len__(self) -> int:
        return len(self._linked)

    # -- links --------------------------------------------------------------------------------

    def add(
        self, address: str, broker_id: int | None, first: int, end: Callable[[str], None]
    ) -> Follower:
        """A follower has said for the first time how far its log goes.

        Args:
            address: ``host:port`` of its end of the link.
            broker_id: Its id, if it said one.
            first: End of its log; 0 of an empty one.
            end: Ends its link.

        Raises:
            LinkRefusedError: It cannot follow from there, or another one has its id.
        """
        begun_from, now = self._begin(first), self._current_time()
        self._clear_id(broker_id, now)
        follower = self._new(address, broker_id, begun_from)
        self._linked[follower] = end
        follower.note_acknowledged(begun_from if first else 0, self._log.max_offset, now)
        self.update()
        return follower

    def add_learner(self, address: str, first: int) -> Follower:
        """A peer that reads the log from a position on and is no replica: it counts nowhere.

        Args:
            address: ``host:port`` of its end of the link.
            first: Where it begins; 0: with the log.

        Raises:
            LinkRefusedError: The log does not reach there, or no more.
        """
        return self._new(address, None, self._begin(first))

    def _new(self, address: str, broker_id: int | None, begun_from: int) -> Follower:
        now = self._current_time()
        return Follower(
            address=address,
            broker_id=broker_id,
            begun_from=begun_from,
            sent=begun_from,
            acknowledged=0,
            heard_at=now,
            acknowledged_at=now,
        )

    def _begin(self, first: int) -> int:
        """Where sending begins. RocketMQ begins at the last segment for an empty slave."""
        log = self._log
        if first == 0:
            return log.min_offset
        if first > log.max_offset:
            raise LinkRefusedError(
                "HA_AHEAD",
                f"expected a log that ends at {log.max_offset} or before, as this master's does, "
                f"found one that ends at {first}: it followed another master, or this one has "
                "lost something; empty the follower's store, or let it lead",
            )
        if first < log.min_offset:
            raise LinkRefusedError(
                "HA_CLEANED",
                f"expected a log that ends at {log.min_offset} or behind, where this master's "
                f"begins, found one that ends at {first}: what lies between was cleaned; empty "
                "the follower's store",
            )
        return first

    def _clear_id(self, broker_id: int | None, now: float) -> None:
        """Let no two links have one id: of a silent one it is taken."""
        beat = self._options.ha_send_heartbeat_interval_ms / 1000
        for other, end in list(self._linked.items()):
            if broker_id is None or other.broker_id != broker_id:
                continue
            if now - other.heard_at < SILENCE_BEATS * beat:
                raise LinkRefusedError(
                    "HA_BROKER_ID",
                    f"expected an id of its own, found {broker_id}, with which {other.address} "
                    "follows: give each follower another brokerId",
                )
            end(f"silent, and another link brings its id {broker_id}")
            self.remove(other)

    def remove(self, follower: Follower) -> None:
        """Its link has ended; twice is fine."""
        if self._linked.pop(follower, None) is not None:
            self.update()

    def heard(self, follower: Follower) -> None:
        """Something has arrived from it."""
        follower.heard_at = self._current_time()

    def sent(self, follower: Follower, size: int) -> None:
        """Bytes of the log have gone to it; none of a heartbeat."""
        follower.note_sent(size, self._log.max_offset, self._current_time())

    def acknowledge(self, follower: Follower, offset: int) -> None:
        """It says that it has everything before a position.

        Raises:
            LinkRefusedError: That was never sent.
        """
        if not 0 <= offset <= follower.sent:
            raise LinkRefusedError(
                "HA_REPORT",
                f"expected a report of 0 to {follower.sent}, to which the log was sent, "
                f"found {offset}",
            )
        follower.note_acknowledged(offset, self._log.max_offset, self._current_time())
        self.update()

    # -- replicas -----------------------------------------------------------------------------

    def hold_reads(self, end: int, wake: Callable[[], None]) -> None:
        """Let readers wait until all before a position is confirmed, where a broker begins to lead.

        With ``confirm=own`` they need not.

        Args:
            end: End of the log as it was found.
            wake: Called when they may read.
        """
        if self.is_confirmed_alone:
            return
        self.is_settled, self._settled_at, self._wake_readers = False, end, wake
        self._settle()

    def hold_reads_of_copy(self, wake: Callable[[], None]) -> None:
        """Let readers of a broker that follows wait until its log is a part of its master's.

        It may have led, and have written what no other broker has. With ``confirm=own`` they need
        not wait.

        Args:
            wake: Called when they may read.
        """
        if not self.is_confirmed_alone:
            self.is_settled, self._settled_at, self._wake_readers = False, _NEVER, wake

    def follows(self) -> None:
        """This broker's log is a part of its master's: what it holds is on both."""
        if not self.is_settled:
            self._let_read()

    def _settle(self) -> None:
        if not self.is_settled and self.confirm_offset() >= self._settled_at:
            self._let_read()

    def _let_read(self) -> None:
        self.is_settled = True
        if self._wake_readers is not None:
            self._wake_readers()

    @property
    def is_confirmed_alone(self) -> bool:
        """Whether readers see what this broker alone has."""
        return self._options.confirm is Confirm.OWN

    def confirm_offset(self) -> int:
        """Everything before it is on the replicas that count."""
        return self.in_sync.advance(self._log.max_offset, self._options.min_in_sync_replicas)

    def update(self) -> None:
        """Look who is in sync, as time passes or something has happened."""
        wanted = self._wanted()
        if wanted is not None and self.guard is None:
            self.in_sync.put_in_force(wanted)
        self.is_agreement_due = wanted is not None and self.guard is not None
        self._tell()

    async def agree(self) -> None:
        """Have the set that is wanted agreed by the guard, if there is one and it is another.

        Cancellation: what was proposed counts until another proposal is agreed.
        """
        wanted = self._wanted()
        self.is_agreement_due = False
        if wanted is None or self.guard is None:
            return
        self.in_sync.propose(wanted)
        if await self.guard(frozenset(one.broker_id for one in wanted)):
            self.in_sync.put_in_force(wanted)
            self._tell()

    def _wanted(self) -> Members | None:
        lapse = self._options.ha_max_time_slave_not_catchup_ms / 1000
        return self.in_sync.wanted(self._linked, self._current_time(), lapse)

    def _tell(self) -> None:
        if len(self.in_sync.members) >= self._options.in_sync_replicas - 1:
            self.is_short_handed = False
        self.confirm_offset()
        self._settle()
        for listener in self._listeners:
            listener()

    def refusal(self) -> str | None:
        """Why sends are refused: too few replicas are in sync; None when they are taken."""
        found, expected = 1 + len(self.in_sync.members), self._options.min_in_sync_replicas
        if found >= expected:
            return None
        return (
            f"in-sync replicas not enough: expected {expected} (min_in_sync_replicas), this broker "
            f"among them, found {found}"
        )

    @property
    def waits(self) -> bool:
        """Whether answers wait for followers."""
        return self.is_sync and self._asked > 1

    @property
    def _asked(self) -> int:
        """How many replicas must have what is answered, this broker among them.

        Of a broker that has taken the lead over only those without which it confirms nothing: what
        it answers alone goes with it.
        """
        asked = self._options.in_sync_replicas
        if self.is_short_handed:
            return min(asked, self._options.min_in_sync_replicas)
        return asked

    @property
    def timeout(self) -> float:
        """Seconds that an answer waits at most."""
        return self._options.slave_timeout_ms / 1000

    def reached(self) -> int:
        """What stands before it is on as many replicas as an answer waits for.

        With ``confirm=replicated`` or a guard on all that are in sync, too: each of them may have
        to lead.
        """
        others = self._asked - 1
        log_end = self._log.max_offset
        if others > 0:
            acknowledged = sorted((one.acknowledged for one in self._linked), reverse=True)
            log_end = acknowledged[others - 1] if len(acknowledged) >= others else -1
        if self.is_confirmed_alone and self.guard is None:
            return log_end
        return min(log_end, self.confirm_offset())

    def may_have(self) -> bool:
        """Whether so many followers are near enough that an answer waits for them."""
        return self._near() >= self._asked - 1

    def _near(self) -> int:
        gap, log_end = self._options.ha_max_gap_not_in_sync, self._log.max_offset
        return sum(log_end - one.acknowledged < gap for one in self._linked)

    def shortage(self) -> str:
        """What is missing for an answer to wait, in words."""
        return (
            f"expected {self._asked - 1} followers (in_sync_replicas) less than "
            f"{self._options.ha_max_gap_not_in_sync} bytes behind, found {self._near()}"
        )

    # -- what others ask ----------------------------------------------------------------------

    def acknowledged_by_all(self) -> int | None:
        """Everything before it is in the logs of all that are linked; None without any."""
        return min((one.acknowledged for one in self._linked), default=None)

    def needed_from(self) -> int | None:
        """The lowest position that cleaning must leave: what a linked follower lacks, in bounds."""
        lowest = min((max(one.acknowledged, one.begun_from) for one in self._linked), default=None)
        if lowest is None:
            return None
        return max(lowest, self._log.max_offset - self._options.ha_pinned_size_max)

    def rows(self) -> list[FollowerRow]:
        """All linked followers, as operators see them."""
        now, log_end = self._current_time(), self._log.max_offset
        return [
            FollowerRow(
                address=one.address,
                broker_id=one.broker_id,
                acknowledged=one.acknowledged,
                behind=log_end - max(one.acknowledged, self._log.min_offset),
                is_in_sync=one in self.in_sync.members,
                sent=one.sent,
                sent_per_second=one.sent_per_second(now),
                silent_ms=0
                if one.acknowledged >= log_end
                else round(1000 * (now - one.acknowledged_at)),
            )
            for one in self._linked
        ]
