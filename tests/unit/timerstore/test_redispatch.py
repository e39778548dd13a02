"""Tests of making queue units again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from small_store import HOST, message
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.commit_log import CommitLog, LogWrite
from timermq.timerstore.consume_queue import ConsumeQueue, QueueGapError
from timermq.timerstore.consume_queue_table import ConsumeQueueTable
from timermq.timerstore.message import SysFlag
from timermq.timerstore.record import encode_record
from timermq.timerstore.redispatch import Redispatch

SIZE = 101
"""Bytes of each record here."""


class Rig:
    """A log whose records are given, and queues."""

    def __init__(self, *records: tuple[str, int], flag: int = 0) -> None:
        disk = MemoryDisk()
        disk.make_dirs("/store")
        self.log = CommitLog(disk, "/store/commitlog", 1 << 16)
        self.queues = ConsumeQueueTable(disk, "/store", segment_size=100, read_only=False)
        data = b"".join(
            encode_record(
                message("x" * (10 - len(topic.encode())), topic, sys_flag=flag),
                queue_offset=queue_offset,
                phy_offset=number * SIZE,
                store_ms=5,
                store_host=HOST,
            )
            for number, (topic, queue_offset) in enumerate(records)
        )
        self.log.append([0], [LogWrite(0, data)])

    def redispatch(
        self, is_deleted: Callable[[str, int], bool] = lambda _, __: False
    ) -> Redispatch:
        """The way from log to queues."""
        return Redispatch(self.log, self.queues, levels_ms=(), is_deleted=is_deleted)

    def queue(self, topic: str = "T") -> ConsumeQueue:
        """Queue 0 of a topic, made if need be."""
        return self.queues.find_or_create(topic, 0)

    def positions(self, topic: str = "T") -> list[int]:
        """Numbers of the records in a queue."""
        queue = self.queue(topic)
        found: list[int] = []
        while queue.min_offset + len(found) < queue.max_offset:
            units = queue.units(queue.min_offset + len(found), 100)
            found += [int(phy) // SIZE for phy in units["phy_offset"]]
        return found


def test_all_records_find_their_queues() -> None:
    """In the order of the log."""
    rig = Rig(("T", 0), ("U", 0), ("T", 1), *(("T", at) for at in range(2, 9)))
    redispatch = rig.redispatch()
    redispatch.run(0)

    assert ([0, 2, *range(3, 10)], [1]) == (rig.positions(), rig.positions("U"))
    assert (10, set(), []) == (redispatch.count, redispatch.incomplete, redispatch.notes)


def test_what_queues_hold_is_left() -> None:
    """Only missing units are made."""
    rig = Rig(("T", 0), ("T", 1), ("T", 2))
    rig.redispatch().run(0)
    rig.queue().cut(2 * SIZE)
    redispatch = rig.redispatch()
    redispatch.run(0)

    assert ([0, 1, 2], 1) == (rig.positions(), redispatch.count)


@pytest.mark.parametrize("flag", [SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK])
def test_half_messages_are_in_no_queue(flag: SysFlag) -> None:
    """Neither half messages nor rollbacks get a unit of a queue."""
    rig = Rig(("T", 0), flag=flag)
    rig.redispatch().run(0)

    assert [] == list(rig.queues)


def test_a_queue_begins_where_the_log_begins() -> None:
    """Earlier segments of the log are gone."""
    rig = Rig(("T", 7), ("T", 8))
    rig.redispatch().run(0)

    assert (7, [0, 1]) == (rig.queue().min_offset, rig.positions())


def test_a_queue_that_cannot_be_continued_is_made_from_the_start_of_the_log() -> None:
    """Its units before the walk are missing."""
    rig = Rig(("T", 0), ("U", 0), ("T", 1), ("T", 2))
    redispatch = rig.redispatch()
    redispatch.run(2 * SIZE)

    assert ({("T", 0)}, []) == (redispatch.incomplete, rig.positions())

    redispatch.run(0, only=redispatch.incomplete)

    assert ([0, 2, 3], []) == (rig.positions(), rig.positions("U"))


def test_an_empty_queue_begins_where_the_log_says() -> None:
    """Its files may be what a power cut left of it."""
    rig = Rig(("T", 0), ("T", 1))
    queue = rig.queue()
    queue.append(5, bytes(7) + b"\x09" + bytes(3) + b"\x09" + bytes(8), 18)
    queue.cut(0)

    assert (5, 5) == (queue.min_offset, queue.max_offset)

    redispatch = rig.redispatch()
    redispatch.run(SIZE)

    assert redispatch.incomplete == {("T", 0)}

    redispatch.run(0, only=redispatch.incomplete)

    assert (0, [0, 1]) == (queue.min_offset, rig.positions())


def test_records_that_the_whole_log_does_not_hold_are_an_error() -> None:
    """Nothing is put at a wrong place."""
    rig = Rig(("T", 0), ("T", 1), ("T", 5))

    with pytest.raises(QueueGapError, match="expected unit 2, found unit 5"):
        rig.redispatch().run(0)


def test_records_of_a_deleted_topic_stay_out() -> None:
    """Those before its deletion; the topic may have begun anew."""
    rig = Rig(("T", 0), ("T", 1), ("T", 0), ("U", 0))
    redispatch = rig.redispatch(lambda topic, phy: topic == "T" and phy < 2 * SIZE)
    redispatch.run(0)

    assert ([2], [3]) == (rig.positions(), rig.positions("U"))
    assert redispatch.notes == [
        "record at 0 is in no queue: topic T was deleted",
        "record at 101 is in no queue: topic T was deleted",
    ]


def test_records_that_no_queue_can_hold_are_told() -> None:
    """A topic must not lead out of the store, of any writer."""
    rig = Rig(("../x", 0), ("T", -1), ("T", 0))
    redispatch = rig.redispatch()
    redispatch.run(0)

    assert [2] == rig.positions()
    assert redispatch.notes == [
        "record at 0 is in no queue: topic '../x': not a name that a directory can have",
        "record at 101 is in no queue: queue offset -1",
    ]
