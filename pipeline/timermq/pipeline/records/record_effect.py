"""The effect of a record of the commit log on the record that it names as its origin.

The first line that fits decides:

=================  ==========  =====================================================
the record         effect      what became of its origin
=================  ==========  =====================================================
in the quarantine  SET_ASIDE   it could not be delivered; later it may be, by hand
a mark             LEFT_OUT    a delete cancels it: it was left out of its slot
of another topic   DELIVERED   it has arrived
has rolls          ROLLED      it waits for its next leg, or for its end
a void delete      ROLLED      the same: the roll was lost, and a repair fills its place
a delete           CANCELLED   it was cancelled
any other timer    MOVED       it waits for another moment, as a message of its own
=================  ==========  =====================================================

What was moved or cancelled while it waited for a roll is rolled all the same, and its copy left out
of its last slot.

``effect_of`` is the form for one record. The audit judges columns: its SQL is made of ``EFFECTS``
(``spark/jobs/audit/facts.py``).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from timermq.timerstore.properties import find

from .system_topics import CANCEL_MARK_TOPIC, QUARANTINE_TOPIC
from .timer_properties import DELETE_NAME, ROLL_TIMES_NAME
from .timer_record import TIMER_TOPIC

NOBODY = b"?"
"""The name in a void delete, which cancels nothing: a repair fills the timer topic with it."""


class Effect(enum.IntEnum):
    """The effect of a record on its origin; the numbers are those of temporary files and rows."""

    DELIVERED = 1
    MOVED = 2
    ROLLED = 3
    CANCELLED = 4
    SET_ASIDE = 5
    LEFT_OUT = 6
    ROLLED_ON = 7
    """No record does it to its origin: a later copy of the message tells it, by its order."""


class Mark(enum.Enum):
    """The marks of a record that decide."""

    IN_QUARANTINE = enum.auto()
    IN_LEFT_OUT = enum.auto()
    ELSEWHERE = enum.auto()
    """It is no entry of the timer topic."""
    HAS_ROLLS = enum.auto()
    NAMES_NOBODY = enum.auto()
    IS_DELETE = enum.auto()


EFFECTS: Mapping[Mark, Effect] = {
    Mark.IN_QUARANTINE: Effect.SET_ASIDE,
    Mark.IN_LEFT_OUT: Effect.LEFT_OUT,
    Mark.ELSEWHERE: Effect.DELIVERED,
    Mark.HAS_ROLLS: Effect.ROLLED,
    Mark.NAMES_NOBODY: Effect.ROLLED,
    Mark.IS_DELETE: Effect.CANCELLED,
}
"""In the order in which they decide."""
OTHERWISE = Effect.MOVED
"""Of a record that has none of the marks."""

_QUARANTINE = QUARANTINE_TOPIC.encode()
_LEFT_OUT = CANCEL_MARK_TOPIC.encode()
_TIMER = TIMER_TOPIC.encode()

_HAS: Mapping[Mark, Callable[[bytes, int, bytes], bool]] = {
    Mark.IN_QUARANTINE: lambda topic, _, __: topic == _QUARANTINE,
    Mark.IN_LEFT_OUT: lambda topic, _, __: topic == _LEFT_OUT,
    Mark.ELSEWHERE: lambda topic, queue_id, _: topic != _TIMER or queue_id != 0,
    Mark.HAS_ROLLS: lambda _, __, properties: find(properties, ROLL_TIMES_NAME) is not None,
    Mark.NAMES_NOBODY: lambda _, __, properties: find(properties, DELETE_NAME) == NOBODY,
    Mark.IS_DELETE: lambda _, __, properties: find(properties, DELETE_NAME) is not None,
}


def effect_of(topic: bytes, queue_id: int, properties: bytes) -> Effect:
    """The effect of a record on the origin that it names.

    Args:
        topic: Of the record.
        queue_id: Of the record.
        properties: Of the record, as stored.
    """
    for mark, effect in EFFECTS.items():
        if _HAS[mark](topic, queue_id, properties):
            return effect
    return OTHERWISE


def effect_of_entry(properties: bytes) -> Effect:
    """``effect_of`` for an entry of the timer topic, which has its properties alone to tell."""
    return effect_of(_TIMER, 0, properties)
