"""RocketMQ's snapshots of the wheel: which files are some, and that they go."""

from __future__ import annotations

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.wheel.wheel_snapshots import remove_snapshots, snapshot_names

NAMES = ("timerwheel", "timerwheel.0", "timerwheel.9", "timerwheel.31200")
OTHERS = ("timerwheel.31200.tmp", "timerwheel.tmp", "timerwheel.", "timerwheel.x", "timerlog.1")


def test_snapshots() -> None:
    """They end in a position; the newest comes last, and only they are removed."""
    disk = MemoryDisk(now_ms=lambda: 0)
    disk.make_dirs("/store")
    for name in (*NAMES, *OTHERS):
        disk.open(f"/store/{name}", create=True)
    found = snapshot_names(disk, "/store")
    remove_snapshots(disk, "/store", found)

    assert list(NAMES[1:]) == found
    assert sorted(("timerwheel", *OTHERS)) == disk.list_dir("/store")
