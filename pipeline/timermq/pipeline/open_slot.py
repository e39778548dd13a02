"""A slot that is being read: its units in the order in which they are to appear.

The chain of a slot runs from the newest unit to the oldest, and new units join while it is read.
What has been read is kept as *runs*, each sorted by (deliver_ms, order_py): the chain as it was
found is one run, what joined since are further ones, and what is due is merged from the heads of
all of them.

A slot may hold more units than memory should (BOUNDED). Then the walk keeps only the earliest
``units_max``, remembers up to which key it has them all, and walks the chain again for the next
ones when they are used up: n units cost n / units_max walks, each a sequential read of a few
hundred nanoseconds a unit.

Deletes are collected on the first walk, so all of them are known before anything leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import numpy as np

from timermq.timerlog import (
    MAGIC_DELETE,
    MAGIC_ROLL,
    NO_POS,
    UnitChunk,
    unpack_exact,
)

from .timer_record import TimerFacts
from .timer_request import REQUEST, Requests

RUN_COUNT_MAX = 8
"""Runs merged on the fly; with more of them the late ones are sorted into one."""

Walk = Callable[[int, int], Iterator[UnitChunk]]
"""Walks the slot's chain: (last_pos, until_pos) to chunks of units, newest first."""

_LAST_KEY = (2**63 - 1, 2**63 - 1)
_FIRST_KEY = (-(2**63), -1)


