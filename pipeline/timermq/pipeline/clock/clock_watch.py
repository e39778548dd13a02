"""Whether the wall clock can be trusted, found out by a clock that cannot be set.

The *steady* clock counts milliseconds since some moment; wall clock minus steady clock is the
*offset*. It stays where it is while both run alike, moves slowly when one of them drifts, and jumps
when somebody sets the wall clock. What a jump makes of the time that the broker works by::

    jump                        the broker's time                            state
    up to step_max, either way  the wall clock's                             SAFE
    forward, further            goes on as before, by the steady clock,      UNSAFE, forward
                                until the clock is back, the new time is
                                accepted, or has stood for doubt_ms
    back, further               the wall clock's: everything waits           UNSAFE, backward
                                until the clock has caught up, or accepted
    none, but no advance        the wall clock's: everything waits           UNSAFE, stopped

So the broker's time is never ahead of the wall clock (NOT_BEFORE), and a clock that was wrong for a
minute, by a year, fires nothing and stamps nothing. A jump back is believed at once, because
waiting can be repaired and firing cannot.

Plain code: it is told both times and says which one counts.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

import attrs

STEP_MS = 100
"""A smaller jump between two looks is taken as slewing: time services correct so."""
STOPPED_MS = 5_000
"""So long without a new millisecond, and the wall clock has stopped."""
DRIFT_SPAN_MS = 600_000
"""Drift is measured over so long: in whole milliseconds that shows 2 ppm."""
DRIFT_MAX_PPM = 1_000.0
"""More is said in the log: kernels correct by 500 ppm."""


class ClockState(enum.StrEnum):
    """Whether messages are released by the wall clock without reserve."""

    SAFE = "SAFE"
    UNSAFE = "UNSAFE"


class ClockFault(enum.StrEnum):
    """Why the state is UNSAFE."""

    FORWARD = "forward"
    """Ahead by more than is believed; held back."""
    BACKWARD = "backward"
    """Behind what the broker has worked by already."""
    STOPPED = "stopped"


class ClockEventKind(enum.StrEnum):
    """The kinds of events of the clock."""

    STEPPED = "stepped"
    UNSAFE = "unsafe"
    SAFE = "safe"
    DRIFTS = "drifts"


@attrs.frozen(kw_only=True)
class ClockEvent:
    """Something happened; times in epoch milliseconds."""

    kind: ClockEventKind
    from_ms: int
    """The time that the wall clock would have shown."""
    to_ms: int
    """The time that it shows."""
    fault: ClockFault | None = None
    """Of UNSAFE; of SAFE what it was."""
    reason: str = ""
    """Of SAFE: how it ended."""

    @property
    def by_ms(self) -> int:
        """How far it jumped; negative: back."""
        return self.to_ms - self.from_ms


@attrs.frozen(kw_only=True)
class ClockStatus:
    """A moment's picture; times in epoch milliseconds."""

    state: ClockState
    fault: ClockFault | None
    now_ms: int
    """The time by which the broker works."""
    wall_ms: int
    """The time of the wall clock, epoch milliseconds."""
    off_ms: int
    """How far the wall clock is ahead of what is trusted, or behind (negative); 0 when SAFE."""
    since_ms: int | None
    """When it became UNSAFE, by the broker's time then; None when SAFE."""
    believed_in_ms: int | None
    """How long a clock that is ahead is still held back; None otherwise."""
    steps_forward: int
    steps_backward: int
    last_step_ms: int
    """The newest jump; negative: back. 0: none so far."""
    last_step_at_ms: int | None
    """The broker's time after it."""
    drift_ppm: float | None
    """Of the wall clock against the steady one; None: not measured yet."""


def _ignore(_: ClockEvent) -> None:
    """Take an event and do nothing: there is no observer."""


