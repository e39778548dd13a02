"""Tests of one index file."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable

import numpy as np
import pytest

from golden_vectors import INDEX_ENTRY, INDEX_HEADER
from timermq.simulator.disks.memory_disk import MemoryDisk, MemoryFile
from timermq.timerstore import index_file
from timermq.timerstore.disk import File
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.index_file import CutWalkError, IndexFile
from timermq.timerstore.index_layout import ENTRY, HEADER, IndexHeader, key_hash

PATH = "/index/20231114221320123"
STORE_MS = 1_700_000_000_123


def create(
    disk: MemoryDisk, *, slots: int = 4, entries: int = 9, after: IndexHeader | None = None
) -> IndexFile:
    """An empty index file of few slots and entries."""
    disk.make_dirs("/index")
    return IndexFile.create(
        disk, PATH, slot_count=slots, entry_count_max=entries, after=after or IndexHeader()
    )


def reopen(disk: MemoryDisk, *, slots: int = 4, entries: int = 9, filling: bool) -> IndexFile:
    """The file as it is found later."""
    return IndexFile.open(disk, PATH, slot_count=slots, entry_count_max=entries, filling=filling)


def append(file: IndexFile, *rows: tuple[int, int, int]) -> None:
    """Add (hash, position, store time) rows in one batch."""
    hashes, offsets_py, stores_ms = (
        np.array(column, np.int64) for column in zip(*rows, strict=True)
    )
    file.append(hashes, offsets_py, stores_ms)


def find(file: IndexFile, wanted_hash: int, begin_ms: int = 0, end_ms: int = 1 << 60) -> list[int]:
    """All positions of a hash."""
    return list(file.find(wanted_hash, begin_ms=begin_ms, end_ms=end_ms))


async def test_golden_bytes() -> None:
    """Header, slot and entry stand where RocketMQ has them, byte for byte."""
    disk = MemoryDisk()
    file = create(disk, slots=5_000_000, entries=20_000_000)
    append(file, (key_hash("T#K1"), 0, STORE_MS))
    await file.flush(disk)
    stored = disk.open(PATH)

    assert stored.size() == 420_000_040
    assert INDEX_HEADER == stored.read(0, 40)
    assert stored.read(10_153_852, 4) == b"\0\0\0\x01"
    assert INDEX_ENTRY == stored.read(20_000_060, 20)


def test_entries_are_linked_by_slot() -> None:
    """Each entry names the one before it in its slot, in this batch or an earlier one."""
    file = create(MemoryDisk())
    append(file, (4, 10, STORE_MS), (5, 20, STORE_MS))
    append(file, (8, 30, STORE_MS + 2500), (4, 40, STORE_MS + 2500))
    entries_at = HEADER.size + 4 * 4
    stored = [ENTRY.unpack(file.file.read(entries_at + 20 * number, 20)) for number in range(1, 5)]

    assert stored == [(4, 10, 0, 0), (5, 20, 0, 0), (8, 30, 2, 1), (4, 40, 2, 3)]
    assert file.header == IndexHeader(
        begin_timestamp=STORE_MS,
        end_timestamp=STORE_MS + 2500,
        begin_phy_offset=10,
        end_phy_offset=40,
        hash_slot_count=2,
        index_count=5,
    )


def test_find_walks_the_chain_from_the_newest() -> None:
    """Positions of the hash are found newest first; other hashes of the slot are passed over."""
    file = create(MemoryDisk())
    append(file, (4, 10, STORE_MS), (8, 20, STORE_MS), (4, 30, STORE_MS))

    assert find(file, 4) == [30, 10]
    assert find(file, 8) == [20]
    assert find(file, 12) == []
    assert next(file.find(4, begin_ms=0, end_ms=1 << 60)) == 30


def test_find_without_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """While too many files are open for a map, entries are read from the file."""
    disk = MemoryDisk()
    file = create(disk)
    append(file, (1, 100, 0), (5, 200, 1), (1, 300, 2))
    expected = find(file, 1)

    def refused(one: MemoryFile) -> mmap.mmap:
        raise OSError(errors.pop(), "refused", one.path)

    errors = [errno.EIO, errno.ENFILE, errno.EMFILE]
    monkeypatch.setattr(MemoryFile, "map", refused)

    assert expected == find(file, 1) == find(file, 1) == [300, 100]
    with pytest.raises(OSError, match="refused"):
        find(file, 1)


def test_find_by_time() -> None:
    """Only entries whose time, cut to seconds since the file's begin, is inside are found."""
    file = create(MemoryDisk())
    append(file, (4, 10, STORE_MS), (4, 20, STORE_MS + 1999), (4, 30, STORE_MS + 5000))

    assert find(file, 4, begin_ms=STORE_MS + 1000) == [30, 20]
    assert find(file, 4, begin_ms=STORE_MS + 1001) == [30]
    assert find(file, 4, end_ms=STORE_MS + 1000) == [20, 10]
    assert find(file, 4, begin_ms=STORE_MS + 5001) == []
    assert find(file, 4, end_ms=STORE_MS - 1) == []


