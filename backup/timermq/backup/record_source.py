"""Damaged bytes of a stopped store's commit log, put back as a backup has them.

The bytes are those that were there before the damage, so they fit their seals. A hole is filled if
the backup has whole records from its first byte to its last, and if the bytes before it or behind
it are the same in the store and in the backup: a backup of another store has other times and ids
there. A sector is filled if the backup's bytes fit its seal. What is left, a repair deals with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import attrs

from timermq.repair.backup import Backup
from timermq.repair.seal_check import damaged_sectors
from timermq.repair.segment_row import SegmentRow
from timermq.repair.store_check import CheckedStore
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.seal_page import SECTOR_SIZE, STRETCH_SIZE, seals_of
from timermq.timerstore.seal_reader import SealReader
from timermq.timerstore.store_lock import StoreLock

from .backup_objects import BackupObjects
from .log_tail import are_records
from .target import BackupError

NEIGHBOUR_SIZE = 512
"""Bytes beside a hole that are compared: some record's times and ids are among them."""


@attrs.frozen(kw_only=True)
class PutBack:
    """Damaged bytes of the commit log that are as they were before."""

    position: int
    """In the commit log."""
    size: int

    @property
    def end(self) -> int:
        """Position behind the last of them."""
        return self.position + self.size


@attrs.define(eq=False, kw_only=True)
class RecordSource:
    """A backup, from which ``run`` puts back what a store has lost.

    Args:
        objects: Of the backup.
        store: A stopped one.
    """

    objects: BackupObjects
    store: CheckedStore

    async def run(self) -> list[PutBack]:
        """Put back what the backup has of the damaged bytes.

        Each segment that is changed is copied into the store's ``aside/`` first.

        Raises:
            StoreLockedError: A broker serves the store.
            BackupError: The backup is of a store with other segments, or is damaged.
            TargetError: The target cannot be read.
            NoRoomError: No room to keep an original.
            OSError: The disk refused; a repair can be run again.

        Cancellation: as after a kill: some bytes are put back, and it can be run again.
        """
        store = self.store
        lock = StoreLock(store.disk, store.root)
        lock.take()
        try:
            damaged = sorted(damaged_sectors(store.open_seals().find_in_log()))
            log = store.open_log(damaged)
            try:
                for _ in log.run():
                    pass
                self._expect_size(log.row)
                put_back = await self._in_holes(log.holes, log.row)
                put_back += await self._in_sectors(damaged, log.row.segment_size)
                await self._write(put_back, log.row)
            finally:
                log.close()
        finally:
            lock.release()
        return put_back

    def _expect_size(self, row: SegmentRow) -> None:
        found = self.objects.manifest.segment_size
        if found != row.segment_size:
            raise BackupError(
                f"{self.objects.target.place}: expected a backup with segments of "
                f"{row.segment_size} bytes, as {self.store.root} has, found {found}: name the "
                "backup of this store"
            )

    async def _in_holes(self, holes: Sequence[Hole], row: SegmentRow) -> list[PutBack]:
        """Holes that the backup can fill; of holes side by side the outer ends are compared."""
        runs: list[list[PutBack]] = []
        for hole in holes:
            if await self._has_records(hole, row.segment_size):
                if not runs or runs[-1][-1].end != hole.position:
                    runs.append([])
                runs[-1].append(PutBack(position=hole.position, size=hole.size))
        return [
            one
            for each in runs
            if await self._has_neighbour(each[0].position, each[-1].end, row)
            for one in each
        ]

    async def _has_records(self, hole: Hole, segment_size: int) -> bool:
        """Whether the backup has whole records from the first byte of a hole to its last."""
        at = hole.position
        # A piece ends with a record, so each is looked at by itself: a hole may be a gigabyte.
        for piece in await self.objects.pieces_in(hole.position, hole.end):
            position, data = await self.objects.part_of(piece, hole.position, hole.end)
            end = position + len(data)
            if position != at or not are_records(
                data, position, ends_segment=end % segment_size == 0
            ):
                return False
            at = end
        return at == hole.end

    async def _has_neighbour(self, start: int, end: int, row: SegmentRow) -> bool:
        """Whether store and backup have the same before a stretch of the log, or behind it."""
        manifest, size = self.objects.manifest, row.segment_size
        before = (start - 1) // size * size
        behind = (end // size + 1) * size
        for first, last in (
            (max(start - NEIGHBOUR_SIZE, before, manifest.start), start),
            (end, min(end + NEIGHBOUR_SIZE, behind, manifest.end)),
        ):
            data = row.read(first, last - first) if first < last else b""
            if any(data) and data == await self.objects.bytes_of(first, last):
                return True
        return False

    async def _in_sectors(self, sectors: Sequence[int], segment_size: int) -> list[PutBack]:
        """Sectors that fit their seals as the backup has them."""
        found: list[PutBack] = []
        seals = SealReader(self.store.disk, f"{self.store.root}/commitlog")
        for sector in sectors:
            start = sector - sector % segment_size
            path = seals.path(start)
            if not self.store.disk.exists(path):
                continue
            number, rest = divmod(sector - start, STRETCH_SIZE)
            with closing(self.store.disk.open(path, read_only=True)) as pages:
                page = seals.read_page(pages, start, number)
            size = 0 if page is None else min(page.covered - rest, SECTOR_SIZE)
            data = await self.objects.bytes_of(sector, sector + size) if size > 0 else None
            if page and data and seals_of(data)[0] == page.seals[rest // SECTOR_SIZE]:
                found.append(PutBack(position=sector, size=size))
        return found

    async def _write(self, put_back: Sequence[PutBack], row: SegmentRow) -> None:
        """Write into segments, durably; each has a backup before."""
        store = self.store
        # A millisecond before that of the repair that follows, which has a directory of its own.
        backup = Backup(store.disk, store.root, store.now_ms - 1)
        row.close()  # lengths change
        for start in sorted({one.position - one.position % row.segment_size for one in put_back}):
            path = row.path_of(start)
            backup.copy(path)
            with closing(store.disk.open(f"{store.root}/{path}", create=True)) as file:
                file.allocate(row.segment_size)
                for one in put_back:
                    if start <= one.position < start + row.segment_size:
                        for piece in await self.objects.pieces_in(one.position, one.end):
                            at, data = await self.objects.part_of(piece, one.position, one.end)
                            file.write(at - start, data)
                store.disk.sync_now(file)
            store.disk.sync_dir_now(f"{store.root}/{row.directory}")
