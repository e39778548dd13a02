"""Parts of files are read as they were, or the job is told that they have gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.file_part import FilePart, numbers


def part_of(path: Path, low: int, high: int) -> FilePart:
    """A part of a segment that begins at 100."""
    return FilePart(str(path), 100, low, high)


def test_chunks(tmp_path: Path) -> None:
    """In order, of a size, with their positions; the last one may be smaller."""
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")

    assert [(102, b"234"), (105, b"567"), (108, b"8")] == list(part_of(path, 102, 109).chunks(3))
    assert [] == list(part_of(path, 104, 104).chunks(3))
    assert b"345" == part_of(path, 100, 110).read(103, 106)


def test_a_file_that_has_gone(tmp_path: Path) -> None:
    """Cleaning removes segments under a running job."""
    part = part_of(tmp_path / "f", 100, 110)

    for read in (lambda: list(part.chunks(4)), lambda: part.read(100, 104), part.opened):
        with pytest.raises(SparkJobError, match="bytes 100 to 110, found no file: the broker has"):
            read()


def test_a_file_that_is_shorter(tmp_path: Path) -> None:
    """What was there and is not any more ends the job: it never turns round for ever."""
    (tmp_path / "f").write_bytes(b"012345")
    part = part_of(tmp_path / "f", 100, 110)

    for read in (lambda: list(part.chunks(4)), lambda: part.read(102, 110)):
        with pytest.raises(SparkJobError, match=r"found an end at 106: .* run it again"):
            read()


def test_numbers() -> None:
    """Fields of a file become the machine's own numbers, small ones of 32 bits."""
    fields = np.frombuffer(bytes(range(14)), [("a", ">i2"), ("b", ">i4"), ("c", ">i8")])

    assert ["int32", "int32", "int64"] == [str(numbers(fields[name]).type) for name in "abc"]
    assert [1] == numbers(fields["a"]).to_pylist()
    assert [0x02030405] == numbers(fields["b"]).to_pylist()