def test_time_differences_are_clamped() -> None:
    """Seconds are never negative and never more than an int; without a begin time they are 0."""
    file = create(MemoryDisk())
    append(file, (4, 10, 5000), (4, 20, 1), (4, 30, 1 << 60))
    without = create(MemoryDisk())
    append(without, (4, 10, 0), (4, 20, 9000))

    assert find(file, 4, begin_ms=5000, end_ms=5000) == [20, 10]
    assert find(file, 4, begin_ms=5000 + (2**31 - 1) * 1000) == [30]
    assert find(without, 4, begin_ms=0, end_ms=0) == [20, 10]


def test_a_file_goes_on_where_the_one_before_ended() -> None:
    """A new file's header begins with the end of the old one; the first entry sets its begin."""
    after = IndexHeader(end_timestamp=STORE_MS, end_phy_offset=10, hash_slot_count=3, index_count=9)
    file = create(MemoryDisk(), after=after)
    seeded = file.header
    append(file, (4, 20, STORE_MS + 9000))

    assert seeded == IndexHeader(
        begin_timestamp=STORE_MS,
        end_timestamp=STORE_MS,
        begin_phy_offset=10,
        end_phy_offset=10,
    )
    assert (20, STORE_MS + 9000) == (
        file.header.begin_phy_offset,
        file.header.begin_timestamp,
    )
    assert find(file, 4, begin_ms=STORE_MS + 9000, end_ms=STORE_MS + 9000) == [20]


def test_room() -> None:
    """Entry 0 is never used, so a file of three entries takes two."""
    file = create(MemoryDisk(), entries=3)
    append(file, (4, 10, STORE_MS), (4, 20, STORE_MS))

    assert file.room() == 0


async def test_flushed_files_are_read_as_they_were() -> None:
    """After a flush nothing is lost in a power cut, whether the file is filled on or only read."""
    disk = MemoryDisk()
    file = create(disk)
    append(file, (4, 10, STORE_MS), (8, 20, STORE_MS))
    assert not file.is_written
    await file.flush(disk)
    await disk.sync_dir("/index")
    assert file.is_written
    disk.power_cut()

    for filling in (True, False):
        again = reopen(disk, filling=filling)
        assert file.header == again.header
        assert find(again, 4) == [10]


async def test_entries_behind_the_header_are_nothing() -> None:
    """What was added after the last flush is not there when the process was killed."""
    disk = MemoryDisk()
    file = create(disk)
    append(file, (4, 10, STORE_MS))
    await file.flush(disk)
    append(file, (4, 20, STORE_MS), (5, 20, STORE_MS))
    disk.process_kill()
    again = reopen(disk, filling=True)

    assert find(again, 4) == [10]
    assert find(again, 5) == []
    append(again, (8, 30, STORE_MS))
    assert find(again, 4) == [10]


async def test_a_flush_that_does_not_reach_the_header_is_undone() -> None:
    """Slots that were written back without the header are made anew from the entries."""
    disk = MemoryDisk()
    file = create(disk)
    append(file, (4, 10, STORE_MS))
    await file.flush(disk)
    append(file, (4, 20, STORE_MS), (5, 20, STORE_MS))
    disk.fail_syncs_of = lambda path: path == PATH
    with pytest.raises(OSError, match="sync"):
        await file.flush(disk)
    disk.process_kill()
    again = reopen(disk, filling=True)

    assert find(again, 4) == [10]
    assert find(again, 5) == []
    assert not again.is_written


class BusyDisk(MemoryDisk):
    """A disk whose syncs take long enough for other things to happen."""

    def __init__(self, during_sync: Callable[[], None]) -> None:
        super().__init__()
        self._during_sync = during_sync

    async def sync(self, *files: File) -> None:
        """Sync; then something happens before the caller goes on."""
        await super().sync(*files)
        self._during_sync()


async def test_a_flush_counts_what_was_there_when_it_began() -> None:
    """What is added while a flush waits for the disk belongs to the next one."""
    disk = BusyDisk(lambda: append(file, (4, 20, STORE_MS)))
    file = create(disk)
    append(file, (4, 10, STORE_MS))
    await file.flush(disk)
    (*_, index_count) = HEADER.unpack(file.file.read(0, HEADER.size))

    assert index_count == 2
    assert not file.is_written
    assert find(file, 4) == [20, 20, 10]


async def test_the_header_comes_last() -> None:
    """Entries and slots are durable before the header that counts them is written."""
    counts: list[int] = []
    disk = BusyDisk(lambda: counts.append(HEADER.unpack(file.file.read(0, HEADER.size))[5]))
    file = create(disk)
    append(file, (4, 10, STORE_MS))
    await file.flush(disk)

    assert counts == [0, 2]


async def test_a_file_of_a_killed_process_is_made_durable() -> None:
    """What a killed process wrote may be in the page cache only: the first flush syncs it again."""
    disk = MemoryDisk()
    file = create(disk)
    append(file, (4, 10, STORE_MS))
    await disk.sync_dir("/index")
    syncs = iter([None])
    disk.fail_syncs_of = lambda _: next(syncs, disk) is not None
    with pytest.raises(OSError, match="sync failed"):
        await file.flush(disk)
    disk.fail_syncs_of = lambda _: False
    disk.process_kill()
    again = reopen(disk, filling=True)
    assert not again.is_written
    await again.flush(disk)
    disk.power_cut()

    assert find(reopen(disk, filling=True), 4) == [10]


