"""Damaged bytes of a stopped store's commit log, put back as a source has them.

The bytes are those that were there before the damage, so they fit their seals. A sector is put back
if the source's bytes fit its seal. A hole is filled if the source has whole records from its first
byte to its last, and if they fit the seals there. Where no seal tells, the bytes before the hole
and behind it have to be the same in the store and in the source: another log has other times and
ids there. What is left, a repair deals with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing

import attrs

from timermq.timerstore.disk import File
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.seal_page import SECTOR_SIZE, seal_of
from timermq.timerstore.store_lock import StoreLock

from .backup import Backup
from .hole_trial import HoleTrial, SealedSectors, Verdict
from .log_source import LogSource, SourceError, bytes_of
from .seal_check import damaged_sectors
from .segment_row import SegmentRow
from .store_check import CheckedStore

NEIGHBOUR_SIZE = 512
"""Bytes beside a hole that are compared: some record's times and ids are among them."""


@attrs.frozen(kw_only=True)
class PutBack:
    """Damaged bytes of the commit log that are as they were before."""

    position: int
    """In the commit log."""
    size: int
    digest: bytes = attrs.field(repr=False)
    """SHA-256 of them."""
    is_proved: bool
    """Seals show that they are the bytes that stood there."""

    @property
    def end(self) -> int:
        """Position behind the last of them."""
        return self.position + self.size


@attrs.define(eq=False, kw_only=True)
class SourceRepair:
    """A repair from a source; ``run`` puts back what a store has lost.

    Args:
        source: Another copy of the log.
        store: A stopped one.
    """

    source: LogSource
    store: CheckedStore
    _intact: _Intact = attrs.field(init=False)

    async def run(self) -> list[PutBack]:
        """Put back what the source has of the damaged bytes.

        Each segment that is changed is copied into the store's ``aside/`` first.

        Raises:
            StoreLockedError: A broker serves the store.
            SourceError: The source is of a store with other segments, or changes meanwhile.
            StoreError: It is damaged, or cannot be read.
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
                self._intact = _Intact(log.row, log.holes, damaged)
                directory = f"{store.root}/{log.row.directory}"
                seals = SealedSectors(store.disk, directory, log.row.segment_size)
                put_back = await self._in_holes(log.holes, log.row, seals)
                put_back += await self._in_sectors(damaged, seals)
                await self._write(put_back, log.row)
            finally:
                log.close()
        finally:
            lock.release()
        return put_back

    def _expect_size(self, row: SegmentRow) -> None:
        found = self.source.segment_size
        if found != row.segment_size:
            raise SourceError(
                f"{self.source.place}: expected segments of {row.segment_size} bytes, as "
                f"{self.store.root} has, found {found}: name a copy of this store"
            )

    async def _in_holes(
        self, holes: Sequence[Hole], row: SegmentRow, seals: SealedSectors
    ) -> list[PutBack]:
        """Holes that the source can fill; of holes side by side the outer ends are compared."""
        runs: list[list[PutBack]] = []
        for hole in holes:
            found = await self._tried(hole, HoleTrial(hole, row, seals))
            if found is not None:
                if not runs or runs[-1][-1].end != hole.position:
                    runs.append([])
                runs[-1].append(found)
        return [
            one
            for each in runs
            for has_neighbour in (await self._has_neighbours(each[0].position, each[-1].end, row),)
            for one in each
            if one.is_proved or has_neighbour
        ]

    async def _tried(self, hole: Hole, trial: HoleTrial) -> PutBack | None:
        """What the source has in place of a hole; None of what cannot be it."""
        at = hole.position
        while at < hole.end:
            data = await self.source.read(at, hole.end - at)
            at += len(data)
            if not data or not trial.take(data):
                return None
        verdict = trial.verdict()
        if verdict is Verdict.REFUTED:
            return None
        return PutBack(
            position=hole.position,
            size=hole.size,
            digest=trial.digest,
            is_proved=verdict is Verdict.PROVED,
        )

    async def _has_neighbours(self, start: int, end: int, row: SegmentRow) -> bool:
        """Whether store and source have the same before a stretch of the log, and behind it.

        One side is enough where the store or the source has nothing intact on the other.
        """
        source, size, same = self.source, row.segment_size, False
        before = (start - 1) // size * size
        behind = (end // size + 1) * size
        for first, last in (
            self._intact.before(max(start - NEIGHBOUR_SIZE, before, source.start), start),
            self._intact.behind(end, min(end + NEIGHBOUR_SIZE, behind, source.end)),
        ):
            data = row.read(first, last - first) if first < last else b""
            if not any(data):
                continue
            theirs = await bytes_of(source, first, last)
            if theirs is not None and theirs != data:
                return False
            same = same or theirs is not None
        return same

    async def _in_sectors(self, sectors: Sequence[int], seals: SealedSectors) -> list[PutBack]:
        """Sectors that fit their seals as the source has them."""
        found: list[PutBack] = []
        for sector in sectors:
            size, seal = seals.seal_of(sector, or_found=True)
            data = await bytes_of(self.source, sector, sector + size) if size else None
            if data and seal_of(data) == seal:
                digest = hashlib.sha256(data).digest()
                found.append(PutBack(position=sector, size=size, digest=digest, is_proved=True))
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
                        await self._write_one(one, file, start)
                store.disk.sync_now(file)
            store.disk.sync_dir_now(f"{store.root}/{row.directory}")

    async def _write_one(self, one: PutBack, file: File, start: int) -> None:
        """Write what was tried; a hole may be a gigabyte, so it is read once more."""
        at, digest = one.position, hashlib.sha256()
        while at < one.end:
            data = await self.source.read(at, one.end - at)
            digest.update(data)
            if not data:
                break
            file.write(at - start, data)
            at += len(data)
        if digest.digest() != one.digest:
            raise SourceError(
                f"{self.source.place}: expected the bytes at {one.position} that it had before, "
                "found others: run the repair again"
            )


@attrs.frozen
class _Intact:
    """What of a store's log can be compared: neither a hole nor a damaged sector."""

    row: SegmentRow
    holes: Sequence[Hole]
    sectors: Sequence[int]

    def before(self, first: int, end: int) -> tuple[int, int]:
        """The last part of [first, end) that is intact, up to its end."""
        ends = [one.end for one in self.holes if one.position < end]
        ends += [one + SECTOR_SIZE for one in self.sectors if one < end]
        return max([first, *ends]), end

    def behind(self, first: int, end: int) -> tuple[int, int]:
        """The first part of [first, end) that is intact, from its begin."""
        starts = [one.position for one in self.holes if one.end > first]
        starts += [one for one in self.sectors if one + SECTOR_SIZE > first]
        return first, min([end, *starts])
