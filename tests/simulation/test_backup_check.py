"""Backups of a store with timers in every state, checked by the rules of a store."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from backup_rig import BackupRig
from damaged_stores import checked, on_disk, overwrite, records, small_image
from simulation.staged_service import ROOT, SMALL_FILES
from simulation.test_backup import backup_of
from small_store import open_store, put_bodies
from timermq.backup.backup_check import BackupCheck
from timermq.backup.backup_objects import BackupObjects
from timermq.repair.finding import Finding
from timermq.repair.store_check import is_damage
from timermq.repair.store_rule import StoreRule
from timermq.simulator.disks.memory_disk import MemoryDisk

pytestmark = pytest.mark.slow


async def found_in(objects: BackupObjects) -> list[Finding]:
    """What a check finds, notes left out."""
    check = BackupCheck(objects=objects, settings=checked(MemoryDisk()))
    return [one for one in await check.run() if is_damage(one)]


@pytest.mark.parametrize("stop", [True, False])
async def test_a_sound_backup(autojump_clock: MockClock, stop: bool) -> None:
    """Nothing is found: neither queues nor timers are missed, which no backup has."""
    disk = on_disk(await small_image(stop=stop))

    assert [] == await found_in(await backup_of(disk))


async def test_damage_that_was_shipped(autojump_clock: MockClock) -> None:
    """It is what a check of the store finds in its log: the same rules, places and words."""
    disk = on_disk(await small_image())
    places = sorted(records(disk))
    position, size = places[len(places) // 2], SMALL_FILES.mapped_file_size_commit_log
    path = f"{ROOT}/commitlog/{position // size * size:020d}"
    overwrite(disk, path, position % size, b"\xff" * 9)
    found = await found_in(await backup_of(disk))

    assert {StoreRule.RECORD_DAMAGED, StoreRule.RECORD_MISSING} <= {one.rule for one in found}
    damaged = next(one for one in found if one.rule is StoreRule.RECORD_DAMAGED)
    assert f"commitlog/{position // size * size:020d}" == damaged.file
    assert position % size == damaged.offset


@pytest.mark.parametrize("kind", ["log/", "list/", "table/"])
@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "damaged"])
async def test_each_object_is_compared(
    autojump_clock: MockClock, kind: str, is_missing: bool
) -> None:
    """Whichever is missing or changed, the check names it, and goes on."""
    if kind == "table/":
        objects = await backup_of(on_disk(await small_image()))
    else:
        rig = BackupRig(is_served=False)
        store = open_store(rig.disk, rig.clock)
        put_bodies(store, *(f"body-{number:03d}-{'x' * 100}" for number in range(30)))
        await store.aclose()
        await rig.ship()
        objects = await BackupObjects.load(rig.target.target)
    target = objects.target
    names = sorted(name for name in await target.names() if name.startswith(kind))
    used = {one.name for segment in objects.segments() for one in await objects.pieces_of(segment)}
    used |= set(objects.manifest.objects())
    names = [one for one in names if one in used][:3]
    assert names
    for name in names:
        data = await target.get(name)
        assert data is not None
        if is_missing:
            await target.delete(name)
        else:
            await target.put(name, data[:-1] + bytes([data[-1] ^ 1]))
        found = await found_in(objects)
        await target.put(name, data)

        assert name in {one.file for one in found}
        expected = StoreRule.TABLE_UNREADABLE if kind == "table/" else StoreRule.RECORD_DAMAGED
        assert expected in {one.rule for one in found}
        assert [] == await found_in(objects)
