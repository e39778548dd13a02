"""Doubts: messages of which a damaged place of the commit log may be what became of them.

What is done is known by records that name it. Where a record is damaged beyond reading, its origin
is not known, and a pending message may be the one that it delivered. Delivered again it might
come twice, passed over it might be lost. So it is quarantined, by name, and a person decides.

Only what may be meant is in doubt: a message before the damaged place, whose moment had come (or
that of its next roll) when the record behind that place was stored. What was done later was done by
records that can be read, so of a log that goes on behind its damage little is left. The units of
the consume queues tell of which topics the lost records were; where they tell all of them, messages
for other topics are in no doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.log_holes import Hole
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.moved_key import first_key
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record import RecordError, record_properties, record_topic
from timermq.timerstore.record_check import CheckKind
from timermq.timerstore.record_layout import BLANK, FIXED_SIZE_V1, MAGIC_V1, MAGIC_V2, PHY_OFFSET_AT

from .deduplication import Doubt, origin_in
from .system_topics import CANCEL_MARK_TOPIC, QUARANTINE_TOPIC
from .timer_properties import ROLL_TIMES_NAME
from .timer_record import TIMER_TOPIC

FOREVER_MS = 1 << 62
"""After every moment."""
_OF_ANY = frozenset({TIMER_TOPIC, QUARANTINE_TOPIC, CANCEL_MARK_TOPIC})
"""A record of these topics ends a message of any destination."""


def origins_in(log: CommitLog, holes: Iterable[Hole]) -> list[int]:
    """Origins of the damaged records that still state their magic, position and size."""
    records = (_stated(log, hole) for hole in holes)
    origins = (origin_in(one) for one in records if one)
    return [one for one in origins if one is not None]


def doubts_of(store: MessageStore, holes: Sequence[Hole], *, is_javas: bool) -> tuple[Doubt, ...]:
    """The messages that the holes leave in doubt.

    Args:
        store: Opened and recovered.
        holes: Of its commit log.
        is_javas: RocketMQ has delivered too: its records name no origin.
    """
    found: list[Doubt] = []
    for hole in holes:
        stated = _stated(store.commit_log, hole)
        if not stated or (is_javas and origin_in(stated) is None):
            until_ms = _store_ms_behind(store.commit_log, hole.end)
            found.append(Doubt(hole.position, until_ms, _topics(store, hole)))
    return tuple(found)


def _stated(log: CommitLog, hole: Hole) -> bytes:
    """The bytes of a hole that is one record by its own magic, position and size; else none.

    The origin stands between them in the head, and is believed as they are. Where the head differs
    from its seal, origin and key must fit together.
    """
    head = log.read(hole.position, FIXED_SIZE_V1)
    if len(head) < FIXED_SIZE_V1 or hole.reaches_segment_end:
        return b""
    size, magic = BLANK.struct.unpack_from(head)
    position = int.from_bytes(head[PHY_OFFSET_AT : PHY_OFFSET_AT + 8], signed=True)
    is_record = magic in (MAGIC_V1, MAGIC_V2) and size == hole.size and position == hole.position
    record = log.read(hole.position, hole.size) if is_record else b""
    if record and not log.old.compare(hole.position, hole.position + FIXED_SIZE_V1):
        return record if _is_of_its_origin(log, record) else b""
    return record


def _is_of_its_origin(log: CommitLog, record: bytes) -> bool:
    """Whether key and origin of a record fit together, or it is one that has no origin."""
    try:
        properties = record_properties(record)
        origin = origin_in(record)
        if origin is None:
            is_first = record_topic(record) == TIMER_TOPIC.encode()
            return is_first and find(properties, ROLL_TIMES_NAME) is None
        found = log.check_at(origin, check_crc=False)
        if found is None or found.kind is not CheckKind.RECORD:
            return False
        unique_key = find(properties, UNIQ_KEY_NAME)
        named = find(record_properties(log.read(origin, found.size)), UNIQ_KEY_NAME)
    except RecordError:
        return False
    if unique_key is None or named is None:
        return False
    return first_key(unique_key) == first_key(named)


def _store_ms_behind(log: CommitLog, position: int) -> int:
    """Store time of the first record from a position on; after every moment without one."""
    if position >= log.max_offset:
        return FOREVER_MS
    found = log.check_at(position, check_crc=False)
    if found is not None and found.kind is CheckKind.BLANK:
        position = log.next_segment_start(position)
        found = log.check_at(position, check_crc=False)
    if found is None or found.kind is not CheckKind.RECORD:
        return FOREVER_MS
    return store_ms_of(log.read(position, found.size))


def _topics(store: MessageStore, hole: Hole) -> frozenset[str] | None:
    """Destinations of what stood in a hole; None where the queues do not tell all of it."""
    topics: set[str] = set()
    known = 0
    for queue in store.queues():
        at = queue.find_phy_offset(hole.position, queue.min_offset, queue.max_offset)
        while len(units := queue.units(at, 64)):
            places = [(int(one["phy_offset"]), int(one["size"])) for one in units]
            here = [size for phy, size in places if hole.position <= phy < hole.end]
            known += sum(here)
            if here:
                topics.add(queue.topic)
            at += len(units)
            if len(here) < len(units):
                break
    if known != hole.size or topics & _OF_ANY:
        return None
    return frozenset(topics)
