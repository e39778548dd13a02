"""Recovery of the timer service: from what the files say to where the stages begin.

What a checkpoint promises: units before ``last_timer_log_flush_pos`` are durable and the wheel file
shows them; entries of the timer topic below ``last_timer_queue_offset`` have such units; slots
before ``last_read_time_ms`` have reached their topics, and those records are durable; whatever was
delivered of later slots stands at or after ``scan_py``. What is newer than the checkpoint stands in
the two logs, and recovery reads their tails. So a kill repeats nothing and a power cut forgets
nothing.

Three observations decide, each with few values; every combination has exactly one row in
``DECISIONS``:

- the checkpoint: ours, Java's (no ``scan_py``), Java's of a store whose RocksDB timers were on, or
  absent;
- the timer log: reaches the flushed position, or ends short of it (units that were durable are
  gone, or were cut off: damaged, or the ring has no place for them);
- the wheel: fits the log, or is doubtful (missing, of another precision, with snapshots beside it,
  or with a slot whose first or last unit is not a unit of that slot).

A reading from the start finds the oldest records cleaned, and so does one from the checkpoint that
was written before such a reading was through. What our cleaning removed was done with, for it asks
what a recovery would need, and notes how far it came (``Pins.released_to``): units and entries
below that are left out. What is missing beyond it was taken by RocketMQ, which cleans by age, or
was lost with a file: it is quarantined by name.

Nothing is skipped because time has passed: reading resumes at ``last_read_time_ms`` however long
ago that was, and the wheel's live slots from there on are read in order. (RocketMQ jumps to seven
days ago.)

Source: Java ``TimerMessageStore.recover``, which replays the last segments of the timer log alone:
a wheel that is lost, or slots that point past the end of the log, stay so.
"""

from __future__ import annotations

import enum

import attrs
import numpy as np
import structlog

from timermq.timerlog import MAGIC_DELETE, numbers_in_slot, slot_times
from timermq.timerlog.timer_checkpoint import CHECKPOINT_PATH, EXTENSION, EXTENSION_AT
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.log_record import STORE_MS_END, store_ms_of
from timermq.timerstore.message_store import MessageStore

from ..records.deduplication import AlreadyDone, contains, enqueued_from
from ..records.timeline import Timeline
from ..records.timer_record import TIMER_TOPIC
from ..state.timer_options import TimerOptions
from .done_reading import DoneReading
from .link_check import LinkCheck, slots_fit, slots_show_all
from .timer_files import TimerFiles
from .timer_log_repair import cut_bodiless, cut_damaged, cut_false, cut_headless, cut_torn_move

log = structlog.get_logger("timermq.pipeline.recovery.timer_recovery")


class CheckpointState(enum.Enum):
    """The owner of the checkpoint ``config/timercheck``: timermq, Java, or none."""

    OURS = "ours"
    JAVA = "java"
    TIMELINE = "java, RocksDB timers"
    """Java's, which passes over entries that wait in RocksDB alone."""
    ABSENT = "absent"


class Resume(enum.Enum):
    """The start of a reading of a log."""

    CHECKPOINT = "at the checkpoint's position"
    BY_TIME = "at the segment that holds the read time"
    START = "at the start of the log"


@attrs.frozen
class Decision:
    """The steps of recovery in one situation."""

    label: str
    rebuild_wheel: bool
    """True: link all units of the timer log again. False: only those after the flushed position."""
    scan: Resume
    """From where the commit log is read for what was delivered already."""
    queue: Resume
    """From which entry of the timer topic on enqueueing begins."""


