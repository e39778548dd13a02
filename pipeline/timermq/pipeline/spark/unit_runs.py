"""The units that a task reads: stretches of the timer log side by side, compared with outlines.

What was planned by an outline is right only if that is of these units. Reading them tells: where
the sum over a stretch is another one, the job ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from timermq.timerlog.stretch_outline import STRETCH_SIZE, checksum_of
from timermq.timerlog.unit import UNIT, Units, are_units, slot_times

from .errors import SparkJobError
from .file_part import FilePart, only
from .log_stretches import Stretch

CHUNK_SIZE = 4 * STRETCH_SIZE
"""Bytes of units that are looked at together: 65,536 of them."""


@attrs.frozen
class UnitRun:
    """Units that stand side by side in one segment."""

    part: FilePart
    checksums: tuple[int | None, ...]
    """Of its stretches; None: there is nothing to compare them with."""

    def waiting(self, read_ms: int) -> Iterator[Units]:
        """The units in slots that are not read yet, chunk by chunk.

        Args:
            read_ms: Slots before it are read, epoch milliseconds.

        Raises:
            SparkJobError: An outline is of other units; the store was cleaned meanwhile.
        """
        for pos, data in self.part.chunks(CHUNK_SIZE):
            self._compare(pos, data)
            units = np.frombuffer(data, UNIT.dtype)
            yield only(units, are_units(units) & (slot_times(units) >= read_ms))

    def _compare(self, pos: int, data: bytes) -> None:
        for at in range(0, len(data), STRETCH_SIZE):
            expected = self.checksums[(pos - self.part.low + at) // STRETCH_SIZE]
            if expected is not None:
                found = checksum_of(data[at : at + STRETCH_SIZE])
                if found != expected:
                    raise SparkJobError(
                        f"{self.part.path}: byte {pos + at - self.part.start}: expected units with "
                        f"the sum {expected:016x} of their outline, found {found:016x}: one of the "
                        "two is damaged; stop the broker and run `timermq store repair`"
                    )


def runs_of(stretches: Sequence[Stretch]) -> tuple[UnitRun, ...]:
    """Stretches of one task, those side by side as one run."""
    found: list[UnitRun] = []
    for one in stretches:
        is_kept = one.is_whole and one.deletes is None
        run = UnitRun(one.part, (one.outline.checksum if is_kept else None,))
        before = found[-1] if found else None
        if before is not None and _are_neighbours(before, run):
            part = attrs.evolve(before.part, high=run.part.high)
            found[-1] = UnitRun(part, before.checksums + run.checksums)
        else:
            found.append(run)
    return tuple(found)


def _are_neighbours(before: UnitRun, run: UnitRun) -> bool:
    """Whether one run follows the other, and each stretch of both has its place in a chunk."""
    is_aligned = len(before.checksums) * STRETCH_SIZE == before.part.high - before.part.low
    return is_aligned and before.part.path == run.part.path and before.part.high == run.part.low
