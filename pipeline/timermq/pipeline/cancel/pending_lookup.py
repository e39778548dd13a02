"""Finding a pending message, by its unique key or by one of its keys.

The key index has the records of the timer topic with a key: the message, its rolls, the deletes
that name it; and those of its real topic: whether it has arrived. A message is known by the
position of its first record (its *order*), which rolls keep; the newest record is the one that
waits.

The cost is a look-up and the reading of the newest records with that key, however many timers wait
and however often the message was moved; ``key_records`` has the reason and the bounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice, takewhile

import attrs

from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.moved_key import first_key
from timermq.timerstore.number_text import number_in
from timermq.timerstore.properties import REAL_TOPIC_NAME, UNIQ_KEY_NAME, find
from timermq.timerstore.record import RecordError, record_properties

from ..quarantine.quarantine import Quarantine
from ..quarantine.quarantine_record import State
from ..records.cancel_verdict import CancelError, Verdict, Wanted, too_common
from ..records.deduplication import origin_in
from ..records.foreign_key import ForeignRolls
from ..records.key_records import KeyRecords, RecordSource, SoleMoves
from ..records.system_topics import CANCEL_MARK_TOPIC
from ..records.timer_properties import DELETE_FOR_NAME
from ..records.timer_record import (
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    deleted_name,
    deleted_order,
    key_names,
    order_name,
)
from ..state.timer_options import TimerOptions

MESSAGES_MAX = 64
"""Messages with one key that are told apart: each costs look-ups, and one that waits a delete."""


@attrs.frozen
class PendingMessage:
    """The newest record of one message of the timer topic."""

    phy_offset: int
    record: bytes
    facts: TimerFacts
    record_key: bytes
    """The unique key in the record: of a moved message another one than the producer gave."""


@attrs.frozen
class Found:
    """The messages that a request may mean, as the index shows them."""

    pending: list[PendingMessage]
    cancelled: int
    delivered: int
    newest_py: int = -1
    """Position of the newest record."""
    quarantined: tuple[int, ...] = ()
    """Positions of records that are in quarantine."""
    has_open_delete: bool = False
    """A delete without an order stands with the key, and its slot is not through."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of now, before anything is done."""
        if self.delivered:
            return Verdict.TOO_LATE
        waits = self.pending or self.quarantined
        return Verdict.CANCELLED if self.cancelled or waits else Verdict.NOT_FOUND


