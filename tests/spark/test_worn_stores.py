"""Stores that have seen something: fronts cleaned away, transactions open, files repaired.

The tables tell what is there, and the audit finds nothing.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import attrs
import pytest
import trio
from pyspark.sql import SparkSession
from trio.testing import MockClock

from damaged_stores import checked, damage_of, on_disk, repair, small_image
from fakes import START_MS, VirtualClock
from rolled_stores import worn_life
from simulation.staged_service import (
    HOST,
    QUIET_FILES,
    ROOT,
    SMALL_WHEEL,
    arrivals,
    arrivals_everywhere,
    running,
)
from spark.audited_stores import put, write_files, written
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.options import BrokerOptions
from timermq.broker.transactions.half_message import decode_half, parked
from timermq.broker.transactions.transactions import Transactions
from timermq.pipeline.spark import read_table
from timermq.pipeline.spark.jobs.audit import audit
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_rule import Promise
from timermq.simulator.disks.disk_damage import DamageKind, Image, draw_damage, read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.message import Message
from timermq.timerstore.os_disk import OsDisk

HOUR = 3_600
SEGMENT_SIZE = 8_192
CLEANED_SOON = attrs.evolve(
    QUIET_FILES,
    mapped_file_size_commit_log=SEGMENT_SIZE,
    file_reserved_time_hours=1,
    clean_resource_interval_ms=60_000,
)
LONG_WINDOW = TimerOptions(
    timer_roll_window_slot=10 * HOUR, slots_total=24 * HOUR, clock_check_interval_ms=HOUR * 1000
)


def keys(spark: SparkSession, table: str, root: Path) -> list[str]:
    """Unique ids of a table's rows, in order."""
    frame = read_table(spark, table, str(root), columns="unique_id")
    return sorted(row.unique_id for row in frame.collect())


def test_what_was_cancelled_before_the_front_was_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Copies of messages whose first records are cleaned: none is called lost, nor sent again."""
    store = written(worn_life, tmp_path)
    assert audit(spark, str(store)).is_clean
    (store / "commitlog" / f"{0:020d}").unlink()

    result = audit(spark, str(store))

    assert (True, 1, 4) == (result.is_clean, result.counts["pending"], result.counts["copies"])
    assert result.notes == []
    found = CheckedStore(
        disk=OsDisk(),
        root=str(store),
        store_options=QUIET_FILES,
        timer_options=SMALL_WHEEL,
        now_ms=2 * START_MS,
    ).find()
    lost = [one for one in found if one.rule.promise is Promise.NOT_LOST]
    assert lost == []


def test_a_half_cleaned_store(spark: SparkSession, tmp_path: Path) -> None:
    """Timers that went with their segments are in no table, and break no promise."""
    left, arrived = list[int](), list[str]()

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        async with running(
            disk, clock, store_options=CLEANED_SOON, timer_options=LONG_WINDOW
        ) as service:
            for number in range(30):
                put(service, f"gone{number}", 60_000 + number, clock)
            await trio.sleep(90)
            for number in range(8):
                put(service, f"waits{number}", (8 * HOUR + number) * 1000, clock)
                put(service, f"comes{number}", (2 * HOUR + number) * 1000, clock)
            disk.total = disk.usage(ROOT).used * 100 // 80
            await trio.sleep(3 * HOUR)
            put(service, "new", 1_000, clock)
            await trio.sleep(10)
            left.extend(one.phy_offset for one in arrivals_everywhere(service.store))
            arrived.extend(one.unique_id for one in arrivals(service.store))
            assert service.store.commit_log.min_offset > 0

    root = written(life, tmp_path)
    result = audit(spark, str(root), in_order=True)
    logged = read_table(spark, "timermq.commitlog", str(root), columns="phy_offset").collect()

    assert [] == result.findings.collect()
    assert (17, 9, 8) == tuple(result.counts[one] for one in ("timers", "delivered", "pending"))
    assert left == sorted(row.phy_offset for row in logged)
    assert [f"waits{number}" for number in range(8)] == keys(spark, "timermq.pending", root)
    assert sorted(arrived) == keys(spark, "timermq.delivered", root)
    assert len(arrived) - 9 == result.counts["cleaned"] > 0


def test_transactions(spark: SparkSession, tmp_path: Path) -> None:
    """A half message is no timer; one that was committed with a moment is."""

    def half(key: str, more: str = "") -> Message:
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01{key}\x02{more}"
        message = Message("T", 0, key.encode(), properties.encode(), born_host=HOST)
        return parked(message, key)

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        async with running(disk, clock, store_options=QUIET_FILES, stop=False) as service:
            offsets = ConsumerOffsetTable(now_ms=clock.now_ms, version_step=500)
            transactions = Transactions(service, offsets, BrokerOptions())
            delays = [f"TIMER_DELAY_MS\x01{seconds}000\x02" for seconds in (3, 90)]
            messages = [
                *(half(key) for key in ("committed", "rolled back", "open")),
                *(half(f"delayed{at}", delay) for at, delay in enumerate(delays)),
                half("open, delayed", delays[0]),
            ]
            stored = [one.result for one in transactions.put_halves(messages, [""] * len(messages))]
            log = service.store.commit_log
            halves = [decode_half(log.read(one.phy_offset, one.size)) for one in stored]
            for number in (0, 3, 4):
                transactions.commit(halves[number])
            transactions.rollback(halves[1])
            await trio.sleep(10)
        disk.process_kill()

    root = written(life, tmp_path)
    result = audit(spark, str(root), in_order=True)

    assert [] == result.findings.collect()
    assert ["delayed1"] == keys(spark, "timermq.pending", root)
    assert ["delayed0"] == keys(spark, "timermq.delivered", root)


FAMILIES = (
    FileFamily.COMMIT_LOG,
    FileFamily.CONSUME_QUEUE,
    FileFamily.TIMER_LOG,
    FileFamily.TIMER_WHEEL,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_repaired_store(spark: SparkSession, tmp_path: Path, family: FileFamily) -> None:
    """What a repair has repaired is sound for the audit too; what was lost is not pending."""

    async def repaired() -> Image:
        disk = on_disk(await small_image())
        draw, image = Random(f"audit {family}"), read_image(disk, ROOT)
        while not damage_of(checked(disk)):
            damage = draw_damage(draw, image, ROOT, families=[family], kinds=[DamageKind.ZERO])
            assert damage is not None
            damage.do(disk)
        report = await repair(checked(disk))
        assert report.is_repaired
        return read_image(disk, ROOT)

    image = trio.run(repaired, clock=MockClock(autojump_threshold=0))
    result = audit(spark, str(write_files(image, tmp_path)), in_order=True)

    assert [] == result.findings.collect()
    assert result.counts["pending"] > 0
    lost = family is FileFamily.COMMIT_LOG
    assert lost == any("stand where a repair found damaged ones" in note for note in result.notes)
