"""How many transactions may be open: of one account or address as many as are left for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from timermq.pipeline.admission.admission import Refusal
from timermq.timerstore.put_status import PutStatus

from ..pool import Pool


class TransactionShares:
    """Whose each open transaction is.

    Args:
        size: How many may be open.
        recovered: Names of those that were open before the start: nobody's.
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