@attrs.frozen(eq=False, kw_only=True)
class PendingLookup:
    """The messages of one store as it is now; plain code."""

    source: RecordSource
    quarantine: Quarantine
    options: TimerOptions
    read_ms: int
    """Slots before it have been read, as far as the checkpoint may say."""

    def find(self, wanted: Wanted) -> Found:
        """The known facts about the messages that are meant.

        Raises:
            CancelError: Several pending messages have the key, or too many records have it.
        """
        records = KeyRecords(self.source)
        if wanted.is_unique_key:
            first = first_key(wanted.key.encode()).decode()
            known = self._of_unique_key(records, wanted.topic, first)
            if first == wanted.key or known.verdict is not Verdict.NOT_FOUND:
                return known
            # A producer's own key that looks like that of a moved message.
            return self._of_unique_key(records, wanted.topic, wanted.key)
        keys = self._unique_keys(records, wanted)
        found = [self._of_unique_key(records, wanted.topic, key) for key in sorted(keys)]
        found = [one for one in found if one.newest_py >= 0]
        waiting = [one for one in found if one.pending or one.quarantined]
        if len(waiting) > 1:
            raise CancelError(
                "CANCEL_KEY_NOT_UNIQUE",
                f"{len(waiting)} pending messages of {wanted.topic} have the key {wanted.key}, "
                "expected one",
            )
        if waiting:
            return waiting[0]
        if found:
            return max(found, key=lambda one: one.newest_py)
        arrived = records.newest_first(wanted.topic, wanted.key, is_unique_key=False)
        return Found([], 0, len([*islice(arrived, 1)]))

    def _unique_keys(self, records: KeyRecords, wanted: Wanted) -> set[str]:
        """Of the messages with one of the user's keys, as far back as one of them may wait."""
        keys: set[str] = set()
        moves = SoleMoves(wanted.topic, wanted.key)
        for phy_offset, record in records.newest_first(
            TIMER_TOPIC, wanted.key, is_unique_key=False
        ):
            if unique_key := find(record_properties(record), UNIQ_KEY_NAME):
                keys.add(first_key(unique_key).decode("utf-8", "replace"))
            if len(keys) >= MESSAGES_MAX:
                raise too_common(wanted.key, f"{MESSAGES_MAX} messages or more")
            try:
                facts = decode_timer(record, phy_offset, self.options.timer_precision_ms)
            except TimerRecordError:
                continue
            if moves.end_at(record, facts):
                break
        return keys

    def _of_unique_key(self, records: KeyRecords, topic: str, unique_key: str) -> Found:
        newest: dict[int, PendingMessage] = {}
        deletes: list[tuple[TimerFacts, bytes]] = []
        quarantined: set[int] = set()
        moves, rolls, first_py = SoleMoves(topic), ForeignRolls(), 0
        for phy_offset, record in records.newest_first(TIMER_TOPIC, unique_key, is_unique_key=True):
            try:
                facts = decode_timer(record, phy_offset, self.options.timer_precision_ms)
            except TimerRecordError:
                if asked_for(record) == topic and self.quarantine.state(phy_offset) is not None:
                    quarantined.add(phy_offset)
                continue
            if facts.destination.topic != topic:
                continue
            if facts.is_delete and not facts.is_second:
                deletes.append((facts, record_properties(record)))
            elif facts.is_delete or rolls.goes_on_behind(record):
                pass
            elif facts.order_py not in newest:
                # Rolls come later in the log: the last record of a message is the one that waits.
                record_key = find(record_properties(record), UNIQ_KEY_NAME) or b""
                newest[facts.order_py] = PendingMessage(phy_offset, record, facts, record_key)
            if moves.end_at(record, facts):
                first_py = phy_offset
                break
        moved_from = moves.moved_from
        cancelled_names, made_way = self._deleted_names(deletes, moved_from)
        found = self._arrived(records, topic, unique_key, newest.values())
        arrived = [record for _, record in found]
        origins = {origin_in(record) for record in arrived}
        pending: list[PendingMessage] = []
        cancelled = delivered = 0
        # In the order of the log.
        for one in reversed(newest.values()):
            if self.quarantine.state(one.phy_offset) is not None:
                quarantined.add(one.phy_offset)
            elif one.phy_offset in origins or (None in origins and _came_later(arrived, one)):
                delivered += 1
            elif not cancelled_names.isdisjoint(names_of(one)):
                cancelled += 1
            elif one.facts.order_py >= first_py and made_way.isdisjoint(names_of(one)):
                # What made way may still roll when the message has arrived at its new moment, and
                # its records are cleaned. So it does not say that the message was cancelled.
                pending.append(one)
        left_out = self._left_out(records, unique_key, pending)
        pending = [one for one in pending if one.phy_offset not in left_out]
        if len(pending) >= MESSAGES_MAX:
            raise too_common(unique_key, f"{MESSAGES_MAX} pending messages or more")
        if not (pending or cancelled or delivered or quarantined):
            delivered = len(arrived)
            # Where the message is cleaned and its delete is not, that says what became of it.
            cancelled = 0 if arrived else sum(isinstance(name, bytes) for name in cancelled_names)
        else:
            # Another message with the key has arrived, and its records are cleaned.
            known = {None, *quarantined, *(one.phy_offset for one in newest.values())}
            delivered += sum(
                phy_offset > first_py and origin_in(record) not in known
                for phy_offset, record in found
            )
        ends = {one: self.quarantine.state(one) for one in sorted(quarantined)}
        cancelled += sum(end in (State.DROPPED, State.CANCELLED) for end in ends.values())
        # A retry of one whose moment was to come is a record of its own that waits.
        retried = [one for one, end in ends.items() if end is State.RETRIED]
        delivered += len([one for one in retried if one not in moved_from])
        active = tuple(one for one, end in ends.items() if end is State.ACTIVE)
        newest_py = max((*(one.phy_offset for one in newest.values()), *ends), default=-1)
        has_open_delete = any(
            deleted_order(properties) is None and facts.out_ms >= self.read_ms
            for facts, properties in deletes
        )
        return Found(pending, cancelled, delivered, newest_py, active, has_open_delete)

    def _arrived(
        self, records: KeyRecords, topic: str, unique_key: str, newest: Collection[PendingMessage]
    ) -> list[tuple[int, bytes]]:
        """The deliveries behind the first of the messages; without any, the last delivery.

        Behind its first record: what made way rolls on, and may stand behind what has arrived.
        """
        found = records.newest_first(topic, unique_key, is_unique_key=True)
        if not newest:
            return [*islice(found, 1)]
        first_py = min(one.facts.order_py for one in newest)
        return [*takewhile(lambda one: one[0] > first_py, found)]

    def _left_out(
        self, records: KeyRecords, unique_key: str, pending: Sequence[PendingMessage]
    ) -> set[int | None]:
        """Positions of records that were left out of their slots; the deletes may be cleaned."""
        if not pending:
            return set()
        first_py = min(one.phy_offset for one in pending)
        found = records.newest_first(CANCEL_MARK_TOPIC, unique_key, is_unique_key=True)
        marks = takewhile(lambda one: one[0] > first_py, found)
        return {origin_in(record) for _, record in marks}

    def _deleted_names(
        self, deletes: Sequence[tuple[TimerFacts, bytes]], moved_from: set[int | None]
    ) -> tuple[set[bytes | tuple[int, bytes]], set[bytes]]:
        """The messages that deletes have cancelled for certain, and those that were moved.

        One that makes way counts with the message that it makes way for: a power cut may have kept
        it alone. One without an order is RocketMQ's: it has had its effect, if any, when its slot
        is through.
        """
        cancelled_names: set[bytes | tuple[int, bytes]] = set()
        made_way: set[bytes] = set()
        for facts, properties in deletes:
            name = deleted_name(properties) or b""
            makes_way_for = find(properties, DELETE_FOR_NAME)
            target_py = number_in(makes_way_for)
            if deleted_order(properties) is None:
                if facts.out_ms < self.read_ms:
                    cancelled_names.add((facts.out_ms, name))
            elif makes_way_for is None:
                cancelled_names.add(name)
            elif facts.rolls or (target_py is not None and target_py in moved_from):
                made_way.add(name)
        return cancelled_names, made_way


def asked_for(record: bytes) -> str | None:
    """The target of a message whose record makes no timer."""
    try:
        topic = find(record_properties(record), REAL_TOPIC_NAME)
    except RecordError:
        return None
    return None if topic is None else topic.decode("utf-8", "replace")


def names_of(one: PendingMessage) -> set[bytes | tuple[int, bytes]]:
    """How a delete names a message: ours by its order, RocketMQ's by slot and key."""
    facts = one.facts
    by_key = key_names(facts.destination.topic.encode(), one.record_key)
    return {order_name(facts.order_py), *((facts.out_ms, name) for name in by_key)}


def _came_later(arrived: Sequence[bytes], one: PendingMessage) -> bool:
    """Whether a message with the key that names no origin arrived in or after the slot: Java's."""
    return any(
        origin_in(record) is None and store_ms_of(record) >= one.facts.out_ms for record in arrived
    )
