"""Tests of the parts of a store before recovery."""

from __future__ import annotations

import pytest

from small_store import ROOT, open_store, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.store_files import StoreFiles, checkpoint_path


def test_making_them_writes_nothing() -> None:
    """Recovery judges the store first."""
    disk = MemoryDisk()
    disk.make_dirs(ROOT)

    files = StoreFiles.of(disk, ROOT, small_options(), last_exit_ok=True, read_only=False)

    assert (0, 0) == (files.log.max_offset, files.checkpoint.physic_msg_timestamp)
    assert disk.list_dir(ROOT) == []


def test_a_checkpoint_that_is_none_is_refused() -> None:
    """And the lock is given back."""
    disk = MemoryDisk()
    disk.make_dirs(ROOT)
    disk.open(checkpoint_path(ROOT), create=True).write(0, b"short")

    for _ in range(2):
        with pytest.raises(StoreFormatError, match="expected 40 bytes, found 5"):
            open_store(disk)
