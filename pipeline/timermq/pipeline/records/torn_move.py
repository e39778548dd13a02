"""Torn moves: a delete that makes way for a message which is not there.

A move is stored at once, the delete first and behind it the message with its new moment. A power
cut may keep the first alone, whole, while the log ends where the message should stand. Nothing was
answered for it, so nothing has happened: the delete counts as nothing, wherever it is met. The
other way round, without a sector of the delete, the log ends at the delete, and both are gone.
"""

from __future__ import annotations

from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import find
from timermq.timerstore.record import RecordError, record_properties
from timermq.timerstore.record_layout import QUEUE_OFFSET_AT

from .deduplication import origin_in
from .record_effect import Effect, effect_of_entry
from .timer_properties import DELETE_FOR_NAME, ROLL_TIMES_NAME
from .timer_record import TIMER_TOPIC


def makes_way_for(properties: bytes) -> int | None:
    """Position of the record whose place the entry behind this one takes; None if it takes none.

    A delete that has rolled stands alone: when it was enqueued the first time it was whole.
    """
    target_py = number_in(find(properties, DELETE_FOR_NAME))
    return target_py if find(properties, ROLL_TIMES_NAME) is None else None


def takes_the_place(record: bytes, target_py: int | None) -> bool:
    """Whether a record of the timer topic is a message that was moved from a position."""
    if target_py is None or origin_in(record) != target_py:
        return False
    return effect_of_entry(record_properties(record)) is Effect.MOVED


def is_torn_move(store: MessageStore, record: bytes) -> bool:
    """Whether a record of the timer topic is a delete whose message is missing behind it.

    Args:
        store: Opened and recovered.
        record: A whole one.
    """
    try:
        target_py = makes_way_for(record_properties(record))
        if target_py is None:
            return False
        entry = int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8])
        queue = store.queue(TIMER_TOPIC, 0)
        behind: list[tuple[int, int, int]] = []
        if queue is not None:
            behind = queue.units(entry + 1, 1).tolist()
        if not behind:
            return True
        # As it stands: a message that was damaged later is quarantined, and its move holds.
        phy_offset, size, _ = behind[0]
        moved = store.commit_log.read(phy_offset, size)
        return len(moved) < size or not takes_the_place(moved, target_py)
    except RecordError:
        return False
