"""The rules: what the log shows of each message against what was answered.

The log is read by ``reader``. A message is put once; each move makes a new version of it; a version
is cancelled by a delete that names its first record. What has arrived stands under a real topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs

from .mortal_disk import Written
from .notebook import Kind, Letter
from .reader import QUARANTINE, TIMERS, Log, LogRecord

MOVE_OR_SECOND = frozenset({"TIMER_DEL_FOR", "TIMER_DEL_SECOND"})
"""Properties of deletes that cancel nothing by themselves: the move does, or the first delete."""
NEVER = frozenset({Kind.CANCELLED, Kind.DROPPED})
"""Answers after which a message never arrives."""


@attrs.define(eq=False)
class Facts:
    """What the log says of one message."""

    put: LogRecord | None = None
    versions: list[LogRecord] = attrs.Factory(list[LogRecord])
    """The first record of each version that was to wait, the newest last."""
    waits_at: int = -1
    """Position of the newest record of the newest version: an older one may roll on beside it."""
    deleted: set[int] = attrs.Factory(set[int])
    """Positions of first records whose version a delete has cancelled."""
    arrivals: list[LogRecord] = attrs.Factory(list[LogRecord])
    roll_count: int = 0

    @property
    def is_cancelled(self) -> bool:
        """Whether the newest version is."""
        return bool(self.versions) and self.versions[-1].position in self.deleted


@attrs.define(eq=False)
class LogFacts:
    """What the log says of all messages."""

    by_name: defaultdict[str, Facts] = attrs.Factory(lambda: defaultdict[str, Facts](Facts))
    by_order: dict[int, Facts] = attrs.Factory(dict[int, Facts])
    """The same, by the position of the first record of each version."""
    recalls: defaultdict[str, list[LogRecord]] = attrs.Factory(
        lambda: defaultdict[str, list[LogRecord]](list)
    )
    """Deletes as RocketMQ's clients write them, by unique key."""
    entries: dict[int, LogRecord] = attrs.Factory(dict[int, LogRecord])
    """What was quarantined, by the position of its record."""
    ended: dict[int, str] = attrs.Factory(dict[int, str])
    """What became of entries."""
    left_out: set[int] = attrs.Factory(set[int])
    """Positions of records of which a mark says that they were left out."""
    torn_moves: int = 0

    def active(self) -> dict[int, LogRecord]:
        """Entries that no request has ended."""
        return {at: one for at, one in self.entries.items() if at not in self.ended}


def facts_of(log: Log, topics: tuple[str, ...]) -> LogFacts:
    """Read the whole history of a log."""
    found = LogFacts()
    before: LogRecord | None = None
    for record in log.records:
        if record.topic in topics:
            _note_arrival(found, record, before)
        elif record.topic == TIMERS:
            _note_timer(found, record, before)
        elif record.topic == QUARANTINE:
            if record.origin is not None:
                found.entries[record.origin] = record
        else:
            found.left_out.add(-1 if record.origin is None else record.origin)
        if before is not None and "TIMER_DEL_FOR" in before.properties:
            is_first = "TIMER_ROLL_TIMES" not in before.properties
            found.torn_moves += is_first and not _makes_way(before, record)
        if before is not None and before.topic == QUARANTINE and before.origin is None:
            _note_mark(found, before, record)
        before = record
    if before is not None and before.topic == QUARANTINE and before.origin is None:
        _note_mark(found, before, None)
    return found


def _note_mark(found: LogFacts, mark: LogRecord, behind: LogRecord | None) -> None:
    """A retry counts with its message behind it."""
    origin = mark.number("QUARANTINE_OF")
    what = mark.properties.get("TAGS", "")
    is_whole = what != "retried" or (behind is not None and behind.origin == origin)
    if origin is not None and is_whole:
        found.ended[origin] = what


def _note_arrival(found: LogFacts, record: LogRecord, before: LogRecord | None) -> None:
    facts = found.by_name[record.name]
    facts.arrivals.append(record)
    if record.origin is None:
        facts.put = facts.put or record


def _note_timer(found: LogFacts, record: LogRecord, before: LogRecord | None) -> None:
    is_roll = "TIMER_ROLL_TIMES" in record.properties
    if record.is_delete:
        order = record.number("TIMER_DEL_ORDER")
        if order is None:
            key = record.properties["TIMER_DEL_UNIQKEY"].rpartition("+")[2]
            if not is_roll:
                found.recalls[key].append(record)
        elif not MOVE_OR_SECOND & record.properties.keys() and order in found.by_order:
            found.by_order[order].deleted.add(order)
        return
    facts = found.by_name[record.name]
    facts.roll_count += is_roll
    if record.origin is None:
        facts.put = facts.put or record
        facts.versions.append(record)
        found.by_order[record.position] = facts
    elif not is_roll and before is not None and _makes_way(before, record):
        facts.versions.append(record)
        found.by_order[record.position] = facts
    order = record.number("TIMER_ORDER") if is_roll else record.position
    if facts.versions and facts.versions[-1].position == order:
        facts.waits_at = record.position


def _makes_way(before: LogRecord, record: LogRecord) -> bool:
    """Whether a record takes the place of one that the record before it ends: a move, a retry.

    Behind a hole that a power cut has left, the record before it may be what is lost.
    """
    if before.fills_hole:
        return record.origin is not None
    if before.topic == QUARANTINE:
        return before.number("QUARANTINE_OF") == record.origin
    return before.number("TIMER_DEL_FOR") == record.origin and record.origin is not None


