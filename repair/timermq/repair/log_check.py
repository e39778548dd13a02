"""The one walk over the commit log that most checks share.

Each record is compared with the queue unit that its head names, and what it says of timers is kept
for ``timer_check``. Units that no record names are found at the end. Memory: some KB a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from timermq.pipeline.records.record_effect import Effect
from timermq.pipeline.records.timer_properties import DELIVER_NAME
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.disk import Disk
from timermq.timerstore.dispatch import unit_tags_code
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_reach import LogReach
from timermq.timerstore.log_record import LogRecord, read_log_record
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import find
from timermq.timerstore.queue_register import QueueRegister
from timermq.timerstore.queue_unit import FILLER_SIZE, UNIT
from timermq.timerstore.store_options import StoreOptions
from timermq.timerstore.topic_queue import queue_refusal

from .finding import Finding, Findings, Step
from .index_check import IndexCheck
from .known_end import checkpoint_page, known_end
from .log_findings import (
    NO_UNIT,
    Run,
    early_finding,
    early_unit_finding,
    gap_finding,
    head_finding,
    hole_finding,
    lost_end_finding,
    lost_unit_finding,
    misfit_finding,
    repair_finding,
    tail_findings,
    unit_finding,
    unit_text,
)
from .log_survey import Found, LogSurvey
from .queue_sequence import Gap, Misfit, QueueSequence
from .queue_units import AskedQueues, QueueUnits, RawUnit, queue_directory, queues_with_files
from .record_repair import RecordRepair, pair
from .segment_row import SegmentRow
from .store_rule import Severity, StoreRule
from .timer_ledger import TimerLedger

QueueKey = tuple[str, int]
Progress = Callable[[int, int], None]
"""Told how many bytes of how many are looked at."""


@attrs.define(eq=False)
class _Queue:
    """One queue while the log is walked."""

    sequence: QueueSequence
    units: QueueUnits
    has_levels: bool
    key: QueueKey
    run: Run | None = None


@attrs.define(eq=False)
class LogCheck:
    """The walk and its results: ``run`` does it, the other fields are the results."""

    disk: Disk
    root: str
    options: StoreOptions
    register: QueueRegister
    last_exit_ok: bool
    progress: Progress | None = None
    damaged: Collection[int] = ()
    """Positions of the sectors that are not as their seals say."""
    row: SegmentRow = attrs.field(init=False)
    queues: AskedQueues = attrs.field(init=False)
    start: int = 0
    end: int = 0
    """End of the log: behind its last good record, or where more is known to have been."""
    reach: LogReach = attrs.field(factory=LogReach, init=False)
    """How far the log reached for certain."""
    record_count: int = 0
    last_store_ms: int = 0
    holes: list[Hole] = attrs.field(factory=list[Hole], init=False)
    gaps: list[Gap] = attrs.field(factory=list[Gap], init=False)
    """Queue offsets of which the log has no record."""
    repairs: list[RecordRepair] = attrs.field(factory=list[RecordRepair], init=False)
    begins: dict[QueueKey, int] = attrs.field(factory=dict[QueueKey, int], init=False)
    """Each queue to the position of the record that it begins with."""
    ends: dict[QueueKey, int] = attrs.field(factory=dict[QueueKey, int], init=False)
    """Each queue to its next offset, by the log."""
    ledger: TimerLedger = attrs.field(init=False)
    _index: IndexCheck = attrs.field(init=False)
    _queues: dict[QueueKey, _Queue] = attrs.field(factory=dict[QueueKey, "_Queue"], init=False)
    _first_store_ms: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """Start of a segment to the store time of its first record."""
    hole_store_ms: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    """Position of a hole to the store time of a record near by."""
    _misfits: list[Misfit] = attrs.field(factory=list[Misfit], init=False)
    _levels_ms: tuple[int, ...] = ()

    def __attrs_post_init__(self) -> None:
        self.row = SegmentRow(
            self.disk, self.root, "commitlog", self.options.mapped_file_size_commit_log
        )
        self.ledger = TimerLedger(self.row.segment_size)
        self._levels_ms = self.options.delay_levels_ms
        self.queues = AskedQueues(self.disk, self.root, self.options, self.register)

    def run(self) -> Findings:
        """Walk over the log and yield what is wrong with it and with the queues."""
        row = self.row
        yield from row.find_files(Step.RESTORE_LENGTH, None)
        self.start = row.start
        self._index = IndexCheck(self.disk, self.root, self.options, self.start, self.last_exit_ok)
        # Before the walk, in case a broker goes on with the log meanwhile.
        self.reach = known_end(self.disk, self.root, row)
        survey = LogSurvey(row, self.reach.known_to, self.damaged, self.queues.places)
        total, told = row.end - row.start, row.start
        for one in survey:
            if isinstance(one, Hole):
                self.holes.append(one)
                self.hole_store_ms[one.position] = max(self.last_store_ms, 1)
                is_end = one.end <= survey.end
                yield lost_end_finding(row, one, self.reach) if is_end else hole_finding(row, one)
                continue
            yield from self._take(one)
            if self.progress is not None and one.position - told > 16 << 20:
                told = one.position
                self.progress(told - row.start, total)
        row.close()
        self.end = survey.end
        yield from tail_findings(
            self.row, survey, stated_end=self.register.log_end, last_exit_ok=self.last_exit_ok
        )
        yield from self._finish()
        yield from self._index.finish()

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The next offset of a queue by the log, 0 of one that it does not know."""
        return self.ends.get((topic, queue_id), 0)

    def close(self) -> None:
        """Close the ledger and the queues, with their files."""
        self.ledger.close()
        self.queues.close()

    # -- one record -----------------------------------------------------------------------------

    def _take(self, found: Found) -> Findings:
        self.record_count += 1
        record = read_log_record(found.data)
        self.last_store_ms = max(self.last_store_ms, record.store_ms)
        if not found.position % self.row.segment_size:
            self._first_store_ms[found.position] = record.store_ms
        if found.repaired:
            yield head_finding(self.row, found)
        topic = record.topic.decode("utf-8", "replace")
        self._index.take(record, found.position)
        is_refused = queue_refusal(topic, record.queue_id) is not None or record.queue_offset < 0
        if is_refused or not record.is_queued:
            if record.is_queued or record.queue_offset or record.properties:
                place = topic, record.queue_id, record.queue_offset
                self._misfits.append(Misfit(found.position, found.size, *place, record.is_queued))
            else:
                self.ledger.note_filler(found.data, found.position)
            return
        if self.register.is_deleted(topic, found.position):
            return
        queue = self._queue(topic, record.queue_id)
        yield from self._compare(queue, found, record)
        is_timer = topic == TIMER_TOPIC and record.queue_id == 0
        effect = self.ledger.note(found.data, record, found.position, is_timer=is_timer)
        if effect is Effect.DELIVERED:
            deliver_ms = number_in(find(record.properties, DELIVER_NAME)) or 0
            if record.store_ms < deliver_ms:
                yield early_finding(
                    self.row, found.position, deliver_ms=deliver_ms, store_ms=record.store_ms
                )

    def _queue(self, topic: str, queue_id: int) -> _Queue:
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = self._queues[topic, queue_id] = _Queue(
                QueueSequence(topic, queue_id, self.start == 0),
                QueueUnits.of(
                    self.disk,
                    self.root,
                    topic,
                    queue_id,
                    self.options.mapped_file_size_consume_queue,
                ),
                topic == SCHEDULE_TOPIC,
                (topic, queue_id),
            )
        return queue

    def _compare(self, queue: _Queue, found: Found, record: LogRecord) -> Findings:
        """Compare a record with the unit of its queue offset."""
        offset = record.queue_offset
        code = unit_tags_code(record.properties, queue.has_levels, record.store_ms, self._levels_ms)
        expected = (found.position, found.size, code)
        unit = queue.units.unit(offset)
        queue.sequence.take(
            found.position,
            found.size,
            offset,
            is_confirmed=unit is not None and unit[:2] == expected[:2],
        )
        if unit == expected:
            return
        run = queue.run
        if run is not None and run.end == offset:
            run.end += 1
            return
        if run is not None:
            yield unit_finding(queue.key, run)
        queue.run = Run(found.position, offset, offset + 1, unit_text(expected), unit_text(unit))

    # -- queues, once the log is known ------------------------------------------------------------

    def _finish(self) -> Findings:
        self._take_lost_queues()
        for key, queue in self._queues.items():
            yield from self._finish_queue(key, queue)
        self.repairs, self.gaps, left = pair(
            self.gaps, self._misfits, self._shown_at, self.holes, self._may_begin
        )
        for misfit in left:
            if self._may_begin(misfit):
                known = self._queues[misfit.topic, misfit.queue_id]
                known.sequence.begin_behind()
                yield from self._finish_known(known.key, known)
            elif misfit.is_queued:
                yield misfit_finding(self.row, misfit)
        for repair in self.repairs:
            yield repair_finding(self.row, repair)
        for gap in self.gaps:
            yield gap_finding(gap)
        yield from self._find_other_queues()

    def _take_lost_queues(self) -> None:
        """Queues whose every record was lost: nothing but their units tells of them."""
        known = frozenset(self._queues)
        for key in queues_with_files(self.disk, self.root) if self.holes else ():
            if key not in known:
                units = self._queue(*key).units
                offset = units.first_from(self.start)
                unit = units.unit(offset)
                hole = None if unit is None else self._hole_of(unit[0], unit[1])
                if hole is None:
                    del self._queues[key]
                else:
                    self._queues[key].sequence.begin_lost(offset, hole.position)

    def _finish_queue(self, key: QueueKey, queue: _Queue) -> Findings:
        sequence = queue.sequence
        suspect, shown = sequence.suspect, queue.units.unit(sequence.next)
        sequence.finish(
            is_shown_as_next=suspect is not None
            and shown is not None
            and shown[:2] == (suspect.position, suspect.size)
        )
        if sequence.is_newcomer:
            self._misfits += sequence.misfits
            return
        # Units of offsets behind the last record that stand before the log's end show lost ones.
        end = sequence.next
        while (unit := queue.units.unit(end)) is not None and self._hole_of(*unit[:2]):
            end += 1
        sequence.extend(end, self.end)
        self._misfits += sequence.misfits
        yield from self._finish_known(key, queue)

    def _finish_known(self, key: QueueKey, queue: _Queue) -> Findings:
        """The gaps of a queue, once its start and end are known."""
        sequence = queue.sequence
        for gap in sequence.gaps:
            is_behind = queue.units.row.segments and gap.end <= queue.units.first_shown()
            if not is_behind:
                self.gaps.append(gap)
        self.begins[key], self.ends[key] = sequence.starts_py, sequence.next
        if queue.run is not None:
            finding = unit_finding(key, queue.run)
            if not self._is_damage(queue.run, sequence):
                finding = attrs.evolve(finding, severity=Severity.NOTE, step=Step.NOTHING)
            yield finding
        yield from self._find_units_outside(key, queue)

    def _hole_of(self, position: int, size: int) -> Hole | None:
        end = position + size
        return next((one for one in self.holes if one.position <= position < end <= one.end), None)

    def _is_damage(self, run: Run, sequence: QueueSequence) -> bool:
        """Whether units that lack are more than the newest ones of a run that was cut off."""
        is_tail = run.end == sequence.next and run.found == NO_UNIT
        return self.last_exit_ok or not is_tail or run.first_py < self._dispatch_from()

    def _dispatch_from(self) -> int:
        """Position from which the next start makes queue units again after a run was cut off."""
        page = checkpoint_page(self.disk, self.root)
        if page is None:
            return self.start
        if page.durable_py is not None:
            return page.durable_py
        older = [
            start
            for start, store_ms in self._first_store_ms.items()
            if store_ms <= page.min_timestamp
        ]
        return max(older, default=self.start)

    def _find_units_outside(self, key: QueueKey, queue: _Queue) -> Findings:
        """Files of the queue, units before its first record, and the unit behind its last."""
        units, sequence = queue.units, queue.sequence
        yield from units.row.find_files(Step.REBUILD_QUEUE, key)
        unit = units.unit(sequence.next)
        if unit is not None:
            yield self._unit_behind(key, sequence.next, unit)
        for first, block in units.blocks(units.first_offset, sequence.first):
            wrong = (block["phy_offset"] >= self.start) & (block["phy_offset"] > 0)
            if wrong.any():
                at = first + int(wrong.argmax())
                yield early_unit_finding(key, at, units.unit(at), self.start)
                return

    def _unit_behind(self, key: QueueKey, offset: int, unit: RawUnit) -> Finding:
        """The unit behind the last record of its queue."""
        is_behind_log = not self.last_exit_ok and unit[0] >= self.end
        if is_behind_log and self.reach.was_killed and not self.row.has_record_at(self.end):
            return lost_unit_finding(key, offset, unit, self.end)
        return Finding(
            rule=StoreRule.QUEUE_DIFFERS,
            file=queue_directory(*key),
            offset=offset * UNIT.size,
            expected=f"{offset} to be the next offset of the queue, as in the log",
            found=unit_text(unit),
            severity=Severity.NOTE if is_behind_log else Severity.DERIVED,
            step=Step.NOTHING if is_behind_log else Step.REBUILD_QUEUE,
            subject=key,
        )

    def _find_other_queues(self) -> Findings:
        """Queues that have files, and records no longer or not at all."""
        for key in queues_with_files(self.disk, self.root):
            if key not in self.begins:
                yield from self._find_dead_queue(key, self._queue(*key).units)

    def _find_dead_queue(self, key: QueueKey, units: QueueUnits) -> Findings:
        yield from units.row.find_files(Step.REBUILD_QUEUE, key)
        last = -1
        for first, block in units.blocks(units.first_offset, units.row.end // UNIT.size):
            shown = (block["size"] > 0) & (block["phy_offset"] >= self.start)
            shown &= ~((block["size"] == FILLER_SIZE) & (block["phy_offset"] == 0))
            if shown.any():
                at = first + int(shown.argmax())
                if not self.register.is_deleted(key[0], int(block["phy_offset"][at - first])):
                    self.ends[key] = at  # those before it were cleaned
                yield Finding(
                    rule=StoreRule.QUEUE_DIFFERS,
                    file=queue_directory(*key),
                    offset=at * UNIT.size,
                    expected="no unit: the log has no record of this queue",
                    found=unit_text(units.unit(at)),
                    severity=Severity.LOST if self.last_exit_ok else Severity.DERIVED,
                    step=Step.REBUILD_QUEUE,
                    subject=key,
                )
                return
            zeros = block["size"] <= 0
            if zeros.any():
                last = first + int(zeros.argmax()) - 1
                break
            last = first + len(block) - 1
        self.ends[key] = last + 1

    # -- findings ---------------------------------------------------------------------------------

    def _may_begin(self, misfit: Misfit) -> bool:
        known = self._queues.get((misfit.topic, misfit.queue_id))
        return bool(misfit.is_queued and known and known.sequence.may_begin_behind(self.holes))

    def _shown_at(self, topic: str, queue_id: int, offset: int) -> tuple[int, int] | None:
        unit = self._queue(topic, queue_id).units.unit(offset)
        return None if unit is None else unit[:2]
