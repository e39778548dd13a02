"""Damaged sectors of a commit log that is served, put right by bytes of another copy.

A sector's seal was made of the bytes that were written. So bytes that fit it are those, wherever
they come from: nothing else of the copy need be believed.
"""

from __future__ import annotations

import attrs

from .disk import File
from .old_bytes import OldBytes
from .seal_page import SECTOR_SIZE, seal_of


@attrs.frozen(kw_only=True)
class DamagedSector:
    """A sector that is not as it was written."""

    position: int
    """In the commit log."""
    size: int
    """Bytes of it that are sealed."""
    seal: int


@attrs.frozen(eq=False)
class SectorRepair:
    """The damaged sectors of one log.

    Args:
        old: What is known of the log's bytes.
    """

    old: OldBytes

    def find(self) -> list[DamagedSector]:
        """The sectors that bytes can be found for, ascending; cleaned ones are forgotten.

        The last sector of the log is left out while it is not full: its seal grows with it.

        Raises:
            OSError: The disk failed.
        """
        found: list[DamagedSector] = []
        files, seals = self.old.files, self.old.files.seals
        for position in sorted(self.old.damaged):
            segment = files.segment_at(position)
            if segment is None:
                self.old.put_back(position)
                continue
            page = None if seals is None else seals.page_of(segment.start, position)
            size, seal = (0, 0) if page is None else page.seal_of(position)
            if size == SECTOR_SIZE or (size and segment is not files.segments[-1]):
                found.append(DamagedSector(position=position, size=size, seal=seal))
        return found

    def write(self, sector: DamagedSector, data: bytes) -> File | None:
        """Write a sector's bytes if they fit; the file to sync before ``OldBytes.put_back``.

        None when they do not, or the segment was cleaned meanwhile.

        Raises:
            OSError: The disk did not take it.
        """
        segment = self.old.files.segment_at(sector.position)
        if segment is None or len(data) != sector.size or seal_of(data) != sector.seal:
            return None
        segment.file.write(sector.position - segment.start, data)
        return segment.file
