"""Deliveries are told from everything else in the log, ours and RocketMQ's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes import START_MS
from golden_stores import GoldenStores
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.spark.tables.commit_log_table import CommitLogReader
from timermq.pipeline.spark.tables.delivered_table import DeliveredReader
from unit.pipeline.spark.store_directories import crashed_directory, rows_of


def test_ours(tmp_path: Path) -> None:
    """What arrived before a kill is there, with the record that waited and how late it was."""
    crash, root = crashed_directory(tmp_path)
    waited = {row["phy_offset"]: row for row in rows_of(CommitLogReader, root)}
    rows = rows_of(DeliveredReader, root)

    assert sorted(crash.arrived) == sorted(row["body"].decode() for row in rows)
    assert [row["unique_id"] for row in rows] == [row["body"].decode() for row in rows]
    for row in rows:
        origin = waited[row["origin_py"]]
        assert (TIMER_TOPIC, row["topic"], row["queue_id"]) == (
            origin["topic"],
            origin["real_topic"],
            origin["real_queue_id"],
        )
        assert origin["deliver_ms"] == row["deliver_ms"]
        assert 0 <= row["lateness_ms"] == row["stored_ms"] - row["deliver_ms"]
        assert waited[row["phy_offset"]]["total_size"] == row["size"]


@pytest.mark.parametrize("name", ["g1", "g2", "g3", "g4", "g5"])
def test_javas(golden_stores: GoldenStores, name: str) -> None:
    """What RocketMQ took from its wheel for a topic, and nothing that it rolled."""
    store = golden_stores[name]
    rows = rows_of(DeliveredReader, store.root)
    expected = [
        one
        for one in store.manifest.state.records
        if "TIMER_DEQUEUE_MS" in one.properties and one.topic != TIMER_TOPIC
    ]

    assert [(one.topic, one.queue_id, one.queue_offset, one.phy_offset) for one in expected] == [
        (row["topic"], row["queue_id"], row["queue_offset"], row["phy_offset"]) for row in rows
    ]
    for one, row in zip(expected, rows, strict=True):
        slot_ms = int(one.properties["TIMER_OUT_MS"])
        assert slot_ms < row["deliver_ms"] <= slot_ms + 1000
        assert row["origin_py"] is None


def test_ranges(tmp_path: Path) -> None:
    """Moments, store times and topics bound the rows."""
    _, root = crashed_directory(tmp_path)
    rows = rows_of(DeliveredReader, root)
    middle_ms = START_MS + 2_000

    assert [row for row in rows if row["deliver_ms"] >= middle_ms] == rows_of(
        DeliveredReader, root, due_from=middle_ms
    )
    assert [row for row in rows if row["stored_ms"] < middle_ms] == rows_of(
        DeliveredReader, root, stored_to=middle_ms
    )
    assert rows == rows_of(DeliveredReader, root, topics=("T",))
    assert [] == rows_of(DeliveredReader, root, topics=("U",))
    assert [{"size": row["size"]} for row in rows] == rows_of(DeliveredReader, root, "size")
