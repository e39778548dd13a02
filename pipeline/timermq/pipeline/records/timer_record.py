r"""The fields of a record of the timer topic about its message, and how they are written.

A pending message stands in the topic ``rmq_sys_wheel_timer`` with its real destination and its
moment among its properties. Ours end, in this order, with::

    TIMER_DELIVER_MS\x01<13 digits>\x02 REAL_TOPIC\x01<topic>\x02 REAL_QID\x01<queue>\x02
    [TIMER_ROLL_TIMES\x01<n>\x02 TIMER_ORDER\x01<position>\x02] [DELAY\x010\x02]
    [UNIQ_KEY\x01<key of a moved message>\x02 KEYS\x01<its keys>\x02]
    TIMER_OUT_MS\x01<13 digits>\x02

(without the blanks; ``DELAY`` where the message has a level, see ``NO_LEVEL``). Java reads them
like any properties; we find them with two slices, and the delivered record keeps what stands before
``REAL_TOPIC``: the producer's own properties, with the level, and the exact moment. That
``REAL_TOPIC`` is searched from the end is safe because admission refuses the internal names from
outside. What is for RocketMQ and the index alone stands behind it (``moved_key``).

A record that Java wrote has the keys in any order, and no exact moment when the producer asked for
a delay: then it is computed from the store time and kept within the slot, late rather than early.

Source: Java ``TimerMessageStore``, ``HookUtils.transformTimerMessage``.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.moved_key import as_sent, first_key, keys_of_move
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX, number_in
from timermq.timerstore.properties import (
    DELAY_NAME,
    REAL_QID,
    REAL_TOPIC,
    REAL_TOPIC_NAME,
    UNIQ_KEY,
    find,
)
from timermq.timerstore.record import RecordError, record_properties

from .destination import DESTINATION_COUNT_MAX, destination_at, destination_in, shown
from .destination import Destination as Destination
from .destination import known_destination as known_destination
from .destination import learn_destination as learn_destination
from .system_topics import TIMER_TOPIC as TIMER_TOPIC
from .timer_properties import (
    DELAY_UNITS_MS,
    DELETE,
    DELETE_FOR_NAME,
    DELETE_NAME,
    DELETE_ORDER_NAME,
    DELETE_SECOND_NAME,
    DELIVER,
    DELIVER_NAME,
    DEQUEUE_NAME,
    INTERNAL,
    NO_LEVEL,
    ORDER,
    ORDER_NAME,
    OUT,
    OUT_NAME,
    ROLL_TIMES,
    ROLL_TIMES_NAME,
)
from .undeliverable import Reason, check_size
from .undeliverable import TimerRecordError as TimerRecordError

TAIL_SIZE_MAX = 512
"""Bytes kept free in the property text for everything above: a topic of 255 bytes, a roll count."""

MS_DIGITS = 13
"""Digits of a moment in our records."""
OUT_MAX_MS = 10**MS_DIGITS - 60_000
"""The last slot: the moments in it have no more digits, whatever the precision."""
MARKED_REAL_TOPIC = b"\x02" + REAL_TOPIC
"""How a record's destination begins, behind the moment."""
DELIVER_SIZE = len(DELIVER) + MS_DIGITS + 1
"""Bytes of the moment before it."""
OUT_SIZE = len(OUT) + MS_DIGITS + 1
"""Bytes of the slot time at the end."""


# A structure of msgspec's for the reason given at `Message`; it holds a destination, which is no
# container either.
class TimerFacts(msgspec.Struct, frozen=True, gc=False):
    """The fields of one record of the timer topic that the timer service needs."""

    deliver_ms: int
    """The moment asked for, epoch milliseconds."""
    out_ms: int
    """The slot it is due in: ``deliver_ms`` lies in (out, out + precision]."""
    destination: Destination
    order_py: int
    """Position of the message's first record: the order of sending, kept across rolls."""
    rolls: int
    is_delete: bool
    """The record cancels another one."""
    own_end: int = 0
    """Offset of ``REAL_TOPIC`` in a record of ours that was never rolled; 0 for all others."""
    is_second: bool = False
    """It cancels what the delete before it does: see ``DELETE_SECOND_NAME``."""


