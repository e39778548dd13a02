"""Round robin among topics: messages that are due and cannot leave at once, lane by lane.

A hundred thousand messages of one topic that are due together take seconds to deliver, and whatever
becomes due meanwhile on other topics must not wait for them. So units that are due queue up by
*lane*, the hash of their topic, and each batch takes from every lane in turn. With room for 12::

    lane    waiting    share                taken
    crowd   99 994     12 / 3 lanes = 4     4, and 5 more once the others have what they want
    B            1      8 / 2 lanes = 4     1
    C            2      7 / 1 lane  = 7     2

A lane that asks for no more than its share never waits longer than a turn, and no share is left
unused. Within a lane the order is that of (slot, deliver_ms, order_py), as without turns: the unit
of an earlier slot is due earlier.

Nothing is kept of a lane without units, and a waiting unit costs a row of an array, no object.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import attrs
import numpy as np

from .sorted_runs import SortedRuns, in_order, joined
from .timer_request import Requests

SHARE_MIN = 8
"""Units that a lane takes in its turn at least: with very many lanes turns would cost more than
deliveries, so a batch serves only some of them."""

Barrier = tuple[int, frozenset[int]]
"""A slot, and lanes of which it has units that are not read yet: theirs of later slots wait."""

_LaneSlots = dict[int, SortedRuns]
"""Of one lane: slot to its units."""


@attrs.define(eq=False)
class Lanes:
    """Due units of the open slots."""

    _lanes: OrderedDict[int, _LaneSlots] = attrs.field(
        factory=OrderedDict[int, _LaneSlots], init=False
    )
    """Topic hash to units; whose turn is next stands first."""
    _held: Counter[int] = attrs.field(factory=Counter[int], init=False)
    """Units by slot."""

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def held(self, slot_ms: int) -> int:
        """Number of units of a slot that wait here."""
        return self._held[slot_ms]

    def add(self, slot_ms: int, requests: Requests) -> None:
        """Add units of one slot; they are in order."""
        if not len(requests):
            return
        self._held[slot_ms] += len(requests)
        hashes = requests["topic_hash"]
        if (hashes == hashes[0]).all():
            self._add(int(hashes[0]), slot_ms, requests)
            return
        # Stable: units of a lane stay in their order.
        order = np.argsort(hashes, kind="stable")
        grouped, hashes = requests[order], hashes[order]
        starts = [0, *(np.flatnonzero(hashes[1:] != hashes[:-1]) + 1).tolist(), len(hashes)]
        for start, stop in pairwise(starts):
            self._add(int(hashes[start]), slot_ms, grouped[start:stop])

    def take(self, count_max: int, barriers: Sequence[Barrier] = ()) -> list[tuple[int, Requests]]:
        """Remove and return a batch, every lane in its turn.

        Args:
            count_max: Units of the batch; fewer come only when no more may go.
            barriers: What must not be overtaken, in the order of slots.

        Returns:
            Slots in their order, each with its units, in order.
        """
        taken: dict[int, list[Requests]] = {}
        share_min = min(SHARE_MIN, count_max)
        left, left_before = count_max, 0
        # Each time round every lane has one turn, with an equal part of what is left. What the
        # others leave goes in the next one to those who want more. It ends when the batch is full,
        # or when none took anything: no lane is left, or barriers hold those that are.
        while 0 < left != left_before:
            left_before = left
            for turns in range(len(self._lanes), 0, -1):
                if not left:
                    break
                # Of the least share fewer may be left: then this turn is not a whole one.
                share = max(left // turns, share_min)
                left -= self._take_turn(min(share, left), barriers, taken, is_whole=share <= left)
        for slot_ms, parts in taken.items():
            self._held[slot_ms] -= sum(map(len, parts))
            if not self._held[slot_ms]:
                del self._held[slot_ms]
        return [(slot_ms, in_order(joined(taken[slot_ms]))) for slot_ms in sorted(taken)]

    def _take_turn(
        self,
        share: int,
        barriers: Sequence[Barrier],
        taken: dict[int, list[Requests]],
        *,
        is_whole: bool,
    ) -> int:
        """The first lane takes its share and goes behind all others; how much it was.

        With a share that is not whole, because the batch is full, it is first again.
        """
        lane, slots = self._lanes.popitem(last=False)
        last_ms = next((slot_ms for slot_ms, lanes in barriers if lane in lanes), None)
        left = share
        # Not in the order of joining: an earlier slot may be joined after a later one.
        for slot_ms in sorted(slots):
            if not left or (last_ms is not None and slot_ms > last_ms):
                break
            part = slots[slot_ms].take(left)
            taken.setdefault(slot_ms, []).append(part)
            left -= len(part)
            if not slots[slot_ms]:
                del slots[slot_ms]
        if slots:
            self._lanes[lane] = slots
            self._lanes.move_to_end(lane, last=is_whole)
        return share - left

    def _add(self, lane: int, slot_ms: int, requests: Requests) -> None:
        self._lanes.setdefault(lane, {}).setdefault(slot_ms, SortedRuns()).add(requests)
