"""Pending messages against their units, deliveries and deletes: one segment of the log at a time.

==================  ============================================================================
what must hold      that is
==================  ============================================================================
each unit           names a record of the timer topic, of that size, and stands in its slot; a
                    late one (``reserved`` 0) in a later slot, one that rolls in an earlier; and
                    is for the topic that the record names: neither has a checksum
each waiting record of an entry that the checkpoint counts as enqueued, has a unit in a slot that is
                    still to be read, or was delivered, rolled, cancelled or quarantined (NOT_LOST)
each moved message  waits nowhere else: a delete cancels the unit of its old moment
each origin         is delivered or rolled by one record (ONCE)
==================  ============================================================================
"""

from __future__ import annotations

import attrs
import numpy as np

from timermq.pipeline.records.record_effect import Effect
from timermq.pipeline.records.timeline import trace_in
from timermq.pipeline.records.timer_record import TimerFacts, TimerRecordError, decode_timer
from timermq.pipeline.recovery.timer_engine import TimerEngines
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import MAGIC_DELETE, MAGIC_ROLL, TimerCheckpoint
from timermq.timerstore.array_types import Flags, Int64s
from timermq.timerstore.record import record_properties

from .finding import Finding, Findings, Step
from .log_check import LogCheck
from .spool import Spool
from .store_rule import Severity, StoreRule
from .timer_ledger import NO_TOPIC, bucket_of, delete_names, foreign_name

UNIT_COLUMNS = ("pos", "offset_py", "size_py", "slot_ms", "magic", "reserved", "topic_hash")

BUCKETS_MAX = 9
"""Sorted buckets of names that are kept, each a 64th of a spool; one more, and all are dropped."""

_GOES_ON = (Effect.DELIVERED, Effect.MOVED, Effect.ROLLED)
"""Effects of which a message has one: moved and rolled is one as well."""


