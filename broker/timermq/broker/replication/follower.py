"""One follower as its master sees it: how far it is, and since when it has not had everything.

Source: Java ``HAConnection``, ``AutoSwitchHAService.updateConnectionLastCaughtUpTime``.
"""

from __future__ import annotations

import attrs

RATE_SECONDS = 1.0
"""The time over which bytes sent are counted."""


@attrs.define(eq=False, kw_only=True)
class Follower:
    """A follower whose link is open. Times are trio's."""

    address: str
    """``host:port`` of its end of the link."""
    broker_id: int | None
    """None of a slave that does not say: one of RocketMQ's with DefaultHA."""
    begun_from: int
    """Where sending began."""
    sent: int
    """Everything before it was sent, or was there before."""
    acknowledged: int
    """Everything before it is in the follower's log."""
    heard_at: float
    """When it last sent anything."""
    acknowledged_at: float
    """When it last acknowledged something new."""
    caught_up_at: float = float("-inf")
    """A moment at which it had, as is known since, all that the log held then."""
    has_all: bool = False
    """It had everything when it was last heard, and nothing was sent since."""
    _mark: tuple[int, float] | None = attrs.field(default=None, init=False)
    """End of the log at a moment, which it is to acknowledge next."""
    _second: float = attrs.field(default=0.0, init=False)
    _sent_in_second: int = attrs.field(default=0, init=False)
    _sent_before: int = attrs.field(default=0, init=False)

    def note_sent(self, size: int, log_end: int, now: float) -> None:
        """Bytes have gone to it; none of a heartbeat."""
        if size and self.has_all:
            self.caught_up_at, self.has_all = now, False
        self.sent += size
        if self._mark is None:
            self._mark = (log_end, now)
        self._turn_second(now)
        self._sent_in_second += size

    def note_acknowledged(self, offset: int, log_end: int, now: float) -> None:
        """It has everything before a position."""
        if offset > self.acknowledged:
            self.acknowledged_at = now
        self.acknowledged = offset
        self.has_all = offset >= log_end
        if self.has_all:
            self.caught_up_at, self._mark = now, None
        elif self._mark is not None and offset >= self._mark[0]:
            self.caught_up_at, self._mark = self._mark[1], None

    def is_fresh(self, now: float, lapse: float) -> bool:
        """Whether it has not lacked anything for longer than so many seconds."""
        return self.has_all or now - self.caught_up_at <= lapse

    def sent_per_second(self, now: float) -> int:
        """Bytes that went to it in the last whole second."""
        self._turn_second(now)
        return self._sent_before

    def _turn_second(self, now: float) -> None:
        passed = now - self._second
        if passed >= RATE_SECONDS:
            self._sent_before = self._sent_in_second if passed < 2 * RATE_SECONDS else 0
            self._sent_in_second, self._second = 0, now
