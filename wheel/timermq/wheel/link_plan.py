"""How a batch of units is linked into the slots of a ring: worked out first, carried out later.

The units must stand in the timer log before a slot points at them, and each must say which unit it
follows. So the plan is made from the slots as they are, the units are written with its
``prev_pos``, and only then the new slots take their places.

Source: Java ``TimerMessageStore.doEnqueue``, ``TimerWheel.putSlot``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Int64s

from .slot import NO_POS, SLOT_DTYPE, Slots

FEW_COUNT = 24
"""Units up to which a plain loop is faster than numpy: 10 µs instead of 50 for a single unit."""


@attrs.frozen(eq=False, kw_only=True)
class LinkPlan:
    """The changes of linking a batch of units; made by ``plan``, carried out by ``apply``."""

    prev_pos: Int64s
    """One a unit, in the order given: the unit before it in its slot, ``NO_POS`` for the first."""
    indexes: Int64s
    """Ring indexes of the slots touched, each once."""
    slots: Slots
    """Their new contents."""


def plan_links(ring: Slots, ticks: Int64s, positions: Int64s, nums: NDArray[np.int32]) -> LinkPlan:
    """Work out how units are linked; nothing changes.

    Args:
        ring: All slots.
        ticks: Slot time of each unit divided by the precision, no two of one index different.
        positions: Positions of the coming units, ascending.
        nums: What each adds to its slot's number.
    """
    plan = _plan_few if len(ticks) <= FEW_COUNT else _plan_many
    return plan(ring, ticks, positions, nums)


def _plan_few(ring: Slots, ticks: Int64s, positions: Int64s, nums: NDArray[np.int32]) -> LinkPlan:
    prev_pos: list[int] = []
    slots: dict[int, tuple[int, int, int, int, int]] = {}
    for tick, pos, num in zip(ticks.tolist(), positions.tolist(), nums.tolist(), strict=True):
        slot = slots.get(tick) or ring[tick % len(ring)].item()
        time, first_pos, last_pos, count, magic = slot
        if time != tick:
            first_pos, last_pos, count, magic = pos, NO_POS, 0, 0
        prev_pos.append(last_pos)
        slots[tick] = (tick, first_pos, pos, count + num, magic)
    return LinkPlan(
        prev_pos=np.array(prev_pos, np.int64),
        indexes=np.array([tick % len(ring) for tick in slots], np.int64),
        slots=np.array(list(slots.values()), SLOT_DTYPE),
    )


def _plan_many(ring: Slots, ticks: Int64s, positions: Int64s, nums: NDArray[np.int32]) -> LinkPlan:
    # A stable sort brings the units of a slot together in the order given. Each points at the one
    # before it, the first (the head) at what the slot has now.
    order = np.argsort(ticks, kind="stable")
    ticks, positions = ticks[order], positions[order]
    heads = np.flatnonzero(np.diff(ticks, prepend=ticks[0] - 1))
    indexes = ticks[heads] % len(ring)
    slots = ring.take(indexes)  # slots as a whole; indexing would copy their fields one by one
    absent = slots["time"] != ticks[heads]
    slots[absent] = np.zeros((), SLOT_DTYPE)
    slots["first_pos"][absent] = positions[heads[absent]]
    before = np.empty(len(ticks), np.int64)
    before[1:] = positions[:-1]
    before[heads] = np.where(absent, NO_POS, slots["last_pos"])
    prev_pos = np.empty(len(ticks), np.int64)
    prev_pos[order] = before
    slots["time"] = ticks[heads]
    slots["last_pos"] = positions[np.append(heads[1:], len(ticks)) - 1]
    slots["num"] += np.add.reduceat(nums[order], heads)
    return LinkPlan(prev_pos=prev_pos, indexes=indexes, slots=slots)
