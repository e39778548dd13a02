"""Units of many queues, read in blocks: those of neighbouring records stand near each other."""

from __future__ import annotations

from .consume_queue import ConsumeQueue
from .queue_unit import UNIT


class UnitBlocks:
    """The newest block of each queue.

    Args:
        count: Units of a queue that are read together.
    """

    def __init__(self, count: int) -> None:
        self.size = 0
        """Bytes that were read."""
        self._count = count
        self._blocks: dict[ConsumeQueue, tuple[int, bytes]] = {}
        """Queue offset of the first unit, and the units."""

    def packed(self, queue: ConsumeQueue, offset: int) -> bytes:
        """A unit as it stands in the file; its neighbours are wanted next.

        Raises:
            OSError: The disk failed.
        """
        first, block = self._blocks.get(queue, (0, b""))
        at = (offset - first) * UNIT.size
        if not 0 <= at < len(block):
            block = queue.packed(offset, self._count)
            self.size += len(block)
            self._blocks[queue] = offset, block
            at = 0
        return block[at : at + UNIT.size]
