"""What is special about the disk in memory: what it loses, and when."""

from __future__ import annotations

import errno
from random import Random

import pytest
import trio

from timermq.simulator.disks.memory_disk import MemoryDisk, MemoryFile
from timermq.simulator.disks.memory_node import BLOCK_SIZE, SECTOR_SIZE


def new_disk(*, total: int = 1 << 30) -> MemoryDisk:
    """A disk with one durable directory."""
    disk = MemoryDisk(total=total)
    disk.make_dirs("/d")
    return disk


def create(disk: MemoryDisk, name: str, content: bytes = b"") -> MemoryFile:
    """A file with a durable name; its content is not."""
    file = disk.open(f"/d/{name}", create=True)
    file.write(0, content)
    disk.sync_dir_now("/d")
    return file


def content(disk: MemoryDisk, name: str) -> bytes:
    """All bytes of a file on the disk."""
    file = disk.open(f"/d/{name}", read_only=True)
    return file.read(0, file.size())


def test_a_kill_keeps_what_was_written() -> None:
    """The page cache survives the process, names and contents, synced or not."""
    disk = new_disk()
    disk.open("/d/f", create=True).write(0, b"abc")
    disk.process_kill()

    assert content(disk, "f") == b"abc"


def test_a_kill_takes_handles_and_locks() -> None:
    """What is left of the dead process can no longer touch the disk."""
    disk = new_disk()
    file = create(disk, "f", b"abc")
    old_lock = disk.lock("/d/lock")
    disk.process_kill()
    new_lock = disk.lock("/d/lock")
    old_lock.release()
    file.close()

    with pytest.raises(OSError, match="closed") as error:
        file.write(0, b"x")
    assert error.value.errno == errno.EBADF
    with pytest.raises(Exception, match="held by another"):
        disk.lock("/d/lock")
    new_lock.release()


def test_a_power_cut_loses_what_was_not_synced() -> None:
    """Contents go back to the last sync: overwritten, grown and cut files alike."""
    disk = new_disk()
    synced = [create(disk, name, b"old" * 2000) for name in ("written", "grown", "cut", "kept")]
    disk.sync_now(*synced)
    written, grown, cut, _ = synced
    written.write(4000, b"new" * 100)
    grown.write(6000, b"new" * 2000)
    cut.truncate(3)
    cut.truncate(7000)
    disk.power_cut()

    assert {name: content(disk, name) for name in disk.list_dir("/d")} == dict.fromkeys(
        ["written", "grown", "cut", "kept"], b"old" * 2000
    )


def test_a_power_cut_loses_names_that_were_not_synced() -> None:
    """Creations, renames and removals last once their directory is synced."""
    disk = new_disk()
    for name in ("a", "b", "c"):
        disk.sync_now(create(disk, name, name.encode()))
    disk.rename("/d/a", "/d/b")
    disk.remove("/d/c")
    disk.sync_now(disk.open("/d/new", create=True))
    disk.power_cut()

    assert disk.list_dir("/d") == ["a", "b", "c"]
    assert content(disk, "b") == b"b"

    disk.rename("/d/a", "/d/b")
    disk.remove("/d/c")
    disk.sync_dir_now("/d")
    disk.power_cut()

    assert disk.list_dir("/d") == ["b"]
    assert content(disk, "b") == b"a"


def test_a_new_name_without_content() -> None:
    """A synced directory does not sync its files."""
    disk = new_disk()
    create(disk, "f", b"abc")
    disk.power_cut()

    assert content(disk, "f") == b""


def test_a_sync_covers_what_was_written_before_it() -> None:
    """A block that changes while a sync runs is durable as it was when the sync began."""
    disk = new_disk()
    file = create(disk, "f", b"1" * 10_000)
    sync = file.begin_sync()
    file.write(0, b"2" * 10)
    file.end_sync(sync)
    disk.power_cut()

    assert content(disk, "f") == b"1" * 10_000