@attrs.define(eq=False, kw_only=True)
class ClockWatch:
    """The state machine; offsets are milliseconds."""

    step_max_ms: int
    """The longest jump that is believed without reserve."""
    doubt_ms: int
    """How long a longer one forward is not; by the steady clock."""
    tell: Callable[[ClockEvent], None] = _ignore

    _wall_ms: int = attrs.field(default=0, init=False)
    _steady_ms: float = attrs.field(default=0.0, init=False)
    """Both as at the last look at which the wall clock had moved."""
    _latest: float = attrs.field(default=math.nan, init=False)
    """Offset at that look; not a number before the first."""
    _trusted: float = attrs.field(default=0.0, init=False)
    """Offset of the time that counts."""
    _doubted_at: float | None = attrs.field(default=None, init=False)
    """Since when (steady) the wall clock shows a time ahead that does not count."""
    _behind_ms: float | None = attrs.field(default=None, init=False)
    """The wall clock was set back from here; None: it has caught up."""
    _left: float = attrs.field(default=-math.inf, init=False)
    """Offset before it was: to come back to it is no jump ahead."""
    _is_stopped: bool = attrs.field(default=False, init=False)
    _fault: ClockFault | None = attrs.field(default=None, init=False)
    _since_ms: int | None = attrs.field(default=None, init=False)
    _steps_forward: int = attrs.field(default=0, init=False)
    _steps_backward: int = attrs.field(default=0, init=False)
    _last_step_ms: int = attrs.field(default=0, init=False)
    _last_step_at_ms: int | None = attrs.field(default=None, init=False)
    _stepped: float = attrs.field(default=0.0, init=False)
    """Sum of all jumps: what is left of the offset's change is drift."""
    _drift_from: tuple[float, float] = attrs.field(default=(0.0, 0.0), init=False)
    """Steady time and offset without jumps where the measuring of the drift began."""
    _drift_ppm: float | None = attrs.field(default=None, init=False)

    def begin(self, wall_ms: int, steady_ms: float, *, persisted_ms: int) -> None:
        """Take the clock as it is, unless it is behind what the last run worked by.

        A clock that is ahead of it cannot be told from an outage, and is believed.

        Args:
            wall_ms: Wall clock, epoch milliseconds.
            steady_ms: Steady clock, milliseconds.
            persisted_ms: The newest time that the store knows of; 0: none.
        """
        self._restart(wall_ms, steady_ms)
        if persisted_ms - wall_ms > self.step_max_ms:
            self._behind_ms = persisted_ms
            # The length of the outage is not known, so any time from there on will do.
            self._left = math.inf
        self._settle("")

    def is_usual(self, wall_ms: int, steady_ms: float) -> bool:
        """Whether nothing has happened, as nearly always: then ``wall_ms`` counts, and is noted.

        The times as for ``look``.
        """
        offset = wall_ms - steady_ms
        if self._fault is not None or not abs(offset - self._latest) < STEP_MS:
            return False
        if wall_ms != self._wall_ms:
            self._wall_ms, self._steady_ms = wall_ms, steady_ms
            self._latest = self._trusted = offset
            if steady_ms - self._drift_from[0] >= DRIFT_SPAN_MS:
                self._measure_drift()
        return True

    def look(self, wall_ms: int, steady_ms: float) -> int:
        """The time that counts, epoch milliseconds; never ahead of ``wall_ms``.

        Args:
            wall_ms: Wall clock, now.
            steady_ms: Steady clock, at the same moment.
        """
        if self.is_usual(wall_ms, steady_ms):
            return wall_ms
        offset = wall_ms - steady_ms
        if wall_ms == self._wall_ms:
            if steady_ms - self._steady_ms >= STOPPED_MS and not self._is_stopped:
                self._is_stopped = True
                self._settle("")
        elif math.isnan(self._latest):
            self._restart(wall_ms, steady_ms)
        else:
            self._moved(wall_ms, steady_ms, offset)
        return self._time(wall_ms, steady_ms)

    def accept(self) -> None:
        """Take what the wall clock showed at the last look as right."""
        self._trusted = self._latest
        self._behind_ms = self._doubted_at = None
        self._settle("accepted")

    def status(self) -> ClockStatus:
        """The picture at the last look."""
        wall_ms, steady_ms = self._wall_ms, self._steady_ms
        off_ms = 0
        believed_in_ms = None
        if self._doubted_at is not None:
            off_ms = round(self._latest - self._trusted)
            believed_in_ms = max(0, round(self._doubted_at + self.doubt_ms - steady_ms))
        elif self._behind_ms is not None:
            off_ms = wall_ms - round(self._behind_ms)
        return ClockStatus(
            state=ClockState.SAFE if self._fault is None else ClockState.UNSAFE,
            fault=self._fault,
            now_ms=self._time(wall_ms, steady_ms),
            wall_ms=wall_ms,
            off_ms=off_ms,
            since_ms=self._since_ms,
            believed_in_ms=believed_in_ms,
            steps_forward=self._steps_forward,
            steps_backward=self._steps_backward,
            last_step_ms=self._last_step_ms,
            last_step_at_ms=self._last_step_at_ms,
            drift_ppm=self._drift_ppm,
        )

    def _restart(self, wall_ms: int, steady_ms: float) -> None:
        self._wall_ms, self._steady_ms = wall_ms, steady_ms
        self._latest = self._trusted = wall_ms - steady_ms
        self._drift_from = (steady_ms, self._latest - self._stepped)

    def _time(self, wall_ms: int, steady_ms: float) -> int:
        if self._doubted_at is None:
            return wall_ms
        return min(wall_ms, math.floor(steady_ms + self._trusted))

    def _moved(self, wall_ms: int, steady_ms: float, offset: float) -> None:
        """The wall clock shows another time, and it has jumped, or the state is UNSAFE."""
        jump = offset - self._latest
        self._wall_ms, self._steady_ms, self._latest = wall_ms, steady_ms, offset
        self._is_stopped = False
        stepped = abs(jump) >= STEP_MS
        if stepped:
            self._count(round(jump))
        reason = "back"
        ahead = offset - self._trusted
        if ahead > self.step_max_ms and offset > self._left + self.step_max_ms:
            if self._doubted_at is None or abs(jump) > self.step_max_ms:
                self._doubted_at = steady_ms
            if steady_ms - self._doubted_at >= self.doubt_ms:
                reason = f"has stood for {self.doubt_ms} ms"
                self._trusted, self._doubted_at = offset, None
        else:
            if ahead < -self.step_max_ms:
                left_ms = steady_ms + self._trusted
                self._behind_ms = max(self._behind_ms or left_ms, left_ms)
                self._left = max(self._left, self._trusted)
            self._trusted, self._doubted_at = offset, None
        if self._behind_ms is not None and self._doubted_at is None and wall_ms >= self._behind_ms:
            self._behind_ms = None
            reason = "caught up"
        if self._behind_ms is None:
            self._left = -math.inf
        self._settle(reason)
        if stepped:
            self._last_step_at_ms = self._time(wall_ms, steady_ms)
            self.tell(
                ClockEvent(
                    kind=ClockEventKind.STEPPED, from_ms=wall_ms - round(jump), to_ms=wall_ms
                )
            )

    def _count(self, jump_ms: int) -> None:
        self._stepped += jump_ms
        self._last_step_ms = jump_ms
        if jump_ms > 0:
            self._steps_forward += 1
        else:
            self._steps_backward += 1

    def _measure_drift(self) -> None:
        from_ms, from_offset = self._drift_from
        offset = self._latest - self._stepped
        self._drift_ppm = (offset - from_offset) / (self._steady_ms - from_ms) * 1e6
        self._drift_from = (self._steady_ms, offset)
        if abs(self._drift_ppm) > DRIFT_MAX_PPM:
            wall_ms = self._wall_ms
            from_ms = wall_ms - round(offset - from_offset)
            self.tell(ClockEvent(kind=ClockEventKind.DRIFTS, from_ms=round(from_ms), to_ms=wall_ms))

    def _settle(self, reason: str) -> None:
        """Name the state again, and tell when it is another."""
        fault = None
        if self._doubted_at is not None:
            fault = ClockFault.FORWARD
        elif self._is_stopped:
            fault = ClockFault.STOPPED
        elif self._behind_ms is not None:
            fault = ClockFault.BACKWARD
        if fault is self._fault:
            return
        before, self._fault = self._fault, fault
        now_ms = self._time(self._wall_ms, self._steady_ms)
        if fault is None:
            self._since_ms = None
            self.tell(
                ClockEvent(
                    kind=ClockEventKind.SAFE,
                    from_ms=now_ms,
                    to_ms=self._wall_ms,
                    fault=before,
                    reason=reason,
                )
            )
            return
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        from_ms = now_ms if fault is not ClockFault.BACKWARD else round(self._behind_ms or now_ms)
        self.tell(
            ClockEvent(
                kind=ClockEventKind.UNSAFE, from_ms=from_ms, to_ms=self._wall_ms, fault=fault
            )
        )
