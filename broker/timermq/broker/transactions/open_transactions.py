"""The transactions that nobody has decided about: all that memory holds of them.

Two numbers each, the name and the queue offset of the newest half message; anything else stands in
the log. What is not here has ended.
"""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class OpenTransactions:
    """Open transactions, in the order of their newest half messages."""

    next_offset: int
    """Queue offset behind the newest half message, open or not."""
    _offsets: dict[int, int] = attrs.Factory(dict[int, int])

    def __len__(self) -> int:
        return len(self._offsets)

    def names(self) -> list[int]:
        """All of them, the one whose half message is the oldest first."""
        return list(self._offsets)

    def offset_of(self, name: int) -> int | None:
        """Queue offset of the newest half message; None when the transaction has ended."""
        return self._offsets.get(name)

    def put(self, name: int, queue_offset: int) -> None:
        """A half message was stored, the transaction's first one or a renewal."""
        self._offsets.pop(name, None)
        self._offsets[name] = queue_offset
        self.next_offset = max(self.next_offset, queue_offset + 1)

    def end(self, name: int) -> None:
        """The transaction has ended."""
        self._offsets.pop(name, None)

    @property
    def first_offset(self) -> int:
        """Queue offset before which no half message is open."""
        return next(iter(self._offsets.values()), self.next_offset)