async def test_a_sync_of_the_dead_process_does_nothing() -> None:
    """A power cut during a sync: nothing of it is durable, and the dead caller gets an error."""
    disk = new_disk()
    file = create(disk, "f", b"abc")
    sync = file.begin_sync()
    disk.power_cut()
    with pytest.raises(OSError, match="the process was killed"):
        file.end_sync(sync)

    assert content(disk, "f") == b""


async def test_a_cancelled_sync_does_nothing() -> None:
    """What is cancelled before it began is not durable."""
    disk = new_disk()
    file = create(disk, "f", b"abc")
    with trio.CancelScope() as scope:
        scope.cancel()
        await disk.sync(file)
    disk.power_cut()

    assert content(disk, "f") == b""


async def test_a_sync_that_takes_time(autojump_clock: trio.abc.Clock) -> None:
    """Until its end nothing is durable; who waits cannot leave, and what came meanwhile waits."""
    disk = new_disk()
    disk.sync_seconds = lambda: 0.5
    early, late = create(disk, "early", b"abc"), create(disk, "late", b"abc" * 3_000)
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(disk.sync, late)
        await trio.sleep(0.1)
        late.write(BLOCK_SIZE, b"xyz")
        with trio.move_on_after(0.1) as left:
            await disk.sync(early)
    disk.power_cut()

    assert left.cancelled_caught is False
    assert trio.current_time() - begin == pytest.approx(0.6)
    assert (content(disk, "early"), content(disk, "late")) == (b"abc", b"abc" * 3_000)


async def test_a_sync_of_names_whose_process_dies(autojump_clock: trio.abc.Clock) -> None:
    """A power cut before its end: the name is not there."""
    disk = new_disk()
    disk.sync_seconds = lambda: 0.5
    disk.open("/d/f", create=True)

    async def cut_the_power() -> None:
        await trio.sleep(0.1)
        disk.power_cut()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cut_the_power)
        with pytest.raises(OSError, match="the process was killed"):
            await disk.sync_dir("/d")

    assert disk.list_dir("/d") == []


def test_a_failed_sync_is_never_tried_again() -> None:
    """Later syncs of the handle fail too; what is written again lasts with a sync of another."""
    disk = new_disk()
    file = create(disk, "f", b"abc")
    disk.fail_syncs_of = lambda path: path == "/d/f"
    with pytest.raises(OSError, match="sync failed: '/d/f'"):
        disk.sync_now(file)
    disk.fail_syncs_of = lambda _: False
    with pytest.raises(OSError, match="an earlier sync failed: '/d/f'"):
        disk.sync_now(file)
    other = disk.open("/d/f")
    other.allocate(BLOCK_SIZE)
    other.write(1000, b"x")
    disk.sync_now(other)
    disk.power_cut()

    assert content(disk, "f")[:3] == b"abc"  # the x made its whole block dirty again


def test_what_a_failed_sync_held_is_not_durable() -> None:
    """A sync through another handle writes only what changed since."""
    disk = new_disk()
    file = create(disk, "f", b"abc")
    disk.sync_now(file)
    file.write(0, b"xyz")
    disk.fail_syncs_of = lambda _: True
    with pytest.raises(OSError, match="sync failed"):
        disk.sync_now(file)
    disk.fail_syncs_of = lambda _: False
    other = disk.open("/d/f")
    disk.sync_now(other)

    assert other.read(0, 3) == b"xyz"

    disk.power_cut()

    assert content(disk, "f") == b"abc"


def test_a_torn_power_cut() -> None:
    """With a generator, each unsynced sector is old or new, and all the rest is as it was."""
    disk = new_disk()
    file = create(disk, "f", b"o" * 3 * BLOCK_SIZE)
    disk.sync_now(file)
    file.write(100, b"n" * 2 * BLOCK_SIZE)
    disk.power_cut(Random(1))
    found = content(disk, "f")
    sectors = [found[at : at + SECTOR_SIZE] for at in range(0, len(found), SECTOR_SIZE)]
    first = b"o" * 100 + b"n" * (SECTOR_SIZE - 100)

    assert len(found) == 3 * BLOCK_SIZE
    assert sectors[0] in (first, b"o" * SECTOR_SIZE)
    assert set(sectors[1:16]) == {b"o" * SECTOR_SIZE, b"n" * SECTOR_SIZE}
    assert set(sectors[17:]) == {b"o" * SECTOR_SIZE}


