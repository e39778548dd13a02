"""The delay requests of a run: in each message one number, and nothing else that steers timers.

Nearly all producers write them so. Whether messages fit into a run is found for many at once, and
their requests are read without looking at every property. Of a message that does not fit,
``admission`` reads property by property.
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
    join_run,
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
_NOT_IN_RUN = (DELAY, REAL_TOPIC, REAL_QID)
"""With these, or with other names that begin like a timer's, a text is looked at property by
property."""
STEERING = (TIMER, *_NOT_IN_RUN)
"""How the properties begin that steer timers."""


def fit_run(texts: Sequence[bytes]) -> bool:
    """Whether messages with these property texts fit into a run.

    They do if all texts are well formed, and all in them that steers timers asks for a moment.
    """
    joined = join_run(texts)
    return (
        joined is not None
        and joined.count(TIMER) == sum(map(joined.count, _UNITS_MS))
        and not any(name in joined for name in _NOT_IN_RUN)
    )


def breaks_run(message: Message) -> bool:
    """Whether a message fits into no run, whatever its properties ask for."""
    topic = message.topic
    return (
        topic == TIMER_TOPIC
        or len(message.properties) > OWN_PROPERTIES_SIZE_MAX
        or is_trace_topic(topic)
    )


def request_at(properties: bytes, at: int) -> tuple[int, int, int] | None:
    """The one delay request in properties that fit into a run; its name begins at ``at``.

    Returns:
        Where its value begins and ends, and the milliseconds in a unit; None when the
        properties fit into no run after all.
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
