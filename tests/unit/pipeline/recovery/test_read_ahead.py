"""A follower reads ahead what its log shows as delivered, and has read it when it is asked."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import LATER_MS, on_disk, small_image
from fakes import START_MS, ManualClock, VirtualClock
from simulation.staged_service import HOST, ROOT, SMALL_FILES, SMALL_WHEEL, timed
from timermq.pipeline.recovery import read_ahead
from timermq.pipeline.recovery.read_ahead import ReadAhead
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.timerstore.message_store import MessageStore
from unit.pipeline.stages_by_hand import StagesByHand


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


def test_it_reads_up_to_the_end_of_a_log_that_grows() -> None:
    """One reading goes on; a recovery takes it, and the next one begins from the start."""
    rig = StagesByHand(ManualClock())
    ahead = ReadAhead(rig.store, rig.service.files)
    rig.send(timed("m0", START_MS + 1_000))
    reading = ahead.caught_up()
    assert reading is not None
    assert reading.end == rig.store.commit_log.max_offset
    rig.send(timed("m1", START_MS + 1_000))
    assert ahead.caught_up() is reading
    assert reading.end == rig.store.commit_log.max_offset

    assert ahead.taken() is reading
    assert ahead.taken() is None
    assert ahead.caught_up() is not reading


def test_too_much_is_not_read_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks wait meanwhile; the reading of before goes on in its own turns."""
    rig = StagesByHand(ManualClock())
    ahead = ReadAhead(rig.store, rig.service.files)
    rig.send(timed("m0", START_MS + 1_000))
    monkeypatch.setattr(read_ahead, "LEFT_SIZE_MAX", rig.store.commit_log.max_offset // 2 - 1)
    assert ahead.caught_up() is None
    monkeypatch.undo()
    assert ahead.caught_up() is not None
