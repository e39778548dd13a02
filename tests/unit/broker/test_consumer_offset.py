"""Tests of the consumer offsets."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from broker_rig import as_object
from fakes import START_MS
from golden_stores import GoldenStores
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.refusal import RefusedError
from timermq.timerstore.config_file import parse_json


def make_table() -> ConsumerOffsetTable:
    """An empty table that has a new version with every second commit."""
    return ConsumerOffsetTable(now_ms=lambda: START_MS, version_step=2)


def test_the_last_commit_counts() -> None:
    """Commits are kept by group, topic and queue, and may go backwards."""
    table = make_table()
    table.commit(group="g", topic="T", queue_id=0, offset=7)
    table.commit(group="g", topic="T", queue_id=0, offset=3)
    table.commit(group="g", topic="T", queue_id=1, offset=9)

    assert table.query(group="g", topic="T", queue_id=0) == 3
    assert table.offsets(group="g", topic="T") == {0: 3, 1: 9}
    assert table.query(group="h", topic="T", queue_id=0) is None
    assert table.topics_of("g") == ["T"]


def test_negative_commits_are_ignored() -> None:
    """Go commits -1 for queues that it has not touched."""
    table = make_table()
    table.commit(group="g", topic="T", queue_id=0, offset=-1)

    assert table.query(group="g", topic="T", queue_id=0) is None
    assert table.changes == 0


def test_equal_commits_change_nothing() -> None:
    """Clients commit every five seconds; the file is only written when something is new."""
    table = make_table()
    table.commit(group="g", topic="T", queue_id=0, offset=7)
    table.commit(group="g", topic="T", queue_id=0, offset=7)

    assert table.changes == 1
    assert table.data_version.counter == 1


def test_the_file_has_java_s_shape() -> None:
    """Keys are topic@group, and the topics of each group are listed."""
    table = make_table()
    table.commit(group="g", topic="%RETRY%g", queue_id=0, offset=7)
    table.commit(group="g", topic="A", queue_id=1, offset=2)
    table.commit(group="g", topic="A", queue_id=0, offset=1)

    assert table.to_json() == {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": START_MS},
        "groupTopicMap": {"g": ["%RETRY%g", "A"]},
        "offsetTable": {"%RETRY%g@g": {0: 7}, "A@g": {0: 1, 1: 2}},
    }


def test_a_java_file_is_read(golden_stores: GoldenStores) -> None:
    """What Java committed is where the group goes on, and written back alike."""
    data = as_object(
        parse_json(Path(golden_stores["g4"].root, "config/consumerOffset.json").read_text())
    )
    table = make_table()
    table.load(data)

    assert table.offsets(group="G_work_5ed1", topic="Work_4bbf") == {0: 6, 1: 7}
    written = as_object(table.to_json())
    assert written["dataVersion"] == data["dataVersion"]
    assert {group: sorted(topics) for group, topics in data["groupTopicMap"].items()} == written[
        "groupTopicMap"
    ]


def test_a_deleted_topic_is_forgotten() -> None:
    """No group goes on in a topic that is gone."""
    table = make_table()
    table.commit(group="g", topic="T", queue_id=0, offset=7)
    table.commit(group="g", topic="U", queue_id=0, offset=8)
    table.delete_topic("T")

    assert table.topics_of("g") == ["U"]


def calls_of(work: Callable[[], object]) -> int:
    """The calls that some work makes, those of built-in functions too."""
    calls = 0

    def count(_frame: FrameType, event: str, _of: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_the_topics_of_a_group_cost_the_same_among_many_groups() -> None:
    """Who asks for thousands of groups, one by one, would pay for the square of them."""
    few, many = make_table(), make_table()
    for table, count in ((few, 2), (many, 200)):
        for number in range(count):
            table.commit(group=f"g{number}", topic="T", queue_id=0, offset=7)

    assert few.topics_of("g1") == many.topics_of("g1") == ["T"]
    assert calls_of(lambda: few.topics_of("g1")) == calls_of(lambda: many.topics_of("g1"))


def test_the_topics_of_groups_follow_every_change() -> None:
    """Loads, commits and deletions: the topics are those of the table at any time."""
    table = make_table()
    table.commit(group="old", topic="T", queue_id=0, offset=1)
    table.load({"offsetTable": {"T@g": {"0": 1}, "U@g": {"0": 1}, "T@h": {"0": 1}, "odd": {}}})
    assert (table.topics_of("old"), table.topics_of("g")) == ([], ["T", "U"])
    table.commit(group="g", topic="A", queue_id=0, offset=1)
    table.commit(group="g", topic="A", queue_id=1, offset=1)
    assert table.topics_of("g") == ["A", "T", "U"]
    table.delete_topic("T")
    assert (table.topics_of("g"), table.topics_of("h")) == (["A", "U"], [])
    before = table.changes
    table.delete_group("g")
    assert (table.topics_of("g"), table.changes - before) == ([], 2)
    table.commit(group="g", topic="T", queue_id=0, offset=1)

    assert table.topics_of("g") == ["T"]
    assert as_object(table.to_json())["groupTopicMap"] == {"": ["odd"], "g": ["T"]}


def test_the_group_of_transactions_is_the_brokers() -> None:
    """Who moved its offsets on would lose what is open behind them (16)."""
    table = make_table()

    with pytest.raises(RefusedError, match="INTERNAL_GROUP: CID_RMQ_SYS_TRANS is the broker's own"):
        table.commit(
            group="CID_RMQ_SYS_TRANS", topic="RMQ_SYS_TRANS_HALF_TOPIC", queue_id=0, offset=9
        )
    assert table.topics_of("CID_RMQ_SYS_TRANS") == []
