"""What a shipper puts, keeps and removes, on a store and a target in memory."""

from __future__ import annotations

import itertools

import pytest

from backup_rig import PLACE, BackupRig, KilledError, refusal
from small_store import ROOT, message, open_store, put_bodies, read_bodies, small_options
from timermq.backup.backup_objects import BackupObjects
from timermq.backup.queue_ends import with_ends
from timermq.backup.restore import Restore
from timermq.backup.shipper import GARBAGE_MS, MERGE_COUNT
from timermq.backup.target import BackupError, TargetError
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import fastjson
from timermq.timerstore.errors import StoreFormatError

BODIES = [f"body-{number:03d}-{'x' * 100}" for number in range(30)]
SEGMENT = f"{ROOT}/commitlog/{0:020d}"


async def test_a_restored_store_has_what_was_shipped() -> None:
    """Over several segments, while the store is open; later messages are not in it."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES[:20])
    shipped = await rig.ship()
    put_bodies(store, *BODIES[20:])

    assert store.commit_log.segments[1].start < shipped.end == shipped.size
    assert BODIES[:20] == await rig.restored_bodies()


async def test_a_round_ships_what_is_new() -> None:
    """A second round puts the new records, and of an idle store nothing."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, BODIES[0])
    shipper = rig.shipper()
    first = await shipper.round()
    put_bodies(store, BODIES[1])
    second = await shipper.round()
    rig.target.names_changed.clear()
    third = await shipper.round()

    assert (first.end, second.end - first.end, 0) == (first.size, second.size, third.size)
    assert [] == rig.target.names_changed
    assert BODIES[:2] == await rig.restored_bodies()


async def test_small_pieces_are_put_together() -> None:
    """A message a second does not leave an object for each, and garbage goes when its time is."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock, small_options(mapped_file_size_commit_log=1 << 16))
    shipper = rig.shipper()
    for number in range(MERGE_COUNT):
        put_bodies(store, f"{number}")
        await shipper.round()
    pieces = shipper.manifest.pieces
    rig.clock.time_ms += GARBAGE_MS
    await shipper.round()

    assert len(pieces) < MERGE_COUNT
    assert set() == await rig.garbage()
    assert pieces[0].start == 0
    assert all(one.end == other.start for one, other in itertools.pairwise(pieces))


async def test_cleaned_segments_stay_for_their_time() -> None:
    """What the store has cleaned leaves the backup when it is old enough, and not before."""
    rig = BackupRig(keep_ms=10_000)
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES)
    shipper = rig.shipper()
    end = (await shipper.round()).end
    rig.disk.remove(SEGMENT)
    rig.clock.time_ms += 10_000
    await shipper.round()
    kept = shipper.manifest.start
    rig.clock.time_ms += 1
    await shipper.round()

    assert (0, 1024, end) == (kept, shipper.manifest.start, shipper.manifest.end)
    rig.clock.time_ms += GARBAGE_MS
    await shipper.round()
    assert set() == await rig.garbage()


async def test_segments_of_the_store_stay_however_old() -> None:
    """Age alone removes nothing: a pending timer may need the record."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), *BODIES)
    shipper = rig.shipper()
    await shipper.round()
    rig.clock.time_ms += 1 << 40
    await shipper.round()

    assert 0 == shipper.manifest.start


async def test_another_store_is_refused() -> None:
    """A backup is not overwritten with a store that it is not of."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), *BODIES)
    await rig.ship()
    rig.disk = MemoryDisk(now_ms=rig.clock.now_ms)
    put_bodies(open_store(rig.disk, rig.clock), *reversed(BODIES))

    with pytest.raises(BackupError, match="name another target"):
        await rig.ship()
    assert BODIES == await rig.restored_bodies()


async def test_a_directory_with_other_files_is_refused() -> None:
    """What stands in a target and is no backup is not touched."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), *BODIES)
    await rig.target.target.put("photos/1.jpg", b"photo")

    with pytest.raises(BackupError, match=r"found photos/1\.jpg: name another target"):
        await rig.ship()


