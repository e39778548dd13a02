"""The store's facts about a record of the timer topic that cannot be read.

A record is not alone: the key index has the hash of its unique key, and by it stand the first
record of the message, its rolls, its deletes, and what it was moved to. The entry behind a delete
is the message that it makes way for, if there is one. So it can be told

- of a delete, which message it cancels: the delete is made again;
- of a message, whether it is cancelled: then it need not be quarantined, for it must not arrive.

Nothing is guessed. A delete is made again when one message alone can be meant, and when its record
would have the size that the damaged one has.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import attrs
import structlog

from timermq.timerstore.index_file import CutWalkError
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.moved_key import first_key
from timermq.timerstore.properties import UNIQ_KEY_NAME, find
from timermq.timerstore.record import encode_record, record_properties, record_topic
from timermq.timerstore.record_check import CheckKind

from .cancel_mark import name_in_delete, names_in_delete
from .deduplication import origin_in
from .delete_message import RECALL_TAG, delete_message
from .timer_properties import DELETE_SOLE
from .timer_record import (
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    order_name,
    position_name,
)
from .torn_move import is_torn_move, makes_way_for, takes_the_place

log = structlog.get_logger("timermq.pipeline.records.record_kin")

KIN_MAX = 4096
"""Records that are looked at for one that is damaged."""
MOVE_NOTES = (b"", DELETE_SOLE + b"1\x02")
"""Notes that the delete of a move may have."""
HOST = bytes(8)


@attrs.frozen
class _Kin:
    """A readable record of the timer topic."""

    phy_offset: int
    record: bytes
    facts: TimerFacts
    record_key: bytes
    """The unique key in the record."""


@attrs.define(eq=False)
class RecordKin:
    """The kin of one record.

    Args:
        store: Opened and recovered.
        precision_ms: Width of a slot.
        offset_py: Position of the record.
        size_py: Its size, bytes.
    """

    store: MessageStore
    precision_ms: int
    offset_py: int
    size_py: int

    def is_cancelled(self, order_py: int) -> bool:
        """Whether a message is cancelled, or was moved.

        Args:
            order_py: Position of its first record; that of the record itself where it is not known.
        """
        names = {order_name(order_py), position_name(self.offset_py)}
        return any(
            takes_the_place(one.record, self.offset_py)
            or (
                one.facts.is_delete
                and not is_torn_move(self.store, one.record)
                and bool(names_in_delete(one.record) & names)
            )
            for one in self._kin
        )

    def is_delete(self) -> bool:
        """Whether the queue of the timer topic shows the record with the tag of a delete."""
        queue = self.store.queue(TIMER_TOPIC, 0)
        entry = self._entry()
        if queue is None or entry is None:
            return False
        return int(queue.units(entry, 1)[0]["tags_code"]) == java_hash(RECALL_TAG.decode())

    def delete_again(self, order_py: int) -> bytes | None:
        """The record of a delete, made again; None where it is not certain.

        It has the place and the target of the damaged one, or is the copy that was rolled.

        Args:
            order_py: Position of its first record; that of the record itself where it is not known.
        """
        found = self._earlier(order_py) or self._of_its_move() or self._of_its_first()
        if found is not None:
            log.warning("a damaged delete made again", phy_offset=self.offset_py)
        return found

    def _earlier(self, order_py: int) -> bytes | None:
        """The first record of a delete that was rolled."""
        one = self._read(order_py) if order_py < self.offset_py else None
        return one.record if one is not None and one.facts.is_delete else None

    def _of_its_move(self) -> bytes | None:
        """By the message that it makes way for, which stands behind it in the queue."""
        queue, entry = self.store.queue(TIMER_TOPIC, 0), self._entry()
        if queue is None or entry is None:
            return None
        behind = queue.units(entry + 1, 1)
        moved = self._read(int(behind[0]["phy_offset"])) if len(behind) else None
        target_py = None if moved is None else origin_in(moved.record)
        if moved is None or target_py is None or not takes_the_place(moved.record, target_py):
            return None
        target = self._read(target_py)
        if target is None or first_key(target.record_key) != first_key(moved.record_key):
            return None
        return self._deleting(
            target,
            makes_way_in_ms=moved.facts.out_ms,
            has_own_key=target.record_key != moved.record_key,
        )

    def _of_its_first(self) -> bytes | None:
        """By the first delete of its pair, if it is the second; else by its key."""
        first = self._first_of_pair()
        target_py = None if first is None else _target_py(first.record)
        target = None if target_py is None else self._read(target_py)
        again = None if target is None else self._deleting(target, is_second=True)
        return again if again is not None and len(again) == self.size_py else self._of_its_key()

    def _first_of_pair(self) -> _Kin | None:
        """The delete before it in the queue, or before that the one of a move."""
        queue, entry = self.store.queue(TIMER_TOPIC, 0), self._entry()
        if queue is None or entry is None or entry - 2 < queue.min_offset:
            return None
        first, last = [self._read(int(unit["phy_offset"])) for unit in queue.units(entry - 2, 2)]
        if last is None or last.facts.is_delete:
            first = last
        elif first is None or not takes_the_place(last.record, _target_py(first.record)):
            return None
        if first is None or not first.facts.is_delete or first.facts.is_second:
            return None
        return first if any(one.phy_offset == first.phy_offset for one in self._kin) else None

    def _of_its_key(self) -> bytes | None:
        """By its unique key, if one message alone can be meant."""
        taken: set[bytes] = set()
        messages: dict[int, _Kin] = {}
        for one in self._kin:
            if one.facts.is_second:
                continue  # It may be that of the damaged one.
            if one.facts.is_delete:
                taken |= names_in_delete(one.record)
            elif one.phy_offset < self.offset_py:
                messages.setdefault(one.facts.order_py, one)
        left = [one for order, one in messages.items() if order_name(order) not in taken]
        if not left:
            return self._of_its_copies()
        sized = [one for one in left if self.size_py in self._sizes(one)]
        return self._deleting(sized[0]) if len(left) == len(sized) == 1 else None

    def _of_its_copies(self) -> bytes | None:
        """By the delete that it was rolled from, if all that stand before it mean one message.

        It is no other one: of each message before it with its key a delete stands in the log.
        """
        copies = [
            one
            for one in self._kin
            if one.facts.is_delete
            and one.phy_offset < self.offset_py
            and len(one.record) <= self.size_py
            and not is_torn_move(self.store, one.record)
        ]
        meant = {name_in_delete(one.record) for one in copies}
        return copies[0].record if len(meant) == 1 else None

    def _sizes(self, target: _Kin) -> Iterator[int]:
        yield len(self._deleting(target))
        for out_ms in (target.facts.out_ms, target.facts.out_ms + self.precision_ms):
            for notes in MOVE_NOTES:
                size = len(
                    self._deleting(target, makes_way_in_ms=out_ms, has_own_key=False, notes=notes)
                )
                yield size

    def _deleting(
        self,
        target: _Kin,
        *,
        makes_way_in_ms: int | None = None,
        has_own_key: bool = True,
        notes: bytes = b"",
        is_second: bool = False,
    ) -> bytes:
        message = delete_message(
            target.facts,
            target.record_key,
            target.phy_offset,
            born_ms=0,
            makes_way_in_ms=makes_way_in_ms,
            has_own_key=has_own_key,
            notes=notes,
            is_second=is_second,
        )
        return encode_record(
            message, queue_offset=0, phy_offset=self.offset_py, store_ms=0, store_host=HOST
        )

    @cached_property
    def _kin(self) -> list[_Kin]:
        """Readable records with its unique key, the newest first."""
        found: list[_Kin] = []
        index = self.store.index
        if index is None:
            return found
        try:
            for phy_offset, record in index.kin(self.offset_py):
                one = self._decoded(phy_offset, record)
                if one is not None and phy_offset != self.offset_py:
                    found.append(one)
                if len(found) > KIN_MAX:
                    return []
        except CutWalkError:
            return []
        return found

    def _entry(self) -> int | None:
        """Its number in the queue of the timer topic."""
        queue = self.store.queue(TIMER_TOPIC, 0)
        if queue is None:
            return None
        entry = queue.find_phy_offset(self.offset_py, queue.min_offset, queue.max_offset)
        units = queue.units(entry, 1).tolist()
        return entry if units and units[0][:2] == (self.offset_py, self.size_py) else None

    def _read(self, phy_offset: int) -> _Kin | None:
        commit_log = self.store.commit_log
        checked = commit_log.check_at(phy_offset, check_crc=False)
        if checked is None or checked.kind is not CheckKind.RECORD:
            return None
        record = commit_log.record_at(phy_offset, checked.size)
        return None if record is None else self._decoded(phy_offset, record)

    def _decoded(self, phy_offset: int, record: bytes) -> _Kin | None:
        unique_key = find(record_properties(record), UNIQ_KEY_NAME)
        if record_topic(record) != TIMER_TOPIC.encode() or unique_key is None:
            return None
        try:
            facts = decode_timer(record, phy_offset, self.precision_ms)
        except TimerRecordError:
            return None
        return _Kin(phy_offset, record, facts, unique_key)


def _target_py(delete: bytes) -> int | None:
    """The position of the record that a first delete cancels."""
    target_py = makes_way_for(record_properties(delete))
    return origin_in(delete) if target_py is None else target_py
