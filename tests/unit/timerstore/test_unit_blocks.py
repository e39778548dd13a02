"""Units of queues, read in blocks."""

from __future__ import annotations

from small_store import open_store, put_bodies
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.unit_blocks import UnitBlocks


def queue_of(store: MessageStore, topic: str) -> ConsumeQueue:
    """A queue that is there."""
    queue = store.queue(topic, 0)
    assert queue is not None
    return queue


def test_neighbours_are_read_together() -> None:
    """Three units make one reading; the block of another queue does not displace them."""
    store = open_store(MemoryDisk())
    put_bodies(store, *"abcde")
    put_bodies(store, *"xyz", topic="U")
    first, second = queue_of(store, "T"), queue_of(store, "U")
    blocks = UnitBlocks(3)

    read = [blocks.packed(first, 0), blocks.packed(second, 0), *map_units(blocks, first, 1, 2)]

    assert read == [first.packed(0, 1), second.packed(0, 1), first.packed(1, 1), first.packed(2, 1)]
    assert blocks.size == 6 * UNIT.size


def test_units_outside_of_the_block_are_read() -> None:
    """Behind it and before it another block begins."""
    store = open_store(MemoryDisk())
    put_bodies(store, *"abcde")
    queue = queue_of(store, "T")
    blocks = UnitBlocks(2)

    assert map_units(blocks, queue, 1, 3, 0) == [queue.packed(at, 1) for at in (1, 3, 0)]
    assert blocks.size == 6 * UNIT.size


def map_units(blocks: UnitBlocks, queue: ConsumeQueue, *offsets: int) -> list[bytes]:
    """Units of a queue, read one after the other."""
    return [blocks.packed(queue, offset) for offset in offsets]
