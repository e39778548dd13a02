"""A small stopped store, to be checked part by part."""

from __future__ import annotations

from collections.abc import Iterable

from small_store import ROOT, small_options
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.finding import Finding, Step
from timermq.repair.log_check import LogCheck
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_rule import Severity
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from unit.timerstore.stopped_store import Rig


def stopped(count: int = 12) -> MemoryDisk:
    """A disk with a store of queue 0 of topic T, stopped in order; five records a segment."""
    rig = Rig(count)
    rig.stop()
    return rig.disk


def checked(disk: Disk) -> CheckedStore:
    """The store of a disk, to be checked."""
    return CheckedStore(
        disk=disk,
        root=ROOT,
        store_options=small_options(),
        timer_options=TimerOptions(slots_total=10),
        now_ms=0,
    )


def walked(disk: Disk) -> tuple[LogCheck, list[Finding]]:
    """A walk over the log that is done, and what it has found; notes are left out."""
    log = checked(disk).open_log(())
    found = list(log.run())
    log.close()
    return log, [one for one in found if one.severity is not Severity.NOTE]


def steps(found: Iterable[Finding]) -> list[tuple[str, Step]]:
    """Rule and step of findings."""
    return [(one.rule.name, one.step) for one in found]


def put(disk: Disk, path: str, data: bytes, at: int = 0) -> None:
    """Write bytes to a file under the root, making it if it is not there."""
    full = f"{ROOT}/{path}"
    disk.make_dirs(full.rpartition("/")[0])
    file = disk.open(full, create=True)
    file.write(at, data)
    file.close()


def content(disk: Disk, path: str) -> bytes:
    """The bytes of a file under the root."""
    file = disk.open(f"{ROOT}/{path}", read_only=True)
    try:
        return file.read(0, file.size())
    finally:
        file.close()
