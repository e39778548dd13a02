"""The topic and queue of a timer message when it is due, as its record says it.

Our records say it in one form, and there are few destinations and many messages: what was read once
is known by its bytes.

Source: Java ``MessageAccessor``, ``HookUtils.transformTimerMessage``.
"""

from __future__ import annotations

import attrs

from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.properties import REAL_QID, REAL_QID_NAME, REAL_TOPIC, REAL_TOPIC_NAME, find

from .system_topics import destination_fault
from .timer_properties import NO_LEVEL, OUT
from .undeliverable import Reason, TimerRecordError

QUEUE_ID_DIGITS_MAX = 9
"""Digits of a queue in a record: any of so many fits 32 bits."""
DESTINATION_COUNT_MAX = 65_536
"""Remembered destinations; above it, all are forgotten."""


@attrs.frozen
class Destination:
    """The topic and queue of a timer message when it is due."""

    topic: str
    queue_id: int
    topic_hash: int
    """Java's hash of the topic: field 40 of the timer-log unit."""
    target: tuple[str, int] = attrs.field(
        init=False, default=attrs.Factory(lambda self: (self.topic, self.queue_id), takes_self=True)
    )
    """Topic and queue, as the store knows them."""


_destinations: dict[bytes, Destination] = {}
"""By ``REAL_TOPIC…REAL_QID…TIMER_OUT_MS\x01``, as our records have it, some with ``NO_LEVEL``.
All are legal: a record with another one is looked at key by key, and quarantined."""

known_destination = _destinations.get
"""The destination by those bytes, None for one that was not seen yet: the dict's own method."""


def learn_destination(text: bytes) -> Destination | None:
    """The destination by those bytes, whether seen before or not; None when they name none."""
    own = text.removesuffix(OUT)
    return destination_at(own) if len(own) < len(text) else None


def destination_at(text: bytes) -> Destination | None:
    """Destination of ``REAL_TOPIC…REAL_QID…`` exactly; None when more stands there (a roll).

    ``NO_LEVEL`` may stand behind it.
    """
    known = known_destination(text + OUT)
    if known is not None:
        return known
    if text.endswith(NO_LEVEL):
        made = destination_at(text.removesuffix(NO_LEVEL))
    else:
        items = text.split(b"\x02")
        if len(items) != 3 or not items[1].startswith(REAL_QID) or items[2]:
            return None
        queue_id = items[1][len(REAL_QID) :]
        made = _make_destination(items[0][len(REAL_TOPIC) :], queue_id)
        # Other spellings of a queue are looked at key by key, so that there are few of them.
        if made is not None and queue_id != b"%d" % made.queue_id:
            return None
    if made is not None:
        if len(_destinations) >= DESTINATION_COUNT_MAX:
            _destinations.clear()
        _destinations[text + OUT] = made
    return made


def _is_queue_id(value: bytes | None) -> bool:
    return value is not None and value.isdigit() and len(value) <= QUEUE_ID_DIGITS_MAX


def _make_destination(topic: bytes, queue_id: bytes) -> Destination | None:
    """The destination; None when nothing can go there."""
    if not _is_queue_id(queue_id):
        return None
    name = topic.decode("utf-8", "replace")
    if destination_fault(name) is not None:
        return None
    return Destination(name, int(queue_id), java_hash(name))


def destination_in(properties: bytes, phy_offset: int) -> Destination:
    """The destination that properties name, wherever it stands in them.

    Args:
        properties: Of a record of the timer topic, or of a classic level.
        phy_offset: Where the record stands; for the error.

    Raises:
        TimerRecordError: They name none, or one where no message can go.
    """
    destination = _make_destination(
        find(properties, REAL_TOPIC_NAME) or b"", find(properties, REAL_QID_NAME) or b""
    )
    if destination is None:
        raise _no_destination(properties, phy_offset)
    return destination


def _no_destination(properties: bytes, phy_offset: int) -> TimerRecordError:
    topic, queue_id = find(properties, REAL_TOPIC_NAME), find(properties, REAL_QID_NAME)
    if topic is not None and _is_queue_id(queue_id):
        fault = destination_fault(topic.decode("utf-8", "replace"))
        return TimerRecordError(Reason.ILLEGAL_TOPIC, f"timer record at {phy_offset}: {fault}")
    return TimerRecordError(
        Reason.NO_TOPIC,
        f"timer record at {phy_offset}: expected REAL_TOPIC and a numeric REAL_QID, found "
        f"{shown(topic)} and {shown(queue_id)}",
    )


def shown(value: bytes | None) -> str:
    """A value as text for a reason, at most 64 bytes of it."""
    return "none" if value is None else ascii(value[:64].decode("utf-8", "replace"))