async def test_slots_are_not_read_through_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without a slot in use is a hole; its view takes a block, or on a full disk dies."""
    disk = MemoryDisk()
    file = create(disk, slots=4)
    append(file, (1, 100, STORE_MS))
    await file.flush(disk)
    found = reopen(disk, filling=False)
    read: list[tuple[int, int]] = []
    real = MemoryFile.read

    def noted(one: MemoryFile, offset: int, size: int) -> bytes:
        read.append((offset, size))
        return real(one, offset, size)

    monkeypatch.setattr(MemoryFile, "read", noted)
    nothing = find(found, 2)
    something = find(found, 5)

    assert [] == nothing == something
    assert [(40 + 4 * 2, 4), (40 + 4 * 1, 4)] == read


async def test_a_full_file_gives_up_its_table() -> None:
    """When a full file is flushed its slots are read from the disk."""
    disk = MemoryDisk()
    file = create(disk)
    append(file, (4, 10, STORE_MS), (5, 20, STORE_MS))
    await file.flush(disk)
    file.release_slots()

    assert find(file, 4) == [10]
    assert find(file, 5) == [20]
    assert await file.flush(disk)


def test_a_full_disk_changes_nothing() -> None:
    """Entries that could not be written were not added, and can be added later."""
    disk = MemoryDisk(total=4096)
    file = create(disk, slots=4000)
    before = file.header
    rows = [(number, number, STORE_MS) for number in range(1, 6)]
    disk.total = 0
    with pytest.raises(OSError, match=r".") as caught:
        append(file, *rows)

    assert caught.value.errno == errno.ENOSPC
    assert before == file.header
    assert find(file, 1) == []
    disk.total = 1 << 20
    append(file, *rows)
    assert find(file, 1) == [1]


async def test_a_flush_waits_for_room() -> None:
    """On a full disk a flush says so, and the next one does the rest."""
    disk = MemoryDisk()
    file = create(disk, slots=100_000)
    append(file, (4, 10, STORE_MS), (99_999, 20, STORE_MS))
    total, disk.total = disk.total, 0

    assert not await file.flush(disk)
    assert not file.is_written
    disk.total = total
    assert await file.flush(disk)
    assert file.is_written


def test_no_file_is_left_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot get its length is removed again."""

    def refuse(_file: MemoryFile, _size: int) -> None:
        raise OSError(errno.EFBIG, "too large")

    monkeypatch.setattr(MemoryFile, "truncate", refuse)
    disk = MemoryDisk()
    with pytest.raises(OSError, match="too large"):
        create(disk)

    assert disk.list_dir("/index") == []


def test_files_of_other_settings_are_not_opened() -> None:
    """The length tells files of other settings apart."""
    disk = MemoryDisk()
    create(disk)
    with pytest.raises(StoreFormatError, match="expected 5 slots and 9 entries in 240 bytes"):
        reopen(disk, slots=5, filling=True)


def test_chains_that_do_not_descend_end() -> None:
    """A link to itself or upwards, which only corruption makes, does not hold the reader."""
    file = create(MemoryDisk())
    append(file, (4, 10, STORE_MS), (4, 20, STORE_MS))
    entries_at = HEADER.size + 4 * 4
    file.file.write(entries_at + 20, ENTRY.pack(4, 10, 0, 2))

    assert find(file, 4) == [20, 10]


def test_walks_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a number of entries it is said that there are more, not that there is nothing."""
    monkeypatch.setattr(index_file, "WALK_COUNT_MAX", 2)
    file = create(MemoryDisk())
    append(file, (8, 20, STORE_MS), (8, 30, STORE_MS))
    assert find(file, 8) == [30, 20]
    append(file, (4, 40, STORE_MS))
    walk = file.find(4, begin_ms=0, end_ms=1 << 60)

    assert next(walk) == 40
    with pytest.raises(CutWalkError, match="expected at most 2 entries in one slot, found more"):
        next(walk)


def test_newest_hashes() -> None:
    """The hashes of the newest message are read from the end."""
    file = create(MemoryDisk())
    append(file, (4, 10, STORE_MS), (5, 20, STORE_MS), (6, 20, STORE_MS))

    assert file.newest_hashes(20) == [6, 5]
    assert file.newest_hashes(10) == []


def test_the_first_hash_of_a_message() -> None:
    """That of its unique key, also of one with several keys; none of what has no entry."""
    file = create(MemoryDisk(), entries=20)
    append(file, (7, 10, STORE_MS), (8, 20, STORE_MS), (3, 20, STORE_MS), (7, 30, STORE_MS))
    append(file, (1, 50, STORE_MS))

    places = (0, 10, 15, 20, 30, 40, 50, 60)
    assert [None, 7, None, 8, 7, None, 1, None] == [file.first_hash(one) for one in places]
    assert create(MemoryDisk()).first_hash(0) is None
