"""The audit finds each of ten planted faults by rule and key, and nothing in sound stores."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from cli.program import Ran
from fakes import VirtualClock
from golden_stores import GoldenStores
from simulation.staged_service import QUIET_FILES, SMALL_FILES, running
from spark.audited_stores import all_kinds, put, taken_over, written
from spark.planted_store import LOG, Plant
from timermq.cli import main
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.spark import StoreView, read_table
from timermq.pipeline.spark.jobs.audit import Audit, audit
from timermq.repair.store_rule import StoreRule
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.message import Message
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT
from timermq.timerstore.record_layout import BODY_AT

LATE_MS = 5_000
NAMES = ("cut off", "doubled", "early", "late", "gone", "flipped", "torn", "good", "last")


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    """Run the program, with the session of the tests."""
    capsys.readouterr()
    code = main(["spark", "audit", *argv])
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)


# -- planted faults -------------------------------------------------------------------------------


def test_ten_planted_faults(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is found, by its rule and by what it is about, and nothing else."""
    expected: set[tuple[object, ...]] = set()

    async def life(disk: MemoryDisk, clock: VirtualClock) -> None:
        due_ms: dict[str, int] = {}
        async with running(disk, clock, store_options=QUIET_FILES) as service:
            for number, name in enumerate(NAMES):
                due_ms[name] = clock.now_ms() + 2_000 + 100 * number
                put(service, name, 2_000 + 100 * number, clock)
            put(service, "cancelled", 3_000, clock)
            service.cancellation.cancel(Wanted("T", "cancelled"))
            for number in range(80):
                put(service, f"more {number}", 2_500, clock)
            service.store.put([Message("plain", 0, b"x", b"") for _ in range(3)])
            await trio.sleep(20)
        plant = Plant(disk)
        arrived = plant.arrived
        waiting = {name: records[0] for name, records in plant.waiting.items()}
        last = waiting["last"]
        results = plant.store.put(
            [
                Message("T", 0, b"again", b"", prepared_offset=origin_of(waiting["doubled"])),
                Message("T", 0, b"whose", b"", prepared_offset=origin_of(last + 3)),
                Message("T", 0, b"back", b"", prepared_offset=origin_of(waiting["cancelled"])),
            ]
        )
        assert all(result.status.is_stored for result in results)
        await plant.store.aclose()
        # The origin is all that makes a record the delivery of another one.
        plant.set_head(arrived["cut off"], "prepared_transaction_offset", bytes(8))
        plant.set_head(arrived["early"], "store_ms", (due_ms["early"] - 7).to_bytes(8))
        late_ms = due_ms["late"] + LATE_MS + 1
        plant.set_head(arrived["late"], "store_ms", late_ms.to_bytes(8))
        plant.write(LOG, waiting["flipped"] + BODY_AT, b"g")
        gone_pos, torn_pos = plant.unit_of(waiting["gone"]), plant.unit_of(waiting["torn"])
        plant.set_unit(gone_pos, "offset_py", (last + 5).to_bytes(8))
        plant.set_unit(torn_pos, "size", bytes(4))
        plant.set_queue_unit("plain", 2, bytes(QUEUE_UNIT.size))
        plant.write(f"consumequeue/T/0/{0:020d}", 7, b"\x01")
        expected.update(
            {
                ("LOST", waiting["cut off"], plant.unit_of(waiting["cut off"]), "cut off"),
                ("EARLY", waiting["early"], None, "early"),
                ("TWICE", waiting["doubled"], None, "doubled"),
                ("LATE", waiting["late"], None, "late"),
                ("CANCELLED", waiting["cancelled"], None, "cancelled"),
                ("ORPHAN", last + 3, None, None),
                ("UNIT_DIFFERS", last + 5, gone_pos, None),
                ("RECORD_DAMAGED", waiting["flipped"], None, "flipped"),
                ("CHAIN_BROKEN", None, torn_pos, None),
            }
        )

    ran = run(
        capsys,
        *("--store", str(written(life, tmp_path)), "--late-ms", str(LATE_MS)),
        *("--json", "--out", str(tmp_path / "findings")),
    )

    assert ran.code == 1
    # The queue whose unit is gone is read from the log, which each opening tells.
    told = [line for line in ran.err.splitlines() if "queues made again" not in line]
    assert told == []
    findings = [row for row in ran.rows if row["row"] == "finding"]
    queues = [row for row in findings if row["rule"] == "QUEUE_DIFFERS"]
    others = [row for row in findings if row not in queues]
    keys = ("rule", "phy_offset", "pos", "unique_id")
    assert expected == {tuple(row[key] for key in keys) for row in others}
    assert len(expected) == len(others)
    places = {(row["topic"], row["queue_id"], row["queue_offset"]) for row in queues}
    assert {("plain", 0, 2), ("T", 0, 0)} == places
    broken = {row["rule"]: row["broken"] for row in ran.rows if row["row"] == "rule"}
    assert broken.pop("DISORDER") is None, "not asked for"
    counted = {name: sum(row["rule"] == name for row in findings) for name in broken}
    assert counted == broken
    assert len(findings) == spark.read.parquet(str(tmp_path / "findings")).count()


