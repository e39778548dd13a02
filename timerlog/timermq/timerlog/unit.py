"""One unit of the timer log: a message that waits in a slot, and the unit linked there before it.

::

    0     4           12    16          24    28          36    40    44          52
    ┌─────┬───────────┬─────┬───────────┬─────┬───────────┬─────┬─────┬───────────┐
    │size │ prev_pos  │magic│ write_ms  │delay│ offset_py │size_│topic│ reserved  │
    │ 52  │           │     │           │ _ms │           │py   │_hash│           │
    └─────┴───────────┴─────┴───────────┴─────┴───────────┴─────┴─────┴───────────┘

Big-endian. The slot that the unit is linked in is ``write_ms + delay_ms``. A segment never ends
inside a unit: where fewer than 68 bytes are left, a blank of 16 bytes closes it.

RocketMQ leaves ``reserved`` 0 and never reads it. Here it tells what the slot alone does not, so
that the units of a slot can be put in order without reading their messages::

    bit 63   62 ……………………………………… 11   10 …………………… 1   0
    0        order_py (52 bits)      behind (10)    1 = present

``order_py`` is the position of the message's first record, which grows in the order of sending and
stays the same when the message is rolled. ``behind`` is how many milliseconds after the slot's
first one the message is due: a slot ``t`` covers (t, t + precision], so the moment is ``t + 1 +
behind``.

Source: Java ``TimerLog``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Flags, Int64s
from timermq.timerstore.layout import Layout

NO_POS = -1
"""``prev_pos`` of the first unit of a slot."""

MAGIC_DEFAULT = 1
MAGIC_ROLL = 2
"""The message lies beyond the window: it is enqueued again when the slot is read."""
MAGIC_DELETE = 4
"""The message names another one, which is taken out of the slot."""
MAGIC_SECOND = 8
"""The delete is the second of two that say the same: it counts nothing. RocketMQ allows the bit,
and does not know it."""
MAGIC_MASK = 0xF
"""A unit with any other bit of ``magic`` set is not one."""

UNIT = Layout(
    "timer log unit",
    ">",
    (
        ("size", "i", "size of the unit: 52"),
        ("prev_pos", "q", "position of the unit linked in the slot before this one, or -1"),
        ("magic", "i", "bits: 1 default, 2 roll, 4 delete, 8 second of two deletes"),
        ("write_ms", "q", "slot of the present when the unit was written"),
        ("delay_ms", "i", "slot time of the unit minus write_ms; may be negative"),
        ("offset_py", "q", "commit-log position of the message"),
        ("size_py", "i", "size of the message"),
        ("topic_hash", "i", "Java hash of the real topic"),
        ("reserved", "q", "0, or order and millisecond of the message"),
    ),
)
assert UNIT.size == 52
UNIT_DTYPE = UNIT.dtype

BLANK = Layout(
    "timer log blank",
    ">",
    (
        ("size", "i", "bytes left in the segment, this blank included"),
        ("prev_pos", "q", "0"),
        ("magic", "i", "0xCBD43194, as in the commit log's blank"),
    ),
)
assert BLANK.size == 16


ORDER_MAX = (1 << 52) - 1
"""Largest position that ``reserved`` can hold: 4.5 petabytes of commit log."""
BEHIND_MAX = (1 << 10) - 1
"""Largest number of milliseconds behind the slot's first: more than any precision."""

Units = NDArray[np.void]
"""An array of ``UNIT_DTYPE``."""


@attrs.frozen(kw_only=True)
class TimerUnit:
    """A unit as it is stored."""

    size: int
    prev_pos: int
    magic: int
    write_ms: int
    delay_ms: int
    offset_py: int
    size_py: int
    topic_hash: int
    reserved: int

    @classmethod
    def decode(cls, data: bytes) -> TimerUnit:
        """Read a unit of exactly ``UNIT.size`` bytes; nothing is checked."""
        return cls(**dict(zip(UNIT.names, UNIT.unpack(data), strict=True)))

    @property
    def slot_ms(self) -> int:
        """The slot that the unit is linked in."""
        return self.write_ms + self.delay_ms

    @property
    def is_valid(self) -> bool:
        """Whether size, magic and size of the message are those of a unit."""
        return self.size == UNIT.size and not self.magic & ~MAGIC_MASK and self.size_py > 0


def slot_times(units: Units) -> Int64s:
    """The slot that each unit is linked in, epoch milliseconds."""
    return units["write_ms"].astype(np.int64) + units["delay_ms"].astype(np.int64)


def are_units(units: Units) -> Flags:
    """Which entries are units: by their size, their magic, and the size of their message.

    The last tells a unit that a power cut has torn: within a unit sectors end at multiples of 4,
    and a unit that has its ``size_py`` lacks at most what its message tells as well.
    """
    marked = (units["size"] == UNIT.size) & ((units["magic"] & ~MAGIC_MASK) == 0)
    return np.asarray(marked & (units["size_py"] > 0), np.bool_)


def numbers_in_slot(magic: NDArray[np.int32]) -> NDArray[np.int32]:
    """What each unit adds to the number of its slot: a delete -1, a second delete 0."""
    numbers = np.where(magic & MAGIC_DELETE, -1, 1)
    return np.where(magic & MAGIC_SECOND, 0, numbers).astype(np.int32)


def pack_exact(order_py: Int64s | int, behind_ms: Int64s | int) -> Int64s:
    """The value of ``reserved`` for messages; 0, which says nothing, where it would not fit.

    Args:
        order_py: Position of each message's first record.
        behind_ms: Milliseconds between the slot's first one and the moment asked for.
    """
    order, behind = np.asarray(order_py, np.int64), np.asarray(behind_ms, np.int64)
    fits = (order >= 0) & (order <= ORDER_MAX) & (behind >= 0) & (behind <= BEHIND_MAX)
    return np.where(fits, order << 11 | behind << 1 | 1, 0)


def unpack_exact(
    reserved: Int64s | int,
) -> tuple[Int64s, Int64s, Flags]:
    """Order, milliseconds behind the slot's first, and whether ``reserved`` tells them.

    Where it does not (units written by RocketMQ) the first two are 0.
    """
    values = np.asarray(reserved, np.int64)
    known = values & 1 == 1
    values = np.where(known, values, 0)
    return values >> 11, values >> 1 & BEHIND_MAX, known
