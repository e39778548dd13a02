"""The commit log of a backup, as a repair reads it (``timermq.repair.log_source.LogSource``)."""

from __future__ import annotations

import attrs

from .backup_objects import BackupObjects


@attrs.frozen
class BackupLog:
    """The log in a backup's objects, each compared with its digest when it is read."""

    objects: BackupObjects

    @property
    def place(self) -> str:
        """The target as an operator names it."""
        return self.objects.target.place

    @property
    def segment_size(self) -> int:
        """Bytes of one segment of the log."""
        return self.objects.manifest.segment_size

    @property
    def start(self) -> int:
        """Position of the first byte that was kept."""
        return self.objects.manifest.start

    @property
    def end(self) -> int:
        """Position behind the last byte that was shipped."""
        return self.objects.manifest.end

    async def read(self, first: int, size: int) -> bytes:
        """Bytes of one piece from a position on: none where the backup has none.

        Raises:
            BackupError: An object is missing or damaged.
            TargetError: The target cannot be read.
        """
        for piece in await self.objects.pieces_in(first, first + size):
            if piece.start <= first:
                return (await self.objects.part_of(piece, first, first + size))[1]
        return b""
