"""The quarantine: messages that cannot be delivered, kept until an operator decides.

Quarantine is a kind of delivery: an entry in the commit log, under a topic of its own, that names
the timer record as its origin (``quarantine_record``). So it becomes durable in the same order (the
checkpoint passes a message only when its entry is synced), recovery knows that the record is done
(ONCE), and a power cut leaves either a pending message or an entry.

Nothing goes away by itself. What is in quarantine keeps its segment of the log from being cleaned,
and is written once more when it grows old, so that the log behind it can go. It ends by a mark:
retried, dropped, or cancelled by its producer. A retry writes the mark and the message in one
batch, the mark first: whether it counts is seen by what stands behind it.

Everything here is plain code between two turns of the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import attrs
import structlog

from timermq.timerlog import TimerMetrics
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.record import decode_record, record_properties, record_topic
from timermq.timerstore.record_check import CheckKind, check_record

from ..records.cancel_mark import cancel_mark
from ..records.deduplication import origin_in
from ..records.system_topics import QUARANTINE_TOPIC
from ..records.undeliverable import Reason, Undeliverable
from ..state.timer_counts import LastQuarantined, TimerCounts
from .cancelled import is_cancelled, is_named
from .quarantine_record import (
    Entry,
    Mark,
    State,
    entry_message,
    mark_message,
    read_entry,
    read_mark,
    renewed,
)
from .quarantine_table import Place, QuarantineTable

READ_COUNT = 4096
"""Units of the topic's queue read at a time."""
RENEW_COUNT = 64
"""Entries written once more in one go."""
LINE_INTERVAL_MS = 60_000
"""At least between two log lines of one reason."""
HOUR_MS = 3_600_000

PRODUCER = "its producer"
"""Who ends an entry by cancelling its message."""

HOPELESS = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})
"""Putting the same message again can only be refused again."""

log = structlog.get_logger("timermq.pipeline.quarantine.quarantine")


@attrs.frozen
class Ended:
    """Whether an entry could be ended."""

    end: int
    """Position up to which the log has to be durable before it is told."""
    refusal: str | None = None
    """Why nothing was stored; then nothing has changed."""


