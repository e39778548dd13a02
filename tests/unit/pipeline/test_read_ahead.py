"""A parked service reads ahead what a promotion would have to read."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import LATER_MS, on_disk, small_image
from fakes import VirtualClock
from simulation.staged_service import HOST, ROOT, SMALL_FILES, SMALL_WHEEL
from timermq.pipeline.recovery import read_ahead
from timermq.pipeline.recovery.read_ahead import ReadAhead
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.timerstore.message_store import MessageStore


async def test_all_is_read_but_for_the_last(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From where a recovery begins, up to the end; what was taken is read again by the next one."""
    monkeypatch.setattr(read_ahead, "LEFT_SIZE_MAX", 0)
    monkeypatch.setattr(read_ahead, "STEP_COUNT", 3)
    monkeypatch.setattr(read_ahead, "FORGET_SIZE", 0)
    disk = on_disk(await small_image())
    store = MessageStore.open(
        disk, ROOT, SMALL_FILES, now_ms=lambda: LATER_MS, store_host=HOST, read_only=True
    )
    files = TimerFiles.open(disk, ROOT, SMALL_WHEEL, read_only=True)
    extension = files.checkpoint.extension
    assert extension is not None
    ahead = ReadAhead(store, files)
    for first in (0, extension.scan_py):
        files.checkpoint.extension = None if first == 0 else extension
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ahead.run)
            await trio.sleep(60)
            nursery.cancel_scope.cancel()
        reading = ahead.taken()

        assert reading is not None
        assert (reading.first, reading.end) == (first, store.commit_log.max_offset)
        assert ahead.taken() is None


async def test_what_is_not_needed_is_forgotten(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as the checkpoint says that a recovery begins later."""
    monkeypatch.setattr(read_ahead, "LEFT_SIZE_MAX", 0)
    monkeypatch.setattr(read_ahead, "FORGET_SIZE", 0)
    clock = VirtualClock()
    disk = on_disk(await small_image())
    store = MessageStore.open(
        disk, ROOT, SMALL_FILES, now_ms=clock.now_ms, store_host=HOST, read_only=True
    )
    files = TimerFiles.open(disk, ROOT, SMALL_WHEEL, read_only=True)
    extension, files.checkpoint.extension = files.checkpoint.extension, None
    assert extension is not None
    assert extension.scan_py > 0
    ahead = ReadAhead(store, files)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ahead.run)
        await trio.sleep(60)
        files.checkpoint.extension = extension
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    reading = ahead.taken()

    assert reading is not None
    assert reading.first == extension.scan_py
