"""The walk that finds the end of the log when a store is opened.

A record whose size or magic alone is damaged is certain by all the rest of it, and by what stands
behind it: it is mended, and the walk goes on. What else is no record is the end of the log, unless
it is known that more was there:

====================  ==========================================================================
the last process      what stood in the log for certain
====================  ==========================================================================
was killed            all of it, but what of the last write was under way: the kernel keeps what
                      is written. How far that reaches the seals say, or good records behind
met a power cut       what the start of that process made durable (``BootNote``)
stopped               what the register and the checkpoint say; more is not asked here
====================  ==========================================================================

Damage in what was there is a hole. The walk goes on behind it, as everything does that reads the
log; the queues must tell each record that is lost in it (`LostRecords`).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from .boot_note import BootNote
from .commit_log import CommitLog, LogScan
from .filler_record import is_filler
from .log_holes import Hole, mended_before_good, next_good
from .log_record import is_cut_short, is_torn
from .record_check import CheckKind
from .record_layout import BLANK_SIZE
from .seal_page import SECTOR_SIZE
from .seal_reader import SealReader
from .store_files import StoreFiles


@attrs.define(eq=False)
class LogWalk:
    """One walk; nothing is written.

    Args:
        store: Log and queues are loaded.
        first: Position of a record, where it begins.
    """

    store: StoreFiles
    first: int
    sealed_to: int = attrs.field(init=False, default=-1)
    """Up to where the log is sealed; -1: not known."""
    known_to: int = attrs.field(init=False, default=-1)
    """What stands before it was there for certain."""
    scan: LogScan = attrs.field(init=False)
    """Where the walk ends."""
    count: int = attrs.field(init=False, default=0)
    """Records walked over."""
    newest: int | None = attrs.field(init=False, default=None)
    """Position of the last one."""
    mends: dict[int, bytes] = attrs.field(init=False, factory=dict[int, bytes])
    """Position of a damaged record to the record as it was."""
    reasons: dict[int, str] = attrs.field(init=False, factory=dict[int, str])
    """What was wrong with each that is mended."""
    holes: list[Hole] = attrs.field(init=False, factory=list[Hole])
    """What was no record, or is not as it was written, before ``known_to``."""
    _seals_to: int = attrs.field(init=False, default=-1)
    """Before it what is unlike its seal is damaged."""
    _was_killed: bool = attrs.field(init=False, default=False)
    """The last process was, and the power was not cut."""

    def __attrs_post_init__(self) -> None:
        self.scan = self._scan(self.first)
        store = self.store
        if store.checkpoint.durable_py is None:
            return  # Another program may have served it: nothing of ours is certain.
        self.sealed_to = max(self._sealed_ends(), default=-1)
        if store.last_exit_ok:
            return
        note = BootNote.read(store.disk, store.root)
        self._was_killed = note.is_of_this_boot(store.disk, store.root)
        self.known_to = max(self.sealed_to if self._was_killed else -1, note.log_end)
        self.known_to = min(self.known_to, store.log.max_offset)
        # A power cut may have kept seals of bytes that it took: of the last sector they tell less.
        self._seals_to = self.known_to - (0 if self._was_killed else SECTOR_SIZE)

    def run(self) -> None:
        """Walk to the end."""
        while self._reach_damage():
            at, mended = self.scan.end, self._mended()
            if mended is not None:
                self.mends[at], self.reasons[at] = mended, self.scan.reason
                self.count, self.newest = self.count + 1, at
                self.scan = self._scan(at + len(mended))
                continue
            hole = self._hole()
            if hole is None:
                return
            self.holes.append(hole)
            self.scan = self._scan(hole.end)

    def _scan(self, first: int) -> LogScan:
        check_crc = self.store.options.check_crc_on_recover
        return self.store.log.scan(first, check_crc=check_crc)

    def _sealed_ends(self) -> Iterator[int]:
        log = self.store.log
        seals = SealReader(self.store.disk, log.directory)
        for segment in log.segments:
            if segment.end > self.first:
                end = seals.sealed_end(segment.start, max(self.first, segment.start))
                if end is not None:
                    yield end

    def _reach_damage(self) -> bool:
        """Walk to what is no record: True; False where it is known to be the end."""
        log = self.store.log
        for phy_offset, size in self.scan:
            end = phy_offset + size
            if end <= self._seals_to and self._is_damaged(phy_offset, size):
                self.holes.append(Hole(phy_offset, end, "a record unlike its seal", False))
                continue
            if not self.store.last_exit_ok:
                damage = damage_of_text(log, phy_offset, size)
                if damage:
                    self.scan.reason = damage
                    return False
            self.count += 1
            self.newest = phy_offset
        return self.scan.end < log.max_offset

    def _is_damaged(self, phy_offset: int, size: int) -> bool:
        """Whether a record is unlike its seal; a filler leads out of a damaged sector."""
        log = self.store.log
        return not log.old.compare(phy_offset, phy_offset + size) and not is_filler(
            log.read(phy_offset, size), phy_offset
        )

    def _mended(self) -> bytes | None:
        """The record at the end of the walk as it was; None when it is not certain."""
        log, at = self.store.log, self.scan.end
        segment = log.segment_at(at)
        if segment is None or self.store.read_only:
            return None
        view = segment.file.map()
        return mended_before_good(view, at - segment.start, segment.size, segment.start)

    def _hole(self) -> Hole | None:
        """What is damaged where the walk has ended; None where the log may end there."""
        log, at = self.store.log, self.scan.end
        segment = log.segment_at(at)
        if segment is None or not (at < self.known_to or self._is_shown_behind(at)):
            return None
        view, start = segment.file.map(), segment.start
        limit = segment.size if at >= self.known_to else min(segment.size, self.known_to - start)
        resumed = next_good(view, at - start + 1, limit, start, is_whole=limit == segment.size)
        if resumed is not None:
            return Hole(at, start + resumed, self.scan.reason, False)
        is_more = at < self.known_to or self._begins_with_record(segment.end)
        if not is_more:
            return None
        end = segment.end if self._begins_with_record(segment.end) else self.known_to
        end = min(end, segment.end)
        return Hole(at, end, self.scan.reason, end == segment.end)

    def _is_shown_behind(self, at: int) -> bool:
        """Whether a killed process had brought records behind a place to their queues.

        Without a seal that is all that tells them from the remains of a write that failed.
        """
        queues = self.store.queues
        return self._was_killed and any(queue.max_physic_offset > at for queue in queues)

    def _begins_with_record(self, segment_start: int) -> bool:
        found = self.store.log.check_at(segment_start, check_crc=True)
        return found is not None and found.kind is CheckKind.RECORD


def damage_of_text(log: CommitLog, phy_offset: int, size: int) -> str:
    """What a crash did to topic or properties of a record, which have no checksum; or nothing."""
    data = log.read(phy_offset, size)
    if is_torn(data, phy_offset % log.segment_size):
        return "a record that lacks a sector"
    if is_cut_short(data, log.read(phy_offset + size, BLANK_SIZE)):
        return "a record that was not written to its end"
    return ""
