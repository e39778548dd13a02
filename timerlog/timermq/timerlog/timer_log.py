"""The timer log: a journal of units, and the chains of the wheel's slots within it.

**Files.** ``timerlog/<20 digits>``, segments of one size. Units are only ever appended; how they
lie in a segment is told in ``segment``. There is no checksum and no length: recovery reads units
from a place that was durable until it meets something that is not one. The oldest segments go when
the messages of all their units have gone.

**Chains.** Each unit names the one that was linked in its slot before it, always at a lower
position; the wheel names the newest. The links never change, so a chain can be walked while new
units join at its head.

Source: Java ``TimerLog``, ``TimerMessageStore.recover``.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import trio

from timermq.timerstore.array_types import Flags, Int64s
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.seal_scrub import SealScrub
from timermq.timerstore.seals import SealMoment

from .chain import WALK_COUNT, UnitChunk, walk_chain
from .log_end import clear_behind, find_end, hollow_segments
from .oldest_bodies import OldestBodies
from .outlines import Outlines, remove_outlines
from .segment import SEGMENT_SIZE_MIN, chunks, chunks_of, closing, gather, parts, units_in
from .unit import NO_POS, UNIT, TimerUnit, Units, are_units, slot_times

SEGMENT_SIZE = 104_857_600
"""RocketMQ's ``mappedFileSizeTimerLog``, bytes."""

NEAR_SIZE = 131_072
"""Bytes: units of one such block, and of the next one, are announced together."""


@attrs.frozen(kw_only=True)
class TimerLogStatistics:
    """A moment's picture of the log; positions are bytes."""

    min_pos: int
    max_pos: int
    flushed_where: int
    segment_count: int
    segment_size: int


