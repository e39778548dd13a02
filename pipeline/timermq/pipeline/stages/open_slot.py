"""A slot that is being read: its units in the order in which they are to appear.

The chain of a slot runs from the newest unit to the oldest, and new units join while it is read.
What has been read is kept as sorted runs: the chain as it was found is one run, what joined since
are further ones.

A slot may hold more units than memory should (BOUNDED). Then the walk keeps only the earliest
``units_max``, remembers up to which key it has them all, and walks the chain again for the next
ones when they are used up: n units cost n / units_max walks, each a sequential read of a few
hundred nanoseconds a unit. It also remembers which lanes have units among the others, because
theirs of later slots must not overtake those.

Deletes are collected on the first walk, so all of them are known before anything leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerlog import MAGIC_DELETE, MAGIC_ROLL, MAGIC_SECOND, NO_POS, UnitChunk, unpack_exact

from ..records.timer_record import TimerFacts
from ..records.unread_delete import UnreadDelete
from .sorted_runs import (
    FIRST_KEY,
    LAST_KEY,
    Key,
    SortedRuns,
    are_after,
    count_to,
    in_order,
    joined,
    key_of,
    lanes_in,
)
from .timer_request import REQUEST, Requests

ASKED_COUNT = 256
"""Records that are read between two checkpoints: some milliseconds. Cold ones were announced, and
come together."""

Walk = Callable[[int, int], Iterator[UnitChunk]]
"""Walks the slot's chain: (last_pos, until_pos) to chunks of units, newest first."""


