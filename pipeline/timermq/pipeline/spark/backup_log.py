"""The commit log of a backup (``timermq backup``): pieces of it, an object or a file each.

A backup has the commit log and tables, and what is made of them by a start: no queues, no timer
log. Its manifest says where each piece of the newest segment is, and where the list of the pieces
of each segment before; a list is read when its segment is. A piece begins behind a record, is read
whole, and is compared with its digest.
"""

from __future__ import annotations

from functools import lru_cache

import attrs

from timermq.backup.manifest import MANIFEST, Manifest, Piece, Stored, decode_list, digest
from timermq.backup.target import BackupError

from .errors import SparkJobError
from .file_part import FilePart
from .places import read_whole

PIECES_KEPT = 2
"""Pieces that a process keeps: reads of the log are as long as one, and begin within one."""


@attrs.frozen(kw_only=True)
class BackupPart(FilePart):
    """A range of a segment of a backup."""

    pieces: tuple[Piece, ...]
    """That hold the range, ascending, without gaps; names below ``path``."""

    def read(self, low: int, high: int) -> bytes:
        """The bytes between two positions of the part, at one go.

        Raises:
            SparkJobError: An object is missing or damaged.
        """
        found = bytearray()
        for piece in self.pieces:
            if piece.start < high and piece.end > low:
                data = _piece(self.path, piece)
                found += data[max(low - piece.start, 0) : high - piece.start]
        if len(found) < high - low:
            raise self.cleaned(f"{len(found)} bytes from {low} on")
        return bytes(found)

    def next_start(self) -> int | None:
        """The first position of the part at which a piece begins, and a record."""
        starts = (piece.start for piece in self.pieces)
        return next((start for start in starts if self.low <= start < self.high), None)


def load_manifest(root: str) -> Manifest | None:
    """The manifest of a backup; None where there is none.

    Args:
        root: A directory, or a place in an object store.

    Raises:
        SparkJobError: It is damaged, or of a newer version.
    """
    data = read_whole(f"{root}/{MANIFEST}")
    try:
        return None if data is None else Manifest.decode(data, root)
    except BackupError as error:
        raise SparkJobError(str(error)) from None


def pieces_of(root: str, manifest: Manifest, start: int) -> tuple[Piece, ...]:
    """The pieces of the segment that begins at a position.

    Raises:
        SparkJobError: The list of them is missing or damaged.
    """
    for segment in manifest.whole:
        if segment.start <= start < segment.end:
            return decode_list(_object(root, segment))
    return manifest.pieces


@lru_cache(maxsize=PIECES_KEPT)
def _piece(root: str, piece: Piece) -> bytes:
    return _object(root, piece)


def _object(root: str, one: Stored) -> bytes:
    data = read_whole(f"{root}/{one.name}")
    if data is None:
        raise SparkJobError(
            f"{root}/{one.name}: expected an object of the backup, found none: it was removed, or "
            "replaced since the job began; run it again"
        )
    if digest(data) != one.sha256:
        raise SparkJobError(
            f"{root}/{one.name}: expected the digest {one.sha256}, found {digest(data)}: the "
            "object is damaged"
        )
    return data
