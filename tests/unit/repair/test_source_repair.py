"""What is put back into a damaged log, beside what the simulation of damage tries."""

from __future__ import annotations

import pytest

from backup_rig import BackupRig
from small_store import ROOT, open_store, put_bodies, read_bodies, small_options
from timermq.backup.backup_log import BackupLog
from timermq.backup.backup_objects import BackupObjects
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.log_source import SourceError
from timermq.repair.source_repair import SourceRepair
from timermq.repair.store_check import CheckedStore
from timermq.simulator.disks.memory_disk import MemoryFile
from timermq.timerstore.disk import Bytes

BODIES = [f"body-{number:03d}-{'x' * 100}" for number in range(30)]


def checked(rig: BackupRig, segment_size: int = 1024) -> CheckedStore:
    """The store of a rig, to be repaired."""
    return CheckedStore(
        disk=rig.disk,
        root=ROOT,
        store_options=small_options(mapped_file_size_commit_log=segment_size),
        timer_options=TimerOptions(),
        now_ms=rig.clock.now_ms(),
    )


async def stopped() -> BackupRig:
    """A stopped store of several segments, and its backup."""
    rig = BackupRig(is_served=False)
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES)
    await store.aclose()
    await rig.ship()
    return rig


@pytest.mark.parametrize("is_short", [False, True], ids=["missing", "short"])
async def test_a_segment_that_is_gone(is_short: bool) -> None:
    """A whole segment comes back, with the blank at its end."""
    rig = await stopped()
    path = f"{ROOT}/commitlog/{2048:020d}"
    if is_short:
        file = rig.disk.open(path)
        file.truncate(100)
        file.close()
    else:
        rig.disk.remove(path)
    objects = await BackupObjects.load(rig.target)
    (put_back,) = await SourceRepair(source=BackupLog(objects), store=checked(rig)).run()
    store = open_store(rig.disk, rig.clock)

    assert (2048, 1024) == (put_back.position, put_back.size)
    assert BODIES == read_bodies(store)


async def test_segments_that_are_gone_side_by_side() -> None:
    """One between two others has no neighbour in the store; the backup has them all."""
    rig = await stopped()
    starts = [1024, 2048, 3072]
    for start in starts:
        rig.disk.remove(f"{ROOT}/commitlog/{start:020d}")
    objects = await BackupObjects.load(rig.target)
    put_back = await SourceRepair(source=BackupLog(objects), store=checked(rig)).run()

    assert starts == [one.position for one in put_back]
    assert BODIES == read_bodies(open_store(rig.disk, rig.clock))


async def test_a_segment_comes_back_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several may be gone, of a gigabyte each: no more than one piece is held in memory."""
    rig = await stopped()
    for start in (1024, 2048):
        rig.disk.remove(f"{ROOT}/commitlog/{start:020d}")
    sizes: list[int] = []
    write = MemoryFile.write

    def note(file: MemoryFile, offset: int, data: Bytes) -> None:
        if "/commitlog/" in file.path:
            sizes.append(len(data))
        write(file, offset, data)

    objects = await BackupObjects.load(rig.target)
    monkeypatch.setattr(MemoryFile, "write", note)
    put_back = await SourceRepair(source=BackupLog(objects), store=checked(rig)).run()
    pieces = [one for segment in objects.segments() for one in await objects.pieces_of(segment)]

    assert [(1024, 1024), (2048, 1024)] == [(one.position, one.size) for one in put_back]
    assert 2048 == sum(sizes)
    assert max(sizes) <= max(one.size for one in pieces) < 1024
    assert BODIES == read_bodies(open_store(rig.disk, rig.clock))


async def test_a_sound_log_is_not_touched() -> None:
    """Without damage nothing is put back, and no original is kept."""
    rig = await stopped()
    objects = await BackupObjects.load(rig.target)

    assert [] == await SourceRepair(source=BackupLog(objects), store=checked(rig)).run()
    assert not rig.disk.is_dir(f"{ROOT}/aside")


async def test_damage_that_the_backup_has_too() -> None:
    """What was damaged when it was shipped is not put back; the repair fills it."""
    rig = BackupRig(is_served=False)
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES)
    await store.aclose()
    file = rig.disk.open(f"{ROOT}/commitlog/{1024:020d}")
    file.write(0, b"\xff" * 120)
    file.close()
    await rig.ship()
    objects = await BackupObjects.load(rig.target)

    assert objects.manifest.damaged > 0
    assert [] == await SourceRepair(source=BackupLog(objects), store=checked(rig)).run()


async def test_records_of_another_store() -> None:
    """Good records of the same sizes at the same places are not taken: their neighbours differ."""
    rig, other = await stopped(), BackupRig(is_served=False)
    other.clock.time_ms += 1
    store = open_store(other.disk, other.clock)
    put_bodies(store, *BODIES)
    await store.aclose()
    await other.ship()
    file = rig.disk.open(f"{ROOT}/commitlog/{1024:020d}")
    file.write(90, b"\xff" * 20)
    file.close()
    strange = await BackupObjects.load(other.target)
    own = await BackupObjects.load(rig.target)

    assert [] == await SourceRepair(source=BackupLog(strange), store=checked(rig)).run()
    put_back = await SourceRepair(source=BackupLog(own), store=checked(rig)).run()
    assert {1024} == {one.position for one in put_back}


async def test_segments_of_another_size() -> None:
    """Segments of another size are refused before anything is written."""
    rig = await stopped()
    objects = await BackupObjects.load(rig.target)
    with pytest.raises(SourceError, match="expected segments of 2048 bytes"):
        await SourceRepair(source=BackupLog(objects), store=checked(rig, 2048)).run()
