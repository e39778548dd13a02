"""The slot of a timer that lies beyond the roll window.

The window bounds how far ahead the wheel is used and how old a waiting body gets: a timer further
away is linked into a slot on the way, and enqueued again when that slot comes. RocketMQ rolls by
exactly half or one whole window, so that a burst of admissions becomes a burst of rolls (issue
#8203). Here each timer rolls to a slot of its own choosing between half and one whole window, drawn
from its position: the same for the same record, evenly spread over a burst.

At least a third of a window is left for the last leg, so that the roll is over long before the
timer is due, and the slot is never past the real target.

Source: Java ``TimerMessageStore.doEnqueue``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: multiplying by it spreads neighbouring positions evenly."""


def roll_targets(
    targets: NDArray[np.int64],
    offsets_py: NDArray[np.int64],
    *,
    write_ms: int,
    window_ms: int,
    precision_ms: int,
) -> NDArray[np.int64]:
    """Slot times for units whose targets lie a window or more ahead.

    Args:
        targets: Slot times asked for, each at least ``write_ms + window_ms``.
        offsets_py: Positions of the messages: what the spread is drawn from.
        write_ms: The slot of the present.
        window_ms: The roll window, at least two slots.
        precision_ms: Width of a slot.

    Returns:
        Slot times in [write + window/2, write + window], at least window/3 before the target.
    """
    window = window_ms // precision_ms
    ahead = (targets - write_ms) // precision_ms
    least = window // 2
    most = np.minimum(window, ahead - window // 3)
    spread = ((offsets_py.astype(np.uint64) * _GOLDEN) >> np.uint64(33)).astype(np.int64)
    targets_ms: NDArray[np.int64] = write_ms + (least + spread % (most - least + 1)) * precision_ms
    return targets_ms


def lands_from(slot_ms: int, ahead_ms: int, precision_ms: int) -> int:
    """The first slot into which what waits for a roll may come, whatever window it was made with.

    The window may have been another one in an earlier run. It was no smaller than the way ahead, so
    a third of that way is left at least; RocketMQ leaves as much.

    Args:
        slot_ms: The slot in which it waits.
        ahead_ms: How far ahead of its writing it was put there.
        precision_ms: Width of a slot.
    """
    return slot_ms + ahead_ms // precision_ms // 3 * precision_ms


def window_slots(
    out_ms: NDArray[np.int64],
    offsets_py: NDArray[np.int64],
    *,
    read_ms: int,
    write_ms: int,
    ring_end_ms: int,
    window_ms: int,
    precision_ms: int,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The slot of each unit, and which of them only wait there for a roll.

    Args:
        out_ms: Slot times asked for.
        offsets_py: Positions of the messages.
        read_ms: The slot that is read next: what is due before goes there.
        write_ms: The slot of the present, at least ``read_ms``.
        ring_end_ms: Slots from here on have no place in the ring yet.
        window_ms: The roll window, at least two slots.
        precision_ms: Width of a slot.
    """

    def roll(chosen: NDArray[np.bool_], from_ms: int) -> None:
        if chosen.any():
            targets[chosen] = roll_targets(
                targets[chosen],
                offsets_py[chosen],
                write_ms=from_ms,
                window_ms=window_ms,
                precision_ms=precision_ms,
            )

    targets = np.maximum(out_ms, read_ms)
    rolled = targets - write_ms >= window_ms
    roll(rolled, write_ms)
    # Waiting for a turn of the ring would hold up what stands behind: a delete, due before.
    beyond = (targets >= ring_end_ms) & (targets - read_ms >= window_ms)
    roll(beyond, read_ms)
    return targets, rolled | beyond
