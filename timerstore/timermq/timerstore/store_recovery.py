"""Recovery: what a store's files hold after the last run, however that ended.

First everything is read and judged (`plan_recovery`): where the log's good records end, and whether
that end can be the end. Only then anything is changed (`apply_recovery`), so that a store that is
foreign or corrupt is left as it was.

Where the walk over the log begins:

===========  ==================================================================================
last exit    walk from
===========  ==================================================================================
clean        the newest record that a queue holds; all before it was checked when it was stored
cut off      where the checkpoint says that log and queues were durable; without our block in it
             (RocketMQ's), the newest segment whose first record is older than its timestamps
none fits    the start of the log
===========  ==================================================================================

The walk (`log_walk`) repairs what is certain, goes on behind damage in what a killed process had
written, and ends at the first other thing that is no record. That is the end of the log, unless the
log reached further when it was last closed, or good records that must have been durable stand
behind it: then it is damaged in its middle, and cutting it there would lose acknowledged messages.
Read only nothing is repaired.

Queues are derived data. After a cut-off run they are cut where the walk began and made again from
the records; after a clean one they are only freed from units beyond the log. Those that are damaged
are made again from the start of the log: ``queue_check`` finds them.

Source: DefaultMessageStore.recover, CommitLog.recoverNormally, recoverAbnormally. RocketMQ cuts the
log at the first bad record whatever stands behind it, does not compare positions, and keeps units
whose records it has cut.
"""

from collections.abc import Iterator

import attrs
import structlog

from .boot_note import write_boot_note
from .commit_log import CommitLog
from .consume_queue import ConsumeQueue
from .consume_queue_table import ConsumeQueueTable, QueueKey
from .errors import StoreFormatError
from .filler_record import leave_damaged_sector
from .log_record import STORE_MS_END, store_ms_of
from .log_scan import LogScan
from .log_walk import LogWalk
from .lost_log import check_log_is_there
from .lost_records import LostRecords, lost_records
from .queue_check import LMQ_PREFIX, QueueCheck, ends_falsely
from .record import BLANK_SIZE, MAGIC_V1, MAGIC_V2
from .record_check import CheckKind
from .redispatch import Redispatch
from .store_files import StoreFiles
from .unit_scan import SCAN_COUNT

FOREVER_MS = 1 << 62
"""After every store time."""

log_lines = structlog.get_logger("timermq.timerstore.store_recovery")


@attrs.frozen(kw_only=True)
class RecoveryPlan:
    """The end of the log, and the records that have to be brought to the queues."""

    scan_from: int
    """Start of the walk over the log."""
    dispatch_from: int
    """Records from here on may be missing in queues."""
    end: int
    """End of the log."""
    record_count: int
    """Records walked over."""
    last_store_ms: int
    """Store time of the newest record, 0 without any."""
    repairs: dict[int, bytes]
    """Position of a damaged record to the record as it was."""
    lost: tuple[LostRecords, ...]
    """Damaged parts of the log behind what is dispatched, and what stood there."""
    is_sealed: bool
    """The seals end where the log does."""
    again: dict[QueueKey, int]
    """Damaged queues that are made again from the start of the log, with their next offsets."""
    kept: tuple[LostRecords, ...]
    """Damaged records of theirs, which have their places still."""
    shown: frozenset[QueueKey]
    """Those of them whose readable units are right: they keep these."""
    skipped: dict[QueueKey, int]
    """Those of them of which nothing tells the end, and the offset at which they go on."""
    notes: tuple[str, ...]


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """The findings and the repairs of recovery."""

    last_exit_ok: bool
    scan_from: int
    end: int
    record_count: int
    """Records walked over."""
    dispatched_count: int
    """Records brought to queues."""
    last_store_ms: int
    notes: tuple[str, ...]
    """Notes for the operator, one sentence each; they stand in the log lines."""


