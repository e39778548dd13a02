"""Every rule of the audit that `test_audit` breaks no promise of is broken here, and found."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from fakes import VirtualClock
from golden_stores import GoldenStores
from simulation.staged_service import QUIET_FILES, ROOT, delete_of, running, stored_delete, timed
from spark.audited_stores import put, written
from spark.planted_store import SEGMENT_UNITS, Plant
from timermq.pipeline.records.cancel_verdict import Verdict, Wanted
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.spark import SparkJobError, StoreView, read_table
from timermq.pipeline.spark.jobs.audit import Audit, audit, audit_on, job
from timermq.pipeline.spark.store_view import life_of
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import MAGIC_DELETE, UNIT
from timermq.timerlog.unit import MAGIC_DEFAULT
from timermq.timerstore.message import Message
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT
from timermq.timerstore.record_layout import HEAD

Found = tuple[object, ...]
"""Verdict, position of the record, that of the unit, unique key, queue offset."""


def found_in(result: Audit) -> list[Found]:
    """What was found; the place in a queue only of what is about the queue."""
    rows = result.findings.collect()
    assert sum(result.verdicts.values()) == len(rows)
    return sorted(
        (
            (
                row.verdict,
                row.phy_offset,
                row.pos,
                row.unique_id,
                row.queue_offset if row.topic in ("plain", "gap") else None,
            )
            for row in rows
        ),
        key=str,
    )


def test_rolls_cancels_order_units_and_queues(spark: SparkSession, tmp_path: Path) -> None:
    """What only the records of a message together tell, and what a unit or a queue says wrongly."""
    expected: list[Found] = []

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        async with running(disk, clock, store_options=QUIET_FILES) as service:
            for name in ("sent first", "sent second", "cancelled", "resized", "shifted", "kind"):
                put(service, name, 3_000, clock)
            at_ms = clock.now_ms() + 3_500
            service.put([timed("named", at_ms), delete_of("named", at_ms)])
            # Such deletes are of another topic: they mean none of these.
            service.put([timed(name, at_ms) for name in ("named elsewhere", "by its key")])
            service.store.put(
                [
                    stored_delete("V", "T+named elsewhere", at_ms, "named elsewhere"),
                    stored_delete("V", "by its key", at_ms),
                ]
            )
            for name in ("rolled", "rolled back"):
                put(service, name, 30_000, clock)
            for name in ("cancelled", "rolled back"):
                verdict = service.cancellation.cancel(Wanted("T", name)).verdict
                assert verdict is Verdict.CANCELLED
            for number in range(2 * SEGMENT_UNITS):
                put(service, f"more {number}", 2_500, clock)
            await trio.sleep(40)
        plant = Plant(disk)
        first = {name: records[0] for name, records in plant.waiting.items()}
        again = {name: plant.waiting[name][1] for name in ("rolled", "rolled back")}
        delivered = (first["rolled"], again["rolled back"], first["named"])
        results = plant.store.put(
            [
                *(
                    Message("T", 1, b"again", b"", prepared_offset=origin_of(one))
                    for one in (*delivered, plant.deletes["cancelled"])
                ),
                *(Message("plain", 0, b"x", b"") for _ in range(3)),
            ]
        )
        assert all(result.status.is_stored for result in results)
        await plant.store.aclose()
        # Two arrivals change places: each names the message that the other one is.
        for arrived, sent in (("sent first", "sent second"), ("sent second", "sent first")):
            origin = origin_of(first[sent]).to_bytes(8, signed=True)
            plant.set_head(plant.arrived[arrived], "prepared_transaction_offset", origin)
        # Nothing says any more that the message was rolled, and that its first record is done.
        plant.set_head(again["rolled"], "prepared_transaction_offset", bytes(8))
        units = {name: plant.unit_of(first[name]) for name in ("resized", "shifted", "kind")}
        plant.set_unit(units["resized"], "size_py", (77).to_bytes(4))
        plant.set_unit(units["shifted"], "delay_ms", (9_000).to_bytes(4))
        plant.set_unit(units["kind"], "magic", (MAGIC_DEFAULT | MAGIC_DELETE).to_bytes(4))
        torn = (SEGMENT_UNITS - 1) * UNIT.size
        plant.set_unit(torn, "size", bytes(4))
        orphan = QUEUE_UNIT.pack(first["resized"], 77, 0)
        plant.set_queue_unit("plain", 3, orphan)
        expected.extend(
            [
                ("ONCE", first["rolled"], None, "rolled", None),
                ("CANCELLED", first["rolled back"], None, "rolled back", None),
                ("CANCELLED", first["named"], None, "named", None),
                ("ORDER", first["sent second"], None, "sent second", None),
                ("ORPHAN", plant.deletes["cancelled"], None, "cancelled", None),
                ("ORPHAN", first["resized"], None, "resized", 3),
                *(("CHAINS_DESCEND", first[name], pos, name, None) for name, pos in units.items()),
                ("CHAINS_DESCEND", None, torn, None, None),
            ]
        )

    store = str(written(life, tmp_path))
    # From frames, as a program has them.
    result = audit_on(
        read_table(spark, "timermq.commitlog", store, damage="report"),
        read_table(spark, "timermq.timerlog", store),
        read_table(spark, "timermq.consumequeue", store),
        view=StoreView.of(store),
        in_order=True,
    )

    assert sorted(expected, key=str) == found_in(result)


def test_what_waits_in_a_served_store(spark: SparkSession, tmp_path: Path) -> None:
    """Its record is cleaned away, or its chain broken; a record is torn, a number left out."""
    expected: list[Found] = []

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        async with running(disk, clock, store_options=QUIET_FILES) as service:
            put(service, "cleaned", 15_000, clock)
            service.store.put([Message("plain", 0, bytes(4_000), b"") for _ in range(20)])
            service.store.put([Message("gap", 0, b"x", b"") for _ in range(3)])
            for name in ("linked", "linked wrongly", "waits"):
                put(service, name, 16_000, clock)
            await trio.sleep(2)
        plant = Plant(disk)
        first = {name: records[0] for name, records in plant.waiting.items()}
        pos = {name: plant.unit_of(first[name]) for name in ("cleaned", "linked wrongly")}
        await plant.store.aclose()
        size = QUIET_FILES.mapped_file_size_commit_log
        torn = QUEUE_UNIT.unpack(plant.queue_unit("plain", 18))[0]
        assert torn > size
        plant.set_head(torn, "magic", bytes(4))
        skipped = QUEUE_UNIT.unpack(plant.queue_unit("gap", 2))[0]
        plant.set_head(skipped, "queue_offset", (3).to_bytes(8))
        plant.set_queue_unit("gap", 3, plant.queue_unit("gap", 2))
        plant.set_queue_unit("gap", 2, bytes(QUEUE_UNIT.size))
        disk.remove(f"{ROOT}/commitlog/{0:020d}")
        plant.set_unit(pos["linked wrongly"], "prev_pos", pos["cleaned"].to_bytes(8))
        expected.extend(
            [
                ("NOT_LOST", first["cleaned"], pos["cleaned"], None, None),
                ("CHAINS_DESCEND", None, pos["linked wrongly"], None, None),
                ("TORN", torn, None, None, None),
                ("FOLLOWS_LOG", skipped, None, None, 3),
            ]
        )

    store = written(life, tmp_path)
    lock = OsDisk().lock(f"{store}/lock")
    try:
        result = audit(spark, str(store))
    finally:
        lock.release()

    assert sorted(expected, key=str) == found_in(result)


def test_a_timer_log_that_the_next_start_cuts(spark: SparkSession, tmp_path: Path) -> None:
    """Its last unit is gone, which the checkpoint calls durable; the message is not lost by it."""
    last: list[int] = []

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        async with running(disk, clock, store_options=QUIET_FILES) as service:
            for number in range(3):
                put(service, f"waits {number}", 15_000 + number, clock)
            await trio.sleep(2)
        plant = Plant(disk)
        last.append(plant.unit_of(plant.waiting["waits 2"][0]))
        await plant.store.aclose()
        plant.write(f"timerlog/{0:020d}", last[0], bytes(UNIT.size))

    result = audit(spark, str(written(life, tmp_path)))

    assert [("CHAINS_DESCEND", None, last[0], None, None)] == found_in(result)
    assert 3 == result.counts["pending"]
    assert "the timer log is damaged" in " ".join(result.notes)


def test_a_broker_that_starts_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes what the job has looked at: nothing is said of such a store."""

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        async with running(disk, clock, store_options=QUIET_FILES) as service:
            put(service, "waits", 15_000, clock)
            await trio.sleep(2)

    store = written(life, tmp_path)
    lives = [(True, 0), life_of(str(store))]

    def life_now(_: str) -> tuple[bool, int]:
        return lives.pop()

    monkeypatch.setattr(job, "life_of", life_now)

    with pytest.raises(SparkJobError, match="a broker was started on it since the job began"):
        audit(spark, str(store))


