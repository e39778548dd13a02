"""Tests of the table of next queue offsets."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import MAGIC_V1, MAGIC_V2
from timermq.timerstore.topic_queue import TopicQueueTable, queue_refusal


def new_table() -> tuple[ConsumeQueueTable, TopicQueueTable]:
    """A table over no queues."""
    disk = MemoryDisk()
    disk.make_dirs("/store")
    queues = ConsumeQueueTable(disk, "/store", segment_size=100, read_only=False)
    return queues, TopicQueueTable(queues)


@pytest.mark.parametrize(
    "topic", ["T", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%group", "标签", "a b", "..."]
)
def test_names_that_are_taken(topic: str) -> None:
    """What a directory can be called, up to RocketMQ's lengths."""
    assert queue_refusal(topic, 0) is None


@pytest.mark.parametrize(
    ("topic", "refusal"),
    [
        ("", "topic of 0 bytes: expected 1 to 127"),
        ("t" * 128, "topic of 128 bytes: expected 1 to 127"),
        ("标" * 43, "topic of 129 bytes: expected 1 to 127"),
        ("%RETRY%" + "g" * 249, "topic of 256 bytes: expected 1 to 255"),
        (".", "topic '.': not a name that a directory can have"),
        ("..", "topic '..': not a name that a directory can have"),
        ("a/b", "topic 'a/b': not a name that a directory can have"),
        ("a\0", "topic 'a\\x00': not a name that a directory can have"),
        ("\ud800", "topic '\\ud800': not a name that a directory can have"),
    ],
)
def test_names_that_are_refused(topic: str, refusal: str) -> None:
    """A topic must not lead out of the store."""
    assert refusal == queue_refusal(topic, 0)


@pytest.mark.parametrize("queue_id", [-1, 1 << 31])
def test_queue_ids_that_are_refused(queue_id: int) -> None:
    """Java's int, and no negative one."""
    assert queue_refusal("T", queue_id) == f"queue id {queue_id}: expected 0 to 2147483647"


def test_an_entry_goes_on_where_its_queue_ends() -> None:
    """The next message of a queue gets the offset behind its newest unit."""
    queues, table = new_table()
    queues.find_or_create("T", 1).append(0, UNIT.pack(0, 100, 0) * 1, 100)

    entry = table.add("T", 1)

    assert (1, b"\x01T", MAGIC_V1) == (entry.next_offset, entry.topic_part, entry.magic)
    assert entry is table.get(("T", 1))


def test_long_topics_have_two_bytes_of_length() -> None:
    """The second version of the record."""
    _, table = new_table()
    topic = "%RETRY%" + "g" * 200

    entry = table.add(topic, 0)

    assert (b"\x00\xcf" + topic.encode(), MAGIC_V2) == (entry.topic_part, entry.magic)


def test_a_removed_topic_has_no_entries() -> None:
    """All queues of it are forgotten, and no other."""
    _, table = new_table()
    table.add("T", 0)
    table.add("T", 1)
    kept = table.add("U", 0)

    table.remove_topic("T")

    assert [None, None, kept] == [table.get(key) for key in (("T", 0), ("T", 1), ("U", 0))]
