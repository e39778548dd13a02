"""Whether timer log, wheel and timer checkpoint say what the commit log and each other say.

Three passes, each over its own file: the units of the timer log, with their links; the live slots
of the wheel, against the newest and first unit of each slot; and, segment by segment of the commit
log, messages against units, deliveries and deletes (``timer_join``).

A store that was cut off has a wheel and a checkpoint that are up to a second old. So the wheel may
show any state between the checkpoint's position in the timer log and the log's end.
"""

from __future__ import annotations

from contextlib import closing

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.recovery.link_check import LinkCheck
from timermq.pipeline.recovery.timer_engine import TimerEngines
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerlog import UNIT, TimerCheckpoint, TimerLog, Units, numbers_in_slot, slot_times
from timermq.timerlog.segment import is_closed
from timermq.timerlog.timer_checkpoint import (
    CHECKPOINT,
    CHECKPOINT_PATH,
    EXTENSION_AT,
    EXTENSION_MAGIC,
    PAGE_SIZE,
)
from timermq.timerstore.array_types import Int64s
from timermq.timerstore.disk import Disk
from timermq.timerstore.mapped_file import MappedFile
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.wheel import SLOT, TimerWheel

from .finding import Finding, Findings, Step
from .log_check import LogCheck
from .segment_row import SegmentRow, size_of
from .spool import Spool
from .store_rule import Severity, StoreRule
from .timer_join import UNIT_COLUMNS, TimerJoin

WHEEL_FILE = "timerwheel"


@attrs.define(eq=False)
class _Slots:
    """First and newest unit of each slot of the ring (position plus 1, 0 is none), and messages."""

    first: Int64s
    newest: Int64s
    num: Int64s

    @classmethod
    def of(cls, ring_count: int) -> _Slots:
        return cls(*(np.zeros(ring_count, np.int64) for _ in range(3)))

    def add(self, slots: Int64s, positions: Int64s, nums: Int64s) -> None:
        """Link units in the order of the log."""
        self.newest[slots] = positions + 1
        np.add.at(self.num, slots, nums)
        firsts, at = np.unique(slots, return_index=True)
        fresh = self.first[firsts] == 0
        self.first[firsts[fresh]] = positions[at[fresh]] + 1


