"""The pending timers of a store, slot by slot.

Two places hold them: units of slots that are not read yet, and entries of the timer topic that have
no unit yet. In both there are deletes, which take their targets out wherever those wait
(``pending_deletes``): what is listed is what will arrive.

A listing may be read in pieces, by ``PendingPlace``: each piece begins where the last one ended, so
all together cost one walk. It shows what waited when it began: units and entries from later on are
left out, and so is what fires meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from timermq.timerlog import MAGIC_DELETE, MAGIC_ROLL, NO_POS, UnitChunk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import KEYS_NAME, TAGS_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record import record_properties

from ..records.deduplication import AlreadyDone
from ..records.timer_record import (
    TIMER_TOPIC,
    TimerRecordError,
    decode_timer,
    moved_properties,
    own_properties,
)
from ..recovery.timer_files import TimerFiles
from ..state.timer_options import TimerOptions
from .pending_deletes import Cancelled, PendingDeletes, queued_entries

WALK_COUNT = 256
"""Units of a chain read at a time: a page may end in any of them."""

INT64_MAX = 2**63 - 1
BEHIND_THE_WHEEL = INT64_MAX
"""A slot time beyond all slots: the entries of the timer topic are left."""


@attrs.frozen(kw_only=True)
class PendingTimer:
    """One message that waits; the fields are those of ``timermq pending --json``."""

    unique_id: str
    topic: str
    queue_id: int
    deliver_ms: int
    keys: str
    tags: str
    phy_offset: int
    rolls: int

    @classmethod
    def of(
        cls,
        properties: bytes,
        *,
        topic: str,
        queue_id: int,
        deliver_ms: int,
        phy_offset: int,
        rolls: int = 0,
    ) -> PendingTimer:
        """The row of a message, with what its properties call it."""
        names = (find(properties, name) or b"" for name in (UNIQ_KEY_NAME, KEYS_NAME, TAGS_NAME))
        unique_id, keys, tags = (name.decode("utf-8", "replace") for name in names)
        return cls(
            unique_id=unique_id,
            topic=topic,
            queue_id=queue_id,
            deliver_ms=deliver_ms,
            keys=keys,
            tags=tags,
            phy_offset=phy_offset,
            rolls=rolls,
        )


@attrs.frozen(kw_only=True)
class PendingPlace:
    """The place at which a listing goes on, and its bounds."""

    slot_ms: int
    """The slot that is being read."""
    pos: int = NO_POS
    """The last unit of it that was looked at; `NO_POS` before its first."""
    log_end: int
    """Units from this position on came later."""
    queue_offset: int
    """The next entry of the timer topic."""
    queue_end: int
    """Entries from this offset on came later."""


@attrs.frozen(eq=False, kw_only=True)
class PendingTimers:
    """The pending timers of a store as it is at one moment: when this is made."""

    store: MessageStore
    files: TimerFiles
    options: TimerOptions
    read_ms: int
    """Slots before it are read."""
    queue_offset: int
    """Entries of the timer topic from here on may have no unit yet."""
    already_done: AlreadyDone
    """The last run's work beyond its checkpoint."""
    unreadable: set[int] = attrs.field(factory=set[int])
    """Positions of records that cannot be listed, so far: they are quarantined when due."""
    start: PendingPlace = attrs.field(
        init=False, default=attrs.Factory(lambda self: self._start(), takes_self=True)
    )
    """Start of a listing. A message whose unit comes later is listed as an entry, and not twice."""

    def deletes(self) -> PendingDeletes:
        """The deletes, none of them read yet."""
        return PendingDeletes(
            store=self.store,
            files=self.files,
            already_done=self.already_done,
            precision_ms=self.options.timer_precision_ms,
        )

    def learn(self, deletes: PendingDeletes) -> Iterator[None]:
        """Bring the deletes up to date; yields after each piece of work."""
        return deletes.learn(read_ms=self.read_ms, queue_offset=self.queue_offset)

    def _start(self) -> PendingPlace:
        queue = self.store.queue(TIMER_TOPIC, 0)
        return PendingPlace(
            slot_ms=self.read_ms,
            log_end=self.files.timer_log.max_pos,
            queue_offset=self.queue_offset,
            queue_end=0 if queue is None else queue.max_offset,
        )

    def walk(
        self,
        place: PendingPlace,
        deletes: PendingDeletes,
        between: tuple[int, int] = (0, INT64_MAX),
    ) -> Iterator[tuple[PendingTimer | None, PendingPlace]]:
        """Look at one unit or entry after the other, in order of slots.

        Within a slot the newest comes first. A message that rolls stands where it rolls.

        Args:
            place: Where to begin.
            deletes: Up to date; what they learn and forget from the first step on is not heard of.
            between: Moments, the second exclusive: slots and units that cannot hold any between
                are passed over, others may still come.

        Returns:
            A message that will fire, or None for what will not, and the place behind it.

        Raises:
            ChainError: The chain is not one of this slot (CHAINS_DESCEND).
        """
        cancelled = deletes.cancelled
        for offset_py, size_py, behind in self._on_the_wheel(place, between):
            yield self._row(offset_py, size_py, cancelled) if size_py else None, behind
        behind = attrs.evolve(place, slot_ms=BEHIND_THE_WHEEL, pos=NO_POS)
        first, end = place.queue_offset, place.queue_end
        for offset, offset_py, size_py in queued_entries(self.store, first, end, self.already_done):
            # What got a unit since may have fired since.
            since_ms = self.read_ms if offset < self.queue_offset else 0
            row = self._row(offset_py, size_py, cancelled, since_ms)
            yield row, attrs.evolve(behind, queue_offset=offset + 1)

    def rows(self) -> Iterator[PendingTimer]:
        """Everything that will fire, at one go."""
        deletes = self.deletes()
        for _ in self.learn(deletes):
            pass
        return (row for row, _ in self.walk(self.start, deletes) if row is not None)

    def _on_the_wheel(
        self, place: PendingPlace, between: tuple[int, int]
    ) -> Iterator[tuple[int, int, PendingPlace]]:
        """Position and size (0: not wanted) of each unit's record, and the place behind it."""
        wheel, first_ms = self.files.wheel, max(place.slot_ms, self.read_ms)
        slot_ms = wheel.next_live(first_ms)
        # Late units stand in the slot that is open when they come: beyond it all are of the slot.
        while slot_ms is not None and (slot_ms < between[1] or slot_ms <= self.read_ms):
            slot = wheel.slot(slot_ms)
            last_pos = NO_POS if slot is None else slot.last_pos
            seen_pos = self._seen_pos(place) if slot_ms == place.slot_ms else NO_POS
            for chunk in self.files.timer_log.walk(
                last_pos if seen_pos == NO_POS else seen_pos, slot_ms=slot_ms, count_max=WALK_COUNT
            ):
                wanted = self._wanted(chunk, slot_ms, between[0]) & (chunk.pos < place.log_end)
                units = zip(
                    chunk.pos.tolist(),
                    chunk.offset_py.tolist(),
                    np.where(wanted, chunk.size_py, 0).tolist(),
                    strict=True,
                )
                for pos, offset_py, size_py in units:
                    if pos == seen_pos:
                        continue
                    yield offset_py, size_py, attrs.evolve(place, slot_ms=slot_ms, pos=pos)
            slot_ms = wheel.next_live(slot_ms + 1)

    def _seen_pos(self, place: PendingPlace) -> int:
        """The unit that was looked at last, if it still is one of the slot."""
        (slot_ms,) = self.files.timer_log.targets(np.array([place.pos], np.int64)).tolist()
        return place.pos if slot_ms == place.slot_ms else NO_POS

    def _wanted(
        self, chunk: UnitChunk, slot_ms: int, from_ms: int
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        wanted = (chunk.magic & MAGIC_DELETE) == 0
        if slot_ms + self.options.timer_precision_ms < from_ms:
            wanted &= (chunk.magic & MAGIC_ROLL) != 0
        return np.asarray(wanted & ~self.already_done.dequeue_repeats(chunk.offset_py), np.bool_)

    def _row(
        self, offset_py: int, size_py: int, cancelled: Cancelled, since_ms: int = 0
    ) -> PendingTimer | None:
        """The message in a record; None when it will not fire, or its slot is before a time."""
        record = self.store.commit_log.record_at(offset_py, size_py)
        if record is None:
            self.unreadable.add(offset_py)
            return None
        if self.already_done.has_foreign(offset_py, record):
            return None
        properties = record_properties(record)
        try:
            facts = decode_timer(record, offset_py, self.options.timer_precision_ms)
        except TimerRecordError:
            self.unreadable.add(offset_py)
            return None
        unique_key = find(properties, UNIQ_KEY_NAME) or b""
        topic = facts.destination.topic
        if facts.is_delete or facts.out_ms < since_ms:
            return None
        if cancelled.cover(facts.out_ms, facts.order_py, topic.encode(), unique_key):
            return None
        if moved_properties(properties):
            properties = own_properties(properties)
        return PendingTimer.of(
            properties,
            topic=topic,
            queue_id=facts.destination.queue_id,
            deliver_ms=facts.deliver_ms,
            phy_offset=offset_py,
            rolls=facts.rolls,
        )
