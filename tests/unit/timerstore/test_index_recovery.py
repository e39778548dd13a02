"""Tests of what is true after a crash: every row of the recovery table, and bad entries."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk, MemoryFile
from timermq.timerstore import index_recovery
from timermq.timerstore.index_layout import ENTRY, HEADER, IndexHeader, file_size
from timermq.timerstore.index_recovery import recover_slots

SLOTS = 4
ENTRIES = [(4, 10, 0, 0), (5, 20, 0, 0), (8, 20, 1, 1), (9, 30, 2, 2)]
"""Hash, position, seconds, previous: entries 1 and 3 are in slot 0, 2 and 4 in slot 1."""
WHOLE = IndexHeader(
    begin_timestamp=1000,
    end_timestamp=3999,
    begin_phy_offset=10,
    end_phy_offset=30,
    hash_slot_count=2,
    index_count=5,
)


def written(slots: list[int], entries: list[tuple[int, int, int, int]]) -> MemoryFile:
    """A file with these slots and these entries from number 1 on."""
    file = MemoryDisk().open("/index", create=True)
    file.truncate(file_size(SLOTS, 9))
    file.write(HEADER.size, b"".join(slot.to_bytes(4, "big", signed=True) for slot in slots))
    for number, entry in enumerate(entries, 1):
        file.write(HEADER.size + 4 * SLOTS + number * ENTRY.size, ENTRY.pack(*entry))
    return file


def test_slots_that_fit_are_taken() -> None:
    """Slots below the count, as many as counted: nothing is made anew."""
    table, header = recover_slots(written([3, 4, 0, 0], ENTRIES), WHOLE, SLOTS)

    assert table.numbers.tolist() == [3, 4, 0, 0]
    assert header is WHOLE
    assert not table.is_dirty


def test_slots_beyond_the_header() -> None:
    """Slots were written, the header was not: its count is the truth."""
    counted = IndexHeader(
        begin_timestamp=1000,
        end_timestamp=1999,
        begin_phy_offset=10,
        end_phy_offset=20,
        hash_slot_count=2,
        index_count=3,
    )
    table, header = recover_slots(written([3, 4, 0, 0], ENTRIES), counted, SLOTS)

    assert table.numbers.tolist() == [1, 2, 0, 0]
    assert counted == header
    assert table.is_dirty


def test_slots_that_were_lost() -> None:
    """A page that never reached the disk is made anew."""
    table, header = recover_slots(written([0, 4, 0, 0], ENTRIES), WHOLE, SLOTS)

    assert table.numbers.tolist() == [3, 4, 0, 0]
    assert WHOLE == header
    assert table.is_dirty


@pytest.mark.parametrize(
    ("number", "bad"),
    [
        (3, (-1, 20, 1, 1)),
        (3, (8, 19, 1, 1)),
        (3, (8, 31, 1, 1)),
        (3, (8, 20, -1, 1)),
        (3, (8, 20, 1, 3)),
        (3, (8, 20, 1, -1)),
        (3, (0, 0, 0, 0)),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 100])
def test_bad_entries_end_the_file(
    number: int, bad: tuple[int, int, int, int], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first entry on that cannot be one, all are dropped, and the header says so."""
    monkeypatch.setattr(index_recovery, "SCAN_COUNT", step)
    entries = [*ENTRIES]
    entries[number - 1] = bad
    table, header = recover_slots(written([0, 0, 0, 0], entries), WHOLE, SLOTS)

    assert table.numbers.tolist() == [1, 2, 0, 0]
    assert header == IndexHeader(
        begin_timestamp=1000,
        end_timestamp=1000,
        begin_phy_offset=10,
        end_phy_offset=20,
        hash_slot_count=2,
        index_count=3,
    )


def test_no_good_entry_at_all() -> None:
    """A file whose first entry is bad is empty."""
    table, header = recover_slots(written([0, 0, 0, 0], []), WHOLE, SLOTS)

    assert table.used_count() == 0
    assert IndexHeader() == header
