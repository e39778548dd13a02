r"""How the quarantine stands in the store: two kinds of records of its topic, queue 0.

An *entry* keeps a message that cannot be delivered. Its body is the message's record as far as it
could be read, whole, so that nothing is lost when the commit log is cleaned. As a delivery does, it
names the record as its origin (``deduplication``): recovery counts that record as done. The entry
is known by that position.

A *mark* says what became of an entry. One of a retry is written together with the message, right
before it: a mark without its message behind it was torn by a crash and counts as nothing.

=====================  ==========================================================================
property               of an entry; of a mark
=====================  ==========================================================================
``TAGS``               the reason; the verdict
``UNIQ_KEY``           of the message, where it is known
``QUARANTINE_MS``      when the message was quarantined, epoch milliseconds
``QUARANTINE_SIZE``    bytes that its record should have
``QUARANTINE_TEXT``    what was expected and what was found
``QUARANTINE_DUE_MS``  when the message is due, if its record does not say
``QUARANTINE_OF``      of a mark only: the entry's origin
``QUARANTINE_BY``      of a mark only: who asked
=====================  ==========================================================================

To RocketMQ the topic is one like any other, which no client of it asks for.
"""

from __future__ import annotations

import enum

import attrs

from timermq.timerstore.message import Message
from timermq.timerstore.moved_key import key_properties
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import (
    KEYS_NAME,
    REAL_QID_NAME,
    REAL_TOPIC_NAME,
    TAGS_NAME,
    UNIQ_KEY_NAME,
    find,
)
from timermq.timerstore.record import Record, RecordError, decode_record, record_properties

from ..records.deduplication import origin_in, origin_of
from ..records.system_topics import QUARANTINE_TOPIC
from ..records.timer_properties import DELIVER_NAME, OUT_NAME
from ..records.undeliverable import UNSOUND, Undeliverable

TEXT_SIZE_MAX = 1_000
"""Bytes of a reason's text, and of who asked."""
UNIQUE_KEY_SIZE_MAX = 255
"""Bytes; a longer one is not repeated beside the record."""

_MS = b"QUARANTINE_MS"
_SIZE = b"QUARANTINE_SIZE"
_TEXT = b"QUARANTINE_TEXT"
_DUE_MS = b"QUARANTINE_DUE_MS"
_OF = b"QUARANTINE_OF"
_BY = b"QUARANTINE_BY"
_SEPARATORS = bytes.maketrans(b"\x01\x02", b"??")


class State(enum.IntEnum):
    """What became of a message in quarantine."""

    ACTIVE = 0
    """It is in quarantine."""
    RETRIED = 1
    """Its message has gone to a topic, or waits for its moment again."""
    DROPPED = 2
    """The operator let it go."""
    CANCELLED = 3
    """Its producer cancelled it."""


_ENDINGS = {one.name for one in State if one is not State.ACTIVE}
"""The states that a mark may state."""


@attrs.frozen(kw_only=True)
class Entry:
    """A message in quarantine, and what its record still tells of it."""

    origin_py: int
    """Position of its record in the timer topic: the name of the entry."""
    reason: str
    """A `Reason`, or what a later version calls one."""
    text: str
    set_aside_ms: int
    size: int
    """Bytes that its record should have."""
    record: bytes
    """Its record as far as it could be read."""
    topic: str | None
    """Its topic; None when the record does not say."""
    queue_id: int | None
    deliver_ms: int | None
    """When it should; of a message of RocketMQ's at most a slot too late."""
    unique_id: str
    keys: str
    tags: str

    @property
    def is_sound(self) -> bool:
        """Whether its record is as it was written, and something else is wrong."""
        return self.reason not in {reason.value for reason in UNSOUND}


@attrs.frozen(kw_only=True)
class Mark:
    """The state of the entry with this origin."""

    origin_py: int
    state: State
    by: str