def test_a_torn_power_cut_keeps_the_order_of_names() -> None:
    """Of the changes in a directory the first ones may last, never a later one without them."""
    found: set[tuple[str, ...]] = set()
    for seed in range(40):
        disk = new_disk()
        create(disk, "x", b"")
        disk.rename("/d/x", "/d/x.bak")
        disk.rename(disk.open("/d/x.tmp", create=True).path, "/d/x")
        disk.power_cut(Random(seed))
        found.add(tuple(disk.list_dir("/d")))

    assert found == {("x",), ("x.bak",), ("x.bak", "x.tmp"), ("x", "x.bak")}


def test_a_torn_power_cut_keeps_the_order_of_lengths() -> None:
    """A file that was created after another had grown does not last without that growth."""
    found: set[tuple[str, ...]] = set()
    for seed in range(40):
        disk = new_disk()
        disk.open("/d/a", create=True).allocate(10)
        disk.open("/d/b", create=True).allocate(20)
        disk.power_cut(Random(seed))
        found.add(tuple(f"{name} {len(content(disk, name))}" for name in disk.list_dir("/d")))

    assert found == {(), ("a 0",), ("a 10",), ("a 10", "b 0"), ("a 10", "b 20")}


def test_views_of_the_dead_process_do_not_change() -> None:
    """Who still holds a view after a power cut reads what was there before."""
    disk = new_disk()
    view = create(disk, "f", b"abc").map()
    disk.power_cut()
    disk.open("/d/f").write(0, b"xyz")

    assert view[:] == b"abc"


def test_a_file_may_grow_again_once_its_view_is_closed() -> None:
    """A handle gives its view back when it is closed, or killed."""
    disk = new_disk()
    file = create(disk, "f", b"abc")
    file.map()
    file.close()
    second = disk.open("/d/f")
    second.truncate(2)
    second.map()
    disk.process_kill()
    disk.open("/d/f").truncate(1)

    assert content(disk, "f") == b"a"


def test_a_full_disk() -> None:
    """New blocks raise ENOSPC and change nothing; blocks that are reserved can be written."""
    disk = new_disk(total=4 * BLOCK_SIZE)
    log = create(disk, "log")
    log.allocate(3 * BLOCK_SIZE)
    queue = create(disk, "queue")
    queue.truncate(100 * BLOCK_SIZE)
    queue.write(50 * BLOCK_SIZE, b"x")
    with pytest.raises(OSError, match="no space left") as writing:
        queue.write(51 * BLOCK_SIZE - 1, b"xy")
    with pytest.raises(OSError, match="no space left") as allocating:
        log.allocate(3 * BLOCK_SIZE + 1)
    log.write(0, b"y" * 3 * BLOCK_SIZE)
    queue.write(50 * BLOCK_SIZE, b"z")

    assert [writing.value.errno, allocating.value.errno] == [errno.ENOSPC] * 2
    assert disk.usage("/d").free == 0
    assert log.size() == 3 * BLOCK_SIZE
    assert queue.read(51 * BLOCK_SIZE - 1, 2) == b"\0\0"


def test_space_comes_back() -> None:
    """Removing, replacing and cutting files frees blocks, and so does a power cut."""
    disk = new_disk()
    for name in ("removed", "replaced", "cut", "other"):
        create(disk, name, bytes(3 * BLOCK_SIZE))
    disk.remove("/d/removed")
    disk.rename("/d/other", "/d/replaced")
    disk.open("/d/cut").truncate(1)

    assert disk.usage("/d").used == 4 * BLOCK_SIZE

    disk.power_cut()

    assert disk.list_dir("/d") == ["cut", "other", "removed", "replaced"]
    assert disk.usage("/d").used == 0


def test_modified_ms_follows_the_clock() -> None:
    """Each change of a file takes the time from the disk's clock."""
    now = 5
    disk = MemoryDisk(now_ms=lambda: now)
    file = disk.open("f", create=True)
    now = 7
    file.write(0, b"x")

    assert disk.modified_ms("f") == 7
