"""What every ``Disk`` does: one suite for the real one, the one in memory, and those around it."""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio

from simulation.recording_disk import Recording, RecordingDisk
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.process_disk import ProcessDisk
from timermq.timerstore.disk import Disk, File
from timermq.timerstore.errors import StoreLockedError
from timermq.timerstore.os_disk import OsDisk

EPOCH_2020_MS = 1_577_836_800_000


@attrs.frozen
class Place:
    """A disk and an empty directory on it."""

    disk: Disk
    root: str

    def create(self, name: str, content: bytes = b"") -> File:
        """A new file with this content, still open."""
        file = self.disk.open(f"{self.root}/{name}", create=True)
        file.write(0, content)
        return file

    def content(self, name: str) -> bytes:
        """All bytes of a file in this place."""
        file = self.disk.open(f"{self.root}/{name}", read_only=True)
        content = file.read(0, file.size())
        file.close()
        return content


def _recorded(disk: MemoryDisk) -> Disk:
    return RecordingDisk(disk, Recording(lambda: EPOCH_2020_MS))


AROUND: dict[str, Callable[[MemoryDisk], Disk]] = {
    "memory": lambda disk: disk,
    "faulty": lambda disk: FaultyDisk(disk, "/store"),
    "process": ProcessDisk,
    "recording": _recorded,
}
"""Disks of tests and simulations; without faults, and none ends."""


