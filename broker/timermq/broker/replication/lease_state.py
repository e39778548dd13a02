"""One broker's part in a lease: what it asks the engine for next, and whether it leads.

Never do two lead. A holder leads until a moment that it counts from before it sent its last
successful request. Another broker replaces the record only when it has seen the same version for
the whole time of the lease, counted from when the answer arrived, and only that version: the engine
refuses it if the holder has renewed meanwhile. Both use clocks that cannot be set.

What was asked for and not answered may have been done, or be done later. The next request for the
same version shows it: the engine refuses that and gives the record, and a broker knows its own
records by the instance in them.

It decides, and does nothing: ``lease_keeper`` asks, and tells when.
"""

from __future__ import annotations

import attrs

from .lease import LeaseRecord, Stored
from .lease_timing import LeaseTiming

_NEVER = float("-inf")


@attrs.frozen
class Read:
    """The record is to be read."""


@attrs.frozen
class Replace:
    """The record of a version is to be replaced."""

    record: LeaseRecord
    version: str


@attrs.define(eq=False)
class LeaseState:
    """One broker and the lease; all times are milliseconds of a clock that cannot be set.

    One request is under way at a time: ``begin``, then one of ``was_read``, ``was_replaced`` and
    ``has_failed``.
    """

    name: str
    """Address ``host:port`` of this broker: where clients and followers find it."""
    broker_id: int
    """Its ``brokerId`` as a follower."""
    instance: str
    """Drawn at this start, never used before."""
    timing: LeaseTiming
    may_found: bool = False
    """Whether it may take a lease that does not exist: it does not follow another broker."""
    own_epoch: int = 0
    """The highest epoch that this broker knows of."""
    own_end: int = 0
    """End of its commit log."""
    confirmed: int = 0
    """End of the part of its commit log that the followers in sync have, while it leads."""
    is_ready: bool = True
    """Whether it wants to lead: its store takes writes, and it does not stop."""
    is_forced: bool = False
    """Whether an operator has it lead though it is not in sync."""
    members: frozenset[int] = frozenset()
    """Ids of the followers that the record is to call in sync while this broker leads."""

    _kept: Stored | None = attrs.field(default=None, init=False)
    _kept_since_ms: float = attrs.field(default=_NEVER, init=False)
    """When the answer came that showed this version first."""
    _asked: Read | Replace | None = attrs.field(default=None, init=False)
    _asked_ms: float = attrs.field(default=_NEVER, init=False)
    _is_overtaken: bool = attrs.field(default=False, init=False)
    """The record is this broker's by a request that was thought lost, and is to be renewed now."""
    _rests_until_ms: float = attrs.field(default=_NEVER, init=False)
    _led_until_ms: float = attrs.field(default=_NEVER, init=False)
    _holds_back_until_ms: float = attrs.field(default=_NEVER, init=False)
    """The engine was away: a holder that could not renew comes first."""
    _ttl_seen_ms: int = attrs.field(default=0, init=False)
    _is_own_deleted: bool = attrs.field(default=False, init=False)
    _maybe_in_sync: frozenset[int] = attrs.field(default=frozenset[int](), init=False)

    @property
    def record(self) -> LeaseRecord | None:
        """The newest record that is known."""
        return None if self._kept is None else self._kept.record

    @property
    def holds(self) -> bool:
        """Whether the newest record that is known is this broker's, run out or not."""
        record = self.record
        return record is not None and record.instance == self.instance and not record.is_given_up

    @property
    def epoch(self) -> int:
        """The epoch of the record; 0 without one."""
        return 0 if self.record is None else self.record.epoch

    def leads(self, now_ms: float) -> bool:
        """Whether this broker may take writes and deliver now."""
        return now_ms < self._led_until_ms

    @property
    def led_until_ms(self) -> float:
        """Up to when it may, unless the lease is renewed."""
        return self._led_until_ms

    @property
    def counted(self) -> frozenset[int]:
        """Ids of the followers that must have what this broker acknowledges.

        Each that the record may name: one of them leads next. So a follower counts before it is
        written into the record, and until the record without it is known to be kept.
        """
        return self._maybe_in_sync | self.members

    @property
    def is_eligible(self) -> bool:
        """Whether this broker may take the lease when it is free."""
        if not self.is_ready:
            return False
        if self.is_forced:
            return True
        record = self.record
        if record is None:
            return self.may_found or self._is_own_deleted
        has_all = self.own_end >= record.position
        if record.holder == self.name and not record.in_sync:
            return has_all or self.own_end > 0  # what it lost, no other broker has
        return has_all and (record.holder == self.name or self.broker_id in record.in_sync)

    def due_ms(self) -> float:
        """When to call ``begin``; a time that has passed: now."""
        return max(self._rests_until_ms, self._wanted_ms())

    def _wanted_ms(self) -> float:
        if self._kept is None:
            return _NEVER
        next_look = self._asked_ms + self.timing.renew_ms
        if self.holds:
            assert self.record is not None
            has_news = not self.is_ready or self.members != self.record.in_sync
            return _NEVER if has_news or self._is_overtaken else next_look
        return min(next_look, self._free_from_ms()) if self.is_eligible else next_look

    def _free_from_ms(self) -> float:
        """From when on another broker may take the lease that is known."""
        record = self.record
        if record is not None and record.is_given_up:
            return self._kept_since_ms
        free_ms = self._kept_since_ms + max(self.timing.ttl_ms, self._ttl_seen_ms)
        if record is not None and record.holder == self.name and record.in_sync:
            # It was started again: if its machine lost something, followers in sync have it.
            free_ms += self._courtesy_ms
        return max(free_ms, self._holds_back_until_ms)

    @property
    def _courtesy_ms(self) -> float:
        """How long another broker is let go first: it looks once in this time, and once more."""
        return 2 * self.timing.renew_ms

    def begin(self, now_ms: float) -> Read | Replace:
        """What to ask the engine for; it is sent behind this call."""
        assert self._asked is None, "one request at a time"
        self._asked, self._asked_ms = self._next(now_ms), now_ms
        if isinstance(self._asked, Replace):
            self._maybe_in_sync |= self._asked.record.in_sync
        return self._asked

    def _next(self, now_ms: float) -> Read | Replace:
        kept = self._kept
        if kept is None:
            return Read()
        if self.holds:
            assert kept.record is not None
            renewals = kept.record.renewals + 1
            if not self.is_ready:
                given_up = attrs.evolve(kept.record, is_given_up=True, renewals=renewals)
                return Replace(given_up, kept.version)
            renewed = attrs.evolve(
                kept.record,
                ttl_ms=self.timing.ttl_ms,
                renewals=renewals,
                position=max(kept.record.position, self.confirmed),
                in_sync=self.members,
            )
            return Replace(renewed, kept.version)
        if self.is_eligible and now_ms >= self._free_from_ms():
            return Replace(self._taken(), kept.version)
        return Read()

    def _taken(self) -> LeaseRecord:
        """The record by which this broker takes the lease; no follower is in sync yet."""
        return LeaseRecord(
            holder=self.name,
            instance=self.instance,
            epoch=self.own_epoch + 1,
            ttl_ms=self.timing.ttl_ms,
            position=self.own_end,
        )

    def was_read(self, now_ms: float, stored: Stored) -> None:
        """Note the answer to ``Read``."""
        assert isinstance(self._asked, Read)
        self._asked = None
        self._look(now_ms, stored)

    def was_replaced(self, now_ms: float, stored: Stored, *, is_done: bool) -> None:
        """Note the answer to ``Replace``: what is kept now, and whether that is what was asked."""
        asked, self._asked = self._asked, None
        assert isinstance(asked, Replace)
        self._look(now_ms, stored)
        self._is_overtaken = not is_done and self.holds
        if is_done and self.holds and self.is_ready:
            self._led_until_ms = self._asked_ms + self.timing.held_ms
            self._maybe_in_sync = asked.record.in_sync
            self.is_forced = False

    def has_failed(self, now_ms: float) -> None:
        """Note that there is no answer: what was asked for may be done, or be done later."""
        self._asked = None
        self._rests_until_ms = now_ms + self.timing.retry_ms
        self._holds_back_until_ms = now_ms + self._courtesy_ms

    def stop_leading(self) -> None:
        """Lead no more; the lease is given up with the next request, if it is held.

        Call it behind the last write that was taken: another broker leads at once.
        """
        self.is_ready = False
        self._led_until_ms = _NEVER

    def _look(self, now_ms: float, stored: Stored) -> None:
        self._rests_until_ms = _NEVER
        if stored == self._kept:
            return
        self._is_own_deleted = stored.record is None and (self.holds or self._is_own_deleted)
        self._kept, self._kept_since_ms = stored, now_ms
        if stored.record is not None:
            self._ttl_seen_ms = stored.record.ttl_ms
            self.own_epoch = max(self.own_epoch, stored.record.epoch)
        if not self.holds:
            self._led_until_ms = _NEVER
            self.members = self._maybe_in_sync = frozenset()
