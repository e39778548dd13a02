"""The repair of the timer log by recovery: a cut, so that it holds only units to be relied on.

A cut costs no message: whatever stood behind it is enqueued again from the timer topic. A unit that
is left out but stays in the log would be linked by a later recovery, and its message come twice.
"""

from __future__ import annotations

import numpy as np
import structlog

from timermq.timerlog import MAGIC_DELETE, NO_POS, UNIT, TimerLog, slot_times
from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record_check import CheckKind
from timermq.wheel import Slots

from ..records.torn_move import is_torn_move
from .link_check import LinkCheck

log = structlog.get_logger("timermq.pipeline.recovery.timer_log_repair")


def cut_bodiless(timer_log: TimerLog, commit_log: CommitLog, start: int) -> None:
    """Cut off units from ``start`` on whose messages a crash took from the commit log.

    Positions grow along the timer log, so they are its tail. Left alone they would name whatever
    message stands at that position next (issues #10668, #10741). The newest unit may besides be cut
    short itself, in the middle of a number: it has to name a record by its very size.
    """
    last_pos, phy_offset, size = NO_POS, 0, 0
    for positions, units in timer_log.scan(start):
        offsets, sizes = units["offset_py"].astype(np.int64), units["size_py"]
        beyond = np.flatnonzero(offsets + sizes > commit_log.max_offset)
        if len(beyond):
            timer_log.cut(int(positions[beyond[0]]))
            return
        last_pos, phy_offset, size = int(positions[-1]), int(offsets[-1]), int(sizes[-1])
    if last_pos != NO_POS and phy_offset >= commit_log.min_offset:
        found = commit_log.check_at(phy_offset, check_crc=False)
        if found is not None and found.kind is CheckKind.RECORD and found.size != size:
            timer_log.cut(last_pos)


def cut_false(timer_log: TimerLog, commit_log: CommitLog, start: int, read_ms: int) -> None:
    """Cut off units from ``start`` on that cannot be true: no seals tell of the newest.

    Nothing is linked in a slot that is read already, so one before ``read_ms`` is damaged: its
    message would count as delivered. Nor is a unit true that names what is no record.

    Behind a power cut the log ends before a hole. A repair keeps what stands behind it, and puts
    other records into the hole; one that ends before it has come to the timer log leaves units of
    what stood there. What is damaged instead is named rightly: its message is quarantined.
    """
    for positions, units in timer_log.scan(start):
        are_past = slot_times(units) < read_ms
        offsets, sizes = units["offset_py"].astype(np.int64), units["size_py"].astype(np.int64)
        names = zip(offsets.tolist(), sizes.tolist(), strict=True)
        for index, (phy_offset, size) in enumerate(names):
            if are_past[index] or not _names_record(commit_log, phy_offset, size):
                timer_log.cut(int(positions[index]))
                log.warning("a unit is false", pos=int(positions[index]), phy_offset=phy_offset)
                return


def _names_record(commit_log: CommitLog, phy_offset: int, size: int) -> bool:
    """Whether a record stands there, or did before it was cleaned or damaged."""
    if phy_offset < commit_log.min_offset:
        return True
    found = commit_log.check_at(phy_offset, check_crc=False)
    is_named = found is not None and (found.kind, found.size) == (CheckKind.RECORD, size)
    return is_named or not commit_log.old.compare(phy_offset, phy_offset + size)


def cut_headless(timer_log: TimerLog, live: Slots) -> None:
    """Cut all of the log if units stood before it that are still to be read: they were lost.

    Cleaning leaves what is still to be read.
    """
    if (live["first_pos"] < timer_log.min_pos).any():
        log.warning("timer log has lost its beginning", min_pos=timer_log.min_pos)
        timer_log.cut(timer_log.min_pos)


def cut_torn_move(timer_log: TimerLog, store: MessageStore, start: int) -> None:
    """Cut off the unit of a delete whose message a power cut took: it would take effect.

    It was enqueued before the cut, together with its message. Enqueued again it counts as nothing.
    """
    for positions, units in timer_log.scan(start):
        for index in np.flatnonzero(units["magic"] & MAGIC_DELETE).tolist():
            phy_offset, size = int(units["offset_py"][index]), int(units["size_py"][index])
            record = store.commit_log.record_at(phy_offset, size)
            if record is not None and is_torn_move(store, record):
                timer_log.cut(int(positions[index]))
                log.warning("a move was cut off by a power cut", phy_offset=phy_offset)
                return


def cut_damaged(timer_log: TimerLog, links: LinkCheck) -> bool:
    """Cut the timer log where a unit is missing or a waiting chain breaks; whether it was cut.

    What stood behind is enqueued again, the missing unit's message with it. Only looked for when
    something went wrong, since it reads the whole log: a stage that meets a broken chain stops the
    service, and this start repairs it. Found at the start rather than when the slot is due, damage
    makes no message late.
    """
    for first, entries, valid in timer_log.entries(timer_log.min_pos):
        unit_count = len(entries) if valid.all() else int(valid.argmin())
        good_count = links.good_count(first, entries[:unit_count])
        if good_count < len(entries):
            timer_log.cut(first + good_count * UNIT.size)
            log.warning("timer log damaged", pos=timer_log.max_pos)
            return True
    return False
