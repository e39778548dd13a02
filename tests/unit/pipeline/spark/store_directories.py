"""Stores of virtual time as directories, and tables of a directory read without Spark."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from simulation.staged_service import ROOT
from timermq.pipeline.spark.options import ReadOptions
from timermq.pipeline.spark.store_view import StoreView
from timermq.pipeline.spark.tables.source import TableReader
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock
from unit.pipeline.recovery.crashed_store import Crashed, crashed, leave

Row = dict[str, Any]


def written(disk: Disk, root: str, directory: Path) -> str:
    """The files below a root of a disk, as files of a directory; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in disk.list_dir(root):
        path = f"{root}/{name}"
        if disk.is_dir(path):
            written(disk, path, directory / name)
        else:
            file = disk.open(path, read_only=True)
            (directory / name).write_bytes(file.read(0, file.size()))
            file.close()
    return str(directory)


def crashed_directory(
    directory: Path, damage: Callable[[MemoryDisk], None] = leave
) -> tuple[Crashed, str]:
    """A timer store as a killed process leaves it, perhaps damaged, and its directory."""

    async def life() -> Crashed:
        crash = await crashed()
        damage(crash.disk)
        return crash

    crash = trio.run(life, clock=MockClock(autojump_threshold=0))
    return crash, written(crash.disk, ROOT, directory)


@contextmanager
def served(root: str) -> Generator[None]:
    """A store looks served while its lock is held."""
    lock = StoreLock(OsDisk(), root)
    lock.take()
    try:
        yield
    finally:
        lock.release()


def rows_of(
    reader_type: type[TableReader[Any]],
    root: str,
    *names: str,
    **options: Any,  # noqa: ANN401 - passed on
) -> list[Row]:
    """The rows of a table as a job gets them, piece by piece."""
    chosen = ReadOptions(path=root, **options)
    reader = reader_type(chosen, names or reader_type.table.names)
    view = StoreView.of(root, timer_precision_ms=chosen.timer_precision_ms)
    return [
        row
        for span in reader.spans(view)
        for batch in reader.batches(span)
        for row in batch.to_pylist()
    ]
