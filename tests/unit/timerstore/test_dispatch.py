"""Tests of dispatch to the consume queues."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue import ConsumeQueue, QueueUnits
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.dispatch import DispatchBatch, Dispatcher, unit_tags_code
from timermq.timerstore.queue_unit import UNIT

RED = 112785
"""Hash of "red"."""


class Rig:
    """Queues, a dispatcher, and what the listener heard."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs("/store")
        self.queues = ConsumeQueueTable(self.disk, "/store", segment_size=100, read_only=False)
        self.dispatcher = Dispatcher(self.queues, 0)
        self.arrived: list[tuple[str, int]] = []
        self.dispatcher.on_arrival(self.hear)

    def hear(self, queue: ConsumeQueue) -> None:
        """Note up to which offset a queue can be read."""
        self.arrived.append((queue.topic, queue.max_offset))

    def add(self, end: int, *topics: str) -> None:
        """Add a batch that has one message for each topic."""
        parts: list[QueueUnits] = []
        for topic in topics:
            queue = self.queues.find_or_create(topic, 0)
            number = self.numbers.setdefault(topic, 0)
            self.numbers[topic] = number + 1
            parts.append(QueueUnits(queue, number, UNIT.pack(end - 10, 10, 0), end))
        self.dispatcher.add(DispatchBatch(end, parts))

    numbers: dict[str, int]


@pytest.fixture
def rig() -> Rig:
    """A dispatcher over no queues."""
    rig = Rig()
    rig.numbers = {}
    return rig


def test_batches_wait_until_they_may_be_read(rig: Rig) -> None:
    """With SYNC_FLUSH nothing is readable before the log is durable up to its end."""
    rig.add(100, "T", "U")
    rig.add(200, "T")

    rig.dispatcher.advance(99)

    assert ([], 0) == (rig.arrived, rig.dispatcher.dispatched_to)

    rig.dispatcher.advance(150)

    assert ([("T", 1), ("U", 1)], 100) == (rig.arrived, rig.dispatcher.dispatched_to)

    rig.dispatcher.advance(200)

    assert ([("T", 2)], 200) == (rig.arrived[2:], rig.dispatcher.dispatched_to)


def test_a_batch_without_units_counts_as_dispatched(rig: Rig) -> None:
    """Half messages are in no queue."""
    rig.add(100)
    rig.dispatcher.advance(100)

    assert rig.dispatcher.dispatched_to == 100


def test_a_queue_that_cannot_be_written_stops_dispatch_until_it_can(rig: Rig) -> None:
    """The order of the log is kept, nothing is lost and nothing comes twice."""
    rig.disk.total = 4096
    rig.add(100, "T", "U")
    rig.add(200, "T")
    rig.dispatcher.advance(200)

    assert rig.dispatcher.failure is not None
    assert ([], 0) == (rig.arrived, rig.dispatcher.dispatched_to)

    rig.disk.total = 1 << 20
    rig.dispatcher.advance(200)

    assert rig.dispatcher.failure is None
    assert ([("T", 1), ("U", 1), ("T", 2)], 200) == (rig.arrived, rig.dispatcher.dispatched_to)


def test_pending_units_of_a_deleted_topic_are_forgotten(rig: Rig) -> None:
    """They must not make its files again."""
    rig.add(100, "T", "U")
    rig.queues.delete_topic("T")

    rig.dispatcher.discard_topic("T")
    rig.dispatcher.advance(100)

    assert [("U", 1)] == rig.arrived
    assert rig.disk.list_dir("/store/consumequeue") == ["U"]


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (b"", 0),
        (b"TAGS\x01\x02", 0),
        (b"TAGS\x01red\x02", RED),
        (b"DELAY\x012\x02TAGS\x01red\x02", RED),
    ],
)
def test_units_carry_the_hash_of_the_tags(properties: bytes, code: int) -> None:
    """A message without tags has 0 in its unit."""
    assert code == unit_tags_code(properties, False, 5, (100, 200))


@pytest.mark.parametrize(
    ("level", "code"),
    [(b"1", 105), (b"2", 205), (b"9", 205), (b"0", RED), (b"-1", RED), (b"x", RED)],
)
def test_units_of_the_schedule_topic_carry_the_deliver_time(level: bytes, code: int) -> None:
    """If the message has a level; the highest counts for those above it."""
    properties = b"TAGS\x01red\x02DELAY\x01" + level + b"\x02"

    assert code == unit_tags_code(properties, True, 5, (100, 200))
