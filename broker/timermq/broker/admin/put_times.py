"""How long sends took to be stored: the longest time, and the distribution over the last minute.

With SYNC_FLUSH a send is stored when it is on the disk.

Source: Java ``StoreStatsService``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise

import attrs

TURN_SECONDS = 60.0
"""Time after which a new distribution is begun; the one before is shown."""
SPREAD_BOUNDS_MS = (0, 9, 49, 99, 199, 499, 999, 1_999, 2_999, 3_999, 4_999, 9_999)
"""Milliseconds: the upper bounds of all but the last of ``SPREAD_NAMES``."""
SPREAD_NAMES = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)


def _latency_bounds() -> Iterator[int]:
    steps = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1_000, 9))
    bound = 0
    for step, times in steps:
        for _ in range(times):
            bound += step
            yield bound


LATENCY_BOUNDS_MS = tuple(_latency_bounds())
"""Milliseconds: the bounds between which a latency is estimated."""
_BOUNDS_MS = tuple(sorted({*SPREAD_BOUNDS_MS, *LATENCY_BOUNDS_MS}))


def _no_counts() -> list[int]:
    return [0] * (len(_BOUNDS_MS) + 1)


@attrs.define(eq=False)
class PutTimes:
    """Counts puts by the time that they took."""

    now_ms: Callable[[], int]
    """Wall clock, epoch milliseconds."""
    max_ms: int = attrs.field(default=0, init=False)
    """The longest since the start."""
    _counts: list[int] = attrs.field(factory=_no_counts, init=False)
    _last: list[int] | None = attrs.field(default=None, init=False)
    _turned_at: float | None = attrs.field(default=None, init=False)

    def count(self, begun_ms: int, puts: int) -> None:
        """Count puts that began at ``begun_ms`` and are done now."""
        took_ms = self.now_ms() - begun_ms
        if took_ms > self.max_ms:
            self.max_ms = took_ms
        self._counts[bisect_left(_BOUNDS_MS, took_ms)] += puts

    def turn(self, now: float) -> None:
        """Begin a new distribution if a minute has passed.

        Args:
            now: Seconds of a clock that is never set.
        """
        if self._turned_at is None:
            self._turned_at = now
        elif now - self._turned_at >= TURN_SECONDS:
            self._turned_at = now
            self._last, self._counts = self._counts, _no_counts()

    def spread(self) -> str:
        """The last distribution as RocketMQ writes it; ``null`` before the first minute is over."""
        if self._last is None:
            return "null"
        counts = _sorted_into(SPREAD_BOUNDS_MS, self._last)
        rows = zip(SPREAD_NAMES, counts, strict=True)
        return "".join(f"{name}:{count} " for name, count in rows)

    def latency_ms(self, share: float) -> float:
        """The time within which a share of the puts was done, estimated between two bounds."""
        counts = [0] if self._last is None else _sorted_into(LATENCY_BOUNDS_MS, self._last)
        wanted, passed = int(sum(counts) * share), 0
        bounds = (0, *LATENCY_BOUNDS_MS, LATENCY_BOUNDS_MS[-1])
        for (lower, upper), count in zip(pairwise(bounds), counts, strict=False):
            if wanted <= passed + count:
                return lower + ((upper - lower) * (wanted - passed) / count if count else 0.0)
            passed += count
        return 0.0


def _sorted_into(bounds: tuple[int, ...], counts: list[int]) -> list[int]:
    """Counts within fewer bounds, which are all among ``_BOUNDS_MS``."""
    found = [0] * (len(bounds) + 1)
    for bound, count in zip((*_BOUNDS_MS, _BOUNDS_MS[-1] + 1), counts, strict=True):
        found[bisect_left(bounds, bound)] += count
    return found