async def test_two_shippers_of_one_target() -> None:
    """The one that finds the manifest of the other one ends."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, BODIES[0])
    first, second = rig.shipper(), rig.shipper()
    await first.round()
    await second.round()
    put_bodies(store, BODIES[1])
    await second.round()

    with pytest.raises(BackupError, match="another process ships to it"):
        await first.round()


async def test_a_log_that_a_power_cut_has_taken_from() -> None:
    """The backup is cut where the store goes on with other records, and goes on with these."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES[:8])
    await store.aclose()
    await rig.ship()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES[8:14])
    await rig.ship()
    store.abandon()
    rig.disk.power_cut()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, "other")
    await rig.ship()

    assert [*BODIES[:8], "other"] == await rig.restored_bodies()


async def test_a_record_that_is_being_written() -> None:
    """Half a record is the end of the log; it is shipped when it is whole."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES[:2])
    end = store.commit_log.max_offset
    file = rig.disk.open(SEGMENT)
    record = file.read(end // 2, end // 2)
    file.write(end // 2 + 60, bytes(len(record) - 60))
    shipper = rig.shipper()
    first = await shipper.round()
    second = await shipper.round()
    file.write(end // 2, record)
    third = await shipper.round()

    assert [end // 2] * 2 == [first.end, second.end]
    assert (end, 0) == (third.end, shipper.manifest.damaged)
    assert not first.is_settled


async def test_damage_in_the_store_is_shipped_and_told() -> None:
    """A damaged record does not end the backup; what stands behind it is shipped too."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *BODIES[:10])
    file = rig.disk.open(SEGMENT)
    file.write(120, b"????")
    shipper = rig.shipper()
    await shipper.round()
    shipped = await shipper.round()

    assert store.commit_log.max_offset == shipped.end
    assert shipper.manifest.damaged > 0


async def test_damage_behind_the_shipper_changes_nothing() -> None:
    """The good record in the backup stays when another shipper begins."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), *BODIES)
    await rig.ship()
    before = (await BackupObjects.load(rig.target.target)).manifest
    file = rig.disk.open(f"{ROOT}/commitlog/{1024:020d}")
    file.write(120, b"????")
    await rig.ship()
    after = (await BackupObjects.load(rig.target.target)).manifest

    assert (before.whole, before.pieces) == (after.whole, after.pieces)


async def test_a_target_that_refuses() -> None:
    """The round says why; the next one ships what this one could not."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), *BODIES)
    shipper = rig.shipper()
    rig.target.left, rig.target.error = 5, refusal
    with pytest.raises(TargetError, match="expected room, found none"):
        await shipper.round()
    await shipper.round()

    assert BODIES == await rig.restored_bodies()


@pytest.mark.parametrize("is_killed", [False, True], ids=["refused", "killed"])
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "behind"])
async def test_a_round_that_ends_anywhere(is_killed: bool, is_done: bool) -> None:
    """At each operation in turn: the backup is the old one or the new one, and then the new one."""
    count = 0
    while True:
        rig = BackupRig()
        store = open_store(rig.disk, rig.clock)
        put_bodies(store, *BODIES[:9])
        shipper = rig.shipper()
        await shipper.round()
        put_bodies(store, *BODIES[9:])
        rig.target.left, rig.target.is_done_before = count, is_done
        rig.target.error = KilledError if is_killed else refusal
        try:
            await shipper.round()
        except (KilledError, TargetError):
            assert await rig.restored_bodies() in (BODIES[:9], BODIES)
            shipper = rig.shipper() if is_killed else shipper
        else:
            break
        rig.target.left = -1
        await shipper.round()
        rig.clock.time_ms += GARBAGE_MS
        await shipper.round()
        assert BODIES == await rig.restored_bodies()
        assert set() == await rig.garbage()
        count += 1
    assert count > len(BODIES) // 4


