"""Names and lengths of the memory disk's files, and which of them are durable.

Changes stand in one journal, in order, as in the file systems of Linux. A sync of a directory takes
the changes of its names out, a sync of a file those of its length. What is left at a power cut is
gone, or, torn, its first part had reached the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import attrs

from .memory_node import MemoryNode


@attrs.frozen(eq=False)
class _Naming:
    """A change of names in one step; None: removed."""

    names: Mapping[str, MemoryNode | None]


@attrs.frozen(eq=False)
class _Resizing:
    """A change of a file's length."""

    node: MemoryNode
    size: int


class MemoryJournal:
    """The names as they are and as they are durable, and the way between the two."""

    def __init__(self) -> None:
        self.names: dict[str, MemoryNode] = {}
        self._durable: dict[str, MemoryNode] = {}
        self._entries: list[_Naming | _Resizing] = []

    def change_names(self, names: Mapping[str, MemoryNode | None]) -> list[MemoryNode]:
        """Set and remove names in one step.

        Returns:
            The files that have no name any more.
        """
        before = [self.names[path] for path in names if path in self.names]
        _apply(names, self.names)
        self._entries.append(_Naming(names))
        return [node for node in before if node not in names.values()]

    def note_size(self, node: MemoryNode) -> None:
        """A file changed its length."""
        self._entries.append(_Resizing(node, node.size))

    def sync_size(self, node: MemoryNode) -> None:
        """The present length of a file is durable."""
        self._entries = [
            entry for entry in self._entries if isinstance(entry, _Naming) or entry.node is not node
        ]

    def sync_names(self, directory: str) -> None:
        """The names in a directory are durable."""
        left: list[_Naming | _Resizing] = []
        for entry in self._entries:
            if isinstance(entry, _Resizing):
                left.append(entry)
                continue
            here = {path for path in entry.names if parent(path) == directory.rstrip("/")}
            _apply({path: entry.names[path] for path in here}, self._durable)
            if elsewhere := {p: node for p, node in entry.names.items() if p not in here}:
                left.append(_Naming(elsewhere))
        self._entries = left

    def cut(self, draw: Random | None) -> None:
        """Go back to what is durable, and to as many of the first changes as ``draw`` says."""
        count = draw.randint(0, len(self._entries)) if draw else 0
        for entry in self._entries[:count]:
            if isinstance(entry, _Naming):
                _apply(entry.names, self._durable)
            else:
                entry.node.durable_size = entry.size
        self._entries.clear()
        self.names = dict(self._durable)


def parent(path: str) -> str:
    """The directory of a path."""
    return path.rpartition("/")[0]


def _apply(changes: Mapping[str, MemoryNode | None], names: dict[str, MemoryNode]) -> None:
    for path, node in changes.items():
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node
