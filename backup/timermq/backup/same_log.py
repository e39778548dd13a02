"""Up to where a backup has the same log as a store: compared before a shipper goes on.

A power cut may take records from the store that were shipped, and the broker then writes others in
their place. The backup is cut there, because the store no longer has the rest. But a piece whose
records are damaged in the store, with good records behind, stays: `store repair --from` needs it.
"""

from __future__ import annotations

import attrs

from .backup_objects import BackupObjects
from .log_tail import LogTail
from .manifest import Manifest, Piece, decode_list, digest
from .target import BackupError


@attrs.frozen
class SameLog:
    """A backup, and the log that is compared with it.

    Args:
        objects: Of the backup.
        tail: Of the log.
    """

    objects: BackupObjects
    tail: LogTail

    async def cut(self) -> Manifest:
        """The manifest up to where it fits the log; the same one if all of it does.

        Raises:
            BackupError: Nothing that both have fits: it is of another store.
            TargetError: The target cannot be read.
            OSError: The disk of the store failed.
        """
        manifest = self.objects.manifest
        if not (manifest.whole or manifest.pieces):
            return manifest
        starts = {start for start, size in self.tail.segments() if size == manifest.segment_size}
        whole, pieces = list(manifest.whole), list(manifest.pieces)
        while True:
            while pieces:
                if self._fits(pieces[-1], starts):
                    return attrs.evolve(manifest, whole=tuple(whole), pieces=tuple(pieces))
                pieces.pop()
            if not whole or whole[-1].start not in starts:
                break
            last = whole.pop()
            pieces = list(decode_list(await self.objects.read(last)))
            if self._fits(pieces[-1], starts):
                return attrs.evolve(manifest, whole=(*whole, last), pieces=())
        raise BackupError(
            f"{self.objects.target.place}: expected a backup of the store {self.tail.root}, whose "
            f"commit log has the segments {sorted(starts)}, found one up to {manifest.end} of "
            "which nothing is in it: name another target"
        )

    def _fits(self, piece: Piece, starts: set[int]) -> bool:
        size = self.objects.manifest.segment_size
        if piece.start - piece.start % size not in starts:
            return False
        data = self.tail.read(piece.start, piece.end, size)
        if data is None:
            return False
        return digest(data) == piece.sha256 or self._is_damaged(piece)

    def _is_damaged(self, piece: Piece) -> bool:
        """Whether the store has damage there, and records behind it."""
        at, damaged = piece.start, 0
        while at < piece.end:
            found = self.tail.piece_at(at, self.objects.manifest.segment_size, is_stopped=True)
            if found is None:
                return False
            at, damaged = found.end, damaged + found.damaged
        return damaged > 0
