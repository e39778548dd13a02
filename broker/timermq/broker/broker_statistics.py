"""A snapshot of the broker's counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from timermq.pipeline.clock.clock_watch import ClockStatus
from timermq.pipeline.state.timer_counts import TimerStatistics
from timermq.timerstore.scrub import ScrubStatistics
from timermq.timerstore.store_statistics import StoreStatistics

from .replication.follow_state import FollowRow
from .replication.followers import FollowerRow
from .replication.lease_status import LeaseStatus
from .security.access_control import AccessStatistics
from .transactions.transactions import TransactionStatistics


@attrs.frozen(kw_only=True)
class BrokerStatistics:
    """Counts and states of the whole broker at one moment; counts are since the start."""

    now_ms: int
    connections: int
    connections_accepted: int
    connections_turned_away: int
    held_pulls: int
    unflushed_answers: int
    """Answers that wait for the disk."""
    topics: int
    subscription_groups: int
    requests: Mapping[int, int]
    """By request code; -1 for codes without a processor."""
    send_messages: int
    """Messages that producers brought to the store."""
    send_requests_refused: int
    bulk_ingested: int
    """Rows of bulk jobs that are stored."""
    bulk_refused: int
    store: StoreStatistics
    timer: TimerStatistics
    scrub: ScrubStatistics
    transactions: TransactionStatistics
    clock: ClockStatus
    followers: Sequence[FollowerRow] = ()
    """Those that are linked."""
    followers_refused: int = 0
    """Links of followers that were refused."""
    epoch: int = 0
    """Of the log's newest part: it grows with each change of the master; 0: there is none."""
    following: FollowRow | None = None
    """How it stands with the master that it follows; None of a master."""
    tls_refused: int = 0
    """Connections closed before their first request: not the kind that is taken, or a handshake
    that failed."""
    tls_problem: str | None = None
    """Why changed certificates are not in force; None while they are."""
    access: AccessStatistics | None = None
    """None without access control."""
    lease: LeaseStatus | None = None
    """None of a broker that has no lease."""
