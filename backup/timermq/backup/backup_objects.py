"""The objects of a backup, read with their digests compared."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import attrs

from .manifest import MANIFEST, Manifest, Piece, Stored, decode_list, digest
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

    async def pieces(self, first: int, end: int) -> AsyncGenerator[Piece]:
        """The pieces that hold some of [first, end) of the log, ascending.

        Raises:
            BackupError: A list of pieces is missing or damaged.
            TargetError: The target cannot be read.
        """
        manifest = self.manifest
        for segment in manifest.whole:
            if segment.start < end and segment.end > first:
                for piece in decode_list(await self.read(segment)):
                    if piece.start < end and piece.end > first:
                        yield piece
        for piece in manifest.pieces:
            if piece.start < end and piece.end > first:
                yield piece

    async def bytes_of(self, first: int, end: int) -> bytes | None:
        """Bytes of the log; None when the backup has not all of them.

        Raises:
            BackupError: An object is missing or damaged.
            TargetError: The target cannot be read.
        """
        found = bytearray()
        async for piece in self.pieces(first, end):
            data = await self.read(piece)
            found += data[max(first - piece.start, 0) : end - piece.start]
        return bytes(found) if len(found) == end - first else None