def timer_tail(
    *,
    deliver_ms: int,
    out_ms: int,
    topic: str,
    queue_id: int,
    rolls: int = 0,
    order_py: int = 0,
    by_level: bool = False,
    moved: bytes = b"",
) -> bytes:
    """The properties that end a timer record; they follow the producer's own.

    Args:
        deliver_ms: The moment asked for, 0 to 9,999,999,999,999.
        out_ms: Its slot time.
        topic: The topic of the message.
        queue_id: Its queue there.
        rolls: How often it was rolled; with 0 neither count nor order is written.
        order_py: Position of its first record.
        by_level: The producer's own properties have a delay level.
        moved: The properties for the key of a moved message.
    """
    if rolls:
        rolled = b"%b%d\x02%b%d\x02" % (ROLL_TIMES, rolls, ORDER, order_py)
        tail = _tail_template(topic, queue_id, rolled) % (deliver_ms, out_ms)
    else:
        tail = _tail_template(topic, queue_id) % (deliver_ms, out_ms)
    if by_level:
        tail = hide_level(tail)
    return tail[:-OUT_SIZE] + moved + tail[-OUT_SIZE:] if moved else tail


def hide_level(tail: bytes) -> bytes:
    """The tail of a message whose own properties have a level, with ``NO_LEVEL``."""
    return tail[:-OUT_SIZE] + NO_LEVEL + tail[-OUT_SIZE:]


@lru_cache(DESTINATION_COUNT_MAX)
def _tail_template(topic: str, queue_id: int, rolled: bytes = b"") -> bytes:
    """A tail with places for the moment and its slot."""
    return b"%b%%013d\x02%b%b\x02%b%d\x02%b%b%%013d\x02" % (
        DELIVER,
        REAL_TOPIC,
        topic.encode().replace(b"%", b"%%"),
        REAL_QID,
        queue_id,
        rolled,
        OUT,
    )


def decode_timer(
    record: bytes, phy_offset: int, precision_ms: int, *, may_delete: bool = True
) -> TimerFacts:
    """Read one record of the timer topic, ours or Java's.

    Args:
        record: The whole record.
        phy_offset: Its position in the commit log.
        precision_ms: Width of a slot; decides what an inexact moment is rounded to.
        may_delete: False when it is known, or does not matter, that it cancels no other record.

    Raises:
        TimerRecordError: A key is missing, is not a number, or moment and slot do not fit.
    """
    # The way of nearly all records, in a fifth of the time: what it is made of stands at the end,
    # in fixed places around a destination that was seen before. Lengths need not be followed,
    # because a known destination is whole, with nothing behind it but the slot time.
    start = record.rfind(MARKED_REAL_TOPIC)
    destination = known_destination(record[start + 1 : -MS_DIGITS - 1])
    if destination is not None and record.startswith(DELIVER, start + 1 - DELIVER_SIZE):
        deliver, out = record[start - MS_DIGITS : start], record[-MS_DIGITS - 1 : -1]
        if deliver.isdigit() and out.isdigit() and not (may_delete and DELETE in record):
            deliver_ms, out_ms = int(deliver), int(out)
            if out_ms < deliver_ms <= out_ms + precision_ms and not out_ms % precision_ms:
                return TimerFacts(deliver_ms, out_ms, destination, phy_offset, 0, False, start + 1)
    return _decode_any(record, phy_offset, precision_ms)


def decode_present(
    record: bytes | None, phy_offset: int, size: int, precision_ms: int
) -> TimerFacts:
    """``decode_timer`` for what was read of so many bytes; None of a record that is gone.

    Raises:
        TimerRecordError: As ``decode_timer``; or the record has not the size that it should have.
    """
    check_size(record, phy_offset, size)
    assert record is not None
    return decode_timer(record, phy_offset, precision_ms)


def _decode_any(record: bytes, phy_offset: int, precision_ms: int) -> TimerFacts:
    """``decode_timer`` for all records; says what is wrong."""
    try:
        properties = record_properties(record)
    except RecordError as error:
        raise TimerRecordError(Reason.DAMAGED, f"timer record at {phy_offset}: {error}") from None
    start = properties.rfind(MARKED_REAL_TOPIC)
    if not _is_ours(properties, start):
        return _decode_foreign(record, properties, phy_offset, precision_ms)
    deliver_ms = _number(properties[start - MS_DIGITS : start], DELIVER_NAME, phy_offset)
    out_ms = _number(properties[-MS_DIGITS - 1 : -1], OUT_NAME, phy_offset)
    rolls, order_py, destination = 0, phy_offset, destination_at(properties[start + 1 : -OUT_SIZE])
    if destination is None:
        destination, rolls, order_py = _rolled(properties, phy_offset)
    _check_moment(deliver_ms, out_ms, precision_ms, phy_offset)
    is_delete = DELETE in properties and find(properties, DELETE_NAME) is not None
    return TimerFacts(
        deliver_ms=deliver_ms,
        out_ms=out_ms,
        destination=destination,
        order_py=order_py,
        rolls=rolls,
        is_delete=is_delete,
        is_second=is_delete and find(properties, DELETE_SECOND_NAME) is not None,
    )


