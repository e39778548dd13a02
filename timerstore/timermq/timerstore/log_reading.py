"""A reading of the commit log that goes on behind damage.

``CommitLog.scan`` ends at the first thing that is no record. That is right where the end of the log
is looked for, and wrong where what stands in the log decides what is done: a scan that ends early
has seen nothing of what follows, and says nothing of it. A reading has one end, that of the data;
what it could not read are holes, each known by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from .commit_log import CommitLog
from .filler_record import is_filler
from .log_holes import Hole, repaired_before_good
from .record_layout import BODY_AT
from .record_places import LogPart

log = structlog.get_logger("timermq.timerstore.log_reading")


class LogReading:
    """One reading; iterating gives position and bytes of each record, in the order of the log.

    A record whose size or magic alone is damaged is given as it was. Damage is told in a line of
    the program's log as it is met.

    Args:
        log: Recovered: its end is known.
        first: Position of a record.
        end: Records from here on are left out; None: up to the end of the data as it is now.
        purpose: What is looked for, for the line.
    """

    def __init__(self, log: CommitLog, first: int, *, end: int | None = None, purpose: str) -> None:
        self.holes: list[Hole] = []
        """The holes found so far."""
        self._log = log
        self._at = first
        self._end = log.max_offset if end is None else min(end, log.max_offset)
        self._purpose = purpose

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while self._at < self._end:
            scan = self._log.scan(self._at, check_crc=False)
            for phy_offset, size in scan:
                if phy_offset >= self._end:
                    return
                is_sound = self._log.old.compare(phy_offset, phy_offset + BODY_AT)
                data = self._log.read(phy_offset, size)
                if is_sound or is_filler(data, phy_offset):
                    yield phy_offset, data
                else:
                    reason = "a head that differs from its seal"
                    self.holes.append(Hole(phy_offset, phy_offset + size, reason, False))
            self._at = scan.end
            if self._at < self._end:
                repaired = self._pass_damage(scan.reason)
                if repaired is not None:
                    yield self._at, repaired
                    self._at += len(repaired)

    def _pass_damage(self, reason: str) -> bytes | None:
        """The record at a damaged place, if that is certain; else go behind the hole there."""
        at, segment = self._at, self._log.segment_at(self._at)
        end = self._log.next_segment_start(at)
        repaired: bytes | None = None
        reaches_end = True
        if segment is not None:
            view, start = segment.file.map(), segment.start
            limit = min(segment.size, self._log.max_offset - start)
            repaired = repaired_before_good(view, at - start, limit, start)
            if repaired is not None and not self._log.places.allow(at, len(repaired)):
                repaired = None
            resumed = None
            if repaired is None:
                part = LogPart(view, limit, start, is_whole=limit == segment.size)
                resumed = self._log.places.behind(part, at - start)
            if resumed is not None:
                end, reaches_end = start + resumed, False
        log.warning(
            "commit log damaged",
            purpose=self._purpose,
            at=at,
            found=reason,
            repaired=bool(repaired),
        )
        if repaired is None:
            self.holes.append(Hole(at, min(end, self._end), reason, reaches_end))
            self._at = end
        return repaired
