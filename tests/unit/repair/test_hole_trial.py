"""What seals say of bytes that a copy has in place of a hole."""

from __future__ import annotations

import pytest

from backup_rig import BackupRig
from small_store import ROOT, open_store, put_bodies, small_options
from timermq.repair.hole_trial import HoleTrial, SealedSectors, Verdict
from timermq.repair.segment_row import SegmentRow
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.store_options import StoreOptions

SEGMENT_SIZE = 4096
DIRECTORY = f"{ROOT}/commitlog"


async def sealed(shift_ms: int = 0) -> tuple[MemoryDisk, bytes, list[int]]:
    """A store with one segment, its bytes, and where its records begin."""
    rig = BackupRig(is_served=False)
    rig.clock.time_ms += shift_ms
    options = _options()
    store = open_store(rig.disk, rig.clock, options)
    put_bodies(store, *(f"{number:02d}{'x' * 200}" for number in range(10)))
    starts = [at for at, _ in store.commit_log.scan(0, check_crc=False)]
    end = store.commit_log.max_offset
    await store.aclose()
    file = rig.disk.open(f"{DIRECTORY}/{0:020d}", read_only=True)
    return rig.disk, file.read(0, SEGMENT_SIZE), [*starts, end]


def _options() -> StoreOptions:
    return small_options(mapped_file_size_commit_log=SEGMENT_SIZE)


def tried(disk: MemoryDisk, hole: Hole, data: bytes, *, part: int = 100) -> Verdict:
    """The verdict about bytes that come in parts."""
    row = SegmentRow(disk, ROOT, "commitlog", SEGMENT_SIZE)
    trial = HoleTrial(hole, row, SealedSectors(disk, DIRECTORY, SEGMENT_SIZE))
    for at in range(0, len(data), part):
        if not trial.take(data[at : at + part]):
            break
    found = trial.verdict()
    row.close()
    return found


def hole_of(first: int, end: int) -> Hole:
    """A hole in the middle of the segment."""
    return Hole(first, end, "", reaches_segment_end=False)


@pytest.mark.parametrize("part", [7, 512, 5000])
async def test_the_bytes_that_stood_there(part: int) -> None:
    """They fit all seals, whatever the hole looks like now."""
    disk, data, starts = await sealed()
    first, end = starts[2], starts[7]
    file = disk.open(f"{DIRECTORY}/{0:020d}")
    file.write(first, bytes(end - first))

    assert tried(disk, hole_of(first, end), data[first:end], part=part) is Verdict.PROVED


async def test_records_of_another_log() -> None:
    """Sectors within the hole do not fit; of a short hole only its neighbours can tell."""
    disk, _, starts = await sealed()
    _, other, _ = await sealed(shift_ms=1)

    assert tried(disk, hole_of(starts[2], starts[7]), other[starts[2] : starts[7]]) is (
        Verdict.REFUTED
    )
    assert tried(disk, hole_of(starts[2], starts[3]), other[starts[2] : starts[3]]) is Verdict.OPEN


async def test_records_that_are_none() -> None:
    """Too few bytes, too many, and changed ones are refuted without any seal."""
    disk, data, starts = await sealed()
    disk.remove(f"{ROOT}/timermq-seals/commitlog/{0:020d}")
    first, end = starts[2], starts[4]
    changed = bytearray(data[first:end])
    changed[-3] ^= 1
    changed[90] ^= 1

    assert tried(disk, hole_of(first, end), data[first:end]) is Verdict.OPEN
    assert tried(disk, hole_of(first, end), data[first : end - 1]) is Verdict.REFUTED
    assert tried(disk, hole_of(first, end), data[first : end + 1]) is Verdict.REFUTED
    assert tried(disk, hole_of(first, end), bytes(changed)) is Verdict.REFUTED
    assert tried(disk, hole_of(first, end), b"") is Verdict.REFUTED


async def test_damage_beside_the_hole() -> None:
    """A sector at the edge that is damaged outside of the hole refutes nothing."""
    disk, data, starts = await sealed()
    first, end = starts[2], starts[3]
    file = disk.open(f"{DIRECTORY}/{0:020d}")
    (value,) = file.read(first - 20, 1)
    file.write(first - 20, bytes([value ^ 1]))

    assert tried(disk, hole_of(first, end), data[first:end]) is Verdict.OPEN