def own_properties(properties: bytes) -> bytes:
    """The property text that the delivered record keeps.

    Of our own records everything before ``REAL_TOPIC``; of Java's the text as it is, less the keys
    that steer timers, so that a consumer can forward what it got. A message that was moved, and
    rolled by RocketMQ then, has its producer's keys again.
    """
    start = properties.rfind(MARKED_REAL_TOPIC)
    if _is_ours(properties, start):
        return properties[: start + 1]
    kept = (item for item in properties.split(b"\x02") if item and not item.startswith(INTERNAL))
    return as_sent(b"".join(item + b"\x02" for item in kept))


def moved_properties(properties: bytes) -> bytes:
    """The properties for the key of a moved message; none for another one."""
    start = properties.rfind(MARKED_REAL_TOPIC)
    if not _is_ours(properties, start):
        return keys_of_move(properties)
    at = properties.find(b"\x02" + UNIQ_KEY, start)
    return properties[at + 1 : -OUT_SIZE] if at >= 0 else b""


def _is_ours(properties: bytes, start: int) -> bool:
    """Whether a text with its last real topic behind ``start`` ends as ours do.

    Java writes its keys in the order of a hash table, which can put the slot time last as well.
    """
    return (
        properties[-OUT_SIZE : -MS_DIGITS - 1] == OUT
        and start + 1 >= DELIVER_SIZE
        and properties.startswith(DELIVER, start + 1 - DELIVER_SIZE)
    )


def has_level(properties: bytes) -> bool:
    """Whether properties ask for a delay level; those up to 0 are none."""
    level = find(properties, DELAY_NAME) or b""
    return level.isdigit() and level.strip(b"0") != b""


def order_name(order_py: int) -> bytes:
    """The name in a delete of ours: the message with this order."""
    return b"\x01%d" % order_py


def position_name(phy_offset: int) -> bytes:
    """How a delete names the very record that it cancels: not a roll of it."""
    return b"\x02%d" % phy_offset


def name_in_slot(properties: bytes, name: bytes) -> bytes:
    """How a delete without an order names a message: by a key, in the slot that both ask for.

    What is overdue waits in the open slot, whichever it asked for.
    """
    return b"\x03%b\x03%b" % (find(properties, OUT_NAME) or b"", name)


KEY_MARK = b"\x03"
"""Between the topic of a delete and the key that it names."""


def deleted_order(properties: bytes) -> bytes | None:
    """The order of the message that a delete of ours names; None for other deletes.

    A delete that RocketMQ has rolled names its message by the key: RocketMQ has rolled the message
    too, and its copy has another order. A rolled delete of a move still names the order, because
    the moved message has the same key.
    """
    order = find(properties, DELETE_ORDER_NAME)
    if order is None or find(properties, DEQUEUE_NAME) is None:
        return order
    keeps = (ORDER_NAME, DELETE_FOR_NAME)
    return order if any(find(properties, name) is not None for name in keeps) else None


def deleted_name(properties: bytes) -> bytes | None:
    """The name in a delete: an order as ours do, else a key of its own topic; None for no delete.

    A delete without an order cancels messages of the topic that it was sent to, as each that
    RocketMQ's recall has stored does. Java looks at the key alone.
    """
    order = deleted_order(properties)
    if order is not None:
        return b"\x01" + order
    name = find(properties, DELETE_NAME)
    topic = find(properties, REAL_TOPIC_NAME) or b""
    return None if name is None else topic + KEY_MARK + name


def key_names(topic: bytes, unique_key: bytes) -> tuple[bytes, ...]:
    """How a delete without an order names a message, as ``deleted_name`` gives it.

    By its unique key, with the topic before it (RocketMQ 5.3.2 and 5.3.3) or without (before, and
    from 5.4 on). A moved message is named by the key in its record, as RocketMQ does, and by the
    key that its producer knows.
    """
    named = topic + KEY_MARK
    return tuple(
        named + form + key
        for key in dict.fromkeys((unique_key, first_key(unique_key)))
        for form in (b"", topic + b"+")
    )


