"""Timer records as columns: what a run of them asks for.

Every record of a run is our own and was never rolled: its destination is looked up by the bytes
that end it, and two fields of digits hold its moments. Digits are checked and moments compared for
the whole run together: half of what reading each costs. A batch that is no run is left to
``decode_timer``, which reads record by record and says what is wrong with it.

Source: as for ``timer_record``.
"""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Places
from timermq.timerstore.byte_columns import numbers_in
from timermq.timerstore.record_block import RecordBlock

from .timer_properties import DELIVER, NO_LEVEL, OUT
from .timer_record import (
    DELIVER_SIZE,
    MARKED_REAL_TOPIC,
    MS_DIGITS,
    Destination,
    known_destination,
    learn_destination,
)

_LEVEL_END = NO_LEVEL + OUT

COMPARED_MAX = 8
"""Destinations of a run that are compared with all of its records at once."""


@attrs.frozen(eq=False)
class TimerColumns:
    """The requests of a run of timer records."""

    ends: Places
    """Offset of ``REAL_TOPIC`` in each: the end of the part that its delivered record keeps."""
    destinations: list[Destination]
    """Those that there are, each once: as columns each of them gets queue offsets of its own."""
    destination_of: NDArray[np.intp]
    """Which of them each record has."""
    deliver_ms: NDArray[np.int64]
    """The moments asked for."""
    out_ms: NDArray[np.int64]
    """The slots they are due in."""

    def by_topic(self) -> dict[str, int]:
        """How many records there are for each topic."""
        counts: Counter[str] = Counter()
        for number, count in enumerate(np.bincount(self.destination_of).tolist()):
            counts[self.destinations[number].topic] += count
        return dict(counts)


def read_columns(block: RecordBlock, precision_ms: int) -> TimerColumns | None:
    """Read a run; None when the records are none.

    Args:
        block: Whole records of the timer topic, at least one.
        precision_ms: Width of a slot.
    """
    tails = _Tails.of(block)
    destinations = [known_destination(text) or learn_destination(text) for text in tails.texts]
    known = [destination for destination in destinations if destination is not None]
    ends = block.ends - MS_DIGITS - 1 - np.array(list(map(len, tails.texts)))[tails.of_row]
    if len(known) < len(destinations) or not block.have(DELIVER, ends - DELIVER_SIZE):
        return None
    deliver_ms = _moments(block, ends - 1 - MS_DIGITS)
    out_ms = _moments(block, block.ends - 1 - MS_DIGITS)
    if deliver_ms is None or out_ms is None:
        return None
    ahead_ms = deliver_ms - out_ms
    if not 0 < int(ahead_ms.min()) <= int(ahead_ms.max()) <= precision_ms:
        return None
    # Two times in one slot of the ring would break its chain.
    if (out_ms % precision_ms).any():
        return None
    of_row = tails.of_row
    if len(known) > 1 and any(text.endswith(_LEVEL_END) for text in tails.texts):
        numbers = {one: number for number, one in enumerate(dict.fromkeys(known))}
        of_row = np.array([numbers[one] for one in known], np.intp)[of_row]
        known = list(numbers)
    return TimerColumns(ends, known, of_row, deliver_ms, out_ms)


@attrs.frozen(eq=False)
class _Tails:
    """The end of records, from ``REAL_TOPIC`` up to the digits of the slot."""

    texts: list[bytes]
    """Those that there are; empty where nothing of the kind was found."""
    of_row: NDArray[np.intp]
    """Which of them each record has."""

    @classmethod
    def of(cls, block: RecordBlock) -> _Tails:
        """The first few are compared with all records at once, any others found one by one."""
        of_row = np.zeros(len(block), np.intp)
        numbers: dict[bytes, int] = {}
        left = np.arange(len(block))
        while len(left) and len(numbers) < COMPARED_MAX:
            text = _tail(block.data, int(block.starts[left[0]]), int(block.ends[left[0]]))
            of_row[left] = numbers.setdefault(text, len(numbers))
            left = left[~_have_tail(block, left, text)]
        starts, ends = block.starts[left].tolist(), block.ends[left].tolist()
        for row, start, end in zip(left.tolist(), starts, ends, strict=True):
            of_row[row] = numbers.setdefault(_tail(block.data, start, end), len(numbers))
        return cls(list(numbers), of_row)


def _tail(data: bytes, start: int, end: int) -> bytes:
    mark = data.rfind(MARKED_REAL_TOPIC, start, end)
    return data[mark + 1 : end - MS_DIGITS - 1] if mark >= 0 else b""


def _have_tail(block: RecordBlock, rows: NDArray[np.intp], text: bytes) -> NDArray[np.bool_]:
    """Which of the rows end with ``text`` and the digits."""
    marked = MARKED_REAL_TOPIC[:1] + text
    places = block.ends[rows] - MS_DIGITS - 1 - len(marked)
    fits = places >= block.starts[rows]
    found = np.zeros(len(rows), np.bool_)
    found[fits] = (block.octets(places[fits], len(marked)) == np.frombuffer(marked, np.uint8)).all(
        axis=1
    )
    return found | (text == b"")


def _moments(block: RecordBlock, places: Places) -> NDArray[np.int64] | None:
    """The numbers that stand there in digits; None when one is none: signs and blanks too."""
    return numbers_in(block.octets(places, MS_DIGITS))
