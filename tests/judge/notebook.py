"""What was asked of the store, and what it acknowledged."""

from __future__ import annotations

import enum

import attrs


class Kind(enum.Enum):
    """What was acknowledged, or asked for without an answer."""

    SENT = "sent"
    CANCELLED = "cancelled"
    """It never arrives."""
    MOVED = "moved"
    """It arrives at its new moment only."""
    TOO_LATE = "too late"
    """It has arrived."""
    DROPPED = "dropped"
    """It was let go from quarantine: it never arrives."""
    RETRIED = "retried"
    """It was sent again from quarantine."""
    ASKED_TO_MOVE = "asked to move"
    """The process ended before the answer: it arrives at this moment, or as if nothing was said."""
    ASKED_TO_CANCEL = "asked to cancel"
    ASKED_TO_DROP = "asked to drop"
    """The process ended before the answer: a mark in the log tells whether it never arrives."""


ASKED = frozenset({Kind.ASKED_TO_MOVE, Kind.ASKED_TO_CANCEL, Kind.ASKED_TO_DROP})
"""What was asked for: it may have happened or not."""


@attrs.frozen
class Note:
    """One line of the notebook."""

    kind: Kind
    end: int
    """What the store said stands in the log before this position; it is undone if that is lost."""
    moment_ms: int = 0
    """Of a move: the new moment."""


@attrs.define(eq=False)
class Letter:
    """A message: what was asked for, and what the store acknowledged."""

    name: str
    """No other message has it."""
    topic: str
    body: bytes
    asked_ms: int
    """The moment asked for."""
    key: str = attrs.Factory(lambda self: self.name, takes_self=True)
    """Its unique key, which another one may have as well."""
    is_shared: bool = False
    """Another message has its unique key."""
    notes: list[Note] = attrs.Factory(list[Note])
    spoilt_at: int | None = None
    """Position of its record whose body was damaged while it waited."""
    is_damaged: bool = False
    """A record of it shares a sector with a damaged body: it may be quarantined."""
    is_recalled: bool = False
    """A delete as RocketMQ's clients write it was sent for it."""

    is_beside_hole: bool = False
    """A repair has kept what stood behind a hole: its arrival, or a cancel, may be lost in it."""

    def note(self, kind: Kind, end: int, moment_ms: int = 0) -> None:
        """Write down what was answered."""
        self.notes.append(Note(kind, end, moment_ms))

    def has(self, *kinds: Kind) -> bool:
        """Whether one of them was noted."""
        return any(note.kind in kinds for note in self.notes)

    def forget_behind(self, end: int) -> None:
        """What stood in the log behind a position is lost, as it may be."""
        self.notes = [note for note in self.notes if note.end <= end]

    def doubt_behind(self, end: int) -> None:
        """Some of what stood in the log behind a position is lost, and some is not.

        What was answered of it may hold or not, and a message may wait for either moment.
        """
        self.is_beside_hole = True
        kept: list[Note] = []
        for note in self.notes:
            if note.end <= end or note.kind in ASKED:
                kept.append(note)
            elif note.kind is Kind.MOVED:
                kept.append(Note(Kind.ASKED_TO_MOVE, note.end, note.moment_ms))
        self.notes = kept

    def moments_ms(self) -> set[int]:
        """The moments that it may wait for by what was answered."""
        moments = {self.asked_ms}
        for note in self.notes:
            if note.kind is Kind.MOVED:
                moments = {note.moment_ms}
            elif note.kind is Kind.ASKED_TO_MOVE:
                moments.add(note.moment_ms)
        return moments