def message_names(topic: bytes, unique_key: bytes, order_py: int) -> tuple[bytes, ...]:
    """All names by which a delete may name a message, as ``deleted_name`` gives them."""
    return (order_name(order_py), *key_names(topic, unique_key))


def _rolled(properties: bytes, phy_offset: int) -> tuple[Destination, int, int]:
    """Destination, rolls and order of a record whose keys must be looked up one by one."""
    destination = destination_in(properties, phy_offset)
    rolls = _optional(properties, ROLL_TIMES_NAME, phy_offset, Reason.PROPERTIES) or 0
    order_py = _optional(properties, ORDER_NAME, phy_offset, Reason.PROPERTIES)
    if order_py is not None and order_py > phy_offset:
        raise TimerRecordError(
            Reason.PROPERTIES,
            f"timer record at {phy_offset}: expected TIMER_ORDER up to there, found {order_py}",
        )
    return destination, rolls, phy_offset if order_py is None else order_py


def _decode_foreign(
    record: bytes, properties: bytes, phy_offset: int, precision_ms: int
) -> TimerFacts:
    out_ms = _optional(properties, OUT_NAME, phy_offset, Reason.NO_MOMENT)
    if out_ms is None:
        raise TimerRecordError(
            Reason.NO_MOMENT, f"timer record at {phy_offset}: expected TIMER_OUT_MS, found none"
        )
    destination, rolls, order_py = _rolled(properties, phy_offset)
    _check_slot(out_ms, precision_ms, phy_offset)
    is_delete = find(properties, DELETE_NAME) is not None
    return TimerFacts(
        deliver_ms=_foreign_deliver_ms(record, properties, out_ms, rolls, precision_ms),
        out_ms=out_ms,
        destination=destination,
        order_py=order_py,
        rolls=rolls,
        is_delete=is_delete,
        is_second=is_delete and find(properties, DELETE_SECOND_NAME) is not None,
    )


def _foreign_deliver_ms(
    record: bytes, properties: bytes, out_ms: int, rolls: int, precision_ms: int
) -> int:
    """The exact moment of a Java record, as far as the record still tells it.

    The slot says that it lies in (out, out + precision]. The store time is that of the last roll,
    and a few milliseconds after the moment a delay was counted from: never early either way.
    """
    latest = out_ms + precision_ms
    for key, unit_ms in DELAY_UNITS_MS:
        value = find(properties, key)
        if value is not None:
            delay = number_in(value)
            if rolls or delay is None:
                return latest
            return max(out_ms + 1, min(store_ms_of(record) + delay * unit_ms, latest))
    moment_ms = number_in(find(properties, DELIVER_NAME))
    return moment_ms if moment_ms is not None and out_ms < moment_ms <= latest else latest


def _check_moment(deliver_ms: int, out_ms: int, precision_ms: int, phy_offset: int) -> None:
    _check_slot(out_ms, precision_ms, phy_offset)
    if not out_ms < deliver_ms <= out_ms + precision_ms:
        raise TimerRecordError(
            Reason.NO_MOMENT,
            f"timer record at {phy_offset}: expected TIMER_DELIVER_MS in ({out_ms}, "
            f"{out_ms + precision_ms}], found {deliver_ms}",
        )


def _check_slot(out_ms: int, precision_ms: int, phy_offset: int) -> None:
    """Two times in one slot of the ring would break its chain."""
    if out_ms % precision_ms or out_ms > OUT_MAX_MS:
        raise TimerRecordError(
            Reason.NO_MOMENT,
            f"timer record at {phy_offset}: expected in TIMER_OUT_MS a multiple of {precision_ms} "
            f"up to {OUT_MAX_MS}, found {out_ms}",
        )


def _optional(properties: bytes, name: bytes, phy_offset: int, reason: Reason) -> int | None:
    value = find(properties, name)
    return None if value is None else _number(value, name, phy_offset, reason)


def _number(value: bytes, name: bytes, phy_offset: int, reason: Reason = Reason.NO_MOMENT) -> int:
    found = number_in(value)
    if found is None:
        raise TimerRecordError(
            reason,
            f"timer record at {phy_offset}: expected up to {NUMBER_DIGITS_MAX} digits in "
            f"{name.decode()}, found {shown(value)}",
        )
    return found
