"""Sizes of a store's files: found out from the first file of each kind."""

from __future__ import annotations

import pytest

from timermq.pipeline.recovery.store_sizes import NoStoreError, measure
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import CheckpointExtension, TimerCheckpoint
from timermq.timerstore.disk import Disk
from timermq.timerstore.store_options import StoreOptions

STORE, TIMER = StoreOptions(), TimerOptions()


def put(disk: Disk, path: str, size: int) -> None:
    """A file of some length."""
    disk.make_dirs(path.rpartition("/")[0])
    file = disk.open(path, create=True)
    file.truncate(size)
    file.close()


def disk_with(sizes: dict[str, int]) -> MemoryDisk:
    """A disk with a store of files of these lengths."""
    disk = MemoryDisk(now_ms=lambda: 0)
    disk.make_dirs("/s/commitlog")
    for path, size in sizes.items():
        put(disk, f"/s/{path}", size)
    return disk


def test_every_size_is_measured() -> None:
    """Segments, the wheel, and an index file in RocketMQ's proportion."""
    disk = disk_with(
        {
            "commitlog/00000000000000000000": 4096,
            "consumequeue/T/0/00000000000000000000": 200,
            "timerlog/00000000000000000000": 5200,
            "timerwheel": 640,
            "index/20261121050336578": 40 + 4 * 100 + 20 * 400,
        }
    )
    store, timer = measure(disk, "/s", STORE, TIMER, ())

    assert (4096, 200, 100, 400) == (
        store.mapped_file_size_commit_log,
        store.mapped_file_size_consume_queue,
        store.max_hash_slot_num,
        store.max_index_num,
    )
    assert (5200, 10, 1000) == (
        timer.mapped_file_size_timer_log,
        timer.slots_total,
        timer.timer_precision_ms,
    )


def test_what_is_configured_counts_more() -> None:
    """A size that somebody has set is not measured."""
    disk = disk_with({"commitlog/00000000000000000000": 4096})
    store, _ = measure(disk, "/s", STORE, TIMER, ["mapped_file_size_commit_log"])

    assert STORE == store


def test_what_is_not_there_keeps_its_default() -> None:
    """An empty store says nothing, and an empty file is passed over."""
    disk = disk_with({"commitlog/00000000000000000000": 0, "commitlog/note.txt": 7})

    assert (STORE, TIMER) == measure(disk, "/s", STORE, TIMER, ())


def test_index_of_another_proportion() -> None:
    """Slots and entries cannot be told from one length alone: they are left to the settings."""
    disk = disk_with({"index/20261121050336578": 40 + 4 * 7 + 20 * 11})

    assert (STORE, TIMER) == measure(disk, "/s", STORE, TIMER, ())


def put_checkpoint(disk: Disk, path: str, precision_ms: int) -> None:
    """Write a timer checkpoint of ours with this precision."""
    extension = CheckpointExtension(precision_ms=precision_ms, scan_py=0)
    page = TimerCheckpoint(extension=extension).encode()
    put(disk, path, len(page))
    disk.open(path).write(0, page)


def test_precision_of_our_checkpoint() -> None:
    """Our checkpoint says how wide the slots of the wheel are."""
    disk = disk_with({})
    put_checkpoint(disk, "/s/config/timercheck", 100)
    _, timer = measure(disk, "/s", STORE, TIMER, ())

    assert 100 == timer.timer_precision_ms


def test_timer_files_in_a_backup() -> None:
    """Timer files that are gone from their places: the newest in a backup tell the sizes."""
    disk = disk_with(
        {
            "aside/20261121T000000000Z/timerwheel": 640,
            "aside/20261122T000000000Z/timerwheel": 1280,
            f"aside/20261121T000000000Z/timerlog/{0:020}": 5200,
            f"aside/20261122T000000000Z/timerlog/{0:020}": 0,
        }
    )
    put_checkpoint(disk, "/s/aside/20261121T000000000Z/config/timercheck", 100)
    _, backup = measure(disk, "/s", STORE, TIMER, ())
    put(disk, "/s/timerwheel", 320)
    put(disk, "/s/config/timercheck", 4096)  # RocketMQ's own says nothing of the precision
    _, in_place = measure(disk, "/s", STORE, TIMER, ())

    assert (5200, 20, 100) == (
        backup.mapped_file_size_timer_log,
        backup.slots_total,
        backup.timer_precision_ms,
    )
    assert (5, 1000) == (in_place.slots_total, in_place.timer_precision_ms)


def test_no_store() -> None:
    """A directory without a commit log is no store."""
    with pytest.raises(NoStoreError, match=r"^/x: expected a store, found no folder commitlog$"):
        measure(MemoryDisk(now_ms=lambda: 0), "/x", STORE, TIMER, ())


def test_a_store_that_nothing_was_ever_sent_to() -> None:
    """A checkpoint and no logs: the options stay as they are."""
    disk = MemoryDisk(now_ms=lambda: 0)
    put(disk, "/s/checkpoint", 4096)

    assert (STORE, TIMER) == measure(disk, "/s", STORE, TIMER, ())


@pytest.mark.parametrize("left", ["consumequeue/T/0", "timerlog", "index"])
def test_a_commit_log_that_is_gone(left: str) -> None:
    """Where there are other logs, it is not an empty one that is missing."""
    disk = MemoryDisk(now_ms=lambda: 0)
    put(disk, "/s/checkpoint", 4096)
    put(disk, f"/s/{left}/{0:020}", 100)

    with pytest.raises(NoStoreError, match="found no folder commitlog"):
        measure(disk, "/s", STORE, TIMER, ())
