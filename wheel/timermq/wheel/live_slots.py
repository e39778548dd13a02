"""Which slots of the ring wait to be read: a set of ring indexes that finds the next one at once.

Three levels of flags, one byte each. A flag of the lowest level stands for one slot, a flag of a
higher level for a block of 128 flags below it, and it is set when any of them is. The next member
after an index is found by looking through the rest of its block, then the rest of the block's
block, and so on up, and down again to the first flag set: at most five searches of 128 bytes each,
whatever lies between (searching a ``bytearray`` is one ``memchr``). Flags are bytes rather than
bits because numpy then sets and tests many of them in one step, and 1.2 MB for the whole ring is
little beside its 38.7 MB.

For example, with blocks of 4 and the members 2 and 13 of 16::

    level 1     1       0       0       1
    level 0  0 0 1 0 0 0 0 0 0 0 0 0 0 1 0 0

``next_from(3)``: nothing in the rest of block 0; level 1 after flag 0: flag 3; first of block 3:
13.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_SHIFT = 7
"""A block is 128 flags: three levels span 2 million slots, and RocketMQ's ring has 1.2 million."""

_BLOCK_MASK = (1 << BLOCK_SHIFT) - 1


class LiveSlots:
    """A set of indexes in ``0 … count - 1``.

    Args:
        count: Slots of the ring, at least 1.
    """

    def __init__(self, count: int) -> None:
        self._levels = [bytearray(count)]
        while len(self._levels[-1]) > 1 << BLOCK_SHIFT:
            self._levels.append(bytearray((len(self._levels[-1]) >> BLOCK_SHIFT) + 1))
        # Views of the same bytes for numpy; the bytearrays never change their length.
        self._flags = [np.frombuffer(level, np.bool_) for level in self._levels]

    def __len__(self) -> int:
        return int(np.count_nonzero(self._flags[0]))

    def __contains__(self, index: int) -> bool:
        return bool(self._levels[0][index])

    def add(self, indexes: NDArray[np.signedinteger[Any]]) -> None:
        """Make all ``indexes`` members; some may be members already."""
        for shift, flags in enumerate(self._flags):
            flags[indexes >> shift * BLOCK_SHIFT] = True

    def discard(self, index: int) -> None:
        """Remove ``index``; nothing happens when it is not a member."""
        for level in self._levels:
            level[index] = 0
            block = index & ~_BLOCK_MASK
            if level.find(1, block, block + _BLOCK_MASK + 1) >= 0:
                return
            index >>= BLOCK_SHIFT

    def clear(self) -> None:
        """Remove all members from the set."""
        for flags in self._flags:
            flags[:] = False

    def next_from(self, index: int) -> int | None:
        """The smallest member that is at least ``index``; None when there is none."""
        for height, level in enumerate(self._levels):
            found = level.find(1, index, (index | _BLOCK_MASK) + 1)
            if found >= 0:
                return self._first_below(height, found)
            index = (index >> BLOCK_SHIFT) + 1
        return None

    def indexes(self) -> NDArray[np.int64]:
        """All members as an ascending array."""
        return np.flatnonzero(self._flags[0])

    def _first_below(self, height: int, index: int) -> int:
        for level in reversed(self._levels[:height]):
            index = level.find(1, index << BLOCK_SHIFT)
        return index
