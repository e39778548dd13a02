"""The tables of stores that RocketMQ wrote say what its own classes read there."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from golden_stores import NAMES, GoldenStores
from timermq.pipeline.spark import read_table


@pytest.mark.parametrize("name", NAMES)
def test_units(spark: SparkSession, golden_stores: GoldenStores, name: str) -> None:
    """``timermq.timerlog`` has every unit of the log, in its order, and no blank."""
    store = golden_stores[name]
    columns = "pos,prev_pos,magic,write_ms,delay_ms,offset_py,size_py,topic_hash"

    found = read_table(spark, "timermq.timerlog", store.root, columns=columns).orderBy("pos")

    assert [
        (
            unit.position,
            unit.prev_pos,
            unit.magic,
            unit.write_time_ms,
            unit.delay_ms,
            unit.phy_offset,
            unit.message_size,
            unit.topic_hash,
        )
        for unit in store.manifest.state.timer.units
    ] == [tuple(row) for row in found.collect()]


@pytest.mark.parametrize("name", NAMES)
def test_queues(spark: SparkSession, golden_stores: GoldenStores, name: str) -> None:
    """``timermq.consumequeue`` has every unit of every queue, and no filler."""
    store = golden_stores[name]

    found = read_table(spark, "timermq.consumequeue", store.root).collect()

    assert {
        (queue.topic, queue.queue_id, *unit, "broker-a")
        for queue in store.manifest.state.queues
        for unit in queue.units
    } == {tuple(row) for row in found}


@pytest.mark.parametrize("name", ["g2", "g3"])
def test_slots(spark: SparkSession, golden_stores: GoldenStores, name: str) -> None:
    """``timermq.wheel`` has the slots of the file that are not read yet."""
    store = golden_stores[name]
    timer = store.manifest.state.timer

    found = read_table(spark, "timermq.wheel", store.root).collect()

    assert {
        (slot.time_ms, slot.first_pos, slot.last_pos, slot.num)
        for slot in timer.slots_on_disk
        if slot.time_ms >= timer.timercheck.last_read_time_ms
    } == {tuple(row)[:4] for row in found}
