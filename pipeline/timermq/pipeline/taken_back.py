"""Whether a message that is to be set aside was cancelled or moved before.

What is taken back while it rolls goes on rolling: its delete waits in its last slot. A copy of it
that cannot be read on the way would come to the quarantine, and a retry would bring it to life
again. So what a delete in the log names by its order is left out instead.
"""

from __future__ import annotations

from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import RecordError, record_properties

from .cancel_verdict import CancelError
from .key_records import KeyRecords
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


def is_taken_back(store: MessageStore, fault: Undeliverable) -> bool:
    """Whether a delete names the message; False where its record cannot tell, or there is no index.

    A record that is not intact cannot be tried again either.
    """
    if not store.options.message_index_enable:
        return False
    try:
        check_intact(fault.record, fault.offset_py, fault.size_py)
        properties = record_properties(fault.record)
    except (TimerRecordError, RecordError):
        return False
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
