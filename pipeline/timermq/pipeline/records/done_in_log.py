"""What the commit log shows as done: the records that deliver, roll or end timer records."""

from __future__ import annotations

import numpy as np

from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message_store import MessageStore

from .already_done import AlreadyDone, earlier_copies, order_in, origin_in
from .doubts import doubts_of, origins_in
from .foreign_key import foreign_key_in


def done_in_log(store: MessageStore, scan_py: int, read_ms: int, queue_py: int) -> AlreadyDone:
    """What the commit log shows as delivered or rolled from ``scan_py`` on.

    Java's deliveries of slots that are read already are no question any more: a delivery of a later
    slot was stored after the read time, one of a later entry stands behind that entry.
    """
    done = AlreadyDone()
    origins: list[int] = []
    copies: list[tuple[int, int]] = []
    reading = LogReading(store.commit_log, scan_py, purpose="what was delivered")
    for phy_offset, record in reading:
        origin = origin_in(record)
        if origin is not None:
            origins.append(origin)
            order = order_in(record)
            if order is not None:
                copies.append((order, phy_offset))
            continue
        is_late = store_ms_of(record) >= read_ms or phy_offset >= queue_py
        key = foreign_key_in(record) if is_late else None
        if key is not None:
            done.foreign[key] = done.foreign.get(key, 0) + 1
    origins += origins_in(store.commit_log, reading.holes)
    done.doubts = doubts_of(store, reading.holes, is_javas=bool(done.foreign))
    orders, positions = np.array(copies, np.int64).reshape(-1, 2).T
    earlier, _ = earlier_copies(orders, positions)
    done.origins = np.unique(np.concatenate([np.array(origins, np.int64), earlier]))
    return done