def slot_of(moment_ms: int, precision_ms: int) -> int:
    """The slot that a moment lies in, by its start."""
    return (moment_ms - 1) // precision_ms * precision_ms


@attrs.frozen(kw_only=True, eq=False)
class Rules:
    """Judges one store.

    Args:
        written: Of records by position: when they were written, as far as known.
        precision_ms: Width of a slot.
        settle_ms: How long before its slot a recall has to be stored to be certain.
    """

    written: Mapping[int, Written]
    precision_ms: int
    settle_ms: int

    def breaches(
        self, letter: Letter, found: LogFacts, quarantined: set[str], *, over: bool
    ) -> Iterator[str]:
        """What is wrong with one message.

        Args:
            letter: What was answered.
            found: What the log shows.
            quarantined: Names of messages in quarantine.
            over: Nothing waits any more: what has not arrived never will.
        """
        facts = found.by_name[letter.name]
        count = len(facts.arrivals)
        if letter.has(Kind.SENT) and facts.put is None:
            yield "acknowledged, and no record of it was ever in the log"
        if count > 1:
            yield f"arrived {count} times, at {[one.position for one in facts.arrivals]}"
        if count and any(note.kind in NEVER for note in letter.notes):
            yield f"{self._never(letter)}, and arrived at {facts.arrivals[0].position}"
        elif count and facts.is_cancelled:
            yield f"cancelled by a delete in the log, and arrived at {facts.arrivals[0].position}"
        if letter.has(Kind.TOO_LATE) and not count and not letter.is_damaged:
            yield "a cancel was too late, and it has not arrived"
        if facts.versions and (moment := _moment(facts)) not in letter.moments_ms():
            yield f"it waits for {moment}, asked for {sorted(letter.moments_ms())}"
        for arrival in facts.arrivals:
            yield from self._arrival(letter, facts, arrival)
        if over:
            yield from self._end(letter, found, quarantined)

    def _never(self, letter: Letter) -> str:
        return next(note.kind.value for note in letter.notes if note.kind in NEVER)

    def _arrival(self, letter: Letter, facts: Facts, arrival: LogRecord) -> Iterator[str]:
        moment = _moment(facts) if facts.versions else letter.asked_ms
        if arrival.body != letter.body:
            yield f"arrived with the body {arrival.body[:40]!r}"
        if arrival.number("TIMER_DELIVER_MS") != moment and not letter.is_damaged:
            yield f"arrived for {arrival.properties.get('TIMER_DELIVER_MS')}, waited for {moment}"
        if arrival.store_ms < moment:
            yield f"stored {moment - arrival.store_ms} ms before its moment"
        written = self.written.get(arrival.position)
        if written is not None and written.wall_ms < moment:
            yield f"written {moment - written.wall_ms} ms before its moment by the wall clock"

    def _end(self, letter: Letter, found: LogFacts, quarantined: set[str]) -> Iterator[str]:
        facts = found.by_name[letter.name]
        count = len(facts.arrivals)
        if letter.name in quarantined:
            if not letter.is_damaged:
                yield "in quarantine, and nothing had damaged it"
            elif count and letter.spoilt_at is not None:
                yield "in quarantine, and it has arrived"
            return
        is_never = any(note.kind in NEVER for note in letter.notes)
        ended = found.ended.get(facts.waits_at)
        is_never |= ended == "dropped" and letter.has(Kind.ASKED_TO_DROP)
        # Where another one with its key has arrived, the answer is that it is too late.
        is_never |= ended == "cancelled" and letter.has(Kind.ASKED_TO_CANCEL)
        if facts.put is None or facts.is_cancelled or is_never:
            return
        recalls = found.recalls[letter.key]
        recalled = self.recalled(facts, recalls)
        if recalled and any(one.position in found.entries for one in recalls):
            recalled = None  # a damaged delete is quarantined itself
        if count and recalled is True:
            yield f"recalled in time, and arrived at {facts.arrivals[0].position}"
        if not count and recalled is False:
            yield "it never arrived"

    def recalled(self, facts: Facts, recalls: Sequence[LogRecord]) -> bool | None:
        """Whether a recall takes the newest version; None: it may."""
        if not facts.versions:
            return False
        newest = facts.versions[-1]
        answer: bool | None = False
        slot = slot_of(_moment(facts), self.precision_ms)
        for recall in recalls:
            if slot_of(recall.number("TIMER_DELIVER_MS") or 0, self.precision_ms) != slot:
                continue
            if recall.properties.get("REAL_TOPIC") != newest.properties.get("REAL_TOPIC"):
                continue
            written = self.written.get(recall.position)
            in_time = written is not None and written.highest_ms + self.settle_ms <= slot
            if in_time and recall.position > newest.position:
                return True
            answer = None
        return answer


def _moment(facts: Facts) -> int:
    return facts.versions[-1].number("TIMER_DELIVER_MS") or 0


def queue_breaches(topic: str, shown: Mapping[int, int], log: Log) -> Iterator[str]:
    """What a queue shows other than what has arrived, each in its place.

    Args:
        topic: Of the queue.
        shown: Queue offsets to positions.
        log: As it is now.
    """
    present = {offset: at for offset, at in shown.items() if at >= log.start}
    arrived = {one.queue_offset: one.position for one in log.present() if one.topic == topic}
    if present != arrived:
        wrong = sorted(present.items() ^ arrived.items())
        yield f"the queue of {topic} differs from the log: {wrong[:6]}"