def plan_recovery(store: StoreFiles) -> RecoveryPlan:
    """Open log and queues and find the end of the log; nothing is written.

    Raises:
        StoreFormatError: The files are not those of a store with these settings, or the log is
            damaged before its end, or gone.
    """
    store.log.load()
    if store.checkpoint.durable_py is not None:
        store.log.trust_seals()
    store.queues.recover()
    store.register.load()
    check_log_is_there(store)
    scan_from, dispatch_from = _scan_start(store)
    walk = LogWalk(store, scan_from)
    walk.run()
    scan = walk.scan
    _check_end(store, scan, found_any=walk.count > 0)
    lost = lost_records(store, walk.holes)
    dispatch_from = min(dispatch_from, scan.end)
    check = QueueCheck(store, durable_py=dispatch_from, end=scan.end)
    again = check.run()
    notes = [] if store.register.damage is None else [store.register.damage]
    notes += store.queues.damage
    notes += [
        f"record at {at} of the commit log repaired: {why}" for at, why in walk.reasons.items()
    ]
    notes += [
        f"commit log damaged from {hole.position} to {hole.end}: {hole.reason}; "
        "what stood there is lost, what stands behind is served"
        for hole in walk.holes
    ]
    if not _is_zero(store.log, scan.end):
        notes.append(f"commit log ends at {scan.end}: {scan.reason}")
    if walk.shown_to > scan.end:
        notes.append(
            f"commit log ends at {scan.end}, and a killed process had brought records up to "
            f"{walk.shown_to} to queues: what stood between is lost"
        )
    return RecoveryPlan(
        scan_from=scan_from,
        dispatch_from=dispatch_from,
        end=scan.end,
        record_count=walk.count,
        last_store_ms=_newest_store_ms(store, walk.newest),
        repairs=walk.repairs,
        lost=lost,
        is_sealed=scan.end == walk.reach.sealed_to,
        again=again,
        kept=tuple(check.kept),
        shown=frozenset(check.shown),
        skipped=check.skipped,
        notes=tuple(notes),
    )


def apply_recovery(store: StoreFiles, plan: RecoveryPlan) -> RecoveryReport:
    """Bring log and queues to what the plan says; with `read_only` in memory alone.

    Raises:
        StoreFormatError: A queue lacks units whose records the log does not hold either.
        OSError: The disk did not take it; opening the store again goes on.
    """
    log, queues = store.log, store.queues
    if store.checkpoint.durable_py is None:
        log.forget_seals()
        log.trust_seals()
    # First: the last stretch is sealed as it is then.
    for phy_offset, record in plan.repairs.items():
        log.repair(phy_offset, record)
    log.set_end(plan.end, is_sealed=plan.is_sealed)
    if not store.read_only:
        # Whole records may stand in the tail, at their right positions: later ones must never
        # be followed by them.
        is_changed = plan.repairs or not store.last_exit_ok or not _is_zero(log, plan.end)
        if is_changed:
            log.zero_tail()
        leave_damaged_sector(log, plan.last_store_ms)
        if is_changed or log.max_offset > plan.end:
            log.sync_now(plan.scan_from)
        store.register.limit_deletions(plan.end)
        if plan.again:
            store.register.note_ends(plan.again)
    for queue in list(queues):
        newest = queue.max_physic_offset - 1
        if newest >= 0 and store.register.is_deleted(queue.topic, newest) and not store.read_only:
            # The process ended while it removed the topic.
            queues.remove(queue)
            continue
        if (queue.topic, queue.queue_id) in plan.again.keys() - plan.shown:
            queue.begin_again()
            continue
        queue.drop_behind()
        queue.cut(plan.end if store.last_exit_ok else plan.dispatch_from)
        queue.correct_min_offset(log.min_offset)
        _drop_false_units(store, queue)
    redispatch = Redispatch(
        log,
        queues,
        levels_ms=store.options.delay_levels_ms,
        is_deleted=store.register.is_deleted,
    )
    redispatch.run(plan.dispatch_from, lost=plan.lost)
    ends = _missing_queues(store) | plan.again
    missing = redispatch.incomplete | ends.keys()
    if missing:
        redispatch.notes.append(f"queues made again from the start of the log: {sorted(missing)}")
        lost = sorted((*plan.lost, *plan.kept), key=lambda one: one.hole.position)
        redispatch.run(log.min_offset, only=missing, lost=lost)
    for key, end in ends.items():
        queue = queues.find_or_create(*key)
        if queue.is_empty and queue.max_offset < end:
            # All its records are cleaned: their numbers are not given out again.
            queue.begin_at(end)
        elif queue.max_offset < end:
            redispatch.fill(queue, end)
    if not store.read_only:
        write_boot_note(store.disk, store.root, log.max_offset, durably=bool(plan.lost))
    notes = (*plan.notes, *redispatch.notes)
    for note in notes:
        log_lines.warning("store recovered", root=store.root, note=note)
    for (topic, queue_id), offset in plan.skipped.items():
        log_lines.warning(
            "offsets of a queue skipped: its newest file does not tell its end",
            topic=topic,
            queue_id=queue_id,
            goes_on_at=offset,
        )
    return RecoveryReport(
        last_exit_ok=store.last_exit_ok,
        scan_from=plan.scan_from,
        end=log.max_offset,
        record_count=plan.record_count,
        dispatched_count=redispatch.count,
        last_store_ms=plan.last_store_ms,
        notes=notes,
    )


