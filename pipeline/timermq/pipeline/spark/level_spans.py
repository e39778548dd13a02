"""The messages that RocketMQ left waiting for classic levels, as ``timermq.pending`` has them.

The decisions are those of the next start (``level_outlook``), for columns. Where work is cut the
queues tell places and moments, and the log what was moved or delivered behind the offsets: of the
messages that wait only those are read there which, by the time at which they were born, RocketMQ
may have delivered. Whether a record is whole, and the wheel takes it, is looked at by the task that
reads it. One by one go records that have something unusual, and all messages of a store whose
damage leaves in doubt what was delivered.

Of a store that is served there are none: its broker has taken them over.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.array_types import Flags, Places
from timermq.timerstore.properties import REAL_QID_NAME, REAL_TOPIC_NAME
from timermq.timerstore.record_layout import BODY_CRC_MASK

from ..admission.admission import EPOCH_MS_MAX, Refusal, TimerAdmission
from ..admission.run_request import OWN_PROPERTIES_SIZE_MAX
from ..levels.level_outlook import LeftLevels
from ..levels.level_queues import ENTRY, Entries
from ..levels.level_record import HALF_TOPIC, left_message, waiting_name
from ..records.destination import QUEUE_ID_DIGITS_MAX
from ..records.system_topics import destination_fault
from ..records.timer_record import TimerRecordError
from ..state.timer_options import TimerOptions
from .byte_arrays import distinct, numbers_in
from .record_chunks import RecordChunk
from .record_gathering import gathered
from .store_view import LogView, StoreView
from .timer_arrays import TimerArrays

MESSAGES_PER_SPAN = 100_000
ENTRIES_PER_READ = 65_536
"""Entries of a queue that are read together."""
LEVEL_SIZE_MAX = 16
"""Bytes of the property that tells the level, which the record in the wheel keeps."""


@attrs.frozen(eq=False, kw_only=True)
class LevelSpan:
    """Messages that move to the wheel with the next start, if the wheel takes them."""

    log: LogView
    positions: Places
    sizes: Places
    moments: Places
    """When they are due by their queues, epoch milliseconds."""
    options: TimerOptions

    def chunks(self) -> Iterator[tuple[RecordChunk, TimerArrays]]:
        """The records of those that move, and what they ask for.

        Raises:
            SparkJobError: The store was cleaned meanwhile.
        """
        admission = TimerAdmission(self.options, lambda _: False)
        for chunk, rows in gathered(self.log, self.positions, self.sizes):
            stored = chunk.heads["store_ms"].astype(np.int64)
            timers = _timers(chunk, np.maximum(self.moments[rows], stored))
            kept = _are_usual(chunk, timers)
            for row in np.flatnonzero(~kept).tolist():
                kept[row] = _moves(chunk, row, int(timers.deliver_ms[row]), admission)
            if kept.any():
                yield chunk.only(kept), timers.only(kept)


def level_spans(view: StoreView) -> list[LevelSpan]:
    """The messages of classic levels in pieces, those that are due first in front.

    Args:
        view: The store.

    Raises:
        StoreError: It is damaged.
    """
    if not view.levels_left:
        return []
    with view.recovered() as offline:
        left = LeftLevels.of(offline.store)
        if left.done.leaves_doubts:
            waiting = _looked_at(left, view.timer_options)
        else:
            waiting = np.concatenate([np.empty(0, ENTRY), *left.entries(ENTRIES_PER_READ)])
            waiting = waiting[~left.done.were_moved(waiting)]
            waiting = waiting[~_were_delivered(view.log, left, waiting)]
    return [
        LevelSpan(
            log=view.log,
            positions=some["offset_py"].copy(),
            sizes=some["size_py"].copy(),
            moments=some["moment_ms"].copy(),
            options=view.timer_options,
        )
        for first in range(0, len(waiting), MESSAGES_PER_SPAN)
        if len(some := waiting[first : first + MESSAGES_PER_SPAN])
    ]


def _looked_at(left: LeftLevels, options: TimerOptions) -> Entries:
    """The messages that move, each looked at by itself."""
    found = [
        (one.deliver_ms, one.level, one.phy_offset, one.size)
        for one in left.outlooks(options)
        if one.message is not None
    ]
    return np.array(found, ENTRY)


def _were_delivered(log: LogView, left: LeftLevels, entries: Entries) -> Flags:
    """Which messages RocketMQ delivered behind the offsets: each delivery answers for one."""
    found, born_ms = np.zeros(len(entries), np.bool_), left.done.born_ms
    if not len(born_ms):
        return found
    names: dict[int, bytes] = {}
    positions, sizes = entries["offset_py"], entries["size_py"]
    for chunk, rows in gathered(log, positions, sizes):
        for row in np.flatnonzero(np.isin(chunk.heads["born_ms"], born_ms)).tolist():
            record, at = chunk.record(row), int(rows[row])
            if _is_left(record, int(positions[at])):
                names[at] = waiting_name(record)
    for at in sorted(names):  # in the order in which they are due
        found[at] = left.done.answers_for(names[at])
    return found


def _is_left(record: bytes, phy_offset: int) -> bool:
    """Whether a record is whole, and names where its message goes."""
    try:
        left_message(record, phy_offset, len(record))
    except TimerRecordError:
        return False
    return True


def _are_usual(chunk: RecordChunk, timers: TimerArrays) -> Flags:
    """Which records surely move: whole, for a legal topic, with room and a moment for the wheel."""
    view = memoryview(chunk.data)
    bodies = zip(chunk.body_starts.tolist(), chunk.body_ends.tolist(), strict=True)
    found = chunk.heads["body_crc"] == np.fromiter(
        (zlib.crc32(view[start:end]) & BODY_CRC_MASK for start, end in bodies),
        np.int64,
        len(chunk),
    )
    legal = [
        bool(name) and name != HALF_TOPIC and destination_fault(name) is None
        for name in timers.names
    ]
    found &= np.array(legal, np.bool_)[timers.topic_of]
    found &= numbers_in(chunk.found.value(REAL_QID_NAME), QUEUE_ID_DIGITS_MAX)[1]
    sizes = np.diff(chunk.found.bounds)
    found &= sizes + LEVEL_SIZE_MAX <= OWN_PROPERTIES_SIZE_MAX
    found &= (timers.deliver_ms > 0) & (timers.deliver_ms <= EPOCH_MS_MAX)
    return np.asarray(found, np.bool_)


def _moves(chunk: RecordChunk, row: int, deliver_ms: int, admission: TimerAdmission) -> bool:
    """Whether one record moves, by the rules of a take-over."""
    record = chunk.record(row)
    try:
        message = left_message(record, int(chunk.heads["phy_offset"][row]), len(record))
    except TimerRecordError:
        return False
    return not isinstance(admission.take_over(message, deliver_ms), Refusal)


def _timers(chunk: RecordChunk, deliver_ms: Places) -> TimerArrays:
    """The topics and queues of records that wait for a level, and when they are due."""
    topics, topic_of = distinct(chunk.found.value(REAL_TOPIC_NAME))
    queue_id, _ = numbers_in(chunk.found.value(REAL_QID_NAME), QUEUE_ID_DIGITS_MAX)
    none: NDArray[np.int64] = np.zeros(len(chunk), np.int64)
    return TimerArrays(
        deliver_ms=deliver_ms,
        out_ms=none,
        names=[*(topic.decode("utf-8", "replace") for topic in topics), ""],
        topic_of=topic_of,
        queue_id=queue_id,
        order_py=chunk.heads["phy_offset"].astype(np.int64),
        rolls=none,
        is_delete=np.zeros(len(chunk), np.bool_),
        faults={},
    )
