"""Units of the timer log for tests, appended as enqueueing does it, with a dict as wheel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import NO_POS, UNIT, TimerLog
from timermq.timerlog.unit import Units

SEGMENT_SIZE = 4 * UNIT.size + 42
"""Bytes: four units, a blank of 16 bytes and 26 zeros."""


def make_units(
    positions: NDArray[np.int64],
    slots: list[int],
    newest: dict[int, int],
    *,
    offset_py: int = 0,
    write_ms: int = 0,
) -> Units:
    """Units for ``slots``, chained behind ``newest``, which follows; 100 bytes of message each."""
    units = np.zeros(len(slots), UNIT.dtype)
    units["size"] = UNIT.size
    units["magic"] = 1
    units["write_ms"] = write_ms
    units["delay_ms"] = np.array(slots) - write_ms
    units["offset_py"] = offset_py + 100 * np.arange(len(slots))
    units["size_py"] = 100
    for index, (pos, slot) in enumerate(zip(positions.tolist(), slots, strict=True)):
        units["prev_pos"][index] = newest.get(slot, NO_POS)
        newest[slot] = pos
    return units


def append_units(
    log: TimerLog, slots: list[int], newest: dict[int, int], *, offset_py: int = 0
) -> list[int]:
    """Append a unit for each of ``slots``; returns their positions."""
    positions = log.positions(len(slots))
    log.append(make_units(positions, slots, newest, offset_py=offset_py))
    values: list[int] = positions.tolist()
    return values