@attrs.define(eq=False)
class TimerCheck:
    """Looks at the files of the timer service, when the commit log is known."""

    disk: Disk
    root: str
    options: TimerOptions
    log: LogCheck
    now_ms: int
    engines: TimerEngines
    """RocketMQ's engines of timers. With snapshots the next start makes the wheel again anyway."""
    checkpoint: TimerCheckpoint = attrs.field(factory=TimerCheckpoint, init=False)
    end: int = attrs.field(default=0, init=False)
    """End of the timer log."""
    read_ms: int = attrs.field(default=0, init=False)
    _units: Spool = attrs.field(factory=lambda: Spool(len(UNIT_COLUMNS)), init=False)

    def find(self) -> Findings:
        """Everything that is wrong with the files of the timer service."""
        try:
            yield from self._find_page()
            timer_log = self._open_log()
            try:
                yield from self._row().find_files(Step.CUT_TIMER_LOG, None)
                yield from self._find_end(timer_log)
                yield from self._find_in_log(timer_log)
            finally:
                timer_log.close()
            yield from self._find_in_checkpoint()
            yield from TimerJoin(
                self.log, self._units, self.checkpoint, self.engines, self.options
            ).find()
        finally:
            self._units.close()

    @property
    def is_ours(self) -> bool:
        """Whether this program wrote the checkpoint last."""
        return self.checkpoint.extension is not None

    @property
    def is_absent(self) -> bool:
        """Whether there is no checkpoint: the next start reads both logs whole."""
        return not self.is_ours and self.checkpoint.last_read_time_ms <= 0

    def _row(self) -> SegmentRow:
        size = self.options.mapped_file_size_timer_log
        return SegmentRow(self.disk, self.root, "timerlog", size)

    def _open_log(self) -> TimerLog:
        """The timer log up to the first file that is missing or has another length."""
        row, directory = self._row(), f"{self.root}/timerlog"
        queue = MappedFileQueue(
            self.disk, directory, row.segment_size, reserve=True, read_only=True
        )
        for segment in row.segments:
            end = queue.segments[-1].end if queue.segments else segment.start
            if segment.start != end or segment.size != row.segment_size:
                break
            file = self.disk.open(f"{self.root}/{segment.path}", read_only=True)
            queue.segments.append(MappedFile(segment.start, file, row.segment_size))
        queue.wrote = queue.flushed_where = queue.segments[-1].end if queue.segments else 0
        self._queue = queue
        return TimerLog(self.disk, directory, queue, read_only=True)

    _queue: MappedFileQueue = attrs.field(init=False)

    # -- timer log --------------------------------------------------------------------------------

    def _find_end(self, timer_log: TimerLog) -> Findings:
        """Find where the units end, and places before that which are no units."""
        first_bad, behind = -1, timer_log.min_pos
        for first, _, valid in timer_log.entries(timer_log.min_pos):
            last = int(np.flatnonzero(valid)[-1]) if valid.any() else -1
            if (
                last >= 0
                and first_bad < 0
                and first != behind
                and not is_closed(self._queue, behind)
            ):
                first_bad = behind
            if first_bad < 0 and not valid.all():
                first_bad = first + int(valid.argmin()) * UNIT.size
            if last >= 0:
                behind = first + (last + 1) * UNIT.size
        self.end = behind
        if 0 <= first_bad < behind:
            yield self._cut(first_bad, "a unit, or the blank behind the last", "neither")
            self.end = first_bad
        closed = self.end > 0 and is_closed(self._queue, self.end)
        if closed:
            self.end += self._queue.segment_size - self.end % self._queue.segment_size
        flush_pos = self.checkpoint.last_timer_log_flush_pos
        if self.end < flush_pos and first_bad != self.end:
            found = "none behind them"
            yield self._cut(self.end, f"units up to {flush_pos}, as the checkpoint says", found)

    def _find_in_log(self, timer_log: TimerLog) -> Findings:
        """Walk over the units: links, and what the wheel must show."""
        ring_count = 2 * self.options.slots_total
        precision_ms = self._precision_ms
        self.read_ms = self.checkpoint.last_read_time_ms
        links = LinkCheck(timer_log, self.read_ms, precision_ms=precision_ms, ring_count=ring_count)
        flushed, whole = _Slots.of(ring_count), _Slots.of(ring_count)
        flush_pos = self._wheel_shows_to()
        is_broken = False
        for positions, units in timer_log.scan(timer_log.min_pos):
            units = units[positions < self.end]
            positions = positions[positions < self.end]
            if not len(units):
                break
            if not is_broken:
                good = links.good_count(int(positions[0]), units)
                if good < len(units):
                    is_broken = True
                    unit = units[good]
                    slot_ms = int(unit["write_ms"]) + int(unit["delay_ms"])
                    found = f"previous position {unit['prev_pos']}"
                    expected = f"the unit linked in slot {slot_ms} before this one"
                    yield self._cut(int(positions[good]), expected, found)
            self._spool(positions, units)
            slots = slot_times(units)
            ticks = slots // precision_ms
            base = self.read_ms // precision_ms
            lives = (slots >= self.read_ms) & (ticks < base + ring_count)
            nums = numbers_in_slot(units["magic"]).astype(np.int64)
            for state, shown in ((whole, lives), (flushed, lives & (positions < flush_pos))):
                state.add(ticks[shown] % ring_count, positions[shown], nums[shown])
        if not self.is_absent and (self.is_ours or not self.engines.snapshots):
            yield from self._find_in_wheel(timer_log, flushed, whole)

    def _spool(self, positions: Int64s, units: Units) -> None:
        columns = (
            positions,
            units["offset_py"].astype(np.int64),
            units["size_py"].astype(np.int64),
            slot_times(units),
            units["magic"].astype(np.int64),
            units["reserved"].astype(np.int64),
            units["topic_hash"].astype(np.int64),
        )
        rows = np.stack(columns, axis=1)
        self._units.extend(rows[:, 1] // self.log.row.segment_size, rows)

    @property
    def _precision_ms(self) -> int:
        extension = self.checkpoint.extension
        return self.options.timer_precision_ms if extension is None else extension.precision_ms

    def _wheel_shows_to(self) -> int:
        """Units before this position must be in the wheel; RocketMQ's may lag by a second."""
        flush_pos = self.checkpoint.last_timer_log_flush_pos
        if self.is_ours:
            return flush_pos
        return flush_pos - self.options.mapped_file_size_timer_log

    # -- wheel ------------------------------------------------------------------------------------

    def _find_in_wheel(self, timer_log: TimerLog, flushed: _Slots, whole: _Slots) -> Findings:
        ring_count = 2 * self.options.slots_total
        path, size = f"{self.root}/{WHEEL_FILE}", size_of(self.disk, f"{self.root}/{WHEEL_FILE}")
        waits = bool(flushed.newest.any()) or self.checkpoint.last_timer_log_flush_pos > 0
        if size != ring_count * SLOT.size:
            if size or waits:
                expected = f"a wheel of {ring_count * SLOT.size} bytes"
                yield self._wheel(size, expected, f"{size} bytes" if size else "no file")
            return
        wheel = TimerWheel.open(
            self.disk,
            path,
            slots_total=self.options.slots_total,
            precision_ms=self._precision_ms,
            read_only=True,
        )
        try:
            wheel.load_live(self.read_ms)
            live = wheel.live(self.read_ms)
        finally:
            wheel.close()
        indexes = live["time_ms"] // self._precision_ms % ring_count
        yield from self._find_slots(timer_log, live, indexes, flushed, whole)
        missing = flushed.newest > 0
        missing[indexes] = False
        if missing.any():
            index = int(missing.argmax())
            yield self._wheel(
                index * SLOT.size,
                f"a slot with the unit at {flushed.newest[index] - 1}",
                "none",
                count=int(missing.sum()),
            )

    def _find_slots(
        self,
        timer_log: TimerLog,
        live: NDArray[np.void],
        indexes: Int64s,
        flushed: _Slots,
        whole: _Slots,
    ) -> Findings:
        """Compare live slots with the units that the log has for them."""
        last, first, num = (
            live[name].astype(np.int64) for name in ("last_pos", "first_pos", "num")
        )
        wrong = (last + 1 > whole.newest[indexes]) | (last + 1 < flushed.newest[indexes])
        wrong |= timer_log.targets(last) != live["time_ms"]
        if self.is_ours:
            wrong |= (first + 1 != whole.first[indexes]) & (first >= timer_log.min_pos)
            # In between it is not known how many a slot had.
            for state in (flushed, whole):
                is_state = last + 1 == state.newest[indexes]
                wrong |= is_state & (num != state.num[indexes]) & (first >= timer_log.min_pos)
        else:
            is_known = (first >= timer_log.min_pos) & (first >= 0)
            wrong |= is_known & (timer_log.targets(first) != live["time_ms"])
        if wrong.any():
            at = int(wrong.argmax())
            index = int(indexes[at])
            expected = (
                f"slot {live['time_ms'][at]} with units {whole.first[index] - 1} to "
                f"{whole.newest[index] - 1}, {whole.num[index]} messages"
            )
            found = f"{first[at]} to {last[at]}, {num[at]} messages"
            yield self._wheel(index * SLOT.size, expected, found, count=int(wrong.sum()))

    # -- checkpoint -------------------------------------------------------------------------------

    def _find_page(self) -> Findings:
        path = f"{self.root}/{CHECKPOINT_PATH}"
        size = size_of(self.disk, path)
        if size == PAGE_SIZE:
            self.checkpoint = TimerCheckpoint.open(self.disk, path, read_only=True)
            self.checkpoint.close()
            with closing(self.disk.open(path, read_only=True)) as file:
                magic = int.from_bytes(file.read(EXTENSION_AT, 4))
            if self.checkpoint.extension is None and magic == EXTENSION_MAGIC:
                found = "another: a Java broker has written since, or the page is damaged"
                yield self._page(EXTENSION_AT, "the checksum of the block", found, is_note=True)
        elif size:
            yield self._page(size, f"a page of {PAGE_SIZE} bytes", f"{size} bytes")

    def _find_in_checkpoint(self) -> Findings:
        page, queue_end = self.checkpoint, self.log.next_offset(TIMER_TOPIC, 0)
        if self.is_absent:
            if self.end and size_of(self.disk, f"{self.root}/{CHECKPOINT_PATH}") in (0, PAGE_SIZE):
                yield self._page(0, "a read time: the timer log has units", "none")
            return
        # The ring begins a precision behind the clock at most. A page with its checksum says the
        # same of a later time: that the clock has been set back since.
        present_ms = max(self.now_ms, self.log.last_store_ms) + 2 * self._precision_ms
        if page.extension is not None:
            present_ms = max(present_ms, page.last_read_time_ms)
        limits = [
            ("last_read_time_ms", page.last_read_time_ms, present_ms, "the present"),
            (
                "last_timer_queue_offset",
                page.last_timer_queue_offset,
                queue_end,
                "the timer topic's",
            ),
        ]
        for name, stated, limit, what in limits:
            if not 0 <= stated <= limit:
                at = CHECKPOINT.offset_of(name)
                yield self._page(at, f"{name} of at most {limit}, {what} end", str(stated))
        if page.extension is not None and page.extension.scan_py > self.log.end:
            expected = f"scan_py of at most {self.log.end}, where the commit log ends"
            yield self._page(EXTENSION_AT, expected, str(page.extension.scan_py))

    # -- findings ---------------------------------------------------------------------------------

    def _cut(self, pos: int, expected: str, found: str) -> Finding:
        row = self._queue
        return Finding(
            rule=StoreRule.CHAIN_BROKEN,
            file=f"timerlog/{pos - pos % row.segment_size:020d}",
            offset=pos % row.segment_size,
            expected=expected,
            found=found,
            step=Step.CUT_TIMER_LOG,
            subject=pos,
        )

    def _wheel(self, offset: int, expected: str, found: str, *, count: int = 1) -> Finding:
        return Finding(
            rule=StoreRule.WHEEL_DIFFERS,
            file=WHEEL_FILE,
            offset=offset,
            expected=expected,
            found=found,
            step=Step.REBUILD_WHEEL,
            count=count,
        )

    def _page(self, offset: int, expected: str, found: str, *, is_note: bool = False) -> Finding:
        return Finding(
            rule=StoreRule.CHECKPOINT_WRONG,
            file=CHECKPOINT_PATH,
            offset=offset,
            expected=expected,
            found=found,
            severity=Severity.NOTE if is_note else Severity.DERIVED,
            step=Step.NOTHING if is_note else Step.RESET_CHECKPOINT,
            subject=CHECKPOINT_PATH,
        )
