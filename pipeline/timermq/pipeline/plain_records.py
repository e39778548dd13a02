"""Timer records of the usual kind, read a batch at a time.

A usual record is our own and was never rolled: its destination is looked up by the bytes that end
it, and two slices hold its moments. All digits of a batch are checked together, all moments
compared together: half of what reading each costs. A batch with anything else in it is left to
``decode_timer``, which reads every record and says what is wrong with it.

Source: as for ``timer_record``.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from .timer_record import (
    DELIVER,
    DELIVER_SIZE,
    MARKED_REAL_TOPIC,
    MS_DIGITS,
    Destination,
    known_destination,
    learn_destination,
)


@attrs.frozen(eq=False)
class PlainRecords:
    """What the records of a batch ask for, as columns."""

    ends: list[int]
    """Where ``REAL_TOPIC`` begins in each: the end of what its delivered record keeps."""
    destinations: list[Destination]
    deliver_ms: NDArray[np.int64]
    """The moments asked for."""
    out_ms: NDArray[np.int64]
    """The slots they are due in."""


def read_plain(records: Sequence[bytes], precision_ms: int) -> PlainRecords | None:
    """Read a batch; None when one of the records is not of the usual kind.

    Args:
        records: Whole records of the timer topic, at least one.
        precision_ms: Width of a slot.
    """
    ends: list[int] = []
    destinations: list[Destination] = []
    moments: list[bytes] = []
    slots: list[bytes] = []
    for record in records:
        start = record.rfind(MARKED_REAL_TOPIC)
        end = start + 1
        text = record[end : -MS_DIGITS - 1]
        destination = known_destination(text) or learn_destination(text)
        if destination is None or not record.startswith(DELIVER, end - DELIVER_SIZE):
            return None
        ends.append(end)
        destinations.append(destination)
        moments.append(record[start - MS_DIGITS : start])
        slots.append(record[-MS_DIGITS - 1 : -1])
    # Signs, blanks and underscores would be numbers too.
    if not b"".join((*moments, *slots)).isdigit():
        return None
    deliver_ms = np.array([int(moment) for moment in moments], np.int64)
    out_ms = np.array([int(slot) for slot in slots], np.int64)
    ahead_ms = deliver_ms - out_ms
    if not 0 < int(ahead_ms.min()) <= int(ahead_ms.max()) <= precision_ms:
        return None
    # Two times in one slot of the ring would break its chain.
    if (out_ms % precision_ms).any():
        return None
    return PlainRecords(ends, destinations, deliver_ms, out_ms)
