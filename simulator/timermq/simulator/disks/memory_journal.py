"""Names and lengths of the memory disk's files, and which of them are durable.

Changes stand in one journal, in order, as in the file systems of Linux. A sync of a directory takes
the changes of its names out, a sync of a file those of its length. What is left at a power cut is
gone, or, torn, its first part had reached the disk.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
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
        self._entries: dict[int, _Naming | _Resizing] = {}
        """The changes that are not durable, in order, by numbers that grow."""
        self._numbers = itertools.count()
        self._by_directory: defaultdict[str, list[int]] = defaultdict(list)
        """Entries that change names in a directory."""
        self._by_node: defaultdict[MemoryNode, list[int]] = defaultdict(list)
        """Entries that change the length of a file."""

    def change_names(self, names: Mapping[str, MemoryNode | None]) -> list[MemoryNode]:
        """Set and remove names in one step.

        Returns:
            The files that have no name any more.
        """
        before = [self.names[path] for path in names if path in self.names]
        _apply(names, self.names)
        number = next(self._numbers)
        self._entries[number] = _Naming(names)
        for directory in set(map(parent, names)):
            self._by_directory[directory].append(number)
        return [node for node in before if node not in names.values()]

    def note_size(self, node: MemoryNode) -> None:
        """A file changed its length."""
        number = next(self._numbers)
        self._entries[number] = _Resizing(node, node.size)
        self._by_node[node].append(number)

    def sync_size(self, node: MemoryNode) -> None:
        """The present length of a file is durable."""
        for number in self._by_node.pop(node, ()):
            del self._entries[number]

    def sync_names(self, directory: str) -> None:
        """The names in a directory are durable."""
        directory = directory.rstrip("/")
        for number in self._by_directory.pop(directory, ()):
            entry = self._entries[number]
            assert isinstance(entry, _Naming)
            here = {path: node for path, node in entry.names.items() if parent(path) == directory}
            _apply(here, self._durable)
            if elsewhere := {p: node for p, node in entry.names.items() if p not in here}:
                self._entries[number] = _Naming(elsewhere)
            else:
                del self._entries[number]

    def cut(self, draw: Random | None) -> None:
        """Go back to what is durable, and to as many of the first changes as ``draw`` says."""
        count = draw.randint(0, len(self._entries)) if draw else 0
        for entry in itertools.islice(self._entries.values(), count):
            if isinstance(entry, _Naming):
                _apply(entry.names, self._durable)
            else:
                entry.node.durable_size = entry.size
        for pending in (self._entries, self._by_directory, self._by_node):
            pending.clear()
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
