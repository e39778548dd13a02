"""Delay requests as nearly all producers write them: one number among plain properties.

What is usual is looked for in many messages at once, and read without looking at every property;
whatever else a message has to do with timers, ``admission`` reads property by property.
"""

from __future__ import annotations

from collections.abc import Sequence

from timermq.timerstore.message import Message
from timermq.timerstore.number_text import NUMBER_DIGITS_MAX
from timermq.timerstore.properties import (
    DELAY,
    PROPERTIES_SIZE_MAX,
    REAL_QID,
    REAL_TOPIC,
    join_plain,
)

from ..records.system_topics import TIMER_TOPIC, is_trace_topic
from ..records.timer_properties import DELAY_UNITS_MS, DELIVER_NAME
from ..records.timer_record import TAIL_SIZE_MAX

OWN_PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX - TAIL_SIZE_MAX
"""Bytes that a producer's properties may have on a message with a moment."""
REQUEST_UNITS_MS = (*DELAY_UNITS_MS, (DELIVER_NAME, 0))
"""The request keys, first wins, and the milliseconds in a unit (0: an absolute moment)."""

TIMER = b"TIMER_"
"""How all of their names begin."""
_UNITS_MS = {key + b"\x01": unit_ms for key, unit_ms in REQUEST_UNITS_MS}
_UNUSUAL = (DELAY, REAL_TOPIC, REAL_QID)
"""With these, or with other names that begin like a timer's, a text is looked at property by
property."""
STEERING = (TIMER, *_UNUSUAL)
"""How the properties begin that steer timers."""


def are_usual(texts: Sequence[bytes]) -> bool:
    """Whether texts are well formed, and all in them that steers timers asks for a moment."""
    joined = join_plain(texts)
    return (
        joined is not None
        and joined.count(TIMER) == sum(map(joined.count, _UNITS_MS))
        and not any(name in joined for name in _UNUSUAL)
    )


def is_unusual(message: Message) -> bool:
    """Whether a message has to be looked at closely, whatever it asks for."""
    topic = message.topic
    return (
        topic == TIMER_TOPIC
        or len(message.properties) > OWN_PROPERTIES_SIZE_MAX
        or is_trace_topic(topic)
    )


def request_at(properties: bytes, at: int) -> tuple[int, int, int] | None:
    """The one delay request in usual properties, whose name begins at ``at``.

    Returns:
        Where its value begins and ends, and the milliseconds in a unit; None when it is unusual.
    """
    mark = properties.find(b"\x01", at) + 1
    end = properties.find(b"\x02", mark)
    unit_ms = _UNITS_MS.get(properties[at:mark])
    if (
        unit_ms is None
        or (at and properties[at - 1] != 2)
        or properties.find(TIMER, end) >= 0
        or not (properties[mark:end].isdigit() and end - mark <= NUMBER_DIGITS_MAX)
    ):
        return None
    return mark, end, unit_ms
