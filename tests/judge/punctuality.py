"""Two rules about time: messages arrive when they are due, and in the order of their sends.

ON_TIME is held against what was due while a process served that nothing had disturbed: with a disk
that has room, and a clock that is not set. ORDER is held against what waited before its moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs

from .log_times import LogTimes
from .mortal_disk import Written
from .notebook import Kind, Letter
from .reader import LogRecord
from .rules import LogFacts

LATE_MS = 50
"""A message may be so late, and by four syncs more: batches grow for as long as that together."""
SETTLING_MS = 2_000
"""What is due so shortly behind a start may wait for what was overdue."""
STORED_BEFORE_MS = 400
"""So long before its moment a message has to be stored to have its place among others."""


@attrs.frozen(kw_only=True, eq=False)
class Punctuality:
    """Judges one store.

    Args:
        times: When records were written.
        sync_ms: How long a sync takes.
        is_undisturbed: Nothing holds messages up but ends of the process.
        goes_back_ms: Width of a slot where slots that have passed may be read again, since what
            told of them was lost; None: they may not.
    """

    times: LogTimes
    sync_ms: float
    is_undisturbed: bool
    goes_back_ms: int | None

    def breaches(self, letters: Sequence[Letter], found: LogFacts) -> Iterator[tuple[str, str]]:
        """What came late or out of order: name and text."""
        pairs = [(one, *pair) for one in letters if (pair := _leaving(one, found)) is not None]
        if self.is_undisturbed:
            for letter, version, arrival in pairs:
                late_ms = self.late_ms(version, arrival)
                is_late = late_ms is not None and late_ms > LATE_MS + 4 * self.sync_ms
                rolls = found.by_name[letter.name].roll_count
                if is_late and not self._came_from_the_past(version, rolls):
                    yield letter.name, f"late by {late_ms} ms"
        groups: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
        for letter, version, arrival in pairs:
            if self._has_place(version):
                group = groups.setdefault((letter.topic, _moment(version)), [])
                group.append((version.position, arrival.position, letter.name))
        for group in groups.values():
            group.sort()
            for (_, before, first), (_, behind, second) in pairwise(group):
                if behind < before:
                    yield second, f"sent behind {first} for one moment, and arrived before it"

    def late_ms(self, version: LogRecord, arrival: LogRecord) -> int | None:
        """How late it was; None: not to be judged."""
        written, stored = self._written(arrival), self._written(version)
        served_from = self.times.lives.get(arrival.position)
        if written is None or stored is None or served_from is None:
            return None
        served_ms = written.wall_ms - (written.time - served_from) * 1000
        due_ms = max(_moment(version), stored.wall_ms)
        return written.wall_ms - due_ms if due_ms >= served_ms + SETTLING_MS else None

    def _came_from_the_past(self, version: LogRecord, rolls: int) -> bool:
        """Whether it rolled more often than there are slots between its writing and its moment.

        The ring has a place for it no further from the slot that is read than its own size, and
        that slot may be far behind: the message rolls through all those that have passed.
        """
        stored = self._written(version)
        if self.goes_back_ms is None or stored is None:
            return False
        return rolls > (_moment(version) - stored.wall_ms) // self.goes_back_ms + 2

    def _has_place(self, version: LogRecord) -> bool:
        stored = self._written(version)
        return stored is not None and stored.highest_ms + STORED_BEFORE_MS <= _moment(version)

    def _written(self, record: LogRecord) -> Written | None:
        return self.times.written.get(record.position)


def _leaving(letter: Letter, found: LogFacts) -> tuple[LogRecord, LogRecord] | None:
    """The version that has arrived, and its arrival; None without, or where damage tells why."""
    facts = found.by_name[letter.name]
    is_disturbed = letter.is_damaged or letter.is_beside_hole or letter.has(Kind.RETRIED)
    if is_disturbed or len(facts.arrivals) != 1:
        return None
    return (facts.versions[-1], facts.arrivals[0]) if facts.versions else None


def _moment(version: LogRecord) -> int:
    return version.number("TIMER_DELIVER_MS") or 0