@attrs.define(eq=False)
class TimerJoin:
    """The comparison of pending messages with units, deliveries and deletes."""

    log: LogCheck
    units: Spool
    """Rows of `UNIT_COLUMNS`, by the segment of ``offset_py``."""
    checkpoint: TimerCheckpoint
    engines: TimerEngines
    options: TimerOptions
    _delivered: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """RocketMQ's deliveries, by hash, that answered for a record."""
    _unknown: list[int] = attrs.field(factory=list[int], init=False)
    """Positions of last copies of rolled messages of which nothing tells what became of them."""
    _buckets: dict[tuple[int, int], Int64s] = attrs.field(
        factory=dict[tuple[int, int], Int64s], init=False
    )
    """Names of the spools that were asked last, sorted: by spool and bucket."""

    def find(self) -> Findings:
        """Everything that is wrong, segment by segment."""
        ledger = self.log.ledger
        ledger.end()
        segments = {*ledger.timers.segments(), *ledger.origins.segments(), *self.units.segments()}
        for segment in sorted(segments):
            timers = ledger.timers.take(segment)
            timers = timers[np.argsort(timers[:, 0], kind="stable")]
            origins, units = ledger.origins.take(segment), self.units.take(segment)
            yield from self._find_units(timers, units)
            yield from self._find_repeats(origins)
            yield from self._find_moved(origins, units)
            yield from self._find_lost(timers, origins, units)
        yield from self._find_unknown()

    # -- units ------------------------------------------------------------------------------------

    def _find_units(self, timers: Int64s, units: Int64s) -> Findings:
        pos, offset_py, size_py, slot_ms, magic, _, topic_hash = units.T
        is_gone = offset_py < self.log.start
        at = _places(timers[:, 0], offset_py)
        is_wrong = self._wrong(timers, units, at) & ~is_gone
        waits = slot_ms >= self.checkpoint.last_read_time_ms
        is_lost = is_gone & waits & (magic & MAGIC_DELETE == 0)
        for row in np.flatnonzero(is_wrong).tolist()[:1]:
            yield self._unit(
                int(pos[row]),
                f"a unit of size, slot and kind of the timer record at {offset_py[row]}",
                f"size {size_py[row]}, slot {slot_ms[row]}, magic {magic[row]}",
                StoreRule.UNIT_DIFFERS,
                int(is_wrong.sum()),
            )
        strays = _strays(timers, units, at) & ~is_wrong & ~is_gone
        for row in np.flatnonzero(strays).tolist()[:1]:
            yield self._unit(
                int(pos[row]),
                f"the hash of the topic that the timer record at {offset_py[row]} is for",
                f"{topic_hash[row]}: one of the two is damaged, and the message goes where its "
                "record says",
                StoreRule.UNIT_TOPIC,
                int(strays.sum()),
                Step.NOTHING,
            )
        for row in np.flatnonzero(is_lost).tolist()[:1]:
            yield self._unit(
                int(pos[row]),
                f"the message of slot {slot_ms[row]} at {offset_py[row]}",
                f"nothing: the commit log begins at {self.log.start}",
                StoreRule.CLEANED,
                int(is_lost.sum()),
            )

    def _wrong(self, timers: Int64s, units: Int64s, at: Int64s) -> Flags:
        """Which units do not fit the record that they name (``at``), or name none."""
        _, offset_py, size_py, slot_ms, magic, reserved, _ = units.T
        if not len(timers):
            return np.ones(len(units), np.bool_)
        _, size, out_ms, _, is_delete, _ = timers[at].T
        rolls = magic & MAGIC_ROLL != 0
        is_exact = (reserved & 1 == 1) & ~rolls
        is_late = np.asarray(~rolls & (slot_ms < out_ms), np.bool_)
        misplaced = (is_exact & (slot_ms != out_ms)) | (~is_exact & is_late)
        misplaced = misplaced | (slot_ms % self.options.timer_precision_ms != 0)
        misplaced = misplaced | ((magic & MAGIC_DELETE != 0) != (is_delete == 1))
        misplaced = misplaced & (out_ms >= 0)
        disordered = (reserved & 1 == 1) & (reserved >> 11 > offset_py)
        return np.asarray((at < 0) | (size != size_py) | misplaced | disordered, np.bool_)

    def _unit(
        self,
        pos: int,
        expected: str,
        found: str,
        rule: StoreRule,
        count: int,
        step: Step = Step.CUT_TIMER_LOG,
    ) -> Finding:
        segment_size = self.options.mapped_file_size_timer_log
        return Finding(
            rule=rule,
            file=f"timerlog/{pos - pos % segment_size:020d}",
            offset=pos % segment_size,
            expected=expected,
            found=found,
            step=step,
            count=count,
            subject=pos,
        )

    def _find_moved(self, origins: Int64s, units: Int64s) -> Findings:
        """Find units that wait for messages which were moved, where a hole took the delete."""
        moved = origins[origins[:, 2] == Effect.MOVED, 0]
        waits = (units[:, 3] >= self.checkpoint.last_read_time_ms) & np.isin(units[:, 1], moved)
        waits &= units[:, 4] & MAGIC_DELETE == 0
        alone = [
            (pos, offset_py)
            for pos, offset_py, size, *_ in units[waits].tolist()
            if not self._is_cancelled(offset_py, size)
        ]
        for pos, offset_py in sorted(alone)[:1]:
            yield self._unit(
                pos,
                f"a delete of the timer record at {offset_py}, whose message was moved",
                "none: it would arrive at its old moment as well",
                StoreRule.MOVED_PENDING,
                len(alone),
            )

    def _is_cancelled(self, position: int, size: int) -> bool:
        """Whether a delete names a waiting record."""
        data = self.log.row.read(position, size)
        try:
            facts = decode_timer(data, position, self.options.timer_precision_ms)
        except TimerRecordError:
            return True  # it is quarantined when it is due
        return self._has_delete(data, facts)

    def _has_delete(self, data: bytes, facts: TimerFacts) -> bool:
        topic = facts.destination.topic.encode()
        names = delete_names(record_properties(data), topic, facts.order_py)
        return any(self._seen(self.log.ledger.deletes, one) for one in names)

    # -- deliveries -------------------------------------------------------------------------------

    def _find_repeats(self, origins: Int64s) -> Findings:
        """Messages that more than one record delivers, moves or rolls; moved and rolled is one."""
        done = origins[np.isin(origins[:, 2], _GOES_ON)]
        names, rows = np.unique(done[:, 0], return_inverse=True)
        delivered, moved, rolled = (
            np.bincount(rows[done[:, 2] == effect], minlength=len(names)) for effect in _GOES_ON
        )
        for origin in names[delivered + np.maximum(moved, rolled) > 1].tolist():
            places = done[done[:, 0] == origin, 1].tolist()
            yield self._record(
                places[1],
                StoreRule.TWICE,
                f"one delivery of the record at {origin}",
                f"{len(places)}, at {', '.join(map(str, places[:5]))}",
                Step.NOTHING,
                len(places) - 1,
            )

    # -- what waits -------------------------------------------------------------------------------

    def _find_lost(self, timers: Int64s, origins: Int64s, units: Int64s) -> Findings:
        if self.checkpoint.extension is None and (
            self.checkpoint.last_read_time_ms <= 0 or self.engines.has_timeline
        ):
            return  # the next start looks at everything again
        waits = units[units[:, 3] >= self.checkpoint.last_read_time_ms, 1]
        is_done = np.isin(timers[:, 0], origins[:, 0])
        is_queued = timers[:, 3] >= self.checkpoint.last_timer_queue_offset
        is_open = ~is_done & ~is_queued & ~np.isin(timers[:, 0], waits) & (timers[:, 4] == 0)
        lost = [row for row in timers[is_open].tolist() if self._is_lost(row[0], row[1])]
        if lost:
            has_unit = np.isin([row[0] for row in lost], units[:, 1])
            without = int((~has_unit).sum())
            yield self._record(
                lost[0][0],
                StoreRule.LOST,
                f"a unit in slot {lost[0][2]}, or a delivery, of each message that was enqueued",
                f"none of {len(lost)}; {without} have no unit at all",
                Step.ENQUEUE_AGAIN,
                len(lost),
                subject=min(
                    (row[2] for row, has in zip(lost, has_unit, strict=True) if has), default=None
                ),
            )

    def _find_unknown(self) -> Findings:
        """Find timers that cannot be judged: not to be enqueued again, they may be cancelled."""
        if self._unknown:
            finding = self._record(
                self._unknown[0],
                StoreRule.LOST,
                "each rolled message delivered, or the delete that cancelled it",
                f"neither of {len(self._unknown)} whose first records are cleaned, and maybe their "
                "deletes",
                Step.NOTHING,
                len(self._unknown),
            )
            yield attrs.evolve(finding, severity=Severity.NOTE)

    def _is_lost(self, position: int, size: int) -> bool:
        """Whether nothing explains a message that neither waits nor was delivered by us."""
        data = self.log.row.read(position, size)
        try:
            facts = decode_timer(data, position, self.options.timer_precision_ms)
        except TimerRecordError:
            return False  # it was quarantined: no timer can be made of it
        name = foreign_name(data)
        if self._seen(self.log.ledger.foreign, name) > self._delivered.get(name, 0):
            self._delivered[name] = self._delivered.get(name, 0) + 1
            return False
        if self._has_delete(data, facts) or self._is_in_timeline(data, position):
            return False
        if facts.order_py < self.log.start:
            self._unknown.append(position)
            return False
        return True

    def _is_in_timeline(self, data: bytes, position: int) -> bool:
        """Whether RocksDB timers delivered or rolled a record, further behind in the log."""
        found = trace_in(data)
        if found is None:
            return False
        rows = self.log.ledger.timeline.take(bucket_of(found[1]))
        return bool(((rows[:, 0] == found[1]) & (rows[:, 1] > position)).any())

    def _seen(self, spool: Spool, name: int) -> int:
        bucket = bucket_of(name)
        key = (id(spool), bucket)
        if key not in self._buckets:
            if len(self._buckets) >= BUCKETS_MAX:
                self._buckets.clear()
            self._buckets[key] = np.sort(spool.take(bucket)[:, 0])
        names = self._buckets[key]
        return int(np.searchsorted(names, name, "right") - np.searchsorted(names, name, "left"))

    def _record(
        self,
        position: int,
        rule: StoreRule,
        expected: str,
        found: str,
        step: Step,
        count: int,
        *,
        subject: object = None,
    ) -> Finding:
        file, offset = self.log.row.place_of(position)
        return Finding(
            rule=rule,
            file=file,
            offset=offset,
            expected=expected,
            found=found,
            step=step,
            count=count,
            subject=subject,
        )


def _strays(timers: Int64s, units: Int64s, at: Int64s) -> Flags:
    """Which units were made for another topic than their record (``at``) names."""
    if not len(timers):
        return np.zeros(len(units), np.bool_)
    named = timers[at, 5]
    return np.asarray((at >= 0) & (named != NO_TOPIC) & (named != units[:, 6]), np.bool_)


def _places(known: Int64s, wanted: Int64s) -> Int64s:
    """Index in ``known`` (ascending) of each wanted number, -1 where it is not."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)
