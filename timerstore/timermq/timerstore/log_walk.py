"""The walk that finds the end of the log when a store is opened.

A record whose size or magic alone is damaged is certain by all the rest of it, and by what stands
behind it: it is repaired, and the walk goes on. What else is no record is the end of the log,
unless it is known that more was there (`LogReach`), or a killed process had brought records behind
it to their queues.

Damage in what was there is a hole. The walk goes on behind it, as everything does that reads the
log; the queues tell which records are lost in it (`LostRecords`).
"""

from __future__ import annotations

import attrs

from .commit_log import CommitLog
from .filler_record import is_filler
from .log_holes import Hole, repaired_before_good
from .log_reach import LogReach
from .log_record import is_cut_short, is_torn
from .log_scan import LogScan
from .record_check import CheckKind
from .record_layout import BLANK_SIZE
from .record_places import LogPart
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
    reach: LogReach = attrs.field(init=False)
    """How far the log reached for certain."""
    scan: LogScan = attrs.field(init=False)
    """The end of the walk."""
    count: int = attrs.field(init=False, default=0)
    """Records walked over."""
    newest: int | None = attrs.field(init=False, default=None)
    """Position of the last one."""
    repairs: dict[int, bytes] = attrs.field(init=False, factory=dict[int, bytes])
    """Position of a damaged record to the record as it was."""
    reasons: dict[int, str] = attrs.field(init=False, factory=dict[int, str])
    """The fault of each that is repaired."""
    holes: list[Hole] = attrs.field(init=False, factory=list[Hole])
    """The parts that were no record, or are not as written, before the known end."""

    def __attrs_post_init__(self) -> None:
        self.scan = self._scan(self.first)
        store = self.store
        self.reach = LogReach.of(
            store.disk,
            store.root,
            [segment.start for segment in store.log.segments],
            store.log.segment_size,
            first=self.first,
            is_ours=store.checkpoint.durable_py is not None,
            last_exit_ok=store.last_exit_ok,
        )

    def run(self) -> None:
        """Walk to the end of the log, past what is repaired and past holes."""
        while self._reach_damage():
            at, repaired = self.scan.end, self._repaired()
            if repaired is not None:
                self.repairs[at], self.reasons[at] = repaired, self.scan.reason
                self.count, self.newest = self.count + 1, at
                self.scan = self._scan(at + len(repaired))
                continue
            hole = self._hole()
            if hole is None:
                return
            self.holes.append(hole)
            self.scan = self._scan(hole.end)

    def _scan(self, first: int) -> LogScan:
        check_crc = self.store.options.check_crc_on_recover
        return self.store.log.scan(first, check_crc=check_crc)

    def _reach_damage(self) -> bool:
        """Walk to what is no record: True; False where it is known to be the end."""
        log = self.store.log
        for phy_offset, size in self.scan:
            end = phy_offset + size
            if end <= self.reach.compared_to and self._is_damaged(phy_offset, size):
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

    def _repaired(self) -> bytes | None:
        """The record at the end of the walk as it was; None when it is not certain."""
        log, at = self.store.log, self.scan.end
        segment = log.segment_at(at)
        if segment is None or self.store.read_only:
            return None
        view = segment.file.map()
        repaired = repaired_before_good(view, at - segment.start, segment.size, segment.start)
        is_allowed = repaired is not None and log.places.allow(at, len(repaired))
        return repaired if is_allowed else None

    def _hole(self) -> Hole | None:
        """The damage at the end of the walk; None where the log may end there."""
        log, at = self.store.log, self.scan.end
        segment = log.segment_at(at)
        known_to = self.reach.known_to
        if segment is None or not (at < max(known_to, self.shown_to)):
            return None
        view, start = segment.file.map(), segment.start
        limit = segment.size if at >= known_to else min(segment.size, known_to - start)
        part = LogPart(view, limit, start, is_whole=limit == segment.size)
        resumed = log.places.behind(part, at - start)
        if resumed is not None:
            return Hole(at, start + resumed, self.scan.reason, False)
        if at >= known_to and not self._begins_with_record(segment.end):
            return None
        end = segment.end if self._begins_with_record(segment.end) else known_to
        end = min(end, segment.end)
        return Hole(at, end, self.scan.reason, end == segment.end)

    @property
    def shown_to(self) -> int:
        """End of the last record that a killed process had brought to its queue; -1: none.

        Without a seal that is all that tells records from the remains of a write that failed.
        """
        if not self.reach.was_killed:
            return -1
        return max((queue.max_physic_offset for queue in self.store.queues), default=-1)

    def _begins_with_record(self, segment_start: int) -> bool:
        found = self.store.log.check_at(segment_start, check_crc=True)
        return found is not None and found.kind is CheckKind.RECORD


def damage_of_text(log: CommitLog, phy_offset: int, size: int) -> str:
    """The damage of a crash to topic or properties of a record, which have no checksum; or none."""
    data = log.read(phy_offset, size)
    if is_torn(data, phy_offset % log.segment_size):
        return "a record that lacks a sector"
    if is_cut_short(data, log.read(phy_offset + size, BLANK_SIZE)):
        return "a record that was not written to its end"
    return ""
