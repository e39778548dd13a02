"""Layouts: a record on disk, declared once.

Struct, size, field positions, numpy type and the table of the format page all come from the one
declaration. Everything is big-endian and without padding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cached_property

import attrs
import numpy as np

_NUMPY = {
    "b": "i1",
    "B": "u1",
    "h": ">i2",
    "H": ">u2",
    "i": ">i4",
    "I": ">u4",
    "q": ">i8",
    "Q": ">u8",
}


@attrs.frozen
class Field:
    """One field: name, struct code, meaning."""

    name: str
    code: str
    meaning: str


class Layout:
    """A record of fixed size.

    Args:
        title: What it is, for errors and the format page.
        order: Byte order, as in ``struct``; always ``>`` here.
        fields: (name, struct code, meaning) in the order of the bytes.
    """

    def __init__(self, title: str, order: str, fields: Iterable[tuple[str, str, str]]) -> None:
        assert order == ">", "every file of the store is big-endian"
        self.title = title
        self.fields = tuple(Field(*field) for field in fields)
        self.struct = struct.Struct(order + "".join(field.code for field in self.fields))
        self.size = self.struct.size
        self.names = tuple(field.name for field in self.fields)
        starts = [0]
        for field in self.fields:
            starts.append(starts[-1] + struct.calcsize(order + field.code))
        self._offsets = dict(zip(self.names, starts, strict=False))

    def offset_of(self, name: str) -> int:
        """Byte position of a field."""
        return self._offsets[name]

    def cut(self, *pieces: str | tuple[str, str]) -> struct.Struct:
        """A struct of some pieces, in their order, that steps over the others.

        Args:
            pieces: A field, or a (first, last) run of neighbours as one bytes string.
        """
        codes = ""
        at = 0
        for piece in pieces:
            first, last = (piece, piece) if isinstance(piece, str) else piece
            start, field = self.offset_of(first), self.fields[self.names.index(last)]
            end = self.offset_of(last) + struct.calcsize(">" + field.code)
            codes += f"{start - at}x" + (
                field.code if isinstance(piece, str) else f"{end - start}s"
            )
            at = end
        return struct.Struct(f">{codes}{self.size - at}x")

    def pack(self, *values: int) -> bytes:
        """Bytes of one record; struct.error when a value does not fit its field."""
        return self.struct.pack(*values)

    def unpack(self, data: bytes | memoryview, offset: int = 0) -> tuple[int, ...]:
        """Fields of the record at ``offset``; struct.error when there are not enough bytes."""
        return self.struct.unpack_from(data, offset)

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The numpy type whose arrays are runs of such records."""
        return np.dtype([(field.name, _numpy_code(field.code)) for field in self.fields])

    def table(self) -> list[str]:
        """Rows of a Markdown table: offset, size, name, meaning."""
        rows = ["| offset | size | field | meaning |", "|---|---|---|---|"]
        for field in self.fields:
            size = struct.calcsize(">" + field.code)
            rows.append(
                f"| {self.offset_of(field.name)} | {size} | {field.name} | {field.meaning} |"
            )
        return rows


def _numpy_code(code: str) -> str:
    """Numpy's name for a struct code; text of bytes is kept as it is, zeros at its end too."""
    return f"V{code[:-1]}" if code.endswith("s") else _NUMPY[code]
