"""By how much counters grew in the last minute, hour and day, as RocketMQ tells it.

Counters are read at fixed moments: every ten seconds, every ten minutes and every hour since the
start. A sum is the difference of the newest reading and the oldest that is kept. So it does not
change between two moments, and the sum of a day is up to an hour old.

Source: Java ``StatsItem``, ``StatsItemSet``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
import structlog
from numpy.typing import NDArray

KEYS_MAX = 16_384
"""Counters of topics, and of pairs of topic and group, at most; each takes a kilobyte."""
PIECE_COUNT = 1_024
"""Counters that are read without a pause: less than a millisecond."""

Key = tuple[str, str]
"""A family of counters, and the topic or the group that it counts for."""
Counts = tuple[int, int, int]
"""Messages, bytes, and the calls that brought them; 0 calls where they are not counted."""

NONE = -1
"""In a reading: there was no such counter."""

log = structlog.get_logger("timermq.broker.admin.stats_table")


@attrs.frozen
class Span:
    """A length of time over which growth is told."""

    name: str
    """Its field in an answer."""
    interval: float
    """Seconds between two readings."""
    readings_max: int
    """Readings that are kept of one number, the newest."""


SPANS = (
    Span("statsMinute", 10.0, 7),
    Span("statsHour", 600.0, 7),
    Span("statsDay", 3_600.0, 25),
)


@attrs.frozen
class Growth:
    """The growth of one counter over a span."""

    seconds: float = 0.0
    """From the first reading to the last; 0 without any."""
    counts: Counts = (0, 0, 0)


@attrs.define(eq=False)
class _Readings:
    """The readings of one span: a row a counter, a column each of ``Counts``."""

    span: Span
    moment: float
    """The last moment for which there is a reading, seconds."""
    times: deque[float] = attrs.field(factory=deque[float])
    readings: deque[NDArray[np.int64]] = attrs.field(factory=deque[NDArray[np.int64]])

    def due_count(self, now: float) -> int:
        """Moments that have come since the last reading."""
        # A microsecond takes up what binary fractions lose.
        return int((now - self.moment + 1e-6) / self.span.interval)

    def read(self, now: float, totals: NDArray[np.int64]) -> None:
        """Keep the counters, also for moments that passed without a reading.

        For these moments even growth is assumed.
        """
        due = self.due_count(now)
        if not due:
            return
        before = np.full_like(totals, NONE)
        if self.readings:
            before[: len(self.readings[-1])] = self.readings[-1]
        is_new = (before < 0) | (totals < 0)
        for number in range(max(1, due - self.span.readings_max + 1), due):
            between = before + (totals - before) * number // due
            between[is_new] = NONE
            self._keep(self.moment + number * self.span.interval, between)
        self._keep(now, totals.copy())
        self.moment += due * self.span.interval

    def _keep(self, time: float, reading: NDArray[np.int64]) -> None:
        self.times.append(time)
        self.readings.append(reading)
        if len(self.times) > self.span.readings_max:
            self.times.popleft()
            self.readings.popleft()

    def growth(self, row: int) -> Growth:
        """Growth of a counter from the oldest reading to the newest; from 0 if it is younger."""
        known = [
            (time, reading[row])
            for time, reading in zip(self.times, self.readings, strict=True)
            if row < len(reading) and reading[row, 0] != NONE
        ]
        if not known:
            return Growth()
        (first_at, first), (last_at, last) = known[0], known[-1]
        if len(known) < self.span.readings_max:
            first_at, first = first_at - self.span.interval, np.zeros_like(first)
        messages, size, calls = (last - first).tolist()
        return Growth(last_at - first_at, (messages, size, calls))

    def forget(self, row: int) -> None:
        """Clear a row, so that it can be another counter's."""
        for reading in self.readings:
            if row < len(reading):
                reading[row] = NONE


class StatsTable:
    """The readings of all counters.

    Args:
        now: Seconds of a clock that cannot be set; moments count from here.
        keys_max: Counters at a time; those that come when there are so many are left out.
    """

    def __init__(self, now: float, *, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._rows: dict[Key, int] = {}
        self._free: list[int] = []
        self._totals: NDArray[np.int64] = np.zeros((0, 3), np.int64)
        self._spans = [_Readings(span, now) for span in SPANS]
        self._is_full_told = False

    def is_due(self, now: float) -> bool:
        """Whether a moment has come."""
        return any(one.due_count(now) for one in self._spans)

    def read(self, now: float, counters: Iterable[tuple[Key, Counts]]) -> Iterator[None]:
        """Take the readings of the moments that have come; yields between pieces of work.

        Args:
            now: Seconds, by the clock of the start.
            counters: All counters as they are now. One that is missing counts as unchanged.
        """
        rows: list[int] = []
        counts: list[Counts] = []
        for key, values in counters:
            row = self._row(key)
            if row is None:
                continue
            rows.append(row)
            counts.append(values)
            if len(rows) == PIECE_COUNT:
                self._set(rows, counts)
                rows, counts = [], []
                yield
        self._set(rows, counts)
        for span in self._spans:
            span.read(now, self._totals)

    def growth(self, key: Key) -> dict[str, Growth] | None:
        """Growth of a counter by the name of the span; None if no reading has found it."""
        row = self._rows.get(key)
        return None if row is None else {one.span.name: one.growth(row) for one in self._spans}

    def forget(self, keys: Iterable[Key]) -> None:
        """Remove counters; one that comes again begins at 0."""
        for key in keys:
            row = self._rows.pop(key, None)
            if row is not None:
                self._free.append(row)
                self._totals[row] = NONE
                for span in self._spans:
                    span.forget(row)

    def __iter__(self) -> Iterator[Key]:
        """The counters that are known."""
        return iter(self._rows)

    def _row(self, key: Key) -> int | None:
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= self._keys_max:
                self._tell_full()
                return None
            row = self._rows[key] = self._free.pop() if self._free else len(self._rows)
        return row

    def _set(self, rows: Sequence[int], counts: Sequence[Counts]) -> None:
        if not rows:
            return
        room = max(rows) + 1
        if room > len(self._totals):
            grown = np.full((room, 3), NONE, np.int64)
            grown[: len(self._totals)] = self._totals
            self._totals = grown
        self._totals[rows] = counts

    def _tell_full(self) -> None:
        if not self._is_full_told:
            self._is_full_told = True
            log.warning("statistics are full, what is new is left out", keys_max=self._keys_max)