@pytest.fixture(params=["os", *AROUND])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place on each kind of disk."""
    if request.param == "os":
        return Place(OsDisk(), str(tmp_path))
    disk = MemoryDisk(now_ms=lambda: EPOCH_2020_MS + 1)
    disk.make_dirs("/store")
    return Place(AROUND[request.param](disk), "/store")


def test_a_written_file_is_read_back(place: Place) -> None:
    """Bytes come back at their offset; a read is cut at the end of the file."""
    file = place.create("f", b"hello")
    file.write(7, b"world")

    assert file.size() == 12
    assert file.read(0, 12) == b"hello\0\0world"
    assert file.read(7, 100) == b"world"
    assert file.read(12, 1) == b""
    assert file.read(99, 1) == b""


@pytest.mark.parametrize("data", [bytearray(b"abc"), memoryview(b"xabc")[1:]])
def test_all_kinds_of_bytes_are_written(place: Place, data: bytearray | memoryview) -> None:
    """Buffers need not be copied into bytes first."""
    assert place.create("f").read(0, 1) == b""
    place.create("f").write(0, data)

    assert place.content("f") == b"abc"


def test_a_missing_file_is_not_created_by_itself(place: Place) -> None:
    """Only ``create`` makes a file."""
    with pytest.raises(FileNotFoundError):
        place.disk.open(f"{place.root}/f")

    assert not place.disk.exists(f"{place.root}/f")


def test_a_file_needs_its_directory(place: Place) -> None:
    """Directories are made on purpose only."""
    with pytest.raises(FileNotFoundError):
        place.disk.open(f"{place.root}/missing/f", create=True)


def test_a_directory_is_no_file(place: Place) -> None:
    """A directory cannot be opened to be written."""
    place.disk.make_dirs(f"{place.root}/d")

    with pytest.raises(IsADirectoryError):
        place.disk.open(f"{place.root}/d", create=True)


def test_opening_keeps_the_content(place: Place) -> None:
    """``create`` of a file that is there only opens it."""
    place.create("f", b"kept").close()
    place.create("f").close()

    assert place.content("f") == b"kept"


def test_two_handles_see_one_file(place: Place) -> None:
    """What one handle writes the other reads at once."""
    one, two = place.create("f"), place.create("f")
    one.write(0, b"abc")

    assert two.read(0, 3) == b"abc"


def test_read_only_handles_do_not_write(place: Place) -> None:
    """A tool cannot change a store by mistake."""
    place.create("f", b"abc").close()
    file = place.disk.open(f"{place.root}/f", read_only=True)

    with pytest.raises(OSError, match=r"Bad file descriptor|read only"):
        file.write(0, b"x")

    assert place.content("f") == b"abc"


def test_a_closed_file_refuses(place: Place) -> None:
    """After ``close`` nothing works, and a second ``close`` is fine."""
    file = place.create("f", b"abc")
    file.close()
    file.close()

    with pytest.raises(OSError, match=r".") as reading:
        file.read(0, 1)
    with pytest.raises(OSError, match=r".") as writing:
        file.write(0, b"x")
    with pytest.raises(OSError, match=r".") as syncing:
        place.disk.sync_now(file)

    found = [reading.value.errno, writing.value.errno, syncing.value.errno]
    assert found == [errno.EBADF] * 3


def test_allocate_grows_and_never_shrinks(place: Place) -> None:
    """Reserved space reads as zeros, and what was there stays."""
    file = place.create("f", b"abc")
    file.allocate(8192)
    file.allocate(10)

    assert file.size() == 8192
    assert file.read(0, 8192) == b"abc".ljust(8192, b"\0")


def test_truncate_sets_the_length(place: Place) -> None:
    """What was cut off does not come back with growth."""
    file = place.create("f", b"abcdef")
    file.truncate(2)
    file.truncate(5000)

    assert file.size() == 5000
    assert file.read(0, 5000) == b"ab".ljust(5000, b"\0")


def test_a_view_shows_what_is_written_later(place: Place) -> None:
    """A map is an ``mmap``, one for all callers, and coherent with ``write``."""
    file = place.create("f", b"old".ljust(5000, b"."))
    view = file.map()
    file.write(4998, b"XY")
    file.write(0, b"new")

    assert isinstance(view, mmap.mmap)
    assert file.map() is view
    assert len(view) == 5000
    assert view[:4] == b"new."
    assert view[4998:] == b"XY"


def test_an_empty_file_has_no_view(place: Place) -> None:
    """There is nothing to map."""
    with pytest.raises(ValueError, match="empty file"):
        place.create("f").map()


def test_the_length_stays_under_a_view(place: Place) -> None:
    """Shrinking a file under its view would kill the process that reads it: a mistake of ours."""
    file = place.create("f", b"abc")
    file.map()

    with pytest.raises(AssertionError, match="its length changes under a view"):
        file.truncate(1)
    with pytest.raises(AssertionError, match="its length changes under a view"):
        file.allocate(5000)


def test_a_view_outlives_its_file(place: Place) -> None:
    """A reader of a segment that is removed meanwhile reads on."""
    file = place.create("f", b"abc")
    view = file.map()
    file.close()
    place.disk.remove(f"{place.root}/f")

    assert view[:] == b"abc"


def test_hints_are_taken(place: Place) -> None:
    """Announced ranges may reach behind the end."""
    file = place.create("f", b"abc")
    file.will_need([(0, 2), (1, 100)])
    file.will_need([])

    assert file.read(0, 3) == b"abc"


def test_directories(place: Place) -> None:
    """Names are listed sorted, files and directories alike; a missing directory has none."""
    disk, root = place.disk, place.root
    disk.make_dirs(f"{root}/d/e")
    disk.make_dirs(f"{root}/d/e")
    place.create("d/2").close()
    place.create("d/10").close()

    assert disk.list_dir(f"{root}/d") == ["10", "2", "e"]
    assert disk.list_dir(f"{root}/missing") == []
    assert [disk.is_dir(f"{root}/{name}") for name in ("d", "d/e", "d/2", "x")] == [
        True,
        True,
        False,
        False,
    ]
    assert [disk.exists(f"{root}/{name}") for name in ("d", "d/2", "x")] == [True, True, False]


def test_new_directories_name_who_got_an_entry(place: Place) -> None:
    """To make a new directory last, those above it are synced."""
    changed = place.disk.make_dirs(f"{place.root}/a/b/c")

    assert changed == [f"{place.root}/a/b", f"{place.root}/a", place.root]
    assert place.disk.make_dirs(f"{place.root}/a/b") == []


def test_rename_replaces(place: Place) -> None:
    """The target is replaced, the source is gone, an open handle follows its file."""
    disk, root = place.disk, place.root
    place.create("b", b"old").close()
    file = place.create("a", b"new")
    disk.rename(f"{root}/a", f"{root}/b")
    file.write(3, b"er")

    assert disk.list_dir(root) == ["b"]
    assert place.content("b") == b"newer"
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/b")


def test_remove(place: Place) -> None:
    """A removed file is gone for others, not for who has it open; a missing one is fine."""
    file = place.create("f", b"abc")
    place.disk.remove(f"{place.root}/f")
    place.disk.remove(f"{place.root}/f")

    assert not place.disk.exists(f"{place.root}/f")
    assert file.read(0, 3) == b"abc"


def test_remove_dir(place: Place) -> None:
    """Only an empty directory goes; a missing one is fine."""
    disk, path = place.disk, f"{place.root}/d"
    disk.make_dirs(path)
    place.create("d/f").close()
    with pytest.raises(OSError, match=r"[Dd]irectory not empty"):
        disk.remove_dir(path)
    disk.remove(f"{path}/f")
    disk.remove_dir(path)
    disk.remove_dir(path)

    assert not disk.exists(path)


def test_modified_ms(place: Place) -> None:
    """The time of the last write, in milliseconds."""
    place.create("f", b"abc").close()

    assert place.disk.modified_ms(f"{place.root}/f") > EPOCH_2020_MS
    with pytest.raises(FileNotFoundError):
        place.disk.modified_ms(f"{place.root}/missing")


def test_usage(place: Place) -> None:
    """Space adds up, also for a path that does not exist yet."""
    usage = place.disk.usage(f"{place.root}/not/there/yet")

    assert 0 <= usage.used <= usage.total
    assert 0 < usage.free <= usage.total


def test_the_boot_of_a_file(place: Place) -> None:
    """The same for all callers, whatever is written; none of a file that is not there."""
    path = f"{place.root}/f"
    assert not place.disk.boot_id(path)
    place.create("f", b"abc").close()
    boot = place.disk.boot_id(path)
    place.create("f", b"def").close()

    assert boot
    assert place.disk.boot_id(path) == boot
    assert "\n" not in boot


def test_a_lock_is_held_by_one(place: Place) -> None:
    """A second taker is refused until the first gives it up; releasing twice is fine."""
    path = f"{place.root}/lock"
    lock = place.disk.lock(path)
    with pytest.raises(StoreLockedError) as error:
        place.disk.lock(path)
    lock.release()
    lock.release()
    second = place.disk.lock(path)

    assert str(error.value) == f"{path}: held by another running broker"
    second.release()


def test_a_lock_outlives_other_handles_of_its_file(place: Place) -> None:
    """Reading the lock file does not drop the lock."""
    path = f"{place.root}/lock"
    lock = place.disk.lock(path)
    place.disk.open(path).close()
    with pytest.raises(StoreLockedError):
        place.disk.lock(path)
    place.disk.open(path).close()

    with pytest.raises(StoreLockedError):
        place.disk.lock(path)
    lock.release()


async def test_sync(place: Place) -> None:
    """Files and directories are synced, several at a time, grown or not."""
    one, two = place.create("one", b"abc"), place.create("two")
    two.allocate(8192)
    await place.disk.sync(one, two)
    one.write(1, b"x")
    await place.disk.sync(one)
    await place.disk.sync_dir(place.root)
    place.disk.sync_now(one, two)
    place.disk.sync_dir_now(place.root)

    assert place.content("one") == b"axc"


async def test_a_sync_is_a_checkpoint(place: Place) -> None:
    """Also a sync of nothing lets others go on, and can be cancelled."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await place.disk.sync()

    assert scope.cancelled_caught


async def test_closing_during_a_sync(place: Place) -> None:
    """A file that is closed while it is synced is synced all the same."""
    file = place.create("f", b"abc")
    begun = trio.Event()

    async def sync() -> None:
        begun.set()
        await place.disk.sync(file)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        await begun.wait()
        file.close()

    with pytest.raises(OSError, match=r"."):
        file.size()


async def test_a_missing_directory_cannot_be_synced(place: Place) -> None:
    """A wrong path is not passed over in silence."""
    with pytest.raises(FileNotFoundError):
        await place.disk.sync_dir(f"{place.root}/missing")
