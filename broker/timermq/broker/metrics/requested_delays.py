"""How far ahead messages are put on the wheel, read from the timer log at a scrape.

A unit has the time that its slot was ahead when it was linked. A message that rolls has several.

Source: Java ``TimerMessageStore.enqueue``, which counts on the way, and from the birth of the
message; bounds as in ``DefaultStoreMetricsManager.getMetricsView``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import attrs
import numpy as np

from timermq.timerlog import MAGIC_DELETE, UNIT, TimerLog, Units
from timermq.timerstore.java_hash import java_hash

from ..histogram import Histogram

DELAY_BOUNDS_S = (60, 600, 3_600, 43_200, 86_400, 259_200)
HASH_COUNT = 512
"""Topics that are hashed between two turns of everything else: less than a millisecond."""

_BOUNDS = np.array(DELAY_BOUNDS_S)


@attrs.define(eq=False)
class RequestedDelays:
    """Seconds ahead, by the hash of the topic, since a beginning."""

    _by_hash: dict[int, Histogram] = attrs.field(factory=dict[int, Histogram], init=False)
    _seen: int = attrs.field(default=0, init=False)
    """Position of the first unit that was not read."""

    def begin(self, timer_log: TimerLog) -> None:
        """Count units that are linked from now on."""
        self._seen = timer_log.max_pos

    def read(self, timer_log: TimerLog) -> Iterator[None]:
        """Count units linked since the last reading; yields between pieces of work."""
        end = timer_log.max_pos
        while self._seen < end:
            # A new scan each time: segments may go while others have their turn.
            found = next(timer_log.scan(max(self._seen, timer_log.min_pos)), None)
            if found is None:
                break
            positions, units = found
            self._count(units)
            self._seen = int(positions[-1]) + UNIT.size
            yield

    def by_topic(self, topics: Sequence[str]) -> Generator[None, None, dict[str, Histogram]]:
        """Topic to its delays, of those that are named; the others are dropped.

        Yields between pieces of work.
        """
        named: dict[str, Histogram] = {}
        kept: dict[int, Histogram] = {}
        for number, topic in enumerate(topics if self._by_hash else (), 1):
            hashed = java_hash(topic)
            if hashed in self._by_hash and hashed not in kept:  # counted once, under the first name
                named[topic] = kept[hashed] = self._by_hash[hashed]
            if number % HASH_COUNT == 0:
                yield
        self._by_hash = kept
        return named

    def _count(self, units: Units) -> None:
        units = units[units["magic"] & MAGIC_DELETE == 0]
        hashes, rows = np.unique(units["topic_hash"], return_inverse=True)
        delays_s = np.maximum(units["delay_ms"].astype(np.int64), 0) // 1000
        width = len(DELAY_BOUNDS_S) + 1
        places = rows * width + np.searchsorted(_BOUNDS, delays_s)
        counts = np.bincount(places, minlength=len(hashes) * width).reshape(-1, width)
        totals = np.bincount(rows, weights=delays_s, minlength=len(hashes))
        for one, count, total in zip(
            hashes.tolist(), counts.tolist(), totals.tolist(), strict=True
        ):
            found = self._by_hash.get(one)
            if found is None:
                found = self._by_hash[one] = Histogram(DELAY_BOUNDS_S)
            found.add(count, int(total))
