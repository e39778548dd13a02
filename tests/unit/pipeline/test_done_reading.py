"""What the log shows as delivered is the same, read in pieces or at once, and forgotten in part."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from damaged_stores import GOLDEN_FILES, LATER_MS, on_disk, overwrite, records, small_image
from golden_stores import GoldenStores
from simulation.staged_service import HOST, ROOT, SMALL_FILES
from small_store import message, open_store, small_options
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.system_topics import QUARANTINE_TOPIC
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.recovery.done_reading import DoneReading
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.run_properties import RunProperties


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


def delivered(count: int) -> list[Message]:
    """Records of all kinds that tell of deliveries, and others, some of each beside each other."""
    timer = b"REAL_TOPIC\x01T\x02UNIQ_KEY\x01k%d\x02TIMER_OUT_MS\x015\x02"
    kinds: tuple[Callable[[int], Message], ...] = (
        lambda one: message("p", TIMER_TOPIC, 0, timer % one),
        lambda one: message("d" * (one % 9), "T", 0, prepared_offset=origin_of(7 * one)),
        lambda one: message("n", "T" * len(TIMER_TOPIC), prepared_offset=origin_of(9 * one)),
        lambda one: message(
            "r",
            TIMER_TOPIC,
            0,
            timer % one + b"TIMER_ROLL_TIMES\x011\x02TIMER_ORDER\x01%d\x02" % (3 * one),
            prepared_offset=origin_of(11 * one),
        ),
        lambda one: message("q", QUARANTINE_TOPIC, prepared_offset=origin_of(13 * one)),
        lambda one: message("f", "T", 0, timer % one + b"TIMER_DEQUEUE_MS\x019\x02"),
        lambda one: message(f"{one}", "T", sys_flag=SysFlag.BORN_HOST_V6, born_host=bytes(20)),
    )
    draw = Random(count)
    picked = [draw.choice(kinds[: draw.choice((2, 5, 6, 7))]) for _ in range(count // 20)]
    return [picked[one // 20](one) for one in range(count)]


OPTIONS = small_options(
    mapped_file_size_commit_log=64 << 10,
    mapped_file_size_consume_queue=4_000,
    message_index_enable=False,
)


def told(reading: DoneReading) -> tuple[object, ...]:
    """All that a reading says."""
    done, ends = reading.done(0, 1 << 60), reading.ends()
    columns = (done.origins, done.ended, ends.positions, ends.origins, ends.are_cancels)
    return (reading.end, done.foreign, *(one.tolist() for one in columns))


def test_columns_tell_what_single_records_tell() -> None:
    """Read in columns, one by one, and taken from what a copy has read; forgotten in part, too."""
    source = open_store(MemoryDisk(), options=OPTIONS)
    for one in delivered(2_000):
        (result,) = source.put([one], even_when_full=True)
        assert result.status.is_stored, result.remark
    singles, columns = DoneReading(source, 0), DoneReading(source, 0)
    while singles.end < source.commit_log.max_offset:
        singles.read(1)
    columns.read()
    assert told(columns) == told(singles)
    assert len(singles.done(0, 1 << 60).origins) > 500

    store = open_store(MemoryDisk(), options=OPTIONS)
    store.park("copy")
    taken, ends = DoneReading(store, 0), list[int]()

    def take(run: RunProperties) -> None:
        taken.take_run(run)
        ends.append(taken.end)

    async def copy() -> None:
        store.log_copy.on_run = take
        for segment in source.commit_log.segments:
            size = min(segment.size, source.commit_log.max_offset - segment.start)
            await store.log_copy.append(segment.start, segment.file.read(0, size))
            taken.read()

    trio.run(copy)
    assert told(taken) == told(singles)
    assert any(end % OPTIONS.mapped_file_size_commit_log for end in ends)

    for reading in (singles, columns, taken):
        reading.forget(singles.end // 2)
    assert told(columns) == told(singles) == told(taken)


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