@attrs.define(eq=False, kw_only=True)
class OpenSlot:
    """One slot between its first reading and its end."""

    slot_ms: int
    units_max: int
    walk: Walk
    facts_of: Callable[[int, int], TimerFacts | None]
    """(offset_py, size_py) to what the record says; None when it is gone or unreadable."""
    delete_names_of: Callable[[int, int], set[bytes] | None]
    """(offset_py, size_py) of a delete message to what it names; None when it is gone or
    unreadable: then it is sent down the pipe, to be quarantined there, and puts others in doubt."""
    check_unit: Callable[[int], None]
    """Told the timer-log position of a delete's unit whose record cannot be read: raises if it is
    the unit that is damaged."""
    will_need: Callable[[Iterable[tuple[int, int]]], None]
    """Announces (offset_py, size_py) of records that are asked for next."""
    is_done: Callable[[Requests], np.ndarray[tuple[int], np.dtype[np.bool_]]]
    """Which requests the last run had handled."""
    deletes: frozenset[bytes] = frozenset()
    is_settled: bool = False
    """All messages stored before the slot began are linked."""
    settles_py: int | None = None
    """End of the log when the slot began; None: it has not begun."""
    settles_at: int | None = None
    """Entries of the timer topic below this one stood before that end; None: their queue is not
    complete up to there."""
    first_sent_py: int | None = None
    """The slot's messages are delivered at this position of the commit log or behind it; None:
    none has left before the slots before it were over."""
    roll_ahead_ms: int | None = None
    """The least that a unit which rolls here was put ahead of its writing; None: none rolls."""
    seen_pos: int = NO_POS
    """Units up to this timer-log position have been read."""
    _base_pos: int = NO_POS
    """Start of the chain when the slot was opened: passes over a large slot walk it again."""
    _runs: SortedRuns = attrs.field(factory=SortedRuns, init=False)
    _complete_to: Key = attrs.field(default=LAST_KEY, init=False)
    """Up to which the runs hold the base chain entirely."""
    _lanes_behind: frozenset[int] = attrs.field(default=frozenset(), init=False)
    """Lanes of the units behind that, read or not."""

    def join(self, last_pos: int) -> Iterator[None]:
        """Read the units that are new since the last call; yields after each chunk of work.

        Raises:
            ChainError: The chain is not one of this slot (CHAINS_DESCEND), or a unit is damaged.
        """
        if last_pos <= self.seen_pos:
            return
        first = self._base_pos == NO_POS
        if first:
            self._base_pos = last_pos
        yield from self._read(last_pos, self.seen_pos, bounded=first)
        self.seen_pos = last_pos

    def refill(self) -> Iterator[None]:
        """Walk a large slot again for the units after those that the last walk kept."""
        if self.needs_refill():
            yield from self._read(self._base_pos, NO_POS, bounded=True, after=self._complete_to)

    def needs_refill(self) -> bool:
        """Whether the chain holds units that no run has, and those before them are used up."""
        return self._complete_to != LAST_KEY and self._runs.first_key() > self._complete_to

    def next_due_ms(self) -> int | None:
        """The earliest moment among the runs; None when nothing is held."""
        return self._runs.first_ms()

    def held(self) -> int:
        """Number of units of the slot in memory."""
        return len(self._runs)

    def is_used_up(self) -> bool:
        """Whether everything that was found so far has been taken."""
        return not self._runs and self._complete_to == LAST_KEY

    def lanes_behind(self) -> frozenset[int]:
        """Lanes with units that cannot be taken yet because others before them are not read."""
        return self._lanes_behind

    def take_due(self, now_ms: int, count_max: int) -> Requests:
        """Remove and return what is due at ``now_ms``, in order, at most ``count_max``."""
        # A late unit beyond what is complete must not overtake those still to be walked.
        return self._runs.take(count_max, now_ms=now_ms, to=self._complete_to)

    def put_back(self, requests: Requests) -> None:
        """Hold again what was taken, in its order: it is not due any more."""
        self._runs.add(requests)

    def _read(
        self,
        last_pos: int,
        until_pos: int,
        *,
        bounded: bool,
        after: Key = FIRST_KEY,
    ) -> Iterator[None]:
        """Walk from a unit back to another, and add what is found to the runs.

        The walk goes from the newest unit to the oldest, the order of keys is another one: until
        its end the first is not known. So it works on values of its own. At each yield the
        runs, ``deletes`` and ``_complete_to`` are those from before the walk.

        Args:
            last_pos: The newest unit to read.
            until_pos: Units up to this one are known; NO_POS: none is.
            bounded: Keep the earliest ``units_max`` only, and note what is behind them.
            after: Keep what is behind this key. The first key means a first reading, which collects
                deletes; later ones know them all.
        """
        deletes: set[bytes] = set()
        lanes_behind: set[int] = set()
        complete_to = LAST_KEY
        parts: list[Requests] = []
        held = 0
        for chunk in self.walk(last_pos, until_pos):
            requests = yield from self._requests(chunk, deletes if after == FIRST_KEY else None)
            if after != FIRST_KEY:
                requests = requests[are_after(requests, after)]
            parts.append(requests)
            held += len(requests)
            # At twice the number that is kept, so that each unit is sorted about twice. What is
            # dropped is behind what is kept: each drop makes ``complete_to`` smaller or leaves it.
            if bounded and held > 2 * self.units_max:
                found = in_order(joined(parts))
                kept = found[: self.units_max]
                lanes_behind |= lanes_in(found[self.units_max :])
                complete_to = min(complete_to, key_of(kept[-1]))
                parts, held = [kept], len(kept)
            # ``parts`` has all that was met and may be kept, in no order among the parts; of what
            # was dropped ``complete_to`` and ``lanes_behind`` tell.
            yield
        found = in_order(joined(parts))
        # A chunk that came after a drop may hold units behind the key that was settled then.
        if complete_to != LAST_KEY:
            count = count_to(found, complete_to)
            lanes_behind |= lanes_in(found[count:]) | self._runs.lanes_after(complete_to)
            found = found[:count]
        if bounded:
            self._complete_to = complete_to
            self._lanes_behind = frozenset(lanes_behind)
        # Late units are kept even so, but wait for those of the chain that are not read.
        elif self._complete_to != LAST_KEY:
            self._lanes_behind |= lanes_in(found[count_to(found, self._complete_to) :])
        if deletes:
            self.deletes |= deletes
        self._runs.add(found)

    def _requests(
        self, chunk: UnitChunk, deletes: set[bytes] | None
    ) -> Generator[None, None, Requests]:
        """The chunk's units as requests; deletes go to their set, handled ones are left out.

        Records are asked for in slices, which are announced; it yields before and after each.
        """
        made = np.empty(len(chunk.offset_py), REQUEST)
        made["offset_py"] = chunk.offset_py
        made["size_py"] = chunk.size_py
        made["magic"] = chunk.magic
        made["pos"] = chunk.pos
        made["topic_hash"] = chunk.topic_hash
        order, behind, exact = unpack_exact(chunk.reserved)
        made["order_py"] = order
        made["deliver_ms"] = self.slot_ms + 1 + behind
        rolls = (chunk.magic & MAGIC_ROLL) != 0
        made["deliver_ms"][rolls] = self.slot_ms
        deletes_here = ((chunk.magic & MAGIC_DELETE) != 0) & ~rolls
        # A second delete says what the one before it does, and need not be read.
        marks = deletes_here & ((chunk.magic & MAGIC_SECOND) == 0)
        is_done = self.is_done(made)
        self._note_rolls(chunk.delay_ms[rolls & ~is_done])
        keep = ~deletes_here & ~is_done
        asked = keep & ~exact
        if deletes is not None:
            asked |= marks
        places = np.flatnonzero(asked)
        for start in range(0, len(places), ASKED_COUNT):
            some = places[start : start + ASKED_COUNT]
            self.will_need(made[["offset_py", "size_py"]][some].tolist())
            # Announced and not read: while others work, the disk may bring them.
            yield
            for index in some.tolist():
                if deletes is not None and marks[index]:
                    is_unread = self._is_no_delete(made, index, deletes)
                    keep[index] = is_unread and not is_done[index]
                if keep[index] and not exact[index]:
                    self._ask_record(made, index, roll=bool(rolls[index]))
            # Up to here each row is decided: kept with its moment, or left out.
            yield
        kept: Requests = made[keep]
        return kept

    def _note_rolls(self, ahead_ms: NDArray[np.int32]) -> None:
        if len(ahead_ms):
            least_ms = int(ahead_ms.min())
            known_ms = self.roll_ahead_ms
            self.roll_ahead_ms = least_ms if known_ms is None else min(known_ms, least_ms)

    def _is_no_delete(self, made: Requests, index: int, deletes: set[bytes]) -> bool:
        """Put what a delete names to the others; True when it cannot be read."""
        offset_py = int(made["offset_py"][index])
        names = self.delete_names_of(offset_py, int(made["size_py"][index]))
        if names is None:
            self.check_unit(int(made["pos"][index]))
            deletes.add(UnreadDelete(int(made["topic_hash"][index]), offset_py).name())
        else:
            deletes |= names
        return names is None

    def _ask_record(self, made: Requests, index: int, *, roll: bool) -> None:
        """Fill in moment and order from the record; what cannot be read is found out again."""
        facts = self.facts_of(int(made["offset_py"][index]), int(made["size_py"][index]))
        if facts is None:
            made["order_py"][index] = made["offset_py"][index]
            return
        made["order_py"][index] = facts.order_py
        if not roll:
            made["deliver_ms"][index] = facts.deliver_ms
