"""The slot's layout and its numpy type."""

from __future__ import annotations

import numpy as np

from timermq.wheel.slot import SLOT, SLOT_DTYPE

GOLDEN = bytes.fromhex("000000006553f103 0000000000000000 0000000000000068 00000003 00000000")
"""The slot for 1,700,000,003 s, first unit at 0, newest at 104, 3 messages."""


def test_layout_packs_the_golden_slot() -> None:
    """A slot is 32 bytes, big-endian, its time divided by the precision."""
    assert GOLDEN == SLOT.pack(1_700_000_003, 0, 104, 3, 0)


def test_numpy_type_reads_the_golden_slot() -> None:
    """A row of the ring has the bytes of the file."""
    row = np.frombuffer(GOLDEN, SLOT_DTYPE)[0]

    assert row.item() == (1_700_000_003, 0, 104, 3, 0)
