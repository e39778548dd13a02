"""The parts that one attempt of a task stages: blocks one after the other, the last one marked."""

from __future__ import annotations

import uuid

from timermq.remoting.bulk import BLOCKS_MAX, BulkLimits
from timermq.remoting.bulk_block import BulkBlock

from .bulk_job import BulkJob

Part = tuple[str, int]
"""Name and rows, as a hand-over names them."""


def new_attempt(partition: int) -> str:
    """A name for an attempt at a partition; no other one has it."""
    return f"{partition}-{uuid.uuid4().hex}"


def partition_of(part: str) -> int:
    """The partition that a part of an attempt is of."""
    return int(part.partition("-")[0])


class PartWriter:
    """Stages blocks; a part that is full is ended, and another one begun.

    Args:
        job: Where.
        attempt: Of a task; no other one has its name.
        limits: The broker's.
    """

    def __init__(self, job: BulkJob, attempt: str, limits: BulkLimits) -> None:
        self._job = job
        self._attempt = attempt
        self._limits = limits
        self._held: tuple[str, bytes] | None = None
        """Topic and bytes of the newest block: it may turn out to be the last."""
        self._blocks = 0
        self._size = 0
        self._rows = 0
        self.parts: list[Part] = []
        """Those that are whole."""

    def add(self, block: BulkBlock) -> None:
        """Stage rows; all but the newest block have arrived.

        Raises:
            SparkJobError: The broker refuses, or has gone.
        """
        for piece in block.parts(size_max=self._limits.block_size_max):
            data = piece.encode()
            size_max = self._limits.part_size_max
            if self._held is not None and (
                self._size + len(data) > size_max or self._blocks >= BLOCKS_MAX - 1
            ):
                self._end_part()
            self._send(is_last=False)
            self._held = (piece.topic, data)
            self._size += len(data)
            self._rows += len(piece)

    def finish(self) -> list[Part]:
        """End the last part; all of them are on the broker's disk then.

        Raises:
            SparkJobError: The broker refuses, or has gone.
        """
        self._end_part()
        return self.parts

    def drop(self) -> None:
        """Let all of it go: it will not be committed.

        Raises:
            SparkJobError: The broker has gone; it lets go by itself of what is not handed over.
        """
        self._job.drop([*(name for name, _ in self.parts), self._name])

    @property
    def _name(self) -> str:
        return f"{self._attempt}.{len(self.parts)}"

    def _end_part(self) -> None:
        if self._held is not None:
            self._send(is_last=True)
            self.parts.append((self._name, self._rows))
            self._blocks = self._size = self._rows = 0

    def _send(self, *, is_last: bool) -> None:
        if self._held is None:
            return
        topic, data = self._held
        self._job.stage(self._name, self._blocks, topic, data, is_last=is_last)
        self._blocks += 1
        self._held = None
