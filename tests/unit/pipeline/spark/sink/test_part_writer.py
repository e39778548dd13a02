"""Parts: which block is the last one, and when another part begins."""

from __future__ import annotations

import attrs

from timermq.pipeline.spark.sink.broker_link import BrokerLink
from timermq.pipeline.spark.sink.bulk_job import BulkJob
from timermq.pipeline.spark.sink.part_writer import PartWriter
from timermq.remoting.bulk_block import BulkBlock, BulkColumn

from .rows import LIMITS


class RecordingJob(BulkJob):
    """A job that keeps what is asked of it."""

    def __init__(self) -> None:
        super().__init__(BrokerLink("h:1"), "J")
        self.staged: list[tuple[str, int, str, int, bool]] = []
        self.dropped: list[str] = []

    def stage(self, part: str, block: int, topic: str, data: bytes, *, is_last: bool) -> int:
        """Keep part, block, topic, rows and whether it is the last one."""
        self.staged.append((part, block, topic, len(BulkBlock.decode(data)), is_last))
        return 0

    def drop(self, parts: object) -> int:
        """Note the names of the parts to be dropped; none is."""
        assert isinstance(parts, list)
        self.dropped += parts
        return 0


def block(topic: str, *sizes: int) -> BulkBlock:
    """Rows with bodies of these sizes."""
    return BulkBlock.of(topic, BulkColumn.of([bytes(size) for size in sizes]))


def test_blocks_of_a_part() -> None:
    """The newest block is held back: only the end says that it is the last one."""
    job = RecordingJob()
    writer = PartWriter(job, "a", LIMITS)

    writer.add(block("T", 1, 2))
    assert [] == job.staged
    writer.add(block("U", 1))

    assert [("a.0", 3)] == writer.finish()
    assert [("a.0", 0, "T", 2, False), ("a.0", 1, "U", 1, True)] == job.staged


def test_no_rows() -> None:
    """No block is no part."""
    job = RecordingJob()

    assert ([], []) == (PartWriter(job, "a", LIMITS).finish(), job.staged)


def test_large_blocks_are_divided() -> None:
    """A block has a size that the broker has named."""
    job = RecordingJob()
    writer = PartWriter(job, "a", attrs.evolve(LIMITS, block_size_max=120))

    writer.add(block("T", 50, 50, 50))

    assert [("a.0", 3)] == writer.finish()
    assert [(0, 1, False), (1, 1, False), (2, 1, True)] == [
        (number, rows, is_last) for _, number, _, rows, is_last in job.staged
    ]


def test_a_full_part_is_ended() -> None:
    """The broker has named the size of a part too."""
    job = RecordingJob()
    writer = PartWriter(job, "a", attrs.evolve(LIMITS, part_size_max=200))

    for _ in range(3):
        writer.add(block("T", 70))

    assert [("a.0", 1), ("a.1", 1), ("a.2", 1)] == writer.finish()
    assert all(number == 0 and is_last for _, number, _, _, is_last in job.staged)


def test_letting_go() -> None:
    """The parts that are whole, and the one that is not."""
    job = RecordingJob()
    writer = PartWriter(job, "a", attrs.evolve(LIMITS, part_size_max=200))
    for _ in range(2):
        writer.add(block("T", 70))

    writer.drop()

    assert ["a.0", "a.1"] == job.dropped
