"""The offsets of the levels in a take-over that is held up: kept by the clock and at the stop."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import pytest
import trio
import trio.testing

from fakes import START_MS, VirtualClock
from left_levels import leave, waiting, way_back
from simulation.staged_service import (
    QUIET_FILES,
    ROOT,
    SMALL_WHEEL,
    Arrival,
    arrivals,
    running,
)
from timermq.pipeline.levels import level_takeover
from timermq.pipeline.levels.level_offsets import SAVE_INTERVAL_S
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import MemoryNode
from timermq.timerstore.delay_offset import PATH, DelayOffsets
from timermq.timerstore.disk import File
from timermq.timerstore.message import Message

LEVELS = "1h 2h"
FILES = attrs.evolve(QUIET_FILES, message_delay_level=LEVELS, mapped_file_size_commit_log=4_096)
WHEEL = attrs.evolve(
    SMALL_WHEEL,
    message_delay_level=LEVELS,
    timer_roll_window_slot=9_000,
    slots_total=20_000,
    retry_interval_ms=1_000,
)
"""Which rolls nothing: what is stored is what is taken over."""
COUNT = 300
BATCH = 4


class TightDisk(MemoryDisk):
    """A disk with no room for some files beyond a number of blocks, and room for all others."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(now_ms=clock.now_ms)
        self.blocks_left: dict[str, int] = {}
        """By a part of the path."""
        self.sync_s = 0.0
        """How long a sync of the offsets takes."""

    async def sync(self, *files: File) -> None:
        """Make files durable, with patience."""
        if any(PATH in file.path for file in files):
            await trio.sleep(self.sync_s)
        await super().sync(*files)

    def take_blocks(self, node: MemoryNode, blocks: Iterable[int], path: str) -> None:
        """Let a file take up blocks, as far as there are some for it."""
        fresh = set(blocks) - node.blocks
        for part, left in self.blocks_left.items():
            if part in path and fresh:
                full_total, self.total = self.total, self.total if len(fresh) <= left else 0
                try:
                    super().take_blocks(node, fresh, path)
                finally:
                    self.total = full_total
                self.blocks_left[part] = left - len(fresh)
                return
        super().take_blocks(node, blocks, path)


def left_disk(clock: VirtualClock, messages: list[Message] | None = None) -> TightDisk:
    """A disk with messages of both levels, on which the commit log cannot grow."""
    disk = TightDisk(clock)
    sent = [waiting(f"m{n}", n % 2 + 1) for n in range(COUNT)]
    leave(disk, FILES, clock.now_ms, messages or sent, {})
    disk.process_kill()
    disk.blocks_left[f"{ROOT}/commitlog/"] = 0
    return disk


async def served(disk: MemoryDisk, clock: VirtualClock) -> list[Arrival]:
    """Everything on the topic when all of it was due."""
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(3 * 3_600)
        return arrivals(service.store)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches make a segment."""
    monkeypatch.setattr(level_takeover, "BATCH_COUNT_MAX", BATCH)


async def test_written_by_the_clock(autojump_clock: trio.testing.MockClock) -> None:
    """A kill at any second of a slow take-over repeats at most what the last ten seconds moved."""
    clock = VirtualClock()
    disk = left_disk(clock)
    repeated: set[str] = set()
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        for second in range(1, 95):
            if second % 7 == 0:
                disk.blocks_left[f"{ROOT}/commitlog/"] += 1
            await trio.sleep(1)
            found = way_back(disk, FILES, clock.now_ms)
            assert [] == found.lost
            since_ms = clock.now_ms() - SAVE_INTERVAL_S * 1_000
            assert [] == [ms for ms in found.repeated.values() if ms < since_ms]
            repeated |= set(found.repeated)
        assert 0 < service.takeover.left < COUNT - 2 * BATCH
    disk.process_kill()
    disk.blocks_left.clear()
    again = await served(disk, clock)

    assert len(repeated) > BATCH
    assert sorted(f"m{n}" for n in range(COUNT)) == sorted(one.body for one in again)


async def test_written_at_the_stop(autojump_clock: trio.testing.MockClock) -> None:
    """Behind a stop RocketMQ repeats nothing, though the take-over was held up in mid batch."""
    clock = VirtualClock()
    # What has no place to go is quarantined, with a larger record than that of a message.
    nowhere = Message("SCHEDULE_TOPIC_XXXX", 0, b"x" * 1_500, b"UNIQ_KEY\x01x\x02DELAY\x011\x02")
    sent = [waiting("a", 1), waiting("b", 2), nowhere, waiting("c", 2), waiting("d", 1)]
    disk = left_disk(clock, sent)
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(3)
        left = service.takeover.left, service.takeover.backoff.count
    found = way_back(disk, FILES, clock.now_ms)

    assert (3, 1) == left
    assert ([], {1: 1, 2: 1}) == (found.lost, found.kept)
    # It stands behind the one that waits, on its level.
    assert {"d": START_MS} == found.repeated


async def test_cut_off_while_it_is_written(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop that comes while the file is written has it written again."""
    monkeypatch.setattr(level_takeover, "SAVE_COUNT", 2 * BATCH)
    clock = VirtualClock()
    disk = left_disk(clock)
    disk.blocks_left.clear()
    disk.sync_s = 5.0
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        await trio.sleep(1.5 * disk.sync_s)
        left = service.takeover.left
        before = way_back(disk, FILES, clock.now_ms)
    found = way_back(disk, FILES, clock.now_ms)

    assert COUNT - 2 * BATCH == left
    assert 2 * BATCH == len(before.repeated)
    assert ([], {}) == (found.lost, found.repeated)


async def test_no_room_for_the_file(autojump_clock: trio.testing.MockClock) -> None:
    """It is written as soon as there is room, also when everything has moved meanwhile."""
    clock = VirtualClock()
    disk = left_disk(clock)
    disk.blocks_left = {f"{ROOT}/commitlog/": 1}
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        await trio.sleep(1)
        disk.blocks_left = {PATH: 0}
        await trio.sleep(60)
        left = service.takeover.left
        without = way_back(disk, FILES, clock.now_ms)
        disk.blocks_left.clear()
        await trio.sleep(SAVE_INTERVAL_S)
        known = DelayOffsets.load(disk, ROOT)

    assert 0 == left
    assert without.repeated
    assert known is not None
    assert ({1: COUNT // 2, 2: COUNT // 2}, None) == (known.offsets, known.scan_py)


async def test_no_room_for_the_first_file(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing moves before a start after a crash knows where to look for what has moved."""
    clock = VirtualClock()
    disk = left_disk(clock)
    disk.blocks_left = {PATH: 0}
    async with running(
        disk, clock, store_options=FILES, timer_options=WHEEL, stop=False
    ) as service:
        await trio.sleep(60)
        backoff = service.takeover.backoff.count
    disk.process_kill()
    disk.blocks_left.clear()
    found = await served(disk, clock)

    assert sorted(f"m{n}" for n in range(COUNT)) == sorted(one.body for one in found)
    assert COUNT == backoff
