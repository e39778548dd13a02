"""The objects of a backup, read with their digests compared."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from .manifest import MANIFEST, Manifest, Piece, Stored, WholeSegment, decode_list, digest
from .target import BackupError, Target


@attrs.frozen
class BackupObjects:
    """A backup's manifest and the objects that it names."""

    target: Target
    manifest: Manifest

    @classmethod
    async def load(cls, target: Target) -> BackupObjects:
        """The backup in a target.

        Raises:
            BackupError: There is none, or its manifest is damaged.
            TargetError: The target cannot be read.
        """
        data = await target.get(MANIFEST)
        if data is None:
            raise BackupError(f"{target.place}: expected a backup, found no object {MANIFEST}")
        return cls(target, Manifest.decode(data, target.place))

    async def read(self, one: Stored) -> bytes:
        """The bytes of an object.

        Raises:
            BackupError: It is missing or damaged.
            TargetError: The target cannot be read.
        """
        data = await self.target.get(one.name)
        place = f"{self.target.place}: {one.name}"
        if data is None:
            raise BackupError(
                f"{place}: expected an object, found none: it was removed, or replaced while this "
                "ran: run it again"
            )
        if digest(data) != one.sha256:
            raise BackupError(
                f"{place}: expected the digest {one.sha256}, found {digest(data)}: the object is "
                "damaged"
            )
        return data

    async def pieces_of(self, segment: WholeSegment | None) -> tuple[Piece, ...]:
        """The pieces of a whole segment, ascending; without one those of the newest, unfinished.

        Raises:
            BackupError: The list of pieces is missing or damaged.
            TargetError: The target cannot be read.
        """
        if segment is None:
            return self.manifest.pieces
        return decode_list(await self.read(segment))

    def segments(self) -> Iterator[WholeSegment | None]:
        """The segments of the log, ascending; the last one is the unfinished one, as None."""
        yield from self.manifest.whole
        yield None

    async def pieces_in(self, first: int, end: int) -> list[Piece]:
        """The pieces with bytes of the log in [first, end), ascending.

        Raises:
            BackupError: A list of pieces is missing or damaged.
            TargetError: The target cannot be read.
        """
        found: list[Piece] = []
        for segment in self.segments():
            if segment is None or (segment.start < end and segment.end > first):
                found += await self.pieces_of(segment)
        return [one for one in found if one.start < end and one.end > first]

    async def part_of(self, piece: Piece, first: int, end: int) -> tuple[int, bytes]:
        """The bytes of a piece in [first, end), and the position of the first of them.

        Raises:
            BackupError: The piece is missing or damaged.
            TargetError: The target cannot be read.
        """
        data = await self.read(piece)
        start = max(first, piece.start)
        return start, data[start - piece.start : end - piece.start]
