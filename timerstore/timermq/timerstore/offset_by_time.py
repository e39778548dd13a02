"""Which message of a queue was stored at a time: binary search over the records' store times."""

from collections.abc import Callable

from .consume_queue import ConsumeQueue


def offset_by_time(
    queue: ConsumeQueue, time_ms: int, store_ms_at: Callable[[int], int], *, upper: bool
) -> int:
    """Find the queue offset that belongs to a store time.

    Store times never decrease along a queue. With stored times 10, 20, 20, 30 (offsets 0 to 3):

    =========  ======  ======
    time       lower   upper
    =========  ======  ======
    5          0       0
    10         0       0
    15         1       0
    20         1       2
    35         4       3
    =========  ======  ======

    Args:
        queue: The queue.
        time_ms: Store time looked for.
        store_ms_at: Store time of a queue offset, -1 when its record is gone.
        upper: Of several fitting messages the last one, and of two neighbours the earlier one;
            otherwise the first and the later one.

    Returns:
        An offset in [min_offset, max_offset].

    Source: ConsumeQueue.getOffsetInQueueByTime(timestamp, boundaryType).
    """
    first, end = queue.min_offset, queue.max_offset
    while first < end:
        middle = (first + end) // 2
        store_ms = store_ms_at(middle)
        if store_ms < time_ms or (upper and store_ms == time_ms):
            first = middle + 1
        else:
            end = middle
    if upper:
        return max(first - 1, queue.min_offset)
    return first
