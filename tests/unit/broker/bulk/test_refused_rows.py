"""The file of the rows that a rule refused."""

from __future__ import annotations

import pytest

from timermq.broker.bulk.refused_rows import REMARK_SIZE_MAX, RefusedRows
from timermq.broker.refusal import RefusedError
from timermq.simulator.disks.memory_disk import MemoryDisk

ROWS = [("part", number, "RULE", f"why {number}") for number in range(5)]
PATH = "/store/refused"


def rows_on(disk: MemoryDisk, size: int = 0) -> RefusedRows:
    """The rows of a file of which so many bytes count."""
    return RefusedRows(disk, PATH, size)


@pytest.fixture(name="disk")
def fixture_disk() -> MemoryDisk:
    """A disk with the directory of the file."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    return disk


def test_pages_follow_each_other(disk: MemoryDisk) -> None:
    """Each says where the next begins; the last says that there is none."""
    rows = rows_on(disk)
    rows.append(ROWS[:3])
    rows.append(ROWS[3:])
    first, after = rows.page(0, 2)
    assert after is not None
    second, end = rows.page(after, 9)

    assert (first, second, end) == (ROWS[:2], ROWS[2:], None)
    assert rows.page(rows.size, 9) == ([], None)
    assert rows.page(after, 0) == ([], after)


def test_rows_that_do_not_count_are_written_over(disk: MemoryDisk) -> None:
    """They were not durable when the job's progress was: they are decided again."""
    before = rows_on(disk)
    before.append(ROWS[:1])
    counts = before.size
    before.append(ROWS[1:])
    again = rows_on(disk, counts)
    assert again.page(0, 9) == (ROWS[:1], None)
    again.append(ROWS[4:])

    assert rows_on(disk, again.size).page(0, 9) == ([ROWS[0], ROWS[4]], None)
    assert disk.open(PATH).size() == again.size


def test_a_long_remark_is_cut(disk: MemoryDisk) -> None:
    """The rule says the most."""
    rows = rows_on(disk)
    rows.append([("part", 1, "RULE", "x" * 1_000)])

    assert rows.page(0, 1) == ([("part", 1, "RULE", "x" * REMARK_SIZE_MAX)], None)


@pytest.mark.parametrize("after", [1, 4, 7])
def test_where_no_row_begins_a_page_is_refused(disk: MemoryDisk, after: int) -> None:
    """A client has made the number itself (29)."""
    rows = rows_on(disk)
    rows.append(ROWS)
    with pytest.raises(RefusedError) as caught:
        rows.page(after, 9)

    assert (caught.value.code, caught.value.rule) == (29, "BULK_BODY")
