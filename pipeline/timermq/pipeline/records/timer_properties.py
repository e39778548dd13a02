r"""Names of the properties that steer timers.

``X_NAME`` is a name, as ``find`` and ``remove`` take it; ``X`` is how the property begins in a
text: the name and the ``\x01`` that ends it.

Source: Java ``MessageConst``; what begins ``TIMER_ORDER`` or ``TIMER_DEL_`` is ours, but for
``TIMER_DEL_UNIQKEY``.
"""

from __future__ import annotations

from timermq.timerstore.properties import DELAY, DELAY_NAME, REAL_QID_NAME, REAL_TOPIC_NAME

DELAY_SEC_NAME = b"TIMER_DELAY_SEC"
DELAY_MS_NAME = b"TIMER_DELAY_MS"
DELIVER_NAME = b"TIMER_DELIVER_MS"
OUT_NAME = b"TIMER_OUT_MS"
ROLL_TIMES_NAME = b"TIMER_ROLL_TIMES"
ENQUEUE_NAME = b"TIMER_ENQUEUE_MS"
"""RocketMQ's: the second in which it put the message on its wheel."""
DEQUEUE_NAME = b"TIMER_DEQUEUE_MS"
"""RocketMQ's: when it took the message from its wheel, to deliver or to roll it."""
ROLL_LABEL_NAME = b"TIMER_ROLL_LABEL"
"""RocketMQ's, of its RocksDB timers: the record takes the place of one with the same key."""
ORDER_NAME = b"TIMER_ORDER"
DELETE_NAME = b"TIMER_DEL_UNIQKEY"
DELETE_ORDER_NAME = b"TIMER_DEL_ORDER"
"""Ours: the order of the one message that a delete cancels, however often that was rolled."""
DELETE_FOR_NAME = b"TIMER_DEL_FOR"
"""Ours: the delete makes way for the entry behind it, which takes the place of this position."""
DELETE_SOLE_NAME = b"TIMER_DEL_SOLE"
"""Ours: the message that a move found was the only one that waited of those with a key of the
delete, so that records before it tell nothing more of the key."""

DELETE_SECOND_NAME = b"TIMER_DEL_SECOND"
"""Ours: the same delete as one before it, in RocketMQ's other form."""

DELAY_MS = DELAY_MS_NAME + b"\x01"
DELIVER = DELIVER_NAME + b"\x01"
OUT = OUT_NAME + b"\x01"
ROLL_TIMES = ROLL_TIMES_NAME + b"\x01"
ENQUEUE = ENQUEUE_NAME + b"\x01"
DEQUEUE = DEQUEUE_NAME + b"\x01"
ORDER = ORDER_NAME + b"\x01"
DELETE = DELETE_NAME + b"\x01"
DELETE_ORDER = DELETE_ORDER_NAME + b"\x01"
DELETE_FOR = DELETE_FOR_NAME + b"\x01"
DELETE_SOLE = DELETE_SOLE_NAME + b"\x01"
DELETE_SECOND = DELETE_SECOND_NAME + b"\x01"

NO_LEVEL = DELAY + b"0\x02"
"""Stands in a timer record behind the level of its message, which the consumer is to see. The last
value counts: with the level RocketMQ would delay the message again when it is due."""

DELAY_UNITS_MS = ((DELAY_SEC_NAME, 1000), (DELAY_MS_NAME, 1))
"""The properties that ask for a delay, first wins, and the milliseconds in a unit."""
REQUEST_NAMES = (DELAY_NAME, DELAY_SEC_NAME, DELAY_MS_NAME, DELIVER_NAME)
"""The properties that ask for a later moment: a level, a delay or the moment."""
LEFT_NAMES = (
    REAL_TOPIC_NAME,
    REAL_QID_NAME,
    OUT_NAME,
    ROLL_TIMES_NAME,
    ENQUEUE_NAME,
    DEQUEUE_NAME,
)
"""The properties that RocketMQ leaves on messages that it delivers from its wheel."""
INTERNAL_NAMES = (
    *LEFT_NAMES,
    ROLL_LABEL_NAME,
    ORDER_NAME,
    DELETE_ORDER_NAME,
    DELETE_FOR_NAME,
    DELETE_SOLE_NAME,
    DELETE_SECOND_NAME,
)
"""The properties that only the broker may set."""
REQUESTS = tuple(name + b"\x01" for name in REQUEST_NAMES)
"""How those begin."""
INTERNAL = tuple(name + b"\x01" for name in INTERNAL_NAMES)
"""How those begin that only the broker may set."""
