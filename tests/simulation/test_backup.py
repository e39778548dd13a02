"""Backups of a store with timers in every state: restored and served on, each arrives once."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from damaged_stores import (
    LATER_MS,
    SENT,
    checked,
    damage_of,
    on_disk,
    overwrite,
    records,
    repair,
    serve_on,
    small_image,
)
from simulation.staged_service import ROOT, SMALL_FILES
from timermq.backup.backup_log import BackupLog
from timermq.backup.backup_objects import BackupObjects
from timermq.backup.directory_target import DirectoryTarget
from timermq.backup.restore import Restore
from timermq.backup.shipper import Shipper
from timermq.repair.source_repair import SourceRepair
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.record import decode_record, record_topic

pytestmark = pytest.mark.slow


async def backup_of(disk: MemoryDisk) -> BackupObjects:
    """The backup of the stopped store of a disk."""
    target = DirectoryTarget(MemoryDisk(), "/backup")
    shipper = Shipper(
        disk=disk,
        root=ROOT,
        target=target,
        now_ms=lambda: LATER_MS,
        keep_ms=0,
        is_served=lambda: False,
        queue_file_size=SMALL_FILES.mapped_file_size_consume_queue,
        piece_size=2_000,
    )
    await shipper.round()
    return await BackupObjects.load(target)


@pytest.mark.parametrize("sent", [7, 23, 41, SENT])
@pytest.mark.parametrize("is_repaired", [False, True], ids=["started", "verified"])
async def test_timers_of_a_restored_store(
    autojump_clock: MockClock, sent: int, is_repaired: bool
) -> None:
    """From the log alone, as a kill left it at any moment: none is lost, none comes twice."""
    disk = on_disk(await small_image(stop=False, sent=sent))
    objects = await backup_of(disk)
    restored = MemoryDisk(now_ms=lambda: LATER_MS)
    await Restore(objects=objects, disk=restored, root=ROOT).run()

    assert records(disk) == records(restored)
    if is_repaired:
        assert (await repair(checked(restored))).left == ()
        assert [] == damage_of(checked(restored))
    arrived = await serve_on(restored)
    bodies = {decode_record(data).body for data in records(restored).values() if b"gone" in data}
    delivered = {
        decode_record(data).body
        for data in records(restored).values()
        if record_topic(data).startswith(b"T") and b"gone" in data
    }
    assert {f"m{number}": 1 for number in range(sent)} == dict(arrived)
    assert (sent > 9, set()) == (bool(bodies), delivered), "a cancelled message has arrived"


@pytest.mark.parametrize("loss", ["body", "head", "sector"])
async def test_damage_is_put_back_from_a_backup(autojump_clock: MockClock, loss: str) -> None:
    """A record and a sector are as they were, and nothing is marked as lost."""
    disk = on_disk(await small_image())
    before = records(disk)
    objects = await backup_of(disk)
    size = objects.manifest.segment_size
    position = sorted(before)[len(before) // 2]
    start = position - position % size
    path = f"{ROOT}/commitlog/{start:020d}"
    match loss:
        case "body":
            overwrite(disk, path, position - start + 90, b"\xff" * 3)
        case "head":
            overwrite(disk, path, position - start, b"\xff" * 30)
        case _:
            overwrite(disk, path, (position - start) // 512 * 512, bytes(512))
    assert before != records(disk)
    put_back = await SourceRepair(source=BackupLog(objects), store=checked(disk)).run()
    report = await repair(checked(disk))

    assert put_back
    assert before == records(disk)
    assert () == report.left
    assert {f"m{number}": 1 for number in range(SENT)} == dict(await serve_on(disk))


async def test_a_backup_that_lacks_what_is_damaged(autojump_clock: MockClock) -> None:
    """What the backup does not reach is left to the repair, unchanged."""
    objects = await backup_of(on_disk(await small_image(sent=7)))
    disk = on_disk(await small_image())
    position = max(records(disk))
    size = objects.manifest.segment_size
    start = position - position % size
    overwrite(disk, f"{ROOT}/commitlog/{start:020d}", position - start + 90, b"\xff" * 3)

    assert [] == await SourceRepair(source=BackupLog(objects), store=checked(disk)).run()
