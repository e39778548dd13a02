"""The records with a key, from the newest back, and how far back they count.

All of them would have to be looked at: an old message may wait behind a hundred newer records. But
each move looks before it writes, and goes ahead only when its message is the one with the key that
waits. It notes that in its delete (``DELETE_SOLE``). What was sent before such a delete has
arrived, is cancelled, or is the message that was moved, and stays so, though copies of it may
still roll. So a message that was moved a thousand times costs as much as one that was moved once.

The note is not written while a delete without an order, which is RocketMQ's, stands with the key:
that one may yet take what is moved into its slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import attrs

from timermq.timerstore.index_file import CutWalkError
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import KEYS_NAME, KEYS_SEPARATOR, find
from timermq.timerstore.record import record_properties

from .cancel_verdict import too_common
from .deduplication import origin_in
from .timer_properties import DELETE_FOR_NAME, DELETE_SOLE_NAME
from .timer_record import TimerFacts

RECORDS_MAX = 4096
"""Records that one request looks at: more than a message has that rolls for ten years through
windows of two days; a fifth of a second."""
SIZE_MAX = 256 << 20
"""Bytes of them: of the largest messages 64."""


class RecordSource(Protocol):
    """A finder of records by their keys: a store with its index, or a log that is read through."""

    def newest_first(self, topic: str, key: str, *, unique: bool) -> Iterator[tuple[int, bytes]]:
        """Records with a key and their positions: see ``IndexFollower.newest_first``."""
        ...


@attrs.define(eq=False)
class KeyRecords:
    """The records of one store, looked through for one request."""

    source: RecordSource
    _count: int = attrs.field(default=0, init=False)
    _size: int = attrs.field(default=0, init=False)

    def newest_first(
        self, topic: str, key: str, *, is_unique_key: bool
    ) -> Iterator[tuple[int, bytes]]:
        """Position and bytes of each record, as far as they are asked for.

        Raises:
            CancelError: The request has looked at as much as it may, or the index cannot tell
                whether there are more.
        """
        try:
            for phy_offset, record in self.source.newest_first(topic, key, unique=is_unique_key):
                self._count += 1
                self._size += len(record)
                if self._count > RECORDS_MAX:
                    raise too_common(key, f"more than {RECORDS_MAX} records")
                if self._size > SIZE_MAX:
                    raise too_common(key, f"records of more than {SIZE_MAX} bytes")
                yield phy_offset, record
        except CutWalkError as error:
            what = f"more than {error.count} entries of the index may"
            raise too_common(key, what) from error


@attrs.define(eq=False)
class SoleMoves:
    """Says at which record the looking ends."""

    topic: str
    """Destination of the messages."""
    key: str | None = None
    """One of the user's keys by which messages are looked for; None: by their unique key."""
    moved_from: set[int | None] = attrs.field(factory=set[int | None], init=False)
    """The origins that the first records of seen messages name."""

    def end_at(self, record: bytes, facts: TimerFacts) -> bool:
        """Take the next record; whether those before it tell nothing more.

        A delete whose message is missing behind it was torn by a power cut, and ends nothing. One
        that rolled stands later than what was seen when it was written.
        """
        if facts.destination.topic != self.topic:
            return False
        if not facts.is_delete:
            if not facts.rolls:
                self.moved_from.add(origin_in(record))
            return False
        properties = record_properties(record)
        target_py = number_in(find(properties, DELETE_FOR_NAME))
        return (
            not facts.rolls
            and find(properties, DELETE_SOLE_NAME) is not None
            and self._is_by_key(properties)
            and target_py is not None
            and target_py in self.moved_from
        )

    def _is_by_key(self, properties: bytes) -> bool:
        """Whether the delete speaks of all messages with the key that is asked for."""
        keys = find(properties, KEYS_NAME) or b""
        return self.key is None or self.key.encode() in keys.split(KEYS_SEPARATOR)
