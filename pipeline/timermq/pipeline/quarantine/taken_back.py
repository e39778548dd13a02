"""Whether a message that is to be set aside was cancelled or moved before.

What is taken back while it rolls goes on rolling: its delete waits in its last slot. A copy of it
that cannot be delivered on the way would come to the quarantine, and a retry would bring it to life
again. So what is taken back is left out instead. Two things tell that it is: a delete with its
unique key that names it, and, of a record that is damaged, its kin (``record_kin``).
"""

from __future__ import annotations

from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record import record_properties

from ..records.cancel_verdict import CancelError
from ..records.key_records import KeyRecords
from ..records.left_out import name_in_delete, names_of
from ..records.record_kin import RecordKin
from ..records.timer_properties import DELETE_NAME, ORDER_NAME
from ..records.timer_record import TIMER_TOPIC, TimerRecordError
from ..records.torn_move import is_torn_move
from ..records.undeliverable import Undeliverable
from .retried_message import check_intact


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
    if is_named(store, fault.record, fault.offset_py, fault.size_py, is_sound=fault.is_sound):
        return True
    if fault.is_sound:
        return False
    kin = RecordKin(store, precision_ms, fault.offset_py, fault.size_py)
    return kin.is_taken_back(fault.offset_py if fault.order_py is None else fault.order_py)


def is_named(
    store: MessageStore, record: bytes, offset_py: int, size_py: int, *, is_sound: bool
) -> bool:
    """Whether a delete names a message; False where its record cannot tell how it would.

    The key of a record that is not sound may be damaged, and be that of another message: it counts
    if the index has the record by it.

    Args:
        store: Opened and recovered.
        record: Of the timer topic, as far as it can be read.
        offset_py: Where it stands, or stood before the log let go of it.
        size_py: Bytes that it should have.
        is_sound: It is as it was written.
    """
    if not store.options.message_index_enable:
        return False
    try:
        check_intact(record, offset_py, size_py)
    except TimerRecordError:
        return False
    properties = record_properties(record)
    unique_key = find(properties, UNIQ_KEY_NAME)
    if unique_key is None or find(properties, DELETE_NAME) is not None:
        return False
    order_py = number_in(find(properties, ORDER_NAME))
    names = names_of(record, offset_py if order_py is None else order_py)
    key = unique_key.decode("utf-8", "replace")
    is_its_key = is_sound or offset_py < store.commit_log.min_offset
    is_deleted = False
    try:
        for phy_offset, other in KeyRecords(store).newest_first(
            TIMER_TOPIC, key, is_unique_key=True
        ):
            is_its_key |= phy_offset == offset_py
            is_deleted |= _names_one_of(store, other, names)
            if is_its_key and is_deleted:
                return True
    except CancelError:
        pass  # There are more than may be looked at.
    return False


def _names_one_of(store: MessageStore, record: bytes, names: set[bytes]) -> bool:
    is_delete = find(record_properties(record), DELETE_NAME) is not None
    return is_delete and name_in_delete(record) in names and not is_torn_move(store, record)