DECISIONS: dict[tuple[CheckpointState, bool, bool], Decision] = {
    # (checkpoint, log reaches the flushed position, wheel fits)
    # The ordinary restart: only tails are read.
    (CheckpointState.OURS, True, True): Decision(
        "ours", rebuild_wheel=False, scan=Resume.CHECKPOINT, queue=Resume.CHECKPOINT
    ),
    # The log has all units, so the wheel is a matter of reading them.
    (CheckpointState.OURS, True, False): Decision(
        "ours, wheel lost", rebuild_wheel=True, scan=Resume.CHECKPOINT, queue=Resume.CHECKPOINT
    ),
    # Durable units are gone. Their messages are still in the timer topic, at entries unknown: all
    # of them are looked at again, and whatever has a unit or was delivered at any time is left out.
    (CheckpointState.OURS, False, True): Decision(
        "ours, log short", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    (CheckpointState.OURS, False, False): Decision(
        "ours, log short, wheel lost", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    # Java says when it had read, not where the deliveries since then stand: its store times tell.
    (CheckpointState.JAVA, True, True): Decision(
        "java", rebuild_wheel=False, scan=Resume.BY_TIME, queue=Resume.CHECKPOINT
    ),
    (CheckpointState.JAVA, True, False): Decision(
        "java, wheel lost", rebuild_wheel=True, scan=Resume.BY_TIME, queue=Resume.CHECKPOINT
    ),
    (CheckpointState.JAVA, False, True): Decision(
        "java, log short", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    (CheckpointState.JAVA, False, False): Decision(
        "java, log short, wheel lost", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    # Entries before the checkpoint's may have no units: RocksDB timers took them.
    (CheckpointState.TIMELINE, True, True): Decision(
        "java, RocksDB timers", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    (CheckpointState.TIMELINE, True, False): Decision(
        "java, RocksDB timers, wheel lost",
        rebuild_wheel=True,
        scan=Resume.START,
        queue=Resume.START,
    ),
    (CheckpointState.TIMELINE, False, True): Decision(
        "java, RocksDB timers, log short",
        rebuild_wheel=True,
        scan=Resume.START,
        queue=Resume.START,
    ),
    (CheckpointState.TIMELINE, False, False): Decision(
        "java, RocksDB timers, log short, wheel lost",
        rebuild_wheel=True,
        scan=Resume.START,
        queue=Resume.START,
    ),
    # Without a checkpoint nothing is known to be done but what the logs show.
    (CheckpointState.ABSENT, True, True): Decision(
        "no checkpoint", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    (CheckpointState.ABSENT, True, False): Decision(
        "no checkpoint, wheel lost", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    (CheckpointState.ABSENT, False, True): Decision(
        "no checkpoint, log short", rebuild_wheel=True, scan=Resume.START, queue=Resume.START
    ),
    (CheckpointState.ABSENT, False, False): Decision(
        "no checkpoint, log short, wheel lost",
        rebuild_wheel=True,
        scan=Resume.START,
        queue=Resume.START,
    ),
}


@attrs.frozen(kw_only=True)
class Recovered:
    """The result of recovery: the stages' positions, and the timers that are done already."""

    decision: Decision
    read_ms: int
    queue_offset: int
    scan_py: int
    already_done: AlreadyDone


def recover(
    files: TimerFiles,
    store: MessageStore,
    options: TimerOptions,
    now_ms: int,
    *,
    runs: bool = False,
    ahead: DoneReading | None = None,
) -> Recovered:
    """Bring wheel and timer log in line with the commit log, and say where to go on.

    Runs before the stages, after the store's own recovery; read only it repairs memory alone.

    Args:
        files: Open; in a service that runs, no stage may.
        store: Opened and recovered.
        options: See ``TimerOptions``.
        now_ms: The wall clock.
        runs: The service has run since the files were opened. Its pending messages are counted by
            topic again; the seals of the timer log were compared at the start, and by the scrub.
        ahead: What was read of the commit log already; None: nothing.

    Raises:
        StoreFormatError: Timers wait that were made with another precision; nothing is lost.
        OSError: The disk failed.
    """
    checkpoint = files.checkpoint
    flush_pos = checkpoint.last_timer_log_flush_pos
    state = _checkpoint_state(files)
    tail_start = _tail_start(files, state, flush_pos)
    if state is not CheckpointState.OURS:
        files.timer_log.forget_seals()
    elif not (files.read_only or runs):
        files.timer_log.repair()  # Tools tell what the files hold, damage and all.
    files.timer_log.recover(tail_start)
    files.timer_log.cut_unsound_tail(flush_pos)
    cut_bodiless(files.timer_log, store.commit_log, tail_start)
    if state is CheckpointState.OURS and not store.recovery.last_exit_ok:
        cut_false(files.timer_log, store.commit_log, tail_start, checkpoint.last_read_time_ms)
    cut_torn_move(files.timer_log, store, tail_start)
    read_ms = checkpoint.last_read_time_ms
    if state is CheckpointState.ABSENT:
        read_ms = _first_slot_ms(files, now_ms, options.timer_precision_ms)
    if not _same_precision(files, options):
        _check_nothing_waits(files, store, options, read_ms)
    files.wheel.load_live(read_ms)
    is_ours = not files.wheel.was_lost and _same_precision(files, options)
    is_ours &= state is CheckpointState.OURS or not files.engines.snapshots
    live = files.wheel.live(read_ms)
    fits = is_ours and slots_fit(files.timer_log, live)
    if fits and state is not CheckpointState.ABSENT:
        fits = slots_show_all(
            files.timer_log,
            live,
            read_ms,
            tail_start,
            precision_ms=options.timer_precision_ms,
            ring_count=files.wheel.ring_count,
        )
    if state is CheckpointState.OURS:
        cut_headless(files.timer_log, live)
    is_whole = files.timer_log.max_pos >= flush_pos
    is_whole &= not files.timer_log.cut_unsound()
    if not (fits and store.recovery.last_exit_ok):
        is_whole &= not cut_damaged(files.timer_log, _link_check(files, options, read_ms))
    decision = DECISIONS[state, is_whole, fits]
    while not _relink(files, decision, read_ms, tail_start):
        # What the ring has no place for was cut off, so the log is short by now.
        decision = DECISIONS[state, False, fits]
    files.remove_snapshots()
    queue_offset = _queue_start(decision.queue, files, store)
    queue_py = _position_of_entry(store, queue_offset)
    scan_py = min(_scan_start(decision.scan, files, store, read_ms), queue_py)
    if files.timer_log.max_pos < flush_pos:
        files.promise_less(read_ms, queue_offset, scan_py, options.timer_precision_ms)
    timeline = Timeline() if may_have_timeline(files, state) else None
    reading = ahead if ahead is not None and timeline is None and ahead.covers(scan_py) else None
    reading = reading or DoneReading(store, scan_py, timeline)
    reading.read()
    done = reading.done(0 if state is CheckpointState.OURS else read_ms, queue_py)
    # From a checkpoint on too: slots whose messages were cleaned may be unread by what it says.
    done.cleaned_to = min(store.pins.released_to, store.commit_log.min_offset)
    if queue_py < store.commit_log.max_offset:
        done.enqueued = enqueued_from(files.timer_log, queue_py)
    if timeline is not None and (timeline.is_used or files.engines.has_timeline):
        overwrites = files.engines.has_timeline and state is not CheckpointState.OURS
        found = timeline.done(done.enqueued, overwrites=overwrites)
        done.origins = np.union1d(done.origins, found)
    # By the newest store time too: the clock may have been set back since the last delivery.
    latest_ms = max(now_ms, store.last_store_ms)
    latest_ms -= latest_ms % options.timer_precision_ms
    done.until_slot_ms = max(latest_ms, read_ms, done.last_foreign_slot_ms())
    if files.timer_log.max_pos == files.timer_log.min_pos and not (done.foreign or done.doubts):
        done.until_slot_ms = read_ms - 1  # no unit is left: what is done is not enqueued
    timer_queue = store.queue(TIMER_TOPIC, 0)
    done.until_queue_offset = timer_queue.max_offset if timer_queue is not None else 0
    done.is_recounted = (
        runs or not store.recovery.last_exit_ok or decision.rebuild_wheel or len(done.origins) > 0
    )
    if done.is_recounted:
        done.until_slot_ms = max(done.until_slot_ms, _recount(files, store, read_ms, done))
    log.info(
        "timer recovered",
        decision=decision.label,
        read_ms=read_ms,
        queue_offset=queue_offset,
        scan_py=scan_py,
        timer_log_end=files.timer_log.max_pos,
        delivered=len(done.origins) + len(done.foreign),
    )
    return Recovered(
        decision=decision,
        read_ms=read_ms,
        queue_offset=queue_offset,
        scan_py=scan_py,
        already_done=done,
    )


def _checkpoint_state(files: TimerFiles) -> CheckpointState:
    if files.checkpoint.extension is not None:
        return CheckpointState.OURS
    if files.checkpoint.last_read_time_ms > 0:
        has_timeline = files.engines.has_timeline
        return CheckpointState.TIMELINE if has_timeline else CheckpointState.JAVA
    return CheckpointState.ABSENT


def may_have_timeline(files: TimerFiles, state: CheckpointState) -> bool:
    """Whether the stretch of the commit log that is read may have traces of RocksDB timers.

    With a checkpoint of ours it may if the store was taken over with the sign of such timers: a
    crash of ours may come before all is read. With one of Java's it may even without the sign:
    RocketMQ leaves none if it is killed soon after its first start with RocksDB timers.
    """
    return files.engines.has_timeline or state is not CheckpointState.OURS


def _same_precision(files: TimerFiles, options: TimerOptions) -> bool:
    extension = files.checkpoint.extension
    return extension is None or extension.precision_ms == options.timer_precision_ms


def _check_nothing_waits(
    files: TimerFiles, store: MessageStore, options: TimerOptions, read_ms: int
) -> None:
    """Refuse to change the precision while units or records name slots of the old one.

    Read with another precision a chain would be broken, and a moment would not fit its slot: the
    message would be quarantined.

    Raises:
        StoreFormatError: Something waits.
    """
    timer_log, extension = files.timer_log, files.checkpoint.extension
    queue = store.queue(TIMER_TOPIC, 0)
    is_queued = queue is not None and files.checkpoint.last_timer_queue_offset < queue.max_offset
    scanned = timer_log.scan(timer_log.min_pos)
    if is_queued or any((slot_times(units) >= read_ms).any() for _, units in scanned):
        raise StoreFormatError(
            f"{store.root}/{CHECKPOINT_PATH}",
            EXTENSION_AT + EXTENSION.offset_of("precision_ms"),
            f"timer_precision_ms {extension.precision_ms if extension else 0} until no timer waits",
            f"{options.timer_precision_ms}",
        )


def _tail_start(files: TimerFiles, state: CheckpointState, flush_pos: int) -> int:
    """From where on units may not be in the wheel file: the flushed position.

    Java's wheel may lag behind it by its last second; RocketMQ goes a whole segment back for that.
    """
    timer_log = files.timer_log
    if state is CheckpointState.OURS:
        return max(timer_log.min_pos, flush_pos)
    return max(timer_log.min_pos, timer_log.segment_start(flush_pos - timer_log.segment_size))


def _link_check(files: TimerFiles, options: TimerOptions, read_ms: int) -> LinkCheck:
    return LinkCheck(
        files.timer_log,
        read_ms,
        precision_ms=options.timer_precision_ms,
        ring_count=files.wheel.ring_count,
    )


def _first_slot_ms(files: TimerFiles, now_ms: int, precision_ms: int) -> int:
    """The earliest slot that any unit names; the present when there is none."""
    earliest = now_ms // precision_ms * precision_ms
    for _, units in files.timer_log.scan(files.timer_log.min_pos):
        earliest = min(earliest, int(slot_times(units).min()))
    return earliest


def _scan_start(resume: Resume, files: TimerFiles, store: MessageStore, read_ms: int) -> int:
    commit_log = store.commit_log
    extension = files.checkpoint.extension
    if resume is Resume.CHECKPOINT and extension is not None:
        return max(extension.scan_py, commit_log.min_offset)
    if resume is Resume.BY_TIME:
        return segment_stored_before(store, read_ms)
    return commit_log.min_offset


def _queue_start(resume: Resume, files: TimerFiles, store: MessageStore) -> int:
    queue = store.queue(TIMER_TOPIC, 0)
    if queue is None:
        return 0
    wanted = 0 if resume is Resume.START else files.checkpoint.last_timer_queue_offset
    return min(max(wanted, queue.min_offset), queue.max_offset)


def _position_of_entry(store: MessageStore, queue_offset: int) -> int:
    """Position of the record of an entry of the timer topic; the log's end when there is none."""
    queue = store.queue(TIMER_TOPIC, 0)
    units = None if queue is None else queue.units(queue_offset, 1)
    if units is None or not len(units):
        return store.commit_log.max_offset
    return int(units["phy_offset"][0])


def segment_stored_before(store: MessageStore, time_ms: int) -> int:
    """Start of the newest segment that begins with a record stored at or before ``time_ms``."""
    for segment in reversed(store.commit_log.segments):
        head = store.commit_log.read(segment.start, STORE_MS_END)
        if len(head) == STORE_MS_END and store_ms_of(head) <= time_ms:
            return segment.start
    return store.commit_log.min_offset


def _relink(files: TimerFiles, decision: Decision, read_ms: int, tail_start: int) -> bool:
    """Link the units that the wheel does not show; False when the ring has no place for one.

    Then the log is cut at that unit, and the wheel has to be rebuilt: its messages are enqueued
    again as soon as there is room. A ring has no place when reading resumes more than a turn before
    the newest timers: after a long outage, without a checkpoint, or with a smaller wheel. Cut off
    rather than passed over, because a unit that stays would be linked by a later recovery as well.
    """
    timer_log, wheel = files.timer_log, files.wheel
    if decision.rebuild_wheel:
        wheel.reset(read_ms)
        wheel.remove_file()
    for positions, units in timer_log.scan(
        timer_log.min_pos if decision.rebuild_wheel else tail_start
    ):
        targets = slot_times(units)
        wanted = targets >= read_ms
        nums = numbers_in_slot(units["magic"])
        linked = wheel.relink(targets[wanted], positions[wanted], nums[wanted])
        if not linked.all():
            timer_log.cut(int(positions[wanted][linked.argmin()]))
            return False
    return True


def _recount(files: TimerFiles, store: MessageStore, read_ms: int, done: AlreadyDone) -> int:
    """Count the pending messages by topic again: units have its hash, queues its name.

    Returns:
        The last slot with a unit of a done message that was linked late, not in the slot asked for:
        with the clock ahead, it lies ahead of all that is stored. Or of one that was rolled by a
        master, which had it in an earlier slot. 0 without any.
    """
    counts: dict[int, int] = {}
    last_done_ms = 0
    for _, units in files.timer_log.scan(files.timer_log.min_pos):
        slots = slot_times(units)
        is_done = done.dequeue_repeats(units["offset_py"].astype(np.int64))
        is_late = is_done & (units["reserved"] == 0)
        is_late |= contains(done.ended, units["offset_py"].astype(np.int64))
        last_done_ms = max(last_done_ms, int(slots[is_late].max(initial=0)))
        waits = (slots >= read_ms) & ((units["magic"] & MAGIC_DELETE) == 0) & ~is_done
        hashes, numbers = np.unique(units["topic_hash"][waits], return_counts=True)
        for topic_hash, number in zip(hashes.tolist(), numbers.tolist(), strict=True):
            counts[topic_hash] = counts.get(topic_hash, 0) + number
    names = {queue.topic for queue in store.queues()} | set(files.metrics.counts())
    by_hash = {java_hash(name): name for name in names}
    files.metrics.replace(
        {by_hash[one]: number for one, number in counts.items() if one in by_hash}
    )
    return last_done_ms
