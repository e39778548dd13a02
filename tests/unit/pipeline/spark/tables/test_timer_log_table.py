"""Units tell moment and order where they can, and say nothing where they cannot."""

from __future__ import annotations

from pathlib import Path

from timermq.pipeline.spark.tables.commit_log_table import CommitLogReader
from timermq.pipeline.spark.tables.timer_log_table import TimerLogReader
from timermq.timerstore.java_hash import java_hash
from unit.pipeline.recovery.crashed_store import make_checkpoint_javas
from unit.pipeline.spark.store_directories import crashed_directory, rows_of


def test_moments_and_orders(tmp_path: Path) -> None:
    """They are those of the records; a slot on the way hides the moment, not the order."""
    _, root = crashed_directory(tmp_path, make_checkpoint_javas)
    records = {row["phy_offset"]: row for row in rows_of(CommitLogReader, root)}
    units = rows_of(TimerLogReader, root)
    rolls = [unit for unit in units if unit["is_roll"]]

    assert rolls
    assert {None} == {unit["deliver_ms"] for unit in rolls}
    for unit in units:
        record = records[unit["offset_py"]]
        assert record["order_py"] == unit["order_py"]
        assert unit["is_first"] == (unit["offset_py"] == unit["order_py"])
        assert unit["is_roll"] or record["deliver_ms"] == unit["deliver_ms"]


def test_a_roll_may_be_due_any_time(tmp_path: Path) -> None:
    """Asked for moments far ahead, the units of rolls stay: theirs may be."""
    _, root = crashed_directory(tmp_path)
    units = rows_of(TimerLogReader, root)
    latest = max(unit["deliver_ms"] or 0 for unit in units)
    kept = rows_of(TimerLogReader, root, due_from=latest + 1)

    assert [unit for unit in units if unit["is_roll"]] == kept


def test_topics_by_hash(tmp_path: Path) -> None:
    """Asked for topics, all units come that have their hashes, and no other ones."""
    _, root = crashed_directory(tmp_path)
    units = rows_of(TimerLogReader, root)
    topics = {row["real_topic"] for row in rows_of(CommitLogReader, root)} - {None}

    found = {topic: rows_of(TimerLogReader, root, topics=(topic,)) for topic in topics}

    assert len(units) == sum(map(len, found.values()))
    for topic, some in found.items():
        assert [unit for unit in units if unit["topic_hash"] == java_hash(topic)] == some
    assert units == rows_of(TimerLogReader, root, topics=tuple(topics))
    assert [] == rows_of(TimerLogReader, root, topics=("unknown",))
