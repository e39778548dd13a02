"""How large the timer log is, and how much of it is durable."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class TimerLogStatistics:
    """A moment's picture of the log; positions are bytes."""

    min_pos: int
    max_pos: int
    flushed_where: int
    segment_count: int
    segment_size: int