def test_what_rocketmq_delivered(
    spark: SparkSession, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """Its deliveries name no record: what is early, late, twice or missing is known by names."""
    late_ms = 60_000
    root = Path(golden_stores.unpack_copy("g3", tmp_path))
    records = [one for one in golden_stores["g3"].manifest.state.records if not one.blank]
    deliveries = [
        one
        for one in records
        if one.topic.startswith("Timer_") and "TIMER_DEQUEUE_MS" in one.properties
    ]
    early, late, twice, missing = deliveries[:4]
    assert twice.topic == missing.topic
    waiting = {
        one.uniq_key: one.phy_offset
        for one in reversed(records)
        if one.topic == "rmq_sys_wheel_timer" and "TIMER_DEL_UNIQKEY" not in one.properties
    }
    path = next((root / "commitlog").iterdir())
    log = bytearray(path.read_bytes())

    def stored_at(phy_offset: int, store_ms: int) -> None:
        at = phy_offset + HEAD.offset_of("store_ms")
        log[at : at + 8] = store_ms.to_bytes(8)

    stored_at(early.phy_offset, int(early.properties["TIMER_OUT_MS"]) - 1)
    due_ms = int(late.properties["TIMER_DELIVER_MS"])
    stored_at(late.phy_offset, due_ms + late_ms + 1)
    # The fourth delivery becomes another one of the third message.
    whole = slice(missing.phy_offset, missing.phy_offset + missing.size)
    said = bytes(log[whole])
    for one in ("UNIQ_KEY", "TIMER_OUT_MS"):
        said = said.replace(missing.properties[one].encode(), twice.properties[one].encode())
    log[whole] = said
    path.write_bytes(log)

    result = audit(spark, str(root), late_ms=late_ms)

    named = [
        ("NOT_BEFORE", early),
        ("LATE", late),
        ("ONCE", twice),
        ("NOT_LOST", missing),
    ]
    assert sorted((verdict, waiting[one.uniq_key], one.uniq_key) for verdict, one in named) == [
        (verdict, phy_offset, key) for verdict, phy_offset, _, key, _ in found_in(result)
    ]
