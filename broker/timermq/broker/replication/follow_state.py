"""The state of a follower: which master it has, how far behind it is, and what is wrong."""

from __future__ import annotations

import attrs

from timermq.pipeline.state.signal import Signal

from .ha_frames import EpochTransfer


class FollowError(Exception):
    """The master cannot be followed just now, or never as things are; it is retried.

    Attributes:
        name: The rule, in capitals.
        text: The thing, what was expected and found, and what to do.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


@attrs.frozen(kw_only=True)
class FollowRow:
    """How a follower stands at one moment."""

    master: str | None
    """``host:port`` at which clients reach it; None: not known."""
    is_linked: bool
    behind: int
    """Bytes that the master is known to have more."""
    behind_ms: int | None
    """Since it had all that the master had told of; None: it never had."""
    error: str | None
    """Why it is not linked."""


@attrs.define(eq=False)
class FollowState:
    """The state of one follower, for watchers; times are of a clock that cannot be set, seconds."""

    master_address: str | None = None
    """``host:port`` at which clients reach the master; None: not known."""
    ha_address: str | None = None
    """… and at which followers do."""
    is_linked: bool = False
    """Whether bytes may come now."""
    links: int = 0
    """Links so far."""
    error: FollowError | None = None
    """Why there is none; None while there is one."""
    own_end: int = 0
    """End of the own log, as it was reported last."""
    master_end: int = 0
    """End of the master's log, as far as it was told."""
    received: int = 0
    """Bytes of the log, so far."""
    linked_at: float = 0
    """When the last link began; 0: never."""
    linked_received: int = 0
    """Bytes that had come by then."""
    read_at: float = 0
    """When something came last; 0: never."""
    written_at: float = 0
    """When a report went last; 0: never."""
    level_at: float | None = None
    """When it had all that the master had told of last; None: never."""
    confirm_offset: int = -1
    """What the master says is on the replicas that count; -1: it says nothing."""
    epoch: int = -1
    """Of the newest bytes; -1: the master has none."""
    epoch_start: int = -1
    """Where it begins."""
    growth: Signal = attrs.field(factory=Signal, init=False)
    """The own log has grown (wakes ``MasterTables``)."""

    @property
    def behind(self) -> int:
        """Bytes that the master is known to have more."""
        return max(self.master_end - self.own_end, 0)

    def behind_s(self, now: float) -> float | None:
        """Seconds since it had all that the master had told of; None: it never had."""
        if self.level_at is None:
            return None
        return max(now - self.level_at, 0) if self.behind or not self.is_linked else 0.0

    def row(self, now: float) -> FollowRow:
        """How the follower stands at a moment."""
        behind_s = self.behind_s(now)
        return FollowRow(
            master=self.master_address or self.ha_address,
            is_linked=self.is_linked,
            behind=self.behind,
            behind_ms=None if behind_s is None else round(behind_s * 1000),
            error=None if self.error is None else str(self.error),
        )

    def link(self, now: float) -> None:
        """Note that a link has begun."""
        self.is_linked, self.error = True, None
        self.links += 1
        self.linked_at, self.linked_received = now, self.received

    def per_second(self, now: float) -> int:
        """Bytes a second of the link that there is; 0 without one."""
        seconds = now - self.linked_at
        is_old_enough = self.is_linked and seconds > 0
        return round((self.received - self.linked_received) / seconds) if is_old_enough else 0

    def told(self, end: int, now: float) -> None:
        """The master's log reaches so far."""
        self.master_end = max(end, self.master_end)
        self._look(now)

    def copied(self, size: int, end: int, own_end: int, now: float) -> None:
        """So many bytes came, up to a position of the master's log; the own one ends there now."""
        self.received += size
        self.master_end = max(self.master_end, end)
        if own_end > self.own_end:
            self.own_end = own_end
            self.growth.set()
        self._look(now)

    def _look(self, now: float) -> None:
        if self.own_end >= self.master_end:
            self.level_at = now

    def note_epoch(self, frame: EpochTransfer) -> None:
        """Keep what a frame says beside its bytes."""
        self.epoch, self.epoch_start = frame.epoch, frame.epoch_start
        self.confirm_offset = frame.confirm_offset
