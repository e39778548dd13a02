"""Tests of the slot table."""

from __future__ import annotations

import numpy as np

from timermq.simulator.disks.memory_disk import MemoryDisk, MemoryFile
from timermq.timerstore.index_slots import PAGE_SLOTS, RUN_PAGES_MAX, SlotTable


def slots(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Slot numbers as they are computed from hashes."""
    return np.array(numbers, np.int64)


def entries(first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The numbers of ``count`` new entries, ``first`` and those behind it."""
    return np.arange(first, first + count, dtype=np.int32)


def test_link_within_the_batch_and_to_the_table() -> None:
    """The first of a slot comes after the table's entry, the others after each other."""
    table = SlotTable(10)
    table.put(slots(7, 3), entries(1, 2))
    previous, fresh_count = table.link(slots(7, 3, 7, 5, 7), entries(4, 5))

    assert previous.tolist() == [1, 2, 4, 0, 6]
    assert fresh_count == 1


def test_link_changes_nothing() -> None:
    """Only ``put`` changes the table, so a failed write can be forgotten."""
    table = SlotTable(10)
    table.link(slots(1, 2), entries(1, 2))

    assert table.used_count() == 0
    assert not table.is_dirty


def test_put_keeps_the_last_of_a_slot() -> None:
    """Of several entries in one slot the newest stands in the table."""
    table = SlotTable(4)
    table.put(slots(1, 1, 0, 1), entries(1, 4))

    assert table.numbers.tolist() == [3, 4, 0, 0]
    assert table.used_count() == 2


def test_agreement_with_the_header() -> None:
    """The table fits a header that counts above every number and as many slots in use."""
    table = SlotTable(4)
    table.put(slots(1, 2), entries(1, 2))

    assert table.agrees(index_count=3, used_count=2)
    assert not table.agrees(index_count=2, used_count=2)
    assert not table.agrees(index_count=3, used_count=1)
    table.numbers[0] = -1
    assert not table.agrees(index_count=3, used_count=3)


def test_only_touched_pages_are_written() -> None:
    """Pages that changed are written back, each where it stands."""
    table = SlotTable(3 * PAGE_SLOTS + 5)
    table.put(slots(2 * PAGE_SLOTS, 3 * PAGE_SLOTS + 4), entries(1, 2))
    (run,) = table.dirty_runs()
    at, data = table.encode_pages(*run)

    assert (2, 4) == run
    assert 2 * PAGE_SLOTS * 4 == at
    assert b"\0\0\0\x01" + bytes(4 * PAGE_SLOTS + 12) + b"\0\0\0\x02" == data
    table.mark_written(*run)
    assert not table.is_dirty


def test_long_runs_are_divided() -> None:
    """No write is larger than a limit, and pages that are not neighbours are written apart."""
    table = SlotTable((RUN_PAGES_MAX + 4) * PAGE_SLOTS)
    pages = [*range(RUN_PAGES_MAX + 1), RUN_PAGES_MAX + 2]
    table.put(slots(*pages) * PAGE_SLOTS, entries(1, len(pages)))

    assert table.dirty_runs() == [
        (0, RUN_PAGES_MAX),
        (RUN_PAGES_MAX, RUN_PAGES_MAX + 1),
        (RUN_PAGES_MAX + 2, RUN_PAGES_MAX + 3),
    ]


def stored(table: SlotTable) -> MemoryFile:
    """A file that holds the table from byte 40 on."""
    file = MemoryDisk().open("/index", create=True)
    for first, end in table.dirty_runs():
        at, data = table.encode_pages(first, end)
        file.write(40 + at, data)
    file.truncate(40 + 4 * len(table.numbers))
    return file


def test_a_table_is_read_from_its_file() -> None:
    """What was written is read back, however many runs that takes, and is clean."""
    count = RUN_PAGES_MAX * PAGE_SLOTS + 3
    table = SlotTable(count)
    table.put(slots(0, count - 2, count - 1), entries(1, 3))
    again = SlotTable.load(stored(table), 40, count)

    assert table.numbers.tolist() == again.numbers.tolist()
    assert not again.is_dirty


def test_differences_are_dirty() -> None:
    """Against what the file holds, exactly the pages that differ are dirty."""
    count = (RUN_PAGES_MAX + 3) * PAGE_SLOTS
    before, made = SlotTable(count), SlotTable(count)
    last = RUN_PAGES_MAX + 1
    before.put(slots(1, PAGE_SLOTS), entries(5, 2))
    made.put(slots(PAGE_SLOTS, last * PAGE_SLOTS), entries(6, 2))
    made.mark_difference(stored(before), 40)

    assert made.dirty_runs() == [(0, 1), (last, last + 1)]
