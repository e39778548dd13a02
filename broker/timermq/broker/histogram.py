"""A histogram: how many values lie up to each bound, and their sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import attrs


@attrs.define(eq=False)
class Histogram:
    """Values that were observed one by one, or counted elsewhere."""

    bounds: Sequence[int]
    """Ascending; a value that equals one lies within it."""
    counts: list[int] = attrs.field(
        init=False, default=attrs.Factory(lambda self: [0] * (len(self.bounds) + 1), True)
    )
    """Values between a bound and the one before; the last: beyond all."""
    total: int = attrs.field(default=0, init=False)
    """Sum of the values observed."""

    @property
    def count(self) -> int:
        """Number of values that were observed."""
        return sum(self.counts)

    def observe(self, value: int) -> None:
        """Count one value in its bound, and add it to the sum."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, counts: Sequence[int], total: int) -> None:
        """Count values that others have sorted."""
        self.counts = [one + more for one, more in zip(self.counts, counts, strict=True)]
        self.total += total
