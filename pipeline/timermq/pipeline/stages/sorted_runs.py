"""Due units in the order in which they are to appear, kept as sorted runs.

What is read of a slot comes in pieces, each sorted by (deliver_ms, order_py): the chain as it was
found, then what joined since. They are merged only as far as they are taken, from the heads of all
runs, so a late unit costs nothing but its own place.

With many runs the small ones are sorted into one. A run is left alone as long as it is much larger
than what would be merged into it, so that a unit is sorted again only a few times, whatever waits
beside it.
"""

from __future__ import annotations

import attrs
import numpy as np

from .timer_request import REQUEST, Requests

Key = tuple[int, int]
"""(deliver_ms, order_py) of a unit: its place in the order."""

LAST_KEY: Key = (2**63 - 1, 2**63 - 1)
FIRST_KEY: Key = (-(2**63), -1)

RUN_COUNT_MAX = 8
"""Runs merged on the fly."""
MERGE_RATIO = 4
"""So many times larger than the runs to be merged is a run that is not merged with them."""


@attrs.define(eq=False)
class SortedRuns:
    """Units, given back in order."""

    _runs: list[Requests] = attrs.field(factory=list[Requests], init=False)

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, run: Requests) -> None:
        """Add units that are in order among themselves."""
        if len(run):
            self._runs.append(run)
            if len(self._runs) > RUN_COUNT_MAX:
                self._merge_small()

    def first_ms(self) -> int | None:
        """The earliest moment; None when nothing is held."""
        return min((int(run["deliver_ms"][0]) for run in self._runs), default=None)

    def first_key(self) -> Key:
        """The place of the first unit; ``LAST_KEY`` when nothing is held."""
        return min((key_of(run[0]) for run in self._runs), default=LAST_KEY)

    def lanes_after(self, key: Key) -> set[int]:
        """Topic hashes of the units behind ``key``."""
        return {lane for run in self._runs for lane in lanes_in(run[count_to(run, key) :])}

    def take(self, count_max: int, *, now_ms: int | None = None, to: Key = LAST_KEY) -> Requests:
        """Remove and return the first units, at most ``count_max``.

        Args:
            count_max: How many.
            now_ms: Only those whose moment has come by then.
            to: Only those up to this place.
        """
        # Cut first: to look at a column of a long run costs more than all the rest.
        heads = [run[:count_max] for run in self._runs]
        if now_ms is not None:
            heads = [
                head[: int(np.searchsorted(head["deliver_ms"], now_ms, "right"))] for head in heads
            ]
        if to != LAST_KEY:
            heads = [head[: count_to(head, to)] for head in heads]
        if len(heads) == 1:
            taken, counts = heads[0], [len(heads[0])]
        elif not any(map(len, heads)):
            return np.empty(0, REQUEST)
        else:
            merged = joined(heads)
            owner = np.repeat(np.arange(len(heads)), [len(head) for head in heads])
            order = np.lexsort((merged["order_py"], merged["deliver_ms"]))[:count_max]
            taken = merged[order]
            counts = np.bincount(owner[order], minlength=len(heads)).tolist()
        self._runs = [
            run[count:] for run, count in zip(self._runs, counts, strict=True) if count < len(run)
        ]
        return taken

    def _merge_small(self) -> None:
        runs = sorted(self._runs, key=len)
        count, size = 2, len(runs[0]) + len(runs[1])
        while count < len(runs) and len(runs[count]) <= MERGE_RATIO * size:
            size += len(runs[count])
            count += 1
        self._runs = [*runs[count:], in_order(joined(runs[:count]))]


def joined(parts: list[Requests]) -> Requests:
    """All parts in one array, one after the other."""
    if len(parts) == 1:
        return parts[0]
    # Told the type, numpy need not find out, field by field, which one all parts share.
    return np.concatenate([np.empty(0, REQUEST), *parts], dtype=REQUEST)


def in_order(requests: Requests) -> Requests:
    """The same units, sorted by (deliver_ms, order_py)."""
    # An index would copy the rows field by field.
    ordered: Requests = requests.take(np.lexsort((requests["order_py"], requests["deliver_ms"])))
    return ordered


def key_of(request: np.void) -> Key:
    """The place of one unit."""
    return int(request["deliver_ms"]), int(request["order_py"])


def are_after(requests: Requests, key: Key) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which units come behind ``key``."""
    deliver_ms, order_py = key
    same = (requests["deliver_ms"] == deliver_ms) & (requests["order_py"] > order_py)
    return np.asarray((requests["deliver_ms"] > deliver_ms) | same, np.bool_)


def count_to(ordered: Requests, key: Key) -> int:
    """How many of ``ordered`` come at or before ``key``."""
    return len(ordered) - int(are_after(ordered, key).sum())


def lanes_in(requests: Requests) -> set[int]:
    """The lanes of some units: the hashes of their topics."""
    return set(np.unique(requests["topic_hash"]).tolist())