STATES = ("delivered", "moved", "rolled", "cancelled", "copies", "set_aside", "pending")
"""What becomes of a timer: the counts add up."""


# -- sound stores ---------------------------------------------------------------------------------


def clean(result: Audit) -> bool:
    """Whether there is nothing; what was found is shown."""
    rows = result.findings.collect()
    assert [] == rows
    return result.is_clean


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
def test_all_kinds_of_messages(spark: SparkSession, tmp_path: Path, stop: bool) -> None:
    """Rolls, cancels, moves, the quarantine and its retries, through kills and outages."""
    result = audit(spark, str(written(all_kinds(stop=stop), tmp_path)), in_order=True)

    assert clean(result)
    counts = result.counts
    assert counts["timers"] == sum(counts[name] for name in STATES)
    assert all(counts[name] for name in STATES)


def test_a_live_store(spark: SparkSession, tmp_path: Path) -> None:
    """Behind the positions that the broker has published anything may stand."""
    store = written(all_kinds(stop=False, files=SMALL_FILES), tmp_path)
    lock = OsDisk().lock(f"{store}/lock")
    try:
        assert clean(audit(spark, str(store)))
    finally:
        lock.release()


@pytest.mark.usefixtures("spark")
def test_a_take_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What waited for classic levels is delivered by another record; people get tables."""
    ran = run(capsys, "--store", str(written(taken_over, tmp_path)))

    assert (0, "") == (ran.code, ran.err)
    assert "records 17, timers 8, delivered 3, moved 0, rolled 2" in ran.out
    assert "a delivery was stored before the moment asked for" in ran.out


def test_stores_of_rocketmq(spark: SparkSession, golden_stores: GoldenStores) -> None:
    """What it delivered and cancelled is known by name; the counts of each store add up."""
    names = ("g3", "g4", "g5")

    result = audit(spark, [f"{name}={golden_stores[name].root}" for name in names])

    assert clean(result)
    assert all(
        f"{name}: {number} messages were delivered or rolled by RocketMQ" in " ".join(result.notes)
        for name, number in (("g3", 96), ("g4", 1), ("g5", 6))
    )
    assert list(names) == list(result.by_broker)
    for name, counts in result.by_broker.items():
        root = golden_stores[name].root
        assert counts["timers"] == sum(counts[state] for state in STATES)
        waiting = read_table(spark, "timermq.pending", root, columns="slot_ms").count()
        assert counts["pending"] == waiting - StoreView.of(root).levels_left
    assert (71, 25, 20, 101) == tuple(
        result.by_broker["g3"][state] for state in ("delivered", "rolled", "cancelled", "pending")
    )
    assert result.counts["timers"] == sum(counts["timers"] for counts in result.by_broker.values())


def test_levels_of_rocketmq(spark: SparkSession, golden_stores: GoldenStores) -> None:
    """A store in which only classic levels wait is not called clean without a word of them."""
    result = audit(spark, golden_stores["g2"].root, bodies=False)

    assert clean(result)
    assert {StoreRule.LATE, StoreRule.DISORDER} == result.unasked
    assert [
        f"69 messages of classic levels wait in {SCHEDULE_TOPIC}: not judged; a broker that serves "
        "the store takes them over",
        "bodies were not compared with their checksums",
    ] == [*result.notes][:2]
