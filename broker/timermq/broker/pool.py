"""Pools that all peers share: none may take more of one than is left.

One peer alone gets half of a pool, of two each a third, of nine each a tenth; so there is room for
further peers, without a limit that is too small for one or too large for many.

Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
1998, with a factor of 1.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from .options import BrokerOptions


def may_take(has: int, left: int) -> bool:
    """The rule of all shares: an owner may take more while more are left than it has."""
    return has < left


class Pool:
    """A number of things, and how many of them each owner has.

    Args:
        size: How many there are; asked each time, since an operator may change it.
    """

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._taken: dict[str, int] = {}
        self._waiting: dict[Callable[[], None], str] = {}
        """Functions to call when an owner may take again, each with its owner."""
        self.used = 0
        """Sum of all that is taken."""
        self.refused = 0
        """How often an owner was refused more."""

    @property
    def is_full(self) -> bool:
        """Whether nothing is left for any owner."""
        return self.used >= self._size()

    def of(self, owner: str) -> int:
        """How many a peer has."""
        return self._taken.get(owner, 0)

    def has_room(self, owner: str) -> bool:
        """Whether a peer may take one more: it has less than is left."""
        return may_take(self.of(owner), self._size() - self.used)

    def take(self, owner: str, count: int = 1) -> bool:
        """Take some, for a peer that has less than is left; False when it may not.

        A peer that may take takes as many as are there, so what is large may be more than half.
        """
        left = self._size() - self.used
        if count > left or not may_take(self.of(owner), left):
            self.refused += 1
            return False
        self.add(owner, count)
        return True

    def add(self, owner: str, count: int) -> None:
        """Note what a peer has taken, or with a negative number given back, without asking."""
        if not count:
            return
        self.used += count
        now = self.of(owner) + count
        if now:
            self._taken[owner] = now
        else:
            del self._taken[owner]
        if self._waiting and not (now and self.is_full):
            self._tell(owner if self.is_full else None)

    def _tell(self, owner: str | None) -> None:
        """Call the functions that wait for an owner; None: for all owners."""
        for call, waiting in list(self._waiting.items()):
            if owner in (None, waiting):
                del self._waiting[call]
                call()

    def when_left(self, owner: str, call: Callable[[], None]) -> None:
        """Have something called once, as soon as anything is left, or its owner has nothing."""
        self._waiting[call] = owner

    def forget(self, call: Callable[[], None]) -> None:
        """Drop a function that was to be called."""
        self._waiting.pop(call, None)

    def give_back(self, owner: str, count: int = 1) -> None:
        """Give back what an owner does not use any more."""
        self.add(owner, -count)


@attrs.frozen(eq=False, kw_only=True)
class Pools:
    """The pools that all peers take from, one for each kind of thing."""

    frames: Pool
    """Bytes received that are not worked on, by address."""
    unread: Pool
    """Bytes of answers that peers have not read, by address."""
    held_pulls: Pool
    """Pulls that wait for messages, by account, without one by address."""

    @classmethod
    def of(cls, options: BrokerOptions) -> Pools:
        """The pools of a broker with these settings."""
        return cls(
            frames=Pool(lambda: options.unfinished_frames_size_max),
            unread=Pool(lambda: options.unread_outputs_size_max),
            held_pulls=Pool(lambda: options.held_pulls_max),
        )
