"""One file of the memory disk: its contents now, and what of them is durable.

Durability is kept by blocks, as differences: for a block that was written since the last sync, what
it held then. A power cut puts these back, all of them or, torn, sector by sector.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from random import Random

import attrs

BLOCK_SIZE = 4096
"""Space is counted in blocks, as on a real disk, bytes."""

SECTOR_SIZE = 512
"""Size of an atomic write of a disk, bytes."""


@attrs.define(eq=False)
class MemoryNode:
    """One file: its contents now, and what of it is durable."""

    data: mmap.mmap | None = None
    """None: empty."""
    size: int = 0
    durable_size: int = 0
    modified_ms: int = 0
    blocks: set[int] = attrs.Factory(set[int])
    """Blocks that take up space; holes of a sparse file do not."""
    unsynced: dict[int, bytes] = attrs.Factory(dict[int, bytes])
    """Durable content of each block that was written since."""
    lost: dict[int, bytes] = attrs.Factory(dict[int, bytes])
    """The same, of blocks whose sync failed: they are clean now, and no sync will write them."""
    view_count: int = 0
    """Handles that have a view."""
    is_linked: bool = True
    """It has a name, and so counts as used space of the disk."""

    def content(self, block: int) -> bytes:
        """The block as it is now; shorter at the end of the file."""
        start = block * BLOCK_SIZE
        return b"" if self.data is None else self.data[start : start + BLOCK_SIZE]

    def keep_durable(self, blocks: Iterable[int]) -> None:
        """Remember the durable content of blocks that are about to change."""
        for block in blocks:
            if block in self.lost:
                self.unsynced[block] = self.lost.pop(block)
            elif block not in self.unsynced:
                self.unsynced[block] = self.content(block)

    def resize(self, size: int) -> None:
        """Set the length, bytes; what is durable is kept for a power cut."""
        self.keep_durable(range(size // BLOCK_SIZE, block_count(self.size)))
        self.replace(size)

    def replace(self, size: int) -> None:
        """Go over to a mapping of another size; views keep showing the old one."""
        fresh = mmap.mmap(-1, size) if size else None
        if fresh is not None and self.data is not None:
            kept = min(size, self.size)
            fresh[:kept] = self.data[:kept]
        self.data, self.size = fresh, size

    def revert(self, draw: Random | None) -> None:
        """Back to what is durable, but for sectors that ``draw`` lets through."""
        not_durable = self.lost | self.unsynced
        size = self.durable_size
        # The contents move to a mapping of their own: views of the dead process are not changed.
        self.replace(size)
        for block, durable in not_durable.items():
            content = durable.ljust(BLOCK_SIZE, b"\0")
            for at in range(0, BLOCK_SIZE, SECTOR_SIZE):
                start = block * BLOCK_SIZE + at
                end = min(start + SECTOR_SIZE, size)
                is_new = draw is not None and draw.random() < 0.5
                if self.data is not None and start < end and not is_new:
                    self.data[start:end] = content[at : at + end - start]
        self.unsynced.clear()
        self.lost.clear()


@attrs.frozen(eq=False)
class MemorySync:
    """The content of a sync: the file as it was when the sync was called."""

    node: MemoryNode
    size: int
    blocks: dict[int, bytes]

    @classmethod
    def begin(cls, node: MemoryNode) -> MemorySync:
        """Note what is to be written."""
        return cls(node, node.size, {block: node.content(block) for block in node.unsynced})

    def finish(self) -> None:
        """It is written; blocks that changed since then stay unsynced."""
        unsynced = self.node.unsynced
        self.node.durable_size = self.size
        for block, content in self.blocks.items():
            if self.node.content(block) == content:
                unsynced.pop(block, None)
            elif block in unsynced:
                unsynced[block] = content

    def fail(self) -> None:
        """It was not written, and the kernel does not know any more that it should be."""
        for block in self.blocks:
            if block in self.node.unsynced:
                self.node.lost[block] = self.node.unsynced.pop(block)


def block_count(size: int) -> int:
    """Blocks that hold ``size`` bytes."""
    return (size + BLOCK_SIZE - 1) // BLOCK_SIZE
