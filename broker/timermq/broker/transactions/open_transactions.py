"""The open transactions, whose producers have not decided yet, and whose each of them is.

Memory holds little of each: the name, the queue offset of the newest half message, and the account
or address that opened it. Anything else is in the log. A transaction that is not here has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from timermq.pipeline.admission.admission import Refusal
from timermq.timerstore.put_status import PutStatus

from ..pool import Pool


@attrs.define(eq=False)
class OpenTransactions:
    """Open transactions, in the order of their newest half messages."""

    next_offset: int
    """Queue offset behind the newest half message, open or not."""
    _offsets: dict[int, int] = attrs.Factory(dict[int, int])

    def __len__(self) -> int:
        return len(self._offsets)

    def names(self) -> list[int]:
        """Names of all open transactions, the one with the oldest half message first."""
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
        """Drop a transaction that has ended."""
        self._offsets.pop(name, None)

    @property
    def first_offset(self) -> int:
        """Queue offset before which no half message is open."""
        return next(iter(self._offsets.values()), self.next_offset)


class TransactionShares:
    """The owners of open transactions: one account or address opens as many as are left for others.

    Args:
        size: How many may be open.
        recovered: Names of those that were open before the start: they have no owner.
    """

    def __init__(self, size: Callable[[], int], recovered: Iterable[int]) -> None:
        self._size = size
        self._pool = Pool(size)
        self._owners = dict.fromkeys(recovered, "")
        self._pool.add("", len(self._owners))

    def take(self, owner: str) -> Refusal | None:
        """Take room for one more, or say why there is none."""
        if self._pool.take(owner):
            return None
        return Refusal(
            status=PutStatus.OS_PAGE_CACHE_BUSY,
            rule="TRANSACTIONS_MAX",
            remark=f"TRANSACTIONS_MAX: {self._pool.used} transactions are open, "
            f"{self._pool.of(owner)} of them of {owner}, expected at most {self._size()}, "
            "and of one no more than are left",
        )

    def opened(self, name: int, owner: str) -> None:
        """The room that was taken is this transaction's."""
        self._owners[name] = owner

    def give_back(self, owner: str) -> None:
        """The room that was taken is not needed."""
        self._pool.give_back(owner)

    def ended(self, name: int) -> None:
        """A transaction has ended, perhaps once more."""
        if name in self._owners:
            self._pool.give_back(self._owners.pop(name))
