"""Stores damaged in all ways that the staged disk knows, repaired, and served on."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Sequence
from random import Random

import attrs
import pytest
import trio
from trio.testing import MockClock

from damaged_stores import (
    CHANGING,
    SENT,
    checked,
    clock_at,
    damage_of,
    flip_bit,
    golden_checked,
    golden_image,
    mendable,
    on_disk,
    overwrite,
    records,
    repair,
    serve_on,
    small_image,
)
from fakes import START_MS, VirtualClock
from golden_stores import NAMES, GoldenStore, GoldenStores
from simulation.staged_service import (
    ROOT,
    SMALL_FILES,
    SYNCED_FAMILIES,
    arrivals,
    arrivals_everywhere,
    running,
    timed,
)
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.repair.store_rule import Severity, StoreRule
from timermq.simulator.disks.disk_damage import Damage, DamageKind, Image, draw_damage, read_image
from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog.timer_checkpoint import EXTENSION_AT, TimerCheckpoint
from timermq.timerstore.file_family import FileFamily, family_of
from timermq.timerstore.message import Message
from timermq.timerstore.properties import find
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import decode_record, record_properties

FAMILIES = (*SYNCED_FAMILIES, FileFamily.CONFIG)
LOSSES = ("missing", "short", "empty")


def lose(disk: MemoryDisk, draw: Random, image: Image, family: FileFamily, how: str) -> str:
    """Take a file away, wholly or in part; returns its path."""
    paths = sorted(path for path in image if image[path] and family_of(ROOT, path) is family)
    path = draw.choice(paths)
    if how == "missing":
        disk.remove(path)
        disk.sync_dir_now(path.rpartition("/")[0])
    else:
        file = disk.open(path)
        file.truncate(0 if how == "empty" else draw.randrange(1, file.size()))
        disk.sync_now(file)
        file.close()
    return path


def bodies(whole: dict[int, bytes], left: dict[int, bytes]) -> set[str]:
    """The messages of which a record is left as it was."""
    return {
        decode_record(data).body.decode()
        for position, data in whole.items()
        if left.get(position) == data
    } - {"0"}


async def check_repair(disk: MemoryDisk, whole: dict[int, bytes], label: object) -> None:
    """Repair a damaged store: it is clean then, stays so, and delivers what survived, once.

    What was wrong is told once, however many rounds of the repair met it.
    """
    survivors = {one for one in bodies(whole, records(disk)) if one.startswith("m")}
    report = await repair(checked(disk))
    assert report.is_repaired, (label, report.left)
    told = Counter(tuple(finding.row().items()) for finding in report.findings)
    assert {1} >= set(told.values()), label
    assert [] == mendable(damage_of(checked(disk))), label
    assert () == (await repair(checked(disk))).kept, label
    arrived = await serve_on(disk)
    assert {} == {body: count for body, count in arrived.items() if count != 1}, label
    assert set() == survivors - arrived.keys(), label


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
async def test_a_sound_store(autojump_clock: MockClock, stop: bool) -> None:
    """Nothing is found in a store that was stopped or killed, and nothing is touched."""
    image = await small_image(stop=stop)
    disk = on_disk(image)
    report = await repair(checked(disk))

    assert ((), (), ()) == (report.findings, report.left, report.kept)
    assert image.keys() <= {*image, f"{ROOT}/lock"}
    assert not disk.is_dir(f"{ROOT}/aside")


@pytest.mark.parametrize("family", FAMILIES)
async def test_damage_of_one_family(autojump_clock: MockClock, family: FileFamily) -> None:
    """Whatever happens to files of one family: what survived is delivered once, and no more."""
    images = [await small_image(), await small_image(stop=False)]
    earlier = await small_image(sent=SENT // 2)
    whole = records(on_disk(images[0]))
    for number, kind in enumerate(DamageKind):
        image = images[number % 2]
        damage = draw_damage(
            Random(f"{family}{kind}"),
            image,
            ROOT,
            families=[family],
            kinds=[kind],
            earlier=earlier,
        )
        if damage is not None:
            disk = on_disk(image)
            damage.do(disk)
            await check_repair(disk, whole, (kind, damage.path, damage.offset))
    for how in LOSSES:
        disk = on_disk(images[0])
        path = lose(disk, Random(f"{family}{how}"), images[0], family, how)
        await check_repair(disk, whole, (how, path))


@pytest.mark.parametrize("seed", range(4))
async def test_damage_everywhere(autojump_clock: MockClock, seed: int) -> None:
    """Several damages at a time, in any files, are repaired together."""
    image = await small_image(stop=seed % 2 == 0)
    whole = records(on_disk(image))
    draw = Random(seed)
    disk = on_disk(image)
    for _ in range(draw.randint(2, 6)):
        damage = draw_damage(draw, image, ROOT, families=FAMILIES)
        if damage is not None:
            damage.do(disk)
    await check_repair(disk, whole, seed)


@pytest.mark.parametrize("cut", ["kill", "power cut", "torn"])
async def test_a_repair_that_ends_anywhere(autojump_clock: MockClock, cut: str) -> None:
    """A repair that was killed at any operation on the disk is run again, and all is repaired."""
    image = await small_image()
    whole = records(on_disk(image))
    draw = Random(cut)
    damages = [
        draw_damage(Random(f"again{family}"), image, ROOT, families=[family], kinds=[kind])
        for family, kind in (
            (FileFamily.COMMIT_LOG, DamageKind.STRAYED),
            (FileFamily.CONSUME_QUEUE, DamageKind.ZERO),
            (FileFamily.INDEX, DamageKind.FLIP),
            (FileFamily.TIMER_LOG, DamageKind.ZERO),
        )
    ]
    skip, is_through = 0, False
    while not is_through:
        disk = on_disk(image)
        for damage in damages:
            assert damage is not None
            damage.do(disk)
        plan = FaultRules(
            FaultRule(operations=CHANGING, fault=Fault(errno.EIO), skip=skip, count=None)
        )
        try:
            report = await repair(checked(FaultyDisk(disk, ROOT, plan)))
            is_through = report.is_repaired
        except OSError:
            pass
        if cut == "kill":
            disk.process_kill()
        else:
            disk.power_cut(draw if cut == "torn" else None)
        if not skip % 4:
            await check_repair(disk, whole, (cut, skip))
        else:
            assert (await repair(checked(disk))).is_repaired
            assert [] == mendable(damage_of(checked(disk)))
        skip += draw.randint(1, 24)

    assert skip > 20


@pytest.mark.slow
@pytest.mark.parametrize("way", [*DamageKind, *LOSSES], ids=str)
@pytest.mark.parametrize("name", NAMES)
async def test_golden_store_damaged_in_every_way(
    autojump_clock: MockClock, golden_stores: GoldenStores, name: str, way: DamageKind | str
) -> None:
    """RocketMQ's stores are repaired too: each kind of damage in files of each family."""
    golden = golden_stores[name]
    now_ms = golden.manifest.times["stoppedMs"] + 1_000
    image = golden_image(golden)
    earlier = {path: data[: len(data) // 2] for path, data in image.items()}
    for family in {family_of(ROOT, path) for path in image if image[path]} & {*FAMILIES}:
        disk, draw = on_disk(image), Random(f"{name}{family}{way}")
        if isinstance(way, DamageKind):
            damage = draw_damage(draw, image, ROOT, families=[family], kinds=[way], earlier=earlier)
            if damage is None:
                continue
            damage.do(disk)
        else:
            lose(disk, draw, image, family, way)
        store = golden_checked(disk, now_ms)
        report = await repair(store)
        assert report.is_repaired, (family, report.left)
        assert [] == mendable(damage_of(store)), family


DERIVED = (
    FileFamily.CONSUME_QUEUE,
    FileFamily.INDEX,
    FileFamily.TIMER_LOG,
    FileFamily.TIMER_WHEEL,
)
"""Families that can be made again from the commit log: with all damaged no message is lost."""


async def check_served(golden: GoldenStore, image: Image, damages: Sequence[Damage]) -> None:
    """Repair a killed store of RocketMQ's: each of its pending timers arrives in time, once."""
    start_ms = golden.manifest.times["stopSignalMs"] + 1_000
    clock = VirtualClock(start_ms)
    disk = on_disk(image)
    disk.now_ms = clock.now_ms
    for damage in damages:
        damage.do(disk)
    report = await repair(golden_checked(disk, start_ms))
    end_py = golden.manifest.state.max_phy_offset
    async with running(
        disk,
        clock,
        store_options=golden_checked(disk, start_ms).store_options,
        timer_options=golden_checked(disk, start_ms).timer_options,
    ) as service:
        await trio.sleep(600)
        found = [
            one
            for one in arrivals_everywhere(service.store)
            if one.phy_offset >= end_py and one.topic not in (TIMER_TOPIC, *OWN_TOPICS)
        ]
    arrived = Counter(one.unique_id for one in found)
    pending = {
        one.msg_id: one for one in golden.manifest.messages if one.state.startswith("pending")
    }
    due = {
        key
        for key, one in pending.items()
        if one.deliver_ms is not None and one.deliver_ms < start_ms + 590_000
    }

    assert report.is_repaired
    assert len(due) > 50
    assert set() == due - arrived.keys()
    assert {} == {key: count for key, count in arrived.items() if count != 1 or key not in pending}


@pytest.mark.slow
async def test_killed_java_store_without_timer_files(
    autojump_clock: MockClock, golden_stores: GoldenStores
) -> None:
    """Timer log and wheel are made from the commit log: each pending timer arrives, once."""
    golden = golden_stores["g3"]
    image = {
        path: data
        for path, data in golden_image(golden).items()
        if family_of(ROOT, path) not in (FileFamily.TIMER_LOG, FileFamily.TIMER_WHEEL)
    }

    await check_served(golden, image, ())


@pytest.mark.slow
@pytest.mark.parametrize("kind", DamageKind)
async def test_killed_java_store_delivers_what_waited(
    autojump_clock: MockClock, golden_stores: GoldenStores, kind: DamageKind
) -> None:
    """Whatever has happened to all files but the commit log, no timer is lost or comes twice."""
    golden = golden_stores["g3"]
    image = golden_image(golden)
    earlier = {path: data[: len(data) // 2] for path, data in image.items()}
    drawn = [
        draw_damage(
            Random(f"{family}{kind}"), image, ROOT, families=[family], kinds=[kind], earlier=earlier
        )
        for family in DERIVED
    ]
    damages = [one for one in drawn if one is not None]

    assert damages
    await check_served(golden, image, damages)


async def test_a_topic_that_was_damaged(autojump_clock: MockClock) -> None:
    """Topics have no checksum, but a unit has the hash of the one that its message was for."""
    image = await small_image()
    disk = on_disk(image)
    path = min(one for one in image if "/commitlog/" in one)
    file = disk.open(path)
    data = file.read(0, file.size())
    name = b"REAL_TOPIC\x01T1\x02"
    assert name in data
    file.write(data.rindex(name) + len(name) - 2, b"S")
    disk.sync_now(file)
    file.close()

    found = [one for one in damage_of(checked(disk)) if "hash of the topic" in one.expected]
    assert [(StoreRule.UNIT_TOPIC, Severity.LOST, 1)] == [
        (one.rule, one.severity, one.count) for one in found
    ]
    assert "timerlog/" in found[0].file


async def test_a_queue_whose_every_record_is_lost(autojump_clock: MockClock) -> None:
    """Its units tell how far it was: its offsets are not given out again."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        service.put([timed("before", clock.now_ms() + 50_000)])
        (lost,) = service.store.put([Message("only", 0, b"x" * 2_000, b"")])
        service.put([timed("behind", clock.now_ms() + 50_000)])
    path = f"{ROOT}/commitlog/{0:020d}"
    overwrite(disk, path, lost.end - lost.size, bytes(lost.size))
    report = await repair(checked(disk, now_ms=clock.now_ms()))
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        found = service.store.get("only", 0, 0, count_max=9, bytes_max=1 << 20)
        (next_one,) = service.store.put([Message("only", 0, b"next", b"")])

    assert report.is_repaired
    assert [b"1"] == [find(record_properties(one), b"TIMERMQ_LOST") for one in found.records]
    assert 1 == next_one.queue_offset


async def test_the_place_of_a_lost_record_without_a_unit(autojump_clock: MockClock) -> None:
    """A start has kept it: what waits behind arrives once, and a repair puts an empty record there.

    The same of the timers' queue and of a topic's.
    """
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        service.put([timed("before", clock.now_ms() + 50_000)])
        # Neighbours of what is lost, in its sectors.
        service.store.put([Message("only", 0, b"first", b""), Message("T", 0, b"x" * 999, b"")])
        begin = service.store.commit_log.max_offset
        service.put([timed("lost" * 50, clock.now_ms() + 50_000)])
        service.store.put([Message("only", 0, b"x" * 999, b"")])
        end = service.store.commit_log.max_offset
        service.store.put([Message("T", 0, b"x" * 999, b""), Message("only", 0, b"last", b"")])
        service.put([timed("behind", clock.now_ms() + 50_000)])
    overwrite(disk, f"{ROOT}/commitlog/{0:020d}", begin, bytes(end - begin))
    for topic in ("only", TIMER_TOPIC):
        overwrite(disk, f"{ROOT}/consumequeue/{topic}/0/{0:020d}", UNIT.size, bytes(UNIT.size))
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        await trio.sleep(1)
        found = service.store.get("only", 0, 0, count_max=9, bytes_max=1 << 20)
    report = await repair(checked(disk, now_ms=clock.now_ms()))
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        await trio.sleep(60)
        arrived = Counter(one.body for one in arrivals(service.store) if len(one.body) < 999)
        repaired = service.store.get("only", 0, 0, count_max=9, bytes_max=1 << 20)

    assert [b"first", b"last"] == [decode_record(one).body for one in found.records]
    assert (3, 3) == (found.max_offset, repaired.max_offset)
    assert report.is_repaired
    assert [b"first", b"", b"last"] == [decode_record(one).body for one in repaired.records]
    assert {"before": 1, "behind": 1} == arrived


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "never there"])
async def test_a_queue_whose_records_were_cleaned_before_the_last(
    autojump_clock: MockClock, is_lost: bool
) -> None:
    """The last one stood in a hole, or its unit is false: no offset is given out again."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    segment_size = SMALL_FILES.mapped_file_size_commit_log
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        service.store.put([Message("only", 0, b"cleaned", b""), Message("T", 0, b"", b"")])
        while service.store.commit_log.max_offset <= segment_size:
            service.store.put([Message("T", 0, b"x" * 30_000, b"")])
        (last,) = service.store.put([Message("only" if is_lost else "T", 0, b"x" * 500, b"")])
        service.store.put([Message("T", 0, b"behind", b"")])
        service.store.commit_log.delete_before(segment_size)
    at = last.end - last.size
    if is_lost:
        path, at, data = (
            f"{ROOT}/commitlog/{segment_size:020d}",
            at - segment_size,
            bytes(last.size),
        )
    else:
        path, at, data = f"{ROOT}/consumequeue/only/0/{0:020d}", 20, UNIT.pack(at, last.size, 0)
    overwrite(disk, path, at, data)
    report = await repair(checked(disk, now_ms=clock.now_ms()))
    again = await repair(checked(disk, now_ms=clock.now_ms()))
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        (next_one,) = service.store.put([Message("only", 0, b"next", b"")])

    assert (True, ()) == (report.is_repaired, again.kept)
    assert (2 if is_lost else 1) == next_one.queue_offset


async def test_a_queue_that_ends_with_its_file_and_has_no_record_left(
    autojump_clock: MockClock,
) -> None:
    """It was killed as the next file was made: its files go to the backup, and none follows."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(SMALL_FILES, mapped_file_size_consume_queue=2 * UNIT.size)
    segment_size = files.mapped_file_size_commit_log
    async with running(disk, clock, store_options=files, stop=False) as service:
        service.store.put([Message("only", 0, b"cleaned", b"") for _ in range(2)])
        while service.store.commit_log.max_offset <= segment_size:
            service.store.put([Message("T", 0, b"x" * 30_000, b"")])
        await service.store.flush()
        service.store.commit_log.delete_before(segment_size)
    disk.process_kill()
    path = f"{ROOT}/consumequeue/only/0/{2 * UNIT.size:020d}"
    file = disk.open(path, create=True)
    file.write(0, b"x")
    file.close()
    report = await repair(checked(disk, now_ms=clock.now_ms(), store_options=files))
    async with running(disk, clock, store_options=files) as service:
        (next_one,) = service.store.put([Message("only", 0, b"next", b"")])

    assert report.is_repaired
    assert 2 == next_one.queue_offset


async def test_a_queue_that_only_the_register_tells_of(autojump_clock: MockClock) -> None:
    """Cleaned, and a power cut took its new file; another queue is made again meanwhile."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    segment_size = SMALL_FILES.mapped_file_size_commit_log
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        service.store.put([Message("only", 0, b"cleaned", b"") for _ in range(2)])
        while service.store.commit_log.max_offset <= segment_size:
            service.store.put([Message("T", 0, b"x" * 30_000, b"")])
        service.store.put([Message("T", 0, b"behind", b"")])
        await service.store.flush()
        service.store.commit_log.delete_before(segment_size)
    disk.remove(f"{ROOT}/consumequeue/only/0/{0:020d}")
    disk.sync_dir_now(f"{ROOT}/consumequeue/only/0")
    overwrite(disk, f"{ROOT}/consumequeue/T/0/{0:020d}", 0, bytes(3 * UNIT.size))
    report = await repair(checked(disk, now_ms=clock.now_ms()))
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        (next_one,) = service.store.put([Message("only", 0, b"next", b"")])

    assert report.is_repaired
    assert 2 == next_one.queue_offset


async def test_a_last_record_that_was_not_written_to_its_end(autojump_clock: MockClock) -> None:
    """A kill within the write: there is nothing to put right, and the next start cuts it off."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES, stop=False) as service:
        service.put([timed("before", clock.now_ms() + 50_000)])
        before = service.store.commit_log.max_offset
        service.put([timed("short", clock.now_ms() + 50_000)])
        end = service.store.commit_log.max_offset
    disk.process_kill()
    overwrite(disk, f"{ROOT}/commitlog/{0:020d}", end - 9, bytes(9))
    report = await repair(checked(disk, now_ms=clock.now_ms()))

    assert report.is_repaired
    assert not any(position >= before for position in records(disk))


async def test_a_queue_that_begins_in_a_hole(autojump_clock: MockClock) -> None:
    """A power cut took its first record and all its units: check and start agree about the rest."""
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_FILES, stop=False) as service:
        for body in ("lost", "kept"):
            (one,) = service.put([timed(body, clock.now_ms() + 50_000)])
        first_size = one.result.phy_offset
        await trio.sleep(1)
    disk.process_kill()
    disk.power_cuts += 1
    log = f"{ROOT}/commitlog/{0:020d}"
    for path in read_image(disk, ROOT):
        if path != log and "/timerlog/" not in path and not path.endswith("/abort"):
            disk.remove(path)
    overwrite(disk, log, 0, bytes(first_size))
    report = await repair(checked(disk, now_ms=clock.now_ms()))
    clock = clock_at(START_MS)
    async with running(disk, clock, store_options=SMALL_FILES) as service:
        await trio.sleep(60)
        arrived = [one.body for one in arrivals(service.store)]
        queue = service.store.queue(TIMER_TOPIC, 0)

    assert report.is_repaired
    assert ["kept"] == [one for one in arrived if one]
    assert queue is not None
    assert (0, 2) <= (queue.min_offset, queue.max_offset)


@pytest.mark.parametrize("is_ours", [True, False])
async def test_a_clock_that_was_set_back_is_no_damage(
    autojump_clock: MockClock, is_ours: bool
) -> None:
    """What the wheel was read up to is beyond doubt; without its checksum it is read again."""
    disk = on_disk(await small_image())
    path = f"{ROOT}/config/timercheck"
    page = TimerCheckpoint.open(disk, path)
    assert page.extension is not None
    page.update(
        last_read_time_ms=page.last_read_time_ms + 60_000,
        last_timer_log_flush_pos=page.last_timer_log_flush_pos,
        last_timer_queue_offset=page.last_timer_queue_offset,
        scan_py=page.extension.scan_py,
        precision_ms=page.extension.precision_ms,
        now_ms=START_MS,
    )
    page.write()
    if not is_ours:
        flip_bit(disk, path, EXTENSION_AT, 0xFF)
    found = [one.file for one in damage_of(checked(disk, now_ms=START_MS - 1_000_000_000))]

    assert ("config/timercheck" in found) == (not is_ours)
