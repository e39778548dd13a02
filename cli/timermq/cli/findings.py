"""What can be wrong with a store, part by part: each check yields a finding for each thing.

=============  ====================================================================================
part           what must hold
=============  ====================================================================================
commit log     records follow each other to the end; each states its position; its checksum fits;
               no sector of its topic or properties is lost
consume queue  unit n shows a record of that topic and queue that states n, its size and its tags
               code; the newest record of a queue is its last unit
index          an entry shows a record of which one key has the entry's hash
timer log      units stand side by side; each unit's record is a timer of the unit's slot, or
               rolls there; the chain of each live slot descends and is of that slot
configuration  each table can be read
=============  ====================================================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs
import numpy as np

from timermq.pipeline.timer_record import decode_timer
from timermq.timerlog import MAGIC_ROLL, UNIT, ChainError, slot_times
from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.config_file import load_json
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.dispatch import unit_tags_code
from timermq.timerstore.errors import StoreError
from timermq.timerstore.index_keys import keys_in
from timermq.timerstore.index_layout import ENTRY, ENTRY_DTYPE, HEADER, SLOT_SIZE, key_hashes
from timermq.timerstore.log_record import SECTOR_SIZE, LogRecord, is_torn, read_log_record
from timermq.timerstore.record_spans import RecordError

from .offline_store import OfflineStore

CHUNK_COUNT = 4096
"""Units or entries read at a time."""

TABLES = (
    "consumerFilter.json",
    "consumerOffset.json",
    "delayOffset.json",
    "subscriptionGroup.json",
    "timermetrics",
    "topics.json",
)

LIGHT_QUEUE_PREFIX = "%LMQ%"
"""Light queues of RocketMQ: their units show records of other topics."""

Unit = tuple[int, str, int, int]
"""Queue offset, topic, queue, tags code."""


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that is not as it must be."""

    place: str
    """File, queue or table."""
    at: int
    """Position in a log, offset in a queue, number of an entry, time of a slot."""
    expected: str
    found: str


def find_all(offline: OfflineStore) -> Iterator[Finding]:
    """Every finding of every check; nothing is written."""
    newest: dict[tuple[str, int], int] = {}
    yield from find_in_log(offline.store.commit_log, newest)
    for queue in offline.store.queues():
        if not queue.topic.startswith(LIGHT_QUEUE_PREFIX):
            yield from find_in_queue(offline, queue, newest.get((queue.topic, queue.queue_id)))
    yield from find_in_index(offline)
    yield from find_in_timers(offline)
    yield from find_in_tables(offline)


def find_in_log(log: CommitLog, newest: dict[tuple[str, int], int]) -> Iterator[Finding]:
    """Walk over the log; ``newest`` gets the position of the last record of each queue."""
    scan = log.scan(log.min_offset, check_crc=True)
    for phy_offset, size in scan:
        data = log.read(phy_offset, size)
        if is_torn(data, phy_offset % log.segment_size):
            yield Finding(
                place="commitlog",
                at=phy_offset,
                expected=f"a record of {size} bytes",
                found=f"one that lacks a sector of {SECTOR_SIZE} bytes",
            )
        record = read_log_record(data)
        if record.is_queued:
            newest[record.topic.decode("utf-8", "replace"), record.queue_id] = phy_offset
    if scan.end != log.max_offset:
        expected = f"records up to {log.max_offset}"
        yield Finding(place="commitlog", at=scan.end, expected=expected, found=scan.reason)


def find_in_queue(
    offline: OfflineStore, queue: ConsumeQueue, newest: int | None
) -> Iterator[Finding]:
    """Compare each unit with its record, and the last unit with the newest record."""
    place = f"consumequeue/{queue.topic}/{queue.queue_id}"
    levels_ms = offline.store.options.delay_levels_ms
    offset, last = queue.min_offset, None
    while offset < queue.max_offset:
        units = queue.units(offset, CHUNK_COUNT).tolist()
        if not units:
            yield Finding(place=place, at=offset, expected="a unit", found="none")
            return
        for phy_offset, size, tags_code in units:
            record = _record(offline.store.commit_log, phy_offset, size)
            stated = None if record is None else _unit_of(record, queue, levels_ms)
            expected = (offset, queue.topic, queue.queue_id, tags_code)
            if stated != expected:
                yield Finding(
                    place=place,
                    at=offset,
                    expected=f"at {phy_offset} a record of {size} bytes for {expected}",
                    found="none" if stated is None else str(stated),
                )
            offset += 1
            last = phy_offset
    if newest is not None and newest != last:
        yield Finding(place=place, at=offset, expected=f"last unit at {newest}", found=f"at {last}")


