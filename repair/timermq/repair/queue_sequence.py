"""The queue offsets of one queue's records, in the order of the log: is each the next one?

The head of a record has no checksum. But queue offsets are dense, so a record whose offset, queue
or topic is damaged leaves a gap in one queue and does not fit another. Both are noticed here; the
gap and the misfit are brought together in ``record_repair``.

===================  ===========================================================================
a record states      then
===================  ===========================================================================
the next offset      it fits
a later one          the record after it decides: does it follow this one, the offsets between
                     are a gap; does it follow the one before, this one is a misfit
an earlier one       it is a misfit; but offset 0 begins the queue again if the queue says so:
                     its topic was deleted and made again
===================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from timermq.timerstore.log_holes import Hole

from .lost_record import lost_size


@attrs.frozen
class Gap:
    """Queue offsets in [first, end) of which no record was found."""

    topic: str
    queue_id: int
    first: int
    end: int
    after_py: int
    """Position of the record before the gap, -1 without one."""
    before_py: int
    """Position of the record behind the gap; the log's end without one."""


@attrs.frozen
class Misfit:
    """A record that does not fit the queue that it states."""

    position: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    is_queued: bool = True


@attrs.define(eq=False)
class QueueSequence:
    """The state of one queue so far."""

    topic: str
    queue_id: int
    log_starts_at_0: bool
    first: int = -1
    """Queue offset of the first record of the queue's present life."""
    next: int = 0
    last_py: int = -1
    starts_py: int = -1
    """Its position."""
    gaps: list[Gap] = attrs.field(factory=list[Gap])
    misfits: list[Misfit] = attrs.field(factory=list[Misfit])
    count: int = 0
    _suspect: Misfit | None = None
    """A record with a later offset than the next one: after a gap, or a misfit."""

    def take(self, position: int, size: int, offset: int, *, is_confirmed: bool) -> None:
        """Look at one record.

        Args:
            position: Where it stands.
            size: Its bytes.
            offset: The queue offset that it states.
            is_confirmed: The queue's unit of that offset shows this record.
        """
        self.count += 1
        suspect = self._suspect
        if offset == self.next and suspect is None and self.first >= 0:
            self.next, self.last_py = offset + 1, position
            return
        if self.first < 0:
            self.first = self.next = offset
            self.starts_py = position
            if offset and self.log_starts_at_0 and not is_confirmed:
                self._suspect, self.first, self.next = self._misfit(position, size, offset), 0, 0
                return
            self.next, self.last_py = offset + 1, position
            return
        if offset == 0 and is_confirmed:
            self._resolve(position, offset)
            self.first, self.next, self.last_py = 0, 1, position
            self.starts_py = position
            self.gaps.clear()
            return
        if suspect is not None:
            self._resolve(position, offset)
        if offset == self.next:
            self.next, self.last_py = offset + 1, position
        elif offset < self.next:
            self.misfits.append(self._misfit(position, size, offset))
        else:
            self._suspect = self._misfit(position, size, offset)

    def begin_lost(self, offset: int, hole_py: int) -> None:
        """All records were lost, the first one in a hole at this position."""
        self.first = self.next = offset
        self.starts_py, self.last_py = hole_py, hole_py - 1

    def may_begin_behind(self, holes: Sequence[Hole]) -> bool:
        """Whether a newcomer may have had others before it, where the log has holes.

        With more offsets before it than the holes have room for, the offset is damaged itself.
        """
        if not self.is_newcomer:
            return False
        (misfit,) = self.misfits
        room = sum(one.size for one in holes if one.position < misfit.position)
        return misfit.queue_offset * lost_size(self.topic) <= room

    def begin_behind(self) -> None:
        """Let a newcomer stand at its queue offset, where a start serves it."""
        self._jump(self.misfits.pop())

    def finish(self, *, is_shown_as_next: bool) -> None:
        """The log ends: a last suspect stands behind a gap, unless the queue shows it elsewhere.

        Args:
            is_shown_as_next: The queue's unit of offset ``next`` shows the suspect.
        """
        suspect, self._suspect = self._suspect, None
        if suspect is None:
            return
        if is_shown_as_next:
            self.misfits.append(suspect)
            self._add_gap(self.next, self.next + 1, suspect.position + 1)
            self.next, self.last_py = self.next + 1, suspect.position
        elif self.is_newcomer:
            self.misfits.append(suspect)
        else:
            self._jump(suspect)

    @property
    def is_newcomer(self) -> bool:
        """Whether all that was seen is one record, which should not be the queue's first."""
        return self.count == 1 and self.last_py < 0

    @property
    def suspect(self) -> Misfit | None:
        """A record that waits for the next one to be judged."""
        return self._suspect

    def extend(self, end: int, log_end: int) -> None:
        """Offsets up to ``end`` are known to have been there."""
        if end > self.next:
            self._add_gap(self.next, end, log_end)
            self.next = end

    def _resolve(self, position: int, offset: int) -> None:
        """Judge the suspect by the record that came after it."""
        suspect, self._suspect = self._suspect, None
        if suspect is None:
            return
        if offset > suspect.queue_offset:
            self._jump(suspect)
        else:
            self.misfits.append(suspect)
            if offset > self.next:
                self._add_gap(self.next, offset, position)
                self.next = offset

    def _jump(self, suspect: Misfit) -> None:
        self._add_gap(self.next, suspect.queue_offset, suspect.position)
        self.next, self.last_py = suspect.queue_offset + 1, suspect.position

    def _add_gap(self, first: int, end: int, before_py: int) -> None:
        self.gaps.append(Gap(self.topic, self.queue_id, first, end, self.last_py, before_py))

    def _misfit(self, position: int, size: int, offset: int) -> Misfit:
        return Misfit(position, size, self.topic, self.queue_id, offset)
