"""Power cuts in the middle of a move, whichever of its sectors reached the disk.

A move is one write of three records: a delete, the message, and a second delete, which says the
same as the first for other versions of RocketMQ. Whatever is left of it, the message arrives once:
at the new moment if the first two are whole, at the old one if they are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from damaged_stores import checked, clock_at, damage_of, on_disk
from fakes import START_MS
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL, arrivals, running, timed
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.torn_move import is_torn_move
from timermq.simulator.disks.disk_damage import read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.timerstore.message import Message

LOG = f"{ROOT}/commitlog/{0:020}"
OLD_MS, NEW_MS = START_MS + 15_000, START_MS + 18_000
CUT_MS = START_MS + 5_050


@attrs.frozen
class Moved:
    """A store in which a message was moved just now; nothing of the move is synced."""

    before: bytes
    """The log without the move."""
    image: dict[str, bytes]
    start: int
    """Where the delete stands."""
    second: int
    """Where the second one stands, behind the message, to the end of the log."""
    end: int

    def sectors(self) -> list[int]:
        """Where those begin that the move was written to."""
        first = self.start - self.start % SECTOR_SIZE
        return list(range(first, self.end, SECTOR_SIZE))

    def with_sectors(self, kept: Sequence[int]) -> dict[str, bytes]:
        """The files after a power cut that has kept some sectors of the move."""
        log = bytearray(self.before)
        for at in kept:
            log[at : at + SECTOR_SIZE] = self.image[LOG][at : at + SECTOR_SIZE]
        return {**self.image, LOG: bytes(log)}


async def moved(padding: int, body_size: int) -> Moved:
    """Move a message that was synced long ago."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, stop=False) as service:
        store = service.store
        store.put([Message(topic="P", queue_id=0, body=b"x" * padding)])
        service.put([timed("old" + "-" * body_size, OLD_MS)])
        await trio.sleep(5)
        start = store.commit_log.max_offset
        assert store.commit_log.flushed_where == start
        before = read_image(disk, ROOT)[LOG]
        result = service.cancellation.reschedule(Wanted("T", "old" + "-" * body_size), NEW_MS)
        assert result.verdict is Verdict.CANCELLED
        await trio.sleep(0.05)
        assert store.commit_log.flushed_where == start
        assert service.files.timer_log.max_pos == 4 * 52
        second, size = max(store.commit_log.scan(0, check_crc=False))
        return Moved(before, read_image(disk, ROOT), start, second, second + size)


def subsets(sectors: Sequence[int]) -> Iterator[list[int]]:
    """Every subset of the sectors, the empty one first."""
    for bits in range(1 << len(sectors)):
        yield [at for number, at in enumerate(sectors) if bits >> number & 1]


@pytest.mark.parametrize("has_units", [True, False], ids=["units kept", "units lost"])
@pytest.mark.parametrize("padding", [1, 190, 330])
async def test_every_set_of_its_sectors(
    autojump_clock: MockClock, padding: int, *, has_units: bool
) -> None:
    """Once, and a whole move is kept."""
    state = await moved(padding, 60)
    sectors = state.sectors()
    assert 2 <= len(sectors) <= 5
    for kept in subsets(sectors):
        files = state.with_sectors(kept)
        if not has_units:
            files[f"{ROOT}/timerlog/{0:020}"] = bytes(len(files[f"{ROOT}/timerlog/{0:020}"]))
            files[f"{ROOT}/timerwheel"] = b""
        disk = on_disk(files)
        disk.power_cuts += 1
        clock = clock_at(CUT_MS)
        async with running(disk, clock) as service:
            await trio.sleep(20)
            found = arrivals(service.store)
            key = service.cancellation.cancel(Wanted("T", found[0].body)).verdict
        moments = [one.stored_ms for one in found]
        is_whole = {at for at in sectors if at < state.second} <= set(kept)
        assert moments == [NEW_MS if is_whole else OLD_MS], kept
        assert key is Verdict.TOO_LATE