def _newest_store_ms(store: StoreFiles, newest: int | None) -> int:
    """Store time of the record at ``newest``, or of the last one before the walk."""
    if newest is not None:
        return _record_store_ms(store.log, newest) or 0
    return 0 if store.checkpoint.durable_py is None else store.checkpoint.physic_msg_timestamp


# -- where to begin ---------------------------------------------------------------------------


def _scan_start(store: StoreFiles) -> tuple[int, int]:
    """Start of the walk, and the position from which records may be missing in queues."""
    log = store.log
    if store.last_exit_ok:
        newest = _newest_unit(store.queues)
        if newest is None:
            return log.min_offset, log.min_offset
        phy_offset, size = newest
        found = log.check_at(phy_offset, check_crc=False)
        if found is not None and found.kind is CheckKind.RECORD and found.size == size:
            return phy_offset, phy_offset + size
        latest, before_ms = phy_offset, FOREVER_MS
    else:
        durable_py = store.checkpoint.durable_py
        if durable_py is not None and _is_record_end(store, durable_py):
            return durable_py, durable_py
        latest, before_ms = log.max_offset, store.checkpoint.min_timestamp
    for segment in reversed(log.segments):
        store_ms = _record_store_ms(log, segment.start)
        if segment.start <= latest and store_ms is not None and 0 < store_ms <= before_ms:
            return segment.start, segment.start
    return log.min_offset, log.min_offset


def _is_record_end(store: StoreFiles, phy_offset: int) -> bool:
    """Whether a queue holds the record that ends at a position of the log.

    Not so when queues, or the log, are not those that the checkpoint was written with: somebody has
    removed the queues to have them made again, or put other files in their place.
    """
    if not store.log.min_offset < phy_offset <= store.log.max_offset:
        return False
    for queue in store.queues:
        after = queue.find_phy_offset(phy_offset, queue.min_offset, queue.max_offset)
        if after > queue.min_offset:
            unit_phy, size, _ = queue.units(after - 1, 1)[0].tolist()
            if unit_phy + size == phy_offset:
                found = store.log.check_at(unit_phy, check_crc=False)
                is_there = found is not None and found.size == size
                # Damaged it cannot say that it is the one; its seal says that it was.
                return is_there or not store.log.old.compare(unit_phy, phy_offset)
    return False


