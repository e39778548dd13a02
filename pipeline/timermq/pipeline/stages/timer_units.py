"""The timer-log units of understood entries, as they are appended, but for their links."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_ROLL, UNIT, pack_exact
from timermq.timerlog.unit import Units

from .timer_request import EnqueueBatch

INT32_MAX = 2**31 - 1


def units_of(
    batch: EnqueueBatch,
    targets: NDArray[np.int64],
    rolled: NDArray[np.bool_],
    *,
    write_ms: int,
) -> Units:
    """Make the units; ``prev_pos`` is 0.

    Args:
        batch: The entries.
        targets: The slot of each.
        rolled: Which of them only wait there for a roll.
        write_ms: The slot of the present.
    """
    units = np.zeros(len(batch), UNIT.dtype)
    units["size"] = UNIT.size
    units["magic"] = batch.magic | np.where(rolled, MAGIC_ROLL, 0)
    # The slot is the sum of both; the second has 32 bits, less than a month.
    written_ms = np.maximum(np.minimum(write_ms, targets), targets - INT32_MAX)
    units["write_ms"] = written_ms
    units["delay_ms"] = targets - written_ms
    units["offset_py"] = batch.offset_py
    units["size_py"] = batch.size_py
    units["topic_hash"] = batch.topic_hash
    # A unit in another slot than the one asked for tells its moment only through its record.
    exact = (targets == batch.out_ms) | rolled
    units["reserved"] = np.where(
        exact, pack_exact(batch.order_py, batch.deliver_ms - batch.out_ms - 1), 0
    )
    return units