async def test_tables_follow_the_store() -> None:
    """A changed table is shipped, a deleted one goes, and seals and second copies are left out."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, BODIES[0])
    shipper = rig.shipper()

    async def shipped(**tables: str) -> dict[str, bytes]:
        for name in rig.disk.list_dir(f"{ROOT}/config"):
            rig.disk.remove(f"{ROOT}/config/{name}")
        rig.disk.make_dirs(f"{ROOT}/config")
        for name, text in tables.items():
            file = rig.disk.open(f"{ROOT}/config/{name}.json", create=True)
            file.write(0, text.encode())
            rig.disk.open(f"{ROOT}/config/{name}.json.sum", create=True)
        await shipper.round()
        disk = await rig.restored()
        found = disk.list_dir(f"{ROOT}/config")
        return {name: disk.open(f"{ROOT}/config/{name}").read(0, 100) for name in found}

    assert {"topics.json": b"{}"} == await shipped(topics="{}")
    assert {"topics.json": b"{1}", "consumerOffset.json": b"{}"} == await shipped(
        topics="{1}", consumerOffset="{}"
    )
    assert {"topics.json": b"{1}"} == await shipped(topics="{1}")
    # cut short by a power cut: as it was
    assert {"topics.json": b"{1}"} == await shipped(topics="{")


async def test_tables_do_not_tell_of_more_than_the_log() -> None:
    """Offsets are as they were before the log was read, and the topics as after it."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), BODIES[0])
    rig.disk.make_dirs(f"{ROOT}/config")
    names = ("consumerOffset.json", "topics.json")

    def write(text: bytes) -> None:
        for name in names:
            rig.disk.open(f"{ROOT}/config/{name}", create=True).write(0, text)

    write(b"{0}")
    rig.target.on_put = lambda name: write(b"{1}") if name.startswith("log/") else None
    await rig.ship()
    disk = await rig.restored()

    assert [b"{0}", b"{1}"] == [disk.open(f"{ROOT}/config/{name}").read(0, 100) for name in names]


@pytest.mark.parametrize("damage", ["missing", "changed"])
async def test_damaged_backups_are_named(damage: str) -> None:
    """A restore names the object, and leaves nothing that a broker would serve."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), *BODIES)
    shipper = rig.shipper()
    await shipper.round()
    name = shipper.manifest.pieces[-1].name
    if damage == "missing":
        rig.target_disk.remove(f"{PLACE}/{name}")
    else:
        rig.target_disk.open(f"{PLACE}/{name}").write(20, b"?")
    disk = MemoryDisk()
    objects = await BackupObjects.load(rig.target)
    with pytest.raises(BackupError, match=name):
        await Restore(objects=objects, disk=disk, root=ROOT).run()
    with pytest.raises(BackupError, match="expected an empty directory"):
        await Restore(objects=objects, disk=disk, root=ROOT).run()
    with pytest.raises(StoreFormatError):
        open_store(disk, rig.clock)


@pytest.mark.parametrize("damage", ["missing", "changed"])
async def test_a_damaged_list_of_pieces_makes_no_garbage(damage: str) -> None:
    """A shipper that cannot read which pieces a segment has ends, and removes none of them."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), *BODIES)
    await rig.ship()
    objects = await BackupObjects.load(rig.target)
    names = set(await rig.target.names())
    first = objects.manifest.whole[0].name
    if damage == "missing":
        rig.target_disk.remove(f"{PLACE}/{first}")
    else:
        data = await rig.target.get(first)
        assert data is not None
        rig.target_disk.open(f"{PLACE}/{first}").write(0, data.replace(b"log/", b"LOG/"))
    rig.clock.time_ms += 2 * GARBAGE_MS
    with pytest.raises(BackupError, match=first):
        await rig.ship()

    assert names - {first} == set(await rig.target.names()) - {first}


async def test_a_queue_whose_messages_are_all_cleaned() -> None:
    """Its next offset is that of the store: groups have committed it, and no message tells it."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, "one", "two", topic="Idle", queue_id=3)
    put_bodies(store, *BODIES)
    store.dispatch()
    store.abandon()
    rig.disk.remove(SEGMENT)
    await rig.ship()
    restored = open_store(await rig.restored(), rig.clock)
    (result,) = restored.put([message("three", "Idle", 3)])

    assert 2 == result.queue_offset
    assert BODIES[-20:] == read_bodies(restored)[-20:]


def test_ends_are_added_to_the_list_of_queues() -> None:
    """What it says stays, and a higher end counts."""
    listed = b'{"cleanedTo":7,"queues":{"A":{0:5,1:3},"B":{2:9}}}'
    told = with_ends(listed, {("A", 0): 6, ("A", 1): 2, ("C", 0): 1})

    assert told is not None
    assert (
        fastjson({"cleanedTo": 7, "queues": {"A": {0: 6, 1: 3}, "B": {2: 9}, "C": {0: 1}}})
        == told.decode()
    )
    assert listed == with_ends(listed, {})


async def test_a_store_without_messages() -> None:
    """An empty store has a backup, and that makes an empty store."""
    rig = BackupRig()
    open_store(rig.disk, rig.clock)
    await rig.ship()

    assert [] == await rig.restored_bodies()