class TimerLog:
    """The log over its segments. ``open`` makes one; ``recover`` finds its end."""

    def __init__(
        self, disk: Disk, directory: str, queue: MappedFileQueue, *, read_only: bool
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._queue = queue
        self._read_only = read_only
        self._outlines = Outlines(disk, directory, queue.segment_size)
        self.bodies = OldestBodies(queue)
        """The oldest message that waits."""
        self._to_cut: list[int] = []
        """Positions of sectors that a start found damaged: the log is cut before the first."""
        self.damaged: set[int] = set()
        """Those that ``scrub`` found since: they stay, and no chain leads through them."""
        self.scrub = SealScrub(queue, self.damaged.update)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        segment_size: int = SEGMENT_SIZE,
        *,
        read_only: bool = False,
    ) -> TimerLog:
        """Open the segments in ``directory``; ``recover`` must follow.

        Args:
            disk: Their disk.
            directory: Made with the first segment.
            segment_size: Bytes, at least ``SEGMENT_SIZE_MIN``; that of the files that are there.
            read_only: Nothing is written, made or removed.

        Raises:
            StoreFormatError: A file is longer or has another name; read only, also one that was
                cut short.
        """
        if segment_size < SEGMENT_SIZE_MIN:
            expected = f"expected at least {SEGMENT_SIZE_MIN} bytes, found {segment_size}"
            raise ValueError(f"segment of the timer log: {expected}")
        queue = MappedFileQueue(
            disk,
            directory,
            segment_size,
            reserve=True,
            read_only=read_only,
            sealed=SealMoment.FLUSH,
            lengthen=True,
        )
        queue.load()
        return cls(disk, directory, queue, read_only=read_only)

    def close(self) -> None:
        """Close the files; nothing is written."""
        self._queue.close()

    @property
    def segment_size(self) -> int:
        """Number of bytes of a segment."""
        return self._queue.segment_size

    @property
    def min_pos(self) -> int:
        """Start of the oldest segment."""
        return self._queue.min_offset

    @property
    def max_pos(self) -> int:
        """Behind the last unit, or behind the blank that closed its segment."""
        return self._queue.wrote

    @property
    def flushed_where(self) -> int:
        """Everything before it is durable."""
        return self._queue.flushed_where

    def segment_start(self, pos: int) -> int:
        """Start of the newest segment that begins at or before ``pos``, else of the oldest one."""
        starts = [segment.start for segment in self._queue.segments if segment.start <= pos]
        return starts[-1] if starts else self.min_pos

    def positions(self, count: int) -> Int64s:
        """Positions of the next ``count`` units (at least 1); blanks are skipped."""
        return np.concatenate(
            [
                np.arange(pos, pos + fitting * UNIT.size, UNIT.size)
                for pos, fitting in parts(self.max_pos, count, self.segment_size)
            ]
        )

    def append(self, units: Units) -> None:
        """Write units (at least 1) at ``positions(len(units))``; one write a segment.

        Raises:
            OSError: A new segment has no room on the disk: the log is as it was. Or a write failed:
                the log is of no use until it is opened again and recovered.
        """
        places = list(parts(self.max_pos, len(units), self.segment_size))
        # The segments first: what is written into them has its blocks, so a full disk shows here.
        for pos, _ in places:
            if self._queue.segment_at(pos) is None:
                self._queue.start_segment(pos)
        if places[0][0] > self.max_pos:
            self._queue.write(self.max_pos, closing(self.max_pos, self.segment_size))
        done = 0
        for pos, count in places:
            data = units[done : done + count].tobytes()
            done += count
            if done < len(units):
                data += closing(pos + len(data), self.segment_size)
            self._queue.write(pos, data)

    def unit(self, pos: int) -> TimerUnit:
        """The unit at ``pos``.

        Raises:
            StoreFormatError: There is none.
        """
        data = self._queue.read(pos, UNIT.size)
        if len(data) < UNIT.size:
            raise StoreFormatError(self._directory, pos, "a unit", f"{len(data)} bytes")
        unit = TimerUnit.decode(data)
        if not unit.is_valid:
            found = f"size {unit.size} and magic {unit.magic}"
            raise StoreFormatError(self._directory, pos, "a unit", found)
        return unit

    def will_need(self, positions: Int64s) -> None:
        """Announce units that are read next, here and there: cold ones come together.

        A map has no readahead, and one after the other they would take 0.1 ms each.
        """
        for segment in self._queue.segments:
            inside = positions[(positions >= segment.start) & (positions < segment.end)]
            blocks = np.unique((inside - segment.start) // NEAR_SIZE)
            firsts = blocks[np.diff(blocks, prepend=-2) > 1] * NEAR_SIZE
            ends = (blocks[np.diff(blocks, append=segment.size) > 1] + 1) * NEAR_SIZE
            sizes = np.minimum(ends, segment.size) - firsts
            segment.file.will_need(zip(firsts.tolist(), sizes.tolist(), strict=True))

    def targets(self, positions: Int64s) -> Int64s:
        """The slot time of the unit at each position, -1 where there is none."""
        targets = np.full(len(positions), NO_POS, np.int64)
        owners = positions // self.segment_size
        for owner in np.unique(owners).tolist():
            segment = self._queue.segment_at(owner * self.segment_size)
            if segment is not None:
                inside = np.flatnonzero(owners == owner)
                units, valid = gather(segment, positions[inside], self.max_pos)
                targets[inside[valid]] = slot_times(units[valid])
        return targets

    def walk(
        self,
        last_pos: int,
        *,
        slot_ms: int,
        until_pos: int = NO_POS,
        count_max: int = WALK_COUNT,
    ) -> Iterator[UnitChunk]:
        """Follow a slot's chain from its newest unit down, a chunk at a time.

        The walk ends quietly below ``min_pos``: units there are gone because their messages are.

        Args:
            last_pos: Position of the newest unit; ``NO_POS`` walks nothing.
            slot_ms: The slot that every unit must name.
            until_pos: Units at or below it are left out.
            count_max: Units of a chunk, at least 1.

        Raises:
            ChainError: A unit is not one of this slot, points forward, or is damaged: no chunk.
        """
        return walk_chain(
            self._queue,
            last_pos,
            slot_ms=slot_ms,
            until_pos=until_pos,
            count_max=count_max,
            damaged=self.damaged,
        )

    def scan(self, from_pos: int) -> Iterator[tuple[Int64s, Units]]:
        """The units from ``from_pos`` on in log order: (positions, units) in chunks.

        What is not a unit is left out: units stand at known places, so damage to one does not hide
        those behind it.

        Args:
            from_pos: Start of a segment, or position of a unit.
        """
        for first, units in chunks(self._queue, from_pos):
            valid = are_units(units)
            positions = first + np.flatnonzero(valid) * UNIT.size
            if len(positions):
                # Nearly always all of them: a copy would cost more than looking at them.
                yield positions, units if len(positions) == len(units) else units.compress(valid)

    def entries(self, from_pos: int) -> Iterator[tuple[int, Units, Flags]]:
        """As ``scan``, but with what is not a unit: (position of the first, entries, are units).

        An entry stands 52 bytes behind the one before it, and those of a chunk in one segment.
        """
        for first, units in chunks(self._queue, from_pos):
            yield first, units, are_units(units)

    def forget_seals(self) -> None:
        """Another program may have written the log since; before ``recover`` (blocking).

        What its outlines say is out of date as well.

        Raises:
            OSError: The disk failed.
        """
        self._queue.forget_seals()
        if not self._read_only:
            remove_outlines(self._disk, self._directory)

    def repair(self) -> None:
        """Compare all of the log with its seals, and put single words right; before ``recover``.

        Raises:
            OSError: The disk failed.
        """
        self._to_cut = self._queue.repair(self.min_pos, self.max_pos)
        self.damaged.clear()

    def cut_unsound_tail(self, durable_pos: int) -> None:
        """Cut the log behind ``durable_pos`` where it is not as it was written.

        Behind ``recover``; what ``repair`` has found counts. A power cut may have kept seals of
        units that it took, and the sector that they shared with durable ones is sound up to these.

        Raises:
            OSError: The disk failed.
        """
        tail = [one for one in self._to_cut if one + SECTOR_SIZE > durable_pos]
        self._to_cut = [one for one in self._to_cut if one + SECTOR_SIZE <= durable_pos]
        if tail and tail[0] < self.max_pos:
            self.cut(max(self._unit_at(tail[0]), durable_pos))

    def cut_unsound(self) -> bool:
        """Cut the log at the first durable unit that is not as it was written; whether there was.

        Behind ``cut_unsound_tail``.

        Raises:
            OSError: The disk failed.
        """
        if not self._to_cut or self._to_cut[0] >= self.max_pos:
            return False
        self.cut(self._unit_at(self._to_cut[0]))
        return True

    def _unit_at(self, pos: int) -> int:
        """Position of the unit that a byte of a segment belongs to, or of the blank."""
        start = self.segment_start(pos)
        return start + min((pos - start) // UNIT.size, units_in(self.segment_size)) * UNIT.size

    def recover(self, from_pos: int) -> int:
        """Find the end of the log, cut it there, and make what stands before it durable.

        The end is behind the last good unit, or behind the blank that closed its segment. What was
        written beyond it is overwritten with zeros, so that it cannot come back behind units that
        are appended later. Everything from the start of the segment is synced, because a process
        that was killed may not have done it.

        Args:
            from_pos: What stands before it is taken as good; reading begins with its segment.

        Returns:
            The end, ``max_pos`` from now on.

        Raises:
            OSError: The disk failed.
        """
        self._to_cut = sorted({*self._to_cut, *hollow_segments(self._queue)})
        start = self.segment_start(from_pos)
        end = find_end(self._queue, start)
        self._end_at(end, start, rewrite_from=from_pos)
        return end

    def cut(self, pos: int) -> None:
        """Let the log end at ``pos``, the position of a unit; what stood behind is gone for good.

        Raises:
            OSError: The disk failed.
        """
        self.damaged -= {one for one in self.damaged if one + SECTOR_SIZE > pos}
        self._end_at(pos, self.segment_start(pos), rewrite_from=pos)

    async def delete_before_phy(self, min_phy: int, needed_pos: int | None = None) -> int:
        """Remove the oldest segments whose messages all stand before ``min_phy``; never the last.

        Returns how many were removed.

        Args:
            min_phy: Where the commit log begins.
            needed_pos: Units from here on are still to be read, and stay.

        RocketMQ looks at the last unit alone. Here it only spares most looks at all the others:
        offsets of units that recovery appended again do not grow along the log. They are read in
        chunks, with a checkpoint behind each; meanwhile the log may be read and appended to.

        Cancellation: what has been removed is gone; the next call looks at the rest.
        """
        count = 0
        # What is linked meanwhile stands in the segment that is the last one now, or behind it.
        end = self.segment_start(self.max_pos)
        if needed_pos is not None:
            end = min(end, needed_pos)
        while self.min_pos + self.segment_size <= end:
            segment = self._queue.segments[0]
            last_pos = segment.start + (units_in(segment.size) - 1) * UNIT.size
            last, valid = gather(segment, np.array([last_pos], np.int64), segment.end)
            if valid.all() and int(last["offset_py"][0]) >= min_phy:
                break
            for _, units in chunks_of(segment, segment.start, segment.end):
                if (units["offset_py"][are_units(units)] >= min_phy).any():
                    return count
                await trio.lowlevel.checkpoint()
            count += self._queue.delete_before(segment.end)
        return count

    async def flush(self, upto: int | None = None) -> int:
        """Make the units before ``upto`` (default: all) durable; returns ``flushed_where``.

        Raises:
            OSError: The sync failed; it must not be retried.
        """
        flushed_where = await self._queue.flush(upto)
        await self._queue.flush_seals()
        return flushed_where

    def statistics(self) -> TimerLogStatistics:
        """A moment's picture; reads memory only."""
        return TimerLogStatistics(
            min_pos=self.min_pos,
            max_pos=self.max_pos,
            flushed_where=self.flushed_where,
            segment_count=len(self._queue.segments),
            segment_size=self.segment_size,
        )

    def _end_at(self, end: int, sync_from: int, *, rewrite_from: int) -> None:
        """Set the end, clear what stands behind, and sync the segments from ``sync_from`` on."""
        if not self._read_only:
            clear_behind(self._queue, end)
            self._outlines.cut(end)
            self._outlines.drop_before(self.min_pos)
        self._queue.set_end(end)
        self.bodies = OldestBodies(self._queue, None if self._read_only else self._outlines)
        if not self._read_only:
            self._queue.rewrite(rewrite_from)
        tail = [segment for segment in self._queue.segments if segment.end > sync_from]
        if tail and not self._read_only:
            self._disk.sync_now(*(segment.file for segment in tail))
            self._disk.sync_dir_now(self._directory)
