"""Whether a message that is to be set aside was cancelled or moved before.

What is taken back while it rolls goes on rolling: its delete waits in its last slot. A copy of it
that cannot be delivered on the way would come to the quarantine, and a retry would bring it to life
again. So what is taken back is left out instead. Two things tell that it is: a delete with its
unique key that names its order, and, of a record that is damaged, its kin (``record_kin``).
"""

from __future__ import annotations

from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import record_properties

from .cancel_verdict import CancelError
from .key_records import KeyRecords
from .record_kin import RecordKin
from .retried_message import check_intact
from .timer_record import (
    DELETE,
    DELETE_ORDER,
    ORDER,
    TIMER_TOPIC,
    TimerRecordError,
)
from .torn_move import is_torn_move
from .undeliverable import Undeliverable


def is_taken_back(store: MessageStore, fault: Undeliverable, precision_ms: int) -> bool:
    """Whether a delete, or the message that it makes way for, takes the place of a message.

    False where nothing can tell, or there is no index.

    Args:
        store: Opened and recovered.
        fault: The message.
        precision_ms: Width of a slot.
    """
    if fault.is_delete or not store.options.message_index_enable:
        return False
    if _is_named(store, fault):
        return True
    if fault.is_sound:
        return False
    kin = RecordKin(store, precision_ms, fault.offset_py, fault.size_py)
    return kin.is_taken_back(fault.offset_py if fault.order_py is None else fault.order_py)


def _is_named(store: MessageStore, fault: Undeliverable) -> bool:
    """Whether a delete names it; False where its record cannot tell what it would be named by."""
    try:
        check_intact(fault.record, fault.offset_py, fault.size_py)
    except TimerRecordError:
        return False
    properties = record_properties(fault.record)
    unique_key = find(properties, b"UNIQ_KEY")
    if unique_key is None or find(properties, DELETE[:-1]) is not None:
        return False
    name = find(properties, ORDER[:-1]) or b"%d" % fault.offset_py
    key = unique_key.decode("utf-8", "replace")
    records = KeyRecords(store).newest_first(TIMER_TOPIC, key, is_unique_key=True)
    try:
        return any(
            find(record_properties(record), DELETE_ORDER[:-1]) == name
            and not is_torn_move(store, record)
            for _, record in records
        )
    except CancelError:
        return False  # There are more than may be looked at.