def _newest_unit(queues: ConsumeQueueTable) -> tuple[int, int] | None:
    """Position and size of the newest record that a queue holds."""
    newest = max(queues, key=lambda queue: queue.max_physic_offset, default=None)
    if newest is None or newest.max_physic_offset < 0:
        return None
    phy_offset, size, _ = newest.units(newest.max_offset - 1, 1)[0].tolist()
    return phy_offset, size


def _record_store_ms(log: CommitLog, phy_offset: int) -> int | None:
    """Store time of the record at a position, None when none stands there."""
    found = log.check_at(phy_offset, check_crc=False)
    if found is None or found.kind is not CheckKind.RECORD:
        return None
    return store_ms_of(log.read(phy_offset, min(found.size, STORE_MS_END)))


# -- whether the end can be the end -----------------------------------------------------------


def _check_end(store: StoreFiles, scan: LogScan, *, found_any: bool) -> None:
    """Raise if where the walk ended cannot be the end of the log."""
    log, end = store.log, scan.end
    segment = log.segment_at(end)
    path, at = (log.directory, end) if segment is None else (segment.file.path, end - segment.start)
    if segment is not None and not found_any and end == log.min_offset:
        magic = int.from_bytes(segment.file.read(at + 4, 4), signed=True)
        if magic not in (0, MAGIC_V1, MAGIC_V2):
            raise StoreFormatError(path, at, "a commit log record", scan.reason)
    if end < store.register.log_end:
        expected = f"records up to {store.register.log_end}, where the log ended before"
        raise StoreFormatError(path, at, expected, scan.reason)
    durable_py = store.checkpoint.durable_py
    if durable_py is not None and end < durable_py and not log.old.compare(end, durable_py):
        expected = f"records up to {durable_py}, which were durable"
        raise StoreFormatError(path, at, expected, scan.reason)
    durable_ms = FOREVER_MS if store.last_exit_ok else store.checkpoint.physic_msg_timestamp
    for beyond in _records_beyond(store, end):
        store_ms = _record_store_ms(log, beyond)
        if store_ms is not None and store_ms < durable_ms:
            expected = f"a record, for what stands at {beyond} was durable"
            raise StoreFormatError(path, at, expected, scan.reason)


def _records_beyond(store: StoreFiles, end: int) -> Iterator[int]:
    """Positions behind the end where records may stand: segments' starts and what queues say."""
    for segment in store.log.segments:
        if segment.start > end:
            yield segment.start
    for queue in store.queues:
        if queue.max_physic_offset > end:
            first = queue.find_phy_offset(end, queue.min_offset, queue.max_offset)
            while len(units := queue.units(first, SCAN_COUNT)):
                # A power cut may have left zeros among the units that follow.
                yield from units["phy_offset"][units["phy_offset"] >= end].tolist()
                first += len(units)


def _drop_false_units(store: StoreFiles, queue: ConsumeQueue) -> None:
    """Remove newest units that point to no record of the queue.

    RocketMQ leaves units behind the end of a queue that it cuts, and takes them for good the next
    time that it opens the store.
    """
    while queue.min_offset < queue.max_offset and not queue.topic.startswith(LMQ_PREFIX):
        if not ends_falsely(store, queue):
            return
        queue.cut(int(queue.units(queue.max_offset - 1, 1)[0]["phy_offset"]))


def _missing_queues(store: StoreFiles) -> dict[QueueKey, int]:
    """Queues that hold less than they did at the last clean stop, each with its end then."""
    missing: dict[QueueKey, int] = {}
    for topic, queue_id, max_offset in store.register.queues():
        queue = store.queues.get(topic, queue_id)
        if queue is None or queue.max_offset < max_offset:
            missing[topic, queue_id] = max_offset
    return missing


def _is_zero(log: CommitLog, phy_offset: int) -> bool:
    """Whether nothing was ever written at a position."""
    segment = log.segment_at(phy_offset)
    return segment is None or not any(segment.file.read(phy_offset - segment.start, BLANK_SIZE))
