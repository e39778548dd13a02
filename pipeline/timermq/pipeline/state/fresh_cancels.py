"""Cancels whose delete the wheel does not show yet, or shows too late.

A cancelled timer is taken out when its slot is read: its delete stands in the same slot. But the
slot may be open already when the cancel comes, its messages on their way to the last gate; and the
delete may wait for stage 2, at worst for room on the disk. So the running service remembers each
cancel by the position of the record that it cancels, and asks once more right before anything is
written.

An entry is given up when the wheel alone is enough: its delete is linked, and the slot is not near;
or the record was met and left out, and its slot has reached its topics. So the memory is that of
stage 2's backlog and of a few seconds, not of all cancels.

A process that ends forgets this. What it would need stands in the log: each cancel's record names
the one that it cancels as its origin, and ``first_py`` keeps recovery's reading from passing it.
"""

from __future__ import annotations

from collections import deque

import attrs


@attrs.frozen
class FreshCancel:
    """A cancel that the wheel may not show yet."""

    target_py: int
    """Position of the record that it cancels."""
    record_py: int
    """Position of the record that says so."""
    out_ms: int
    """Slot that the cancelled timer asked for."""
    queue_end: int
    """The delete's place in the timer topic, plus one."""


class FreshCancels:
    """The cancels by what they cancel, in the order of the log."""

    def __init__(self) -> None:
        self._by_target: dict[int, FreshCancel] = {}
        self._unlinked: deque[FreshCancel] = deque()
        self._met: deque[tuple[int, int]] = deque()
        """Slot that was open when a cancelled record was left out, and its position."""

    def __len__(self) -> int:
        return len(self._by_target)

    def add(self, cancel: FreshCancel) -> None:
        """Remember a cancel that is stored."""
        self._by_target[cancel.target_py] = cancel
        self._unlinked.append(cancel)

    def cover(self, offset_py: int) -> bool:
        """Whether the record at a position is cancelled, as far as it is remembered here."""
        return offset_py in self._by_target

    def meet(self, offset_py: int, slot_ms: int) -> None:
        """A record was left out, for whatever reason, while slots up to ``slot_ms`` were open."""
        if offset_py in self._by_target:
            self._met.append((slot_ms, offset_py))

    def first_py(self) -> int | None:
        """The oldest record that a recovery must still read; None without any."""
        first = next(iter(self._by_target.values()), None)
        return None if first is None else first.record_py

    def forget(self, *, commit_queue_offset: int, near_ms: int, commit_read_ms: int) -> None:
        """Give up what the wheel or the topics show by now.

        Args:
            commit_queue_offset: Deletes before it are linked.
            near_ms: Timers that asked for a later slot wait there, and it is not open yet.
            commit_read_ms: Slots before it have reached their topics.
        """
        while self._unlinked and self._unlinked[0].queue_end <= commit_queue_offset:
            one = self._unlinked.popleft()
            if one.out_ms > near_ms:
                self._by_target.pop(one.target_py, None)
        while self._met and self._met[0][0] < commit_read_ms:
            self._by_target.pop(self._met.popleft()[1], None)
