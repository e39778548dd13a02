"""Consume queues, index and store checkpoint of RocketMQ's own stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.golden_opened import Opened, file_bytes
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_checkpoint import StoreCheckpoint

pytestmark = pytest.mark.slow


def test_queues(opened: Opened) -> None:
    """There are the queues that Java sees, with its bounds and units."""
    expected = {
        (one.topic, one.queue_id): (
            one.min_offset,
            one.max_offset,
            [tuple(unit[1:]) for unit in one.units],
        )
        for one in opened.golden.manifest.state.queues
    }
    found = {
        (queue.topic, queue.queue_id): (
            queue.min_offset,
            queue.max_offset,
            queue_units(opened.store, queue.topic, queue.queue_id),
        )
        for queue in opened.store.queues()
    }

    assert expected == found


def queue_units(store: MessageStore, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
    """All units of a queue, over the borders of its segments."""
    queue = store.queue(topic, queue_id)
    assert queue is not None
    units: list[tuple[int, int, int]] = []
    while queue.min_offset + len(units) < queue.max_offset:
        units += queue.units(queue.min_offset + len(units), 1000).tolist()
    return units


def test_queue_units_are_written_alike(opened: Opened) -> None:
    """The units of a queue, packed again, are the bytes of its files."""
    for queue in opened.golden.manifest.state.queues:
        units = queue_units(opened.store, queue.topic, queue.queue_id)
        packed = b"".join(QUEUE_UNIT.pack(*unit) for unit in units)
        folder = Path(opened.golden.root) / "consumequeue" / queue.topic / str(queue.queue_id)
        files = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))

        assert files[: len(packed)] == packed


def test_index_answers(opened: Opened) -> None:
    """A query by key finds the messages that Java finds."""
    for query in opened.golden.manifest.state.key_queries:
        records = opened.store.query(query.topic, query.key, count_max=64)
        found = [decode_record(record).phy_offset for record in records]

        assert (query.topic, query.key, query.phy_offsets) == (query.topic, query.key, found)


def test_offsets_by_time(opened: Opened) -> None:
    """A queue offset by store time is Java's, at both boundaries."""
    for query in opened.golden.manifest.state.time_queries:
        lower, upper = (
            opened.store.offset_by_time(query.topic, query.queue_id, query.timestamp, upper=upper)
            for upper in (False, True)
        )

        assert (query, query.lower, query.upper) == (query, lower, upper)


def test_checkpoint(opened: Opened) -> None:
    """The store checkpoint has Java's numbers and is written alike.

    The manifest has them as they are after Java's recovery, which sets the confirmed position, and
    after a kill moves the time of the queues.
    """
    expected = opened.golden.manifest.state.checkpoint
    path = f"{opened.golden.root}/checkpoint"
    checkpoint = StoreCheckpoint.open(OsDisk(), path, read_only=True)

    assert expected.physic_msg_timestamp == checkpoint.physic_msg_timestamp
    assert expected.index_msg_timestamp == checkpoint.index_msg_timestamp
    assert expected.master_flushed_offset == checkpoint.master_flushed_offset
    if opened.golden.manifest.clean_shutdown:
        assert expected.logics_msg_timestamp == checkpoint.logics_msg_timestamp
    assert file_bytes(opened, "checkpoint").startswith(checkpoint.encode())
