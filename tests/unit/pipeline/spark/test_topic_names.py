"""A topic's name is found by its hash, where the store knows one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from golden_stores import GoldenStores
from timermq.pipeline.spark.topic_names import by_hash, may_be_of, topic_names
from timermq.timerstore.java_hash import java_hash


def test_names_that_share_a_hash_stand_together() -> None:
    """A unit has the hash alone: neither name is the right one."""
    assert java_hash("Aa") == java_hash("BB")
    assert {java_hash("Aa"): "Aa or BB", java_hash("orders"): "orders"} == by_hash(
        ["orders", "BB", "Aa"]
    )


def test_what_shares_a_hash_is_taken_too() -> None:
    """Asked for one topic, a unit of another one with its hash cannot be told apart."""
    hashes = np.array([java_hash("Aa"), java_hash("orders"), java_hash("BB")], np.int32)

    assert [True, False, True] == may_be_of(hashes, ["BB"]).tolist()
    assert [False] * 3 == may_be_of(hashes, []).tolist()


def test_names_of_queues_and_of_the_table(golden_stores: GoldenStores) -> None:
    """Topics that have queues, and those that the broker's table has."""
    store = golden_stores["g3"]

    found = set(topic_names(store.root).values())

    assert {queue.topic for queue in store.manifest.state.queues} <= found
    assert {message.topic for message in store.manifest.messages} <= found


def test_a_damaged_table_costs_names_alone(tmp_path: Path) -> None:
    """A report is made of the timer log; what is wrong with a table is for the check to say."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/topics.json").write_text('{"topicConfigTable":')
    (tmp_path / "consumequeue/orders/0").mkdir(parents=True)

    assert {java_hash("orders"): "orders"} == topic_names(str(tmp_path))


def test_a_store_without_anything(tmp_path: Path) -> None:
    """No queues, no table: no names."""
    assert {} == topic_names(str(tmp_path))
