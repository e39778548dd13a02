"""Check and audit judge by one table: what both look for, both find in the same damaged stores."""

from __future__ import annotations

from pathlib import Path

import trio
from pyspark.sql import SparkSession

from fakes import START_MS, VirtualClock
from simulation.staged_service import QUIET_FILES, ROOT, SMALL_WHEEL, running
from spark.audited_stores import Life, put, written
from spark.planted_store import LOG, SEGMENT_UNITS, Plant
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.spark.jobs.audit import audit
from timermq.repair.store_check import CheckedStore
from timermq.repair.store_rule import StoreRule
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT
from timermq.timerstore.record_layout import BODY_AT

NAMES = ("cut off", "doubled", "early", "flipped", "gone", "torn", "last")

SERVED = {
    StoreRule.CLEANED,
    StoreRule.CHAIN_BROKEN,
    StoreRule.RECORD_DAMAGED,
    StoreRule.RECORD_MISSING,
}
STOPPED = {
    StoreRule.LOST,
    StoreRule.EARLY,
    StoreRule.TWICE,
    StoreRule.RECORD_DAMAGED,
    StoreRule.UNIT_DIFFERS,
    StoreRule.CHAIN_BROKEN,
    StoreRule.QUEUE_DIFFERS,
}
"""What is planted in the two stores."""


def checked(store: Path) -> set[StoreRule]:
    """The rules that ``store check`` finds broken."""
    check = CheckedStore(
        disk=OsDisk(),
        root=str(store),
        store_options=QUIET_FILES,
        timer_options=SMALL_WHEEL,
        now_ms=2 * START_MS,
    )
    return {finding.rule for finding in check.find()}


def audited(spark: SparkSession, store: Path) -> set[StoreRule]:
    """The rules that ``spark audit`` finds broken."""
    result = audit(spark, str(store))
    return {rule for rule, count in result.broken.items() if count}


def in_both(found: set[StoreRule]) -> set[StoreRule]:
    """Those that check and audit look for."""
    return {rule for rule in found if rule.is_checked and rule.is_audited}


def what_was_delivered() -> Life:
    """Messages lost, early and twice; a record, units and a queue damaged."""

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        due_ms: dict[str, int] = {}
        async with running(disk, clock, store_options=QUIET_FILES) as service:
            for number, name in enumerate(NAMES):
                due_ms[name] = clock.now_ms() + 2_000 + 100 * number
                put(service, name, 2_000 + 100 * number, clock)
            for number in range(SEGMENT_UNITS):
                put(service, f"more {number}", 2_500, clock)
            service.store.put([Message("plain", 0, b"x", b"") for _ in range(3)])
            await trio.sleep(20)
        plant = Plant(disk)
        waiting = {name: records[0] for name, records in plant.waiting.items()}
        again = Message("T", 0, b"again", b"", prepared_offset=origin_of(waiting["doubled"]))
        assert plant.store.put([again])[0].status.is_stored
        await plant.store.aclose()
        plant.set_head(plant.arrived["cut off"], "prepared_transaction_offset", bytes(8))
        plant.set_head(plant.arrived["early"], "store_ms", (due_ms["early"] - 7).to_bytes(8))
        # Its seal tells a word of it: more than that is changed.
        plant.write(LOG, waiting["flipped"] + BODY_AT, b"unlike")
        gone_pos, torn_pos = plant.unit_of(waiting["gone"]), plant.unit_of(waiting["torn"])
        plant.set_unit(gone_pos, "offset_py", (waiting["last"] + 5).to_bytes(8))
        plant.set_unit(torn_pos, "size", bytes(4))
        plant.set_queue_unit("plain", 2, bytes(QUEUE_UNIT.size))

    return life


def what_waits() -> Life:
    """A message waits whose record is cleaned; a chain is broken, records torn and missing."""

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        async with running(disk, clock, store_options=QUIET_FILES) as service:
            put(service, "cleaned", 15_000, clock)
            service.store.put([Message("plain", 0, bytes(4_000), b"") for _ in range(20)])
            service.store.put([Message("gap", 0, b"x", b"") for _ in range(3)])
            for name in ("linked", "linked wrongly", "waits"):
                put(service, name, 16_000, clock)
            await trio.sleep(2)
        plant = Plant(disk)
        pos = {
            name: plant.unit_of(plant.waiting[name][0]) for name in ("cleaned", "linked wrongly")
        }
        await plant.store.aclose()
        torn = QUEUE_UNIT.unpack(plant.queue_unit("plain", 18))[0]
        assert torn > QUIET_FILES.mapped_file_size_commit_log
        plant.set_head(torn, "magic", bytes(4))
        skipped = QUEUE_UNIT.unpack(plant.queue_unit("gap", 2))[0]
        plant.set_head(skipped, "queue_offset", (3).to_bytes(8))
        plant.set_queue_unit("gap", 3, plant.queue_unit("gap", 2))
        plant.set_queue_unit("gap", 2, bytes(QUEUE_UNIT.size))
        disk.remove(f"{ROOT}/commitlog/{0:020d}")
        plant.set_unit(pos["linked wrongly"], "prev_pos", pos["cleaned"].to_bytes(8))

    return life


def test_a_stopped_store(spark: SparkSession, tmp_path: Path) -> None:
    """Both find all that is planted, by the same names.

    The check also names the queue offset that the damaged record had.
    """
    store = written(what_was_delivered(), tmp_path)

    assert STOPPED | {StoreRule.RECORD_MISSING} == in_both(checked(store))
    assert STOPPED == audited(spark, store)


def test_a_served_store(spark: SparkSession, tmp_path: Path) -> None:
    """The same of what is found while a message still waits."""
    store = written(what_waits(), tmp_path)
    lock = OsDisk().lock(f"{store}/lock")
    try:
        assert audited(spark, store) == SERVED
    finally:
        lock.release()
    assert in_both(checked(store)) == SERVED


def test_every_rule_is_shown() -> None:
    """What both look for is planted here; of the others one of the two says why it does not."""
    assert in_both(set(StoreRule)) == SERVED | STOPPED
    assert all(rule.is_checked or rule.is_audited for rule in StoreRule)