def find_in_index(offline: OfflineStore) -> Iterator[Finding]:
    """Compare each entry with the keys of its record; those of removed segments are passed over."""
    log = offline.store.commit_log
    entries_at = HEADER.size + offline.store.options.max_hash_slot_num * SLOT_SIZE
    for index in offline.index_files():
        known = (-1, set[int]())
        for first in range(1, index.header.index_count, CHUNK_COUNT):
            count = min(CHUNK_COUNT, index.header.index_count - first)
            data = index.file.read(entries_at + first * ENTRY.size, count * ENTRY.size)
            entries = np.frombuffer(data, ENTRY_DTYPE)[["key_hash", "phy_offset", "previous"]]
            for number, (key_hash, phy_offset, previous) in enumerate(entries.tolist(), first):
                if phy_offset < log.min_offset:
                    continue
                if phy_offset != known[0]:
                    known = phy_offset, _key_hashes(log, phy_offset)
                if previous >= number or key_hash not in known[1]:
                    yield Finding(
                        place=f"index/{index.name}",
                        at=number,
                        expected=f"a record at {phy_offset} with a key of hash {key_hash}, "
                        f"and an entry before {number}",
                        found=f"hashes {sorted(known[1])} and entry {previous}",
                    )


def find_in_timers(offline: OfflineStore) -> Iterator[Finding]:
    """Compare each unit with its record, and walk the chains of all live slots."""
    files = offline.timer_files
    behind = files.timer_log.min_pos
    for positions, units in files.timer_log.scan(files.timer_log.min_pos):
        columns = (positions, slot_times(units), *(units[name] for name in _UNIT_COLUMNS))
        for pos, *unit in np.stack(columns, axis=1).tolist():
            # A segment begins with a unit, whatever closed the one before.
            if pos != max(behind, pos - pos % files.timer_log.segment_size):
                yield Finding(place="timerlog", at=behind, expected="a unit", found=f"one at {pos}")
            behind = pos + UNIT.size
            reason = _timer_mismatch(offline, *unit)
            if reason is not None:
                expected = f"a unit of slot {unit[0]}"
                yield Finding(place="timerlog", at=pos, expected=expected, found=reason)
    for slot in files.wheel.live(offline.timers.read_ms):
        slot_ms, last_pos = int(slot["time_ms"]), int(slot["last_pos"])
        try:
            deque(files.timer_log.walk(last_pos, slot_ms=slot_ms), maxlen=0)
        except ChainError as error:
            yield Finding(
                place="timerlog", at=error.pos, expected=error.expected, found=error.found
            )


def find_in_tables(offline: OfflineStore) -> Iterator[Finding]:
    """Read each table under ``config/``."""
    for name in TABLES:
        try:
            load_json(offline.store.disk, f"{offline.store.root}/config/{name}")
        except StoreError as error:
            yield Finding(place=f"config/{name}", at=0, expected="a table", found=str(error))


def _record(log: CommitLog, phy_offset: int, size: int) -> LogRecord | None:
    """The record of a unit, None when nothing fitting stands there."""
    data = log.record_at(phy_offset, size)
    if data is None:
        return None
    try:
        return read_log_record(data)
    except RecordError:
        return None


def _unit_of(record: LogRecord, queue: ConsumeQueue, levels_ms: tuple[int, ...]) -> Unit:
    """Offset, topic, queue and tags code that the unit of a record must have."""
    has_levels = queue.topic == SCHEDULE_TOPIC
    return (
        record.queue_offset,
        record.topic.decode("utf-8", "replace"),
        record.queue_id,
        unit_tags_code(record.properties, has_levels, record.store_ms, levels_ms),
    )


def _key_hashes(log: CommitLog, phy_offset: int) -> set[int]:
    """The hashes under which the index knows a record; none when there is no record."""
    checked = log.check_at(phy_offset, check_crc=False)
    record = None if checked is None else _record(log, phy_offset, checked.size)
    if record is None:
        return set()
    keys = [record.topic + b"#" + key for key in keys_in(record.properties)]
    return set(key_hashes(keys).tolist())


_UNIT_COLUMNS = ("offset_py", "size_py", "magic")


def _timer_mismatch(
    offline: OfflineStore, slot_ms: int, phy_offset: int, size: int, magic: int
) -> str | None:
    """Why a record does not belong to the unit that names it, None when it does or is gone.

    A message that was due before it got a unit waits in a later slot, one that rolls in an
    earlier.
    """
    log = offline.store.commit_log
    if phy_offset < log.min_offset:
        return None
    data = log.record_at(phy_offset, size)
    if data is None:
        return f"no record of {size} bytes at {phy_offset}"
    try:
        facts = decode_timer(data, phy_offset, offline.timer_options.timer_precision_ms)
    except StoreError as error:
        return str(error)
    if slot_ms < facts.out_ms and not magic & MAGIC_ROLL:
        return f"at {phy_offset} a timer of slot {facts.out_ms}"
    return None
