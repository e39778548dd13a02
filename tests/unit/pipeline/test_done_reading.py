"""What the log shows as delivered is the same, read in pieces or at once, and forgotten in part."""

from __future__ import annotations

import numpy as np
import pytest
from trio.testing import MockClock

from damaged_stores import GOLDEN_FILES, LATER_MS, on_disk, overwrite, records, small_image
from golden_stores import GoldenStores
from simulation.staged_service import HOST, ROOT, SMALL_FILES
from timermq.pipeline.recovery.done_reading import DoneReading
from timermq.timerstore.disk import Disk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk


def opened(disk: Disk) -> MessageStore:
    """The store of a disk, read only."""
    return MessageStore.open(
        disk, ROOT, SMALL_FILES, now_ms=lambda: LATER_MS, store_host=HOST, read_only=True
    )


def same(one: DoneReading, other: DoneReading, read_ms: int = 0, queue_py: int = 0) -> None:
    """Two readings say the same."""
    mine, theirs = one.done(read_ms, queue_py), other.done(read_ms, queue_py)
    assert np.array_equal(mine.origins, theirs.origins)
    assert (mine.foreign, mine.doubts) == (theirs.foreign, theirs.doubts)


@pytest.mark.parametrize("damaged", [False, True])
async def test_read_in_pieces(autojump_clock: MockClock, damaged: bool) -> None:
    """Pieces of any size, with damage between them, tell what one reading tells."""
    disk = on_disk(await small_image())
    places = sorted(records(disk))
    if damaged:
        overwrite(disk, f"{ROOT}/commitlog/{0:020d}", places[len(places) // 2] + 4, bytes(20))
    store = opened(disk)
    whole = DoneReading(store, 0)
    whole.read()
    for size in (1, 7, 1_000):
        pieces = DoneReading(store, 0)
        while pieces.end < store.commit_log.max_offset:
            pieces.read(size)
        same(pieces, whole)
    assert len(whole.done(0, 0).origins) > 5


async def test_what_is_forgotten_is_not_asked_for(autojump_clock: MockClock) -> None:
    """Behind it all is as if the reading had begun there; before it nothing is covered."""
    store = opened(on_disk(await small_image()))
    for first in sorted(records(store.disk))[::10]:
        reading = DoneReading(store, 0)
        reading.read()
        assert reading.covers(first)
        reading.forget(first)
        later = DoneReading(store, first)
        later.read()

        same(reading, later)
        assert reading.covers(first)
        assert not reading.covers(first - 1)


def test_rocketmqs_deliveries(golden_stores: GoldenStores) -> None:
    """Those of slots that are read are no question; a reading in pieces keeps them apart."""
    store = MessageStore.open(
        OsDisk(),
        golden_stores["g3"].root,
        GOLDEN_FILES,
        now_ms=lambda: 0,
        store_host=HOST,
        read_only=True,
    )
    whole, pieces = DoneReading(store, 0), DoneReading(store, 0)
    whole.read()
    while pieces.end < store.commit_log.max_offset:
        pieces.read(3)
    end = store.commit_log.max_offset
    same(whole, pieces, 0, end)
    assert whole.done(0, end).foreign
    assert not whole.done(1 << 60, end).foreign