class Quarantine:
    """The quarantine of one store.

    Args:
        store: Opened and recovered; what its log holds of the quarantine is read.
        counts: Told what is quarantined.
        metrics: Pending messages, by topic: what is quarantined waits no more.
        precision_ms: Width of a slot.
    """

    def __init__(
        self, store: MessageStore, counts: TimerCounts, metrics: TimerMetrics, precision_ms: int
    ) -> None:
        self.last: LastQuarantined | None = None
        """The newest entry; None when there never was one, or its topic has been cleaned."""
        self._store = store
        self._counts = counts
        self._metrics = metrics
        self._precision_ms = precision_ms
        self._table = QuarantineTable()
        self._lines: dict[Reason, tuple[int, int]] = {}
        """By reason: when the last log line was written, and how many are untold since."""
        self.is_parked = False
        """The log is a copy of another broker's: entries come with it, and none is made here."""
        self._read_to = 0
        """Units of the topic's queue before this one are known."""
        self.load()

    # -- looking ------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """Number of messages in quarantine now."""
        return self._table.active

    def state(self, origin_py: int) -> State | None:
        """The state of the entry for the timer record at a position; None when there is none."""
        return self._table.state(origin_py)

    def entry(self, origin_py: int) -> Entry | None:
        """The entry for the timer record at a position, done or not, while the log has it."""
        place = self._table.place(origin_py)
        return None if place is None else self._read(place)

    def entries(self, after_py: int = -1) -> Iterator[tuple[Entry, int]]:
        """The messages in quarantine, in the order of the log, each with the position of its entry.

        Args:
            after_py: Only entries behind this position: a listing goes on where it ended.
        """
        for place in self._table.places(after_py):
            found = self._read(place)
            if found is not None:
                yield found, place.offset_py

    def _read(self, place: Place) -> Entry | None:
        record = self._store.commit_log.record_at(place.offset_py, place.size_py)
        return None if record is None else read_entry(record)

    def first_py(self) -> int | None:
        """The oldest position of the log that the quarantine needs; None when it is empty."""
        return self._table.first_py()

    # -- quarantine ------------------------------------------------------------------------

    def add(self, faults: list[Undeliverable], now_ms: int) -> str | None:
        """Store an entry for each, and take from the list what is stored.

        A record that is in quarantine already, or was, is not quarantined again. What was cancelled
        gets a mark that it was left out.

        Returns:
            None when nothing is left in the list; else why the store does not take it now.
        """
        if self.is_parked:
            self.read_on()
        while faults:
            fault = faults[0]
            if self._table.state(fault.offset_py) is None:
                if self.is_parked:
                    return f"record at {fault.offset_py} waits for its master: {fault.text}"
                is_over = is_cancelled(self._store, fault, self._precision_ms)
                refusal = (self._leave_out if is_over else self._add)(fault, now_ms)
                if refusal is not None:
                    return refusal
            del faults[0]
        return None

    def _leave_out(self, fault: Undeliverable, now_ms: int) -> str | None:
        # A damaged key would bring the mark to another message.
        record = fault.record if fault.is_sound else b""
        mark = cancel_mark(record, fault.offset_py, now_ms)
        (result,) = self._store.put([mark], even_when_full=True)
        if not result.status.is_stored:
            return f"{result.status.name}: {result.remark}"
        self._counts.cancelled += 1
        if fault.topic_hash is not None:
            self._metrics.add_by_hash(fault.topic_hash, -1)
        return None

    def _add(self, fault: Undeliverable, now_ms: int) -> str | None:
        (result,) = self._store.put([entry_message(fault, now_ms)], even_when_full=True)
        if result.status in HOPELESS:
            # Hardly smaller than a segment: the entry without the bytes, which stay where they are.
            bare = attrs.evolve(fault, record=b"", text=f"{fault.text} (bytes not kept)")
            (result,) = self._store.put([entry_message(bare, now_ms)], even_when_full=True)
        if not result.status.is_stored:
            return f"{result.status.name}: {result.remark}"
        self._table.add(fault.offset_py, result.phy_offset, result.size)
        self.last = LastQuarantined(fault.reason.value, fault.text, now_ms)
        self._counts.set_aside += 1
        self._counts.missing += fault.reason is Reason.GONE
        if fault.topic_hash is not None:
            self._metrics.add_by_hash(fault.topic_hash, -1)
        self._tell(fault, now_ms)
        return None

    def _tell(self, fault: Undeliverable, now_ms: int) -> None:
        """A line in the log for the first of a kind, then one a minute."""
        told_ms, untold = self._lines.get(fault.reason, (None, 0))
        if told_ms is not None and 0 <= now_ms - told_ms < LINE_INTERVAL_MS:
            self._lines[fault.reason] = (told_ms, untold + 1)
            return
        self._lines[fault.reason] = (now_ms, 0)
        log.error(
            "message quarantined",
            id=fault.offset_py,
            reason=fault.reason.value,
            text=fault.text,
            untold=untold,
            in_quarantine=self.active,
        )

    # -- ending -------------------------------------------------------------------------------

    def end_cancelled(self, entry: Entry) -> Ended | None:
        """End an active entry whose message a delete names; None where no delete does.

        A cancel ends the entry at once. A delete that the producer sent itself waits in the
        message's slot, and meets nothing there. One that was stored before the message was set
        aside was met then.
        """
        record, origin_py = entry.record, entry.origin_py
        if not is_named(self._store, record, origin_py, entry.size, is_sound=entry.is_sound):
            return None
        return self.end(origin_py, State.CANCELLED, PRODUCER)

    def end(self, origin_py: int, state: State, by: str, message: Message | None = None) -> Ended:
        """End an active entry by its mark, together with the message that is retried.

        Args:
            origin_py: The entry.
            state: What becomes of it.
            by: Who asked.
            message: With ``RETRIED`` the message, naming the same origin.
        """
        entry = self.entry(origin_py)
        assert entry is not None
        assert (message is not None) is (state is State.RETRIED)
        put = [mark_message(entry, state, by), *([] if message is None else [message])]
        results = self._store.put(put, even_when_full=True)
        for result in results:
            if not result.status.is_stored:
                # A mark without its message behind it counts as nothing.
                return Ended(result.end, f"{result.status.name}: {result.remark}")
        self._table.end(origin_py, state)
        log.info("quarantine entry ended", id=origin_py, state=state.name.lower(), by=by)
        return Ended(results[-1].end)

    def renew(self, now_ms: int) -> int:
        """Write entries that grow old once more, less those that are cancelled; how many.

        Old is half the age at which segments of the log go, so that the log can be cleaned behind
        what is in quarantine. Each is written once in that time, whatever else is stored.
        """
        self._table.forget_before(self._store.commit_log.min_offset)
        before_ms = now_ms - max(self._store.options.file_reserved_time_hours, 1) * HOUR_MS // 2
        count = 0
        for place in islice(self._table.places(), RENEW_COUNT):
            record = self._store.commit_log.record_at(place.offset_py, place.size_py)
            if record is None or store_ms_of(record) > before_ms:
                break
            entry = read_entry(record)
            # The delete stands behind the entry, and could be cleaned once this one is not.
            ended = None if entry is None else self.end_cancelled(entry)
            if ended is not None:
                if ended.refusal is not None:
                    break
                continue
            message = renewed(decode_record(record))
            (result,) = self._store.put([message], even_when_full=True)
            if not result.status.is_stored:
                break
            self._table.add(place.origin_py, result.phy_offset, result.size)
            count += 1
        return count

    # -- reading what is there ----------------------------------------------------------------

    def load(self) -> None:
        """Read what the log holds of the quarantine, and forget what was known of it."""
        self._table, self._read_to = QuarantineTable(), 0
        self.read_on()
        if self.active:
            log.warning("messages are in quarantine", count=self.active)

    def read_on(self) -> None:
        """Read the topic's queue on from where it is known: of each entry what the table has."""
        queue, commit_log = self._store.queue(QUARANTINE_TOPIC, 0), self._store.commit_log
        newest: bytes | None = None
        if queue is not None:
            self._read_to = max(self._read_to, queue.min_offset)
        while queue is not None and len(units := queue.units(self._read_to, READ_COUNT)):
            self._read_to += len(units)
            for phy_offset, size, _ in units.tolist():
                record = commit_log.record_at(phy_offset, size)
                if record is None and phy_offset >= commit_log.min_offset:
                    record = self._fitting_mark(phy_offset, size)
                if record is not None and self._learn(record, phy_offset, size):
                    newest = record
                elif record is None and phy_offset >= commit_log.min_offset:
                    self._keep_damaged(phy_offset, size)
        entry = None if newest is None else read_entry(newest)
        if entry is not None:
            self.last = LastQuarantined(entry.reason, entry.text, entry.set_aside_ms)

    def _fitting_mark(self, phy_offset: int, size: int) -> bytes | None:
        """A mark in a damaged sector, if its key is that of the entry that it names.

        Without it the entry would be active again, and a second retry make a second message.
        """
        data = self._store.commit_log.read(phy_offset, size)
        checked = check_record(data, 0, len(data), phy_offset, check_crc=True)
        if checked.kind is not CheckKind.RECORD or checked.size != size:
            return None
        mark = read_mark(data)
        entry = None if mark is None else self.entry(mark.origin_py)
        unique_key = find(record_properties(data), UNIQ_KEY_NAME)
        is_its_own = entry is not None and unique_key == entry.unique_id.encode()
        return data if is_its_own else None

    def _keep_damaged(self, phy_offset: int, size: int) -> None:
        """Count a record of the quarantine that cannot be read until the store is repaired.

        It may be the only one that is left of a message, so nothing is cleaned behind it. By the
        name of its own place, for its entry or mark cannot be known.
        """
        log.error(
            "quarantine record damaged: an entry, or what became of one, cannot be read",
            phy_offset=phy_offset,
            size=size,
        )
        self._table.add(phy_offset, phy_offset, size)

    def _learn(self, record: bytes, phy_offset: int, size: int) -> bool:
        """Take an entry or a mark; whether it is an entry."""
        if check_record(record, 0, size, phy_offset, check_crc=False).kind is not CheckKind.RECORD:
            return False
        origin_py = origin_in(record)
        if origin_py is not None:
            self._table.add(origin_py, phy_offset, size)
            return True
        mark = read_mark(record)
        if mark is None:
            return False
        # A retry whose message is not in the log was never answered.
        if mark.state is not State.RETRIED or self.retried(mark, phy_offset + size) is not None:
            self._table.end(mark.origin_py, mark.state)
        return False

    def retried(self, mark: Mark, end: int) -> bytes | None:
        """The record that a retry put behind its mark; None when a power cut took it.

        Args:
            mark: With ``RETRIED``.
            end: Position behind its record.
        """
        commit_log = self._store.commit_log
        found = commit_log.check_at(end, check_crc=False)
        if found is None or found.kind is CheckKind.BLANK:
            end = commit_log.next_segment_start(end) if found is not None else end
            found = commit_log.check_at(end, check_crc=False)
        if found is None or found.kind is not CheckKind.RECORD:
            return None
        # As it stands: damaged later, it is the same message still, and is quarantined by itself.
        message = commit_log.read(end, found.size)
        if len(message) < found.size or origin_in(message) != mark.origin_py:
            return None
        return None if record_topic(message) == QUARANTINE_TOPIC.encode() else message