def entry_message(fault: Undeliverable, now_ms: int) -> Message:
    """The entry of a message that is quarantined now."""
    stated = {
        TAGS_NAME: fault.reason.value.encode(),
        _MS: b"%d" % now_ms,
        _SIZE: b"%d" % fault.size_py,
        _TEXT: _value(fault.text),
    }
    if fault.deliver_ms is not None:
        stated[_DUE_MS] = b"%d" % fault.deliver_ms
    properties = _unique_key(fault.record) + _encode(stated)
    return Message(
        QUARANTINE_TOPIC, 0, fault.record, properties, prepared_offset=origin_of(fault.offset_py)
    )


def renewed(record: Record) -> Message:
    """An entry written once more: the newest one with an origin counts."""
    return Message(
        QUARANTINE_TOPIC,
        0,
        record.body,
        record.properties,
        prepared_offset=record.prepared_transaction_offset,
    )


def mark_message(entry: Entry, state: State, by: str) -> Message:
    """The mark that ends an entry."""
    stated = {
        TAGS_NAME: state.name.lower().encode(),
        _OF: b"%d" % entry.origin_py,
        _BY: _value(by),
    }
    properties = _unique_key(entry.record) + _encode(stated)
    return Message(QUARANTINE_TOPIC, 0, b"", properties)


def read_mark(record: bytes) -> Mark | None:
    """A record of the quarantine's topic as a mark; None when it is none."""
    properties = record_properties(record)
    origin_py = number_in(find(properties, _OF))
    name = (find(properties, TAGS_NAME) or b"").decode("utf-8", "replace").upper()
    if origin_py is None or name not in _ENDINGS:
        return None
    return Mark(origin_py=origin_py, state=State[name], by=_text(find(properties, _BY)))


def read_entry(record: bytes) -> Entry | None:
    """A record of the quarantine's topic as an entry; None when it is none."""
    origin_py = origin_in(record)
    if origin_py is None:
        return None
    try:
        found = decode_record(record)
    except RecordError:
        return None
    properties = found.properties
    waiting = _properties_of(found.body)
    stated_ms = number_in(find(properties, _DUE_MS))
    out_ms = number_in(find(waiting, OUT_NAME)) if stated_ms is None else stated_ms
    deliver_ms = number_in(find(waiting, DELIVER_NAME)) if stated_ms is None else stated_ms
    topic = find(waiting, REAL_TOPIC_NAME)
    return Entry(
        origin_py=origin_py,
        reason=_text(find(properties, TAGS_NAME)),
        text=_text(find(properties, _TEXT)),
        set_aside_ms=number_in(find(properties, _MS)) or found.store_ms,
        size=number_in(find(properties, _SIZE)) or len(found.body),
        record=found.body,
        topic=None if topic is None else _text(topic),
        queue_id=number_in(find(waiting, REAL_QID_NAME)),
        deliver_ms=out_ms if deliver_ms is None else deliver_ms,
        unique_id=_text(find(waiting, UNIQ_KEY_NAME)),
        keys=_text(find(waiting, KEYS_NAME)),
        tags=_text(find(waiting, TAGS_NAME)),
    )


def _properties_of(record: bytes) -> bytes:
    """The properties of a record that may be damaged; none then."""
    try:
        return record_properties(record)
    except RecordError:
        return b""


def _unique_key(record: bytes) -> bytes:
    key = find(_properties_of(record), UNIQ_KEY_NAME)
    if key is None or len(key) > UNIQUE_KEY_SIZE_MAX or key != key.translate(_SEPARATORS):
        return b""
    return key_properties(key)


def _encode(stated: dict[bytes, bytes]) -> bytes:
    return b"".join(b"%b\x01%b\x02" % pair for pair in stated.items())


def _value(text: str) -> bytes:
    """A text as the value of a property; never empty, which would be none."""
    cut = text.encode("utf-8", "replace")[:TEXT_SIZE_MAX].decode("utf-8", "ignore").encode()
    return cut.translate(_SEPARATORS) or b"-"


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
