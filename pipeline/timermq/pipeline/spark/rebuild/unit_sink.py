"""Units on their way to the new timer log: each task stages its own in a file.

A task may be retried, or run twice: its file has a name of its own, and only those that
``commit`` lists count.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..worker import keep_imports

LIST_NAME = "parts.json"


class StagedPart(msgspec.Struct, frozen=True):
    """The result of one task: its file, its first slot, its first entry without a unit."""

    path: str
    """Units back to back, in order of slots."""
    first_slot_ms: int | None
    """The slot of the first one; None without any."""
    first_left: int | None
    """The first entry of the timer topic that no unit could be made of."""


class StagedMessage(WriterCommitMessage):
    """The same on its way to the driver."""

    def __init__(self, part: StagedPart) -> None:
        self.part = part


class UnitSink(DataSourceArrowWriter):
    """Stages rows of ``UNITS``.

    Args:
        directory: Where; it is there.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def write(  # type: ignore[override]  # PySpark's base of rows and batches is one
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Stage the units of one task, in the order in which they come."""
        keep_imports()
        path = Path(self.directory, f"units-{uuid.uuid4().hex}")
        first_slot_ms: int | None = None
        first_left: int | None = None
        with path.open("wb") as file:
            for batch in iterator:
                left = cast("list[int]", batch.column("queue_offset").drop_null().to_pylist())
                if left:
                    first_left = min(left if first_left is None else [*left, first_left])
                # The stubs of pyarrow leave open what an array is of.
                units: pa.Array[Any] = batch.column("unit").drop_null()  # pyright: ignore[reportUnknownVariableType]
                if not len(units):
                    continue
                if first_slot_ms is None:
                    slots = cast("list[int]", batch.column("slot_ms").drop_null()[:1].to_pylist())
                    first_slot_ms = slots[0]
                file.write(_packed(units))
        return StagedMessage(StagedPart(str(path), first_slot_ms, first_left))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the list of what counts, in order of slots."""
        parts = [one.part for one in messages if isinstance(one, StagedMessage)]
        parts.sort(key=lambda part: (part.first_slot_ms is not None, part.first_slot_ms))
        temporary = Path(self.directory, f"{LIST_NAME}.tmp")
        temporary.write_bytes(msgspec.json.encode(parts))
        temporary.replace(Path(self.directory, LIST_NAME))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: other tasks may still write, and the job removes the directory."""


def staged_parts(directory: str) -> list[StagedPart]:
    """The parts that ``commit`` listed, in order of slots."""
    return msgspec.json.decode(Path(directory, LIST_NAME).read_bytes(), type=list[StagedPart])


def _packed(units: pa.Array[Any]) -> memoryview:
    """The bytes of all values, back to back as Arrow has them."""
    _, ends, values = units.buffers()
    assert ends is not None
    assert values is not None
    places = memoryview(ends).cast("i")[units.offset : units.offset + len(units) + 1]
    return memoryview(values)[places[0] : places[-1]]
