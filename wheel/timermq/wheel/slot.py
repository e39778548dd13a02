"""One slot of the wheel: the timers that are due within one precision interval.

::

    0               8               16              24      28      32
    ┌───────────────┬───────────────┬───────────────┬───────┬───────┐
    │ time          │ first_pos     │ last_pos      │ num   │ magic │
    └───────────────┴───────────────┴───────────────┴───────┴───────┘

Big-endian. ``last_pos`` is the head of the chain: each unit in the timer log names the one before
it, down to ``first_pos``. ``time`` is the slot time divided by the precision, so it tells whether
the slot belongs to this turn of the ring or to one long past: a slot is never cleared, only
overwritten when the ring comes round. An all-zero slot was never used.

Source: Java ``Slot``, ``TimerWheel``.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.layout import Layout

NO_POS = -1
"""No unit: the ``prev_pos`` of the first unit of a slot."""

SLOT = Layout(
    "wheel slot",
    ">",
    (
        ("time", "q", "slot time divided by the precision"),
        ("first_pos", "q", "timer-log position of the first unit of the slot"),
        ("last_pos", "q", "timer-log position of the newest unit of the slot"),
        ("num", "i", "messages in the slot; a delete counts minus one"),
        ("magic", "i", "0; kept as found"),
    ),
)
assert SLOT.size == 32
SLOT_DTYPE = SLOT.dtype

Slots = NDArray[np.void]
"""An array of ``SLOT_DTYPE``."""


@attrs.frozen(kw_only=True)
class Slot:
    """A slot as it is stored, with its time in milliseconds."""

    time_ms: int
    """Epoch milliseconds, a multiple of the precision."""
    first_pos: int
    """Position of the oldest unit."""
    last_pos: int
    """Position of the newest unit."""
    num: int
    """Messages; deletes count minus one, so it may be negative."""
    magic: int
    """0 wherever it was seen."""