@attrs.define(eq=False, kw_only=True)
class OpenSlot:
    """One slot between its first reading and its end."""

    slot_ms: int
    units_max: int
    walk: Walk
    facts_of: Callable[[int, int], TimerFacts | None]
    """(offset_py, size_py) to what the record says; None when it is gone or unreadable."""
    delete_key_of: Callable[[int, int], bytes | None]
    """(offset_py, size_py) of a delete message to the key that it names."""
    is_done: Callable[[Requests], np.ndarray[tuple[int], np.dtype[np.bool_]]]
    """Which requests the last run had handled."""
    deletes: frozenset[bytes] = frozenset()
    is_settled: bool = False
    """What was stored before the slot began is linked."""
    seen_pos: int = NO_POS
    """Units up to this timer-log position have been read."""
    _base_pos: int = NO_POS
    """Where the chain began when the slot was opened: what passes over a large slot walk again."""
    _runs: list[Requests] = attrs.field(factory=list[Requests], init=False)
    _complete_to: tuple[int, int] = attrs.field(default=_LAST_KEY, init=False)
    """(deliver_ms, order_py) up to which the runs hold the base chain entirely."""

    def join(self, last_pos: int) -> Iterator[None]:
        """Read the units that are new since the last call; yields after each chunk of work.

        Raises:
            ChainError: The chain is not one of this slot (CHAINS_DESCEND).
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
        return self._complete_to != _LAST_KEY and not any(
            _count_to(run[:1], self._complete_to) for run in self._runs
        )

    def next_due_ms(self) -> int | None:
        """The earliest moment among the runs; None when nothing is held."""
        return min((int(run["deliver_ms"][0]) for run in self._runs), default=None)

    def held(self) -> int:
        """Units in memory."""
        return sum(len(run) for run in self._runs)

    def take_due(self, now_ms: int, count_max: int) -> Requests:
        """Remove and return what is due at ``now_ms``, in order, at most ``count_max``."""
        heads = [
            run[: min(int(np.searchsorted(run["deliver_ms"], now_ms, "right")), count_max)]
            for run in self._runs
        ]
        if self._complete_to != _LAST_KEY:
            # A late unit beyond what is complete must not overtake those still to be walked.
            heads = [head[: _count_to(head, self._complete_to)] for head in heads]
        if len(heads) == 1:
            taken, counts = heads[0], [len(heads[0])]
        elif not any(map(len, heads)):
            return np.empty(0, REQUEST)
        else:
            merged = _joined(heads)
            owner = np.repeat(np.arange(len(heads)), [len(head) for head in heads])
            order = np.lexsort((merged["order_py"], merged["deliver_ms"]))[:count_max]
            taken = merged[order]
            counts = np.bincount(owner[order], minlength=len(heads)).tolist()
        self._runs = [
            run[count:] for run, count in zip(self._runs, counts, strict=True) if count < len(run)
        ]
        return taken

    def _read(
        self,
        last_pos: int,
        until_pos: int,
        *,
        bounded: bool,
        after: tuple[int, int] = _FIRST_KEY,
    ) -> Iterator[None]:
        kept = np.empty(0, REQUEST)
        deletes: set[bytes] = set()
        complete_to = _LAST_KEY
        parts: list[Requests] = []
        held = 0
        for chunk in self.walk(last_pos, until_pos):
            requests = self._requests(chunk, deletes if after == _FIRST_KEY else None)
            if after != _FIRST_KEY:
                requests = requests[_after(requests, after)]
            parts.append(requests)
            held += len(requests)
            if bounded and held > 2 * self.units_max:
                kept = _sorted(_joined(parts))[: self.units_max]
                complete_to = min(complete_to, _key(kept[-1]))
                parts, held = [kept], len(kept)
            yield
        kept = _sorted(_joined(parts))
        if complete_to != _LAST_KEY:
            kept = kept[: _count_to(kept, complete_to)]
        if bounded:
            self._complete_to = complete_to
        if deletes:
            self.deletes |= deletes
        self._add_run(kept)

    def _add_run(self, run: Requests) -> None:
        if len(run):
            self._runs.append(run)
        if len(self._runs) > RUN_COUNT_MAX:
            late = sorted(self._runs, key=len)
            self._runs = [late.pop(), _sorted(_joined(late))]

    def _requests(self, chunk: UnitChunk, deletes: set[bytes] | None) -> Requests:
        """The chunk's units as requests; deletes go to their set, handled ones are left out."""
        made = np.empty(len(chunk.offset_py), REQUEST)
        made["offset_py"] = chunk.offset_py
        made["size_py"] = chunk.size_py
        made["magic"] = chunk.magic
        order, behind, exact = unpack_exact(chunk.reserved)
        made["order_py"] = order
        made["deliver_ms"] = self.slot_ms + 1 + behind
        rolls = (chunk.magic & MAGIC_ROLL) != 0
        made["deliver_ms"][rolls] = self.slot_ms
        marks = ((chunk.magic & MAGIC_DELETE) != 0) & ~rolls
        keep = ~marks & ~self.is_done(made)
        if deletes is not None:
            for index in np.flatnonzero(marks).tolist():
                key = self.delete_key_of(int(made["offset_py"][index]), int(made["size_py"][index]))
                if key is not None:
                    deletes.add(key)
        for index in np.flatnonzero(keep & ~exact).tolist():
            keep[index] = self._ask_record(made, index, roll=bool(rolls[index]))
        kept: Requests = made[keep]
        return kept

    def _ask_record(self, made: Requests, index: int, *, roll: bool) -> bool:
        """Fill in moment and order from the record; False when it is gone."""
        facts = self.facts_of(int(made["offset_py"][index]), int(made["size_py"][index]))
        if facts is None:
            return False
        made["order_py"][index] = facts.order_py
        if not roll:
            made["deliver_ms"][index] = facts.deliver_ms
        return True


def _joined(parts: list[Requests]) -> Requests:
    """All parts as one."""
    if len(parts) == 1:
        return parts[0]
    # Told the type, numpy need not find out, field by field, which one all parts share.
    return np.concatenate([np.empty(0, REQUEST), *parts], dtype=REQUEST)


def _sorted(requests: Requests) -> Requests:
    ordered: Requests = requests[np.lexsort((requests["order_py"], requests["deliver_ms"]))]
    return ordered


def _key(request: np.void) -> tuple[int, int]:
    return int(request["deliver_ms"]), int(request["order_py"])


def _after(requests: Requests, key: tuple[int, int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    deliver_ms, order_py = key
    same = (requests["deliver_ms"] == deliver_ms) & (requests["order_py"] > order_py)
    return np.asarray((requests["deliver_ms"] > deliver_ms) | same, np.bool_)


def _count_to(ordered: Requests, key: tuple[int, int]) -> int:
    """How many of ``ordered`` come at or before ``key``."""
    return len(ordered) - int(_after(ordered, key).sum())