def torn(state: Moved) -> MemoryDisk:
    """The store with the delete, and what its last sector has of the message."""
    size = int.from_bytes(state.image[LOG][state.start : state.start + 4])
    kept = [at for at in state.sectors() if at < state.start + size]
    assert kept[-1] + SECTOR_SIZE < state.second
    disk = on_disk(state.with_sectors(kept))
    disk.power_cuts += 1
    return disk


async def test_a_torn_move_stays_undone(autojump_clock: MockClock) -> None:
    """Also for recoveries from the start, for a check, and for a cancel or a move that follows."""
    disk = torn(await moved(1, 300))
    clock = clock_at(CUT_MS)
    async with running(disk, clock, stop=False) as service:
        log = service.store.commit_log
        places = list(log.scan(0, check_crc=True))
        assert is_torn_move(service.store, log.read(*places[-1]))
        await trio.sleep(2)
    disk.process_kill()
    store = checked(
        disk, store_options=SMALL_FILES, timer_options=SMALL_WHEEL, now_ms=clock.now_ms()
    )
    assert damage_of(store) == []
    disk.remove(f"{ROOT}/config/timercheck")

    async with running(disk, clock, stop=False) as service:
        await trio.sleep(1)
        name = "old" + "-" * 300
        assert service.cancellation.reschedule(Wanted("T", name), NEW_MS).verdict is (
            Verdict.CANCELLED
        )
        await trio.sleep(2)
    disk.process_kill()
    disk.remove(f"{ROOT}/config/timercheck")
    async with running(disk, clock) as service:
        await trio.sleep(20)
        assert [one.stored_ms for one in arrivals(service.store)] == [NEW_MS]


async def test_a_check_sees_the_unit_of_a_torn_move(autojump_clock: MockClock) -> None:
    """As a broker before this one has left it: the unit is cut off, and the message arrives."""
    disk = torn(await moved(1, 300))
    findings = damage_of(
        checked(disk, store_options=SMALL_FILES, timer_options=SMALL_WHEEL, now_ms=CUT_MS)
    )
    assert any(finding.file.startswith("timerlog") for finding in findings)


async def move_and_stop(disk: MemoryDisk, padding: int) -> tuple[int, int]:
    """Move a message, and stop in order; returns where the delete and the message stand."""
    name = "old" + "-" * 60
    async with running(disk, clock_at(START_MS)) as service:
        store = service.store
        store.put([Message(topic="P", queue_id=0, body=b"x" * padding)])
        service.put([timed(name, OLD_MS)])
        await trio.sleep(1)
        service.cancellation.reschedule(Wanted("T", name), NEW_MS)
        store.put([Message(topic="P", queue_id=0, body=b"x" * 1_000)])
        await trio.sleep(1)
        delete, message = [at for at, _ in store.commit_log.scan(0, check_crc=True)][2:4]
        return delete, message


@pytest.mark.parametrize("has_checkpoint", [True, False])
async def test_a_move_whose_message_is_damaged_is_not_torn(
    autojump_clock: MockClock, *, has_checkpoint: bool
) -> None:
    """The message is quarantined; what it takes the place of does not arrive beside it."""
    padding = 1_000
    _, message = await move_and_stop(MemoryDisk(), padding)
    disk = MemoryDisk()
    delete, message = await move_and_stop(disk, padding + -message % SECTOR_SIZE)
    assert message % SECTOR_SIZE == 0, "the delete stands in another sector"
    file = disk.open(LOG)
    file.write(message + 100, b"?" * 16)
    disk.sync_now(file)
    file.close()
    if not has_checkpoint:
        disk.remove(f"{ROOT}/config/timercheck")
        disk.sync_dir_now(f"{ROOT}/config")

    async with running(disk, clock_at(CUT_MS)) as service:
        log = service.store.commit_log
        assert log.record_at(message, 8) is None
        assert not is_torn_move(service.store, log.read(delete, message - delete))
        await trio.sleep(20)
        assert arrivals(service.store) == []
        assert service.quarantine.active == 1
