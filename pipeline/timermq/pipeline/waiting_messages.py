"""Finding a message that waits, by its unique key or by one of its keys.

The key index has the records of the timer topic with a key: the message, its rolls, the deletes
that name it; and those of its real topic: whether it has arrived. A message is known by the
position of its first record (its *order*), which rolls keep; the newest record is the one that
waits.

The cost is a look-up and the reading of the records with that key, however many timers wait.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs

from timermq.timerstore.errors import StoreError
from timermq.timerstore.log_record import store_ms_of
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import (
    PHY_OFFSET_AT,
    RecordError,
    record_properties,
)

from .already_done import origin_in
from .quarantine import Quarantine
from .quarantine_record import State
from .timer_options import TimerOptions
from .timer_record import (
    DELETE_FOR,
    DELETE_ORDER,
    REAL_TOPIC,
    TIMER_TOPIC,
    TimerFacts,
    TimerRecordError,
    decode_timer,
    deleted_name,
    is_position,
    order_name,
)
from .timer_state import TimerState

RECORDS_MAX = 64
"""Newest records with a key that are looked at: a message, its rolls, its delete."""
_ALWAYS_MS = 2**63 - 1


class Verdict(enum.Enum):
    """What became of a request to cancel or to move."""

    CANCELLED = "cancelled"
    """It never arrives, or not at its old moment."""
    TOO_LATE = "too_late"
    """It has arrived."""
    NOT_FOUND = "not_found"
    """No delayed message with this key is known."""


class CancelError(StoreError):
    """No verdict can be given, and nothing has changed.

    Attributes:
        rule: Name of the rule, in capitals; docs/protocol.md lists them.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.text = text


@attrs.frozen
class Wanted:
    """Which message is meant: by its unique key, or by a key that one pending message has."""

    topic: str
    key: str
    is_unique_key: bool = True


@attrs.frozen
class Waiting:
    """The newest record of one message of the timer topic."""

    phy_offset: int
    record: bytes
    facts: TimerFacts
    unique_key: bytes


@attrs.frozen
class Found:
    """What the index shows of the messages that a request may mean."""

    pending: list[Waiting]
    cancelled: int
    delivered: int
    newest_py: int = -1
    """Position of the newest record."""
    set_aside: tuple[int, ...] = ()
    """Positions of records that are in quarantine."""

    @property
    def verdict(self) -> Verdict:
        """What is true now, before anything is done."""
        if self.delivered:
            return Verdict.TOO_LATE
        waits = self.pending or self.set_aside
        return Verdict.CANCELLED if self.cancelled or waits else Verdict.NOT_FOUND


@attrs.frozen(eq=False, kw_only=True)
class WaitingMessages:
    """The messages of one running service; plain code."""

    store: MessageStore
    state: TimerState
    quarantine: Quarantine
    options: TimerOptions

    def find(self, wanted: Wanted) -> Found:
        """What is known of the messages that are meant.

        Raises:
            CancelError: There is no index, several waiting messages have the key, or too many
                records have it.
        """
        if not self.store.options.message_index_enable:
            raise CancelError("CANCEL_NEEDS_INDEX", "messageIndexEnable is false on this broker")
        if wanted.is_unique_key:
            return self._of_unique_key(wanted.topic, wanted.key)
        records = self._query(TIMER_TOPIC, wanted.key, is_unique_key=False)
        keys = {
            key.decode("utf-8", "replace")
            for record in records
            if (key := find(record_properties(record), b"UNIQ_KEY"))
        }
        if len(records) >= RECORDS_MAX and len(keys) > 1:
            raise _too_common(wanted.key)
        found = [self._of_unique_key(wanted.topic, key) for key in sorted(keys)]
        found = [one for one in found if one.newest_py >= 0]
        waiting = [one for one in found if one.pending or one.set_aside]
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
        return Found([], 0, len(self._query(wanted.topic, wanted.key, is_unique_key=False)))

    def _of_unique_key(self, topic: str, unique_key: str) -> Found:
        newest: dict[int, Waiting] = {}
        deletes: list[tuple[TimerFacts, bytes]] = []
        moved_from: set[int | None] = set()
        set_aside: set[int] = set()
        records = self._query(TIMER_TOPIC, unique_key, is_unique_key=True)
        for record in records:
            phy_offset = int.from_bytes(record[PHY_OFFSET_AT : PHY_OFFSET_AT + 8])
            try:
                facts = decode_timer(record, phy_offset, self.options.timer_precision_ms)
            except TimerRecordError:
                if _asked_for(record) == topic and self.quarantine.state(phy_offset) is not None:
                    set_aside.add(phy_offset)
                continue
            if facts.destination.topic != topic:
                continue
            if facts.is_delete:
                deletes.append((facts, record_properties(record)))
                continue
            # Rolls come later in the log: the last record of a message is the one that waits.
            key = unique_key.encode()
            newest[facts.order_py] = Waiting(phy_offset, record, facts, key)
            if not facts.rolls:
                moved_from.add(origin_in(record))
        if len(records) >= RECORDS_MAX and len(newest) != 1:
            raise _too_common(unique_key)
        deleted = self._deleted_names(deletes, moved_from)
        arrived = self._query(topic, unique_key, is_unique_key=True)
        origins = {origin_in(record) for record in arrived}
        pending: list[Waiting] = []
        cancelled = delivered = 0
        for one in newest.values():
            if self.quarantine.state(one.phy_offset) is not None:
                set_aside.add(one.phy_offset)
            elif one.phy_offset in origins or (None in origins and _came_later(arrived, one)):
                delivered += 1
            elif deleted.isdisjoint(_names(one)):
                pending.append(one)
            else:
                cancelled += 1
        if not newest and not set_aside:
            delivered = len(arrived)
        ends = {one: self.quarantine.state(one) for one in sorted(set_aside)}
        cancelled += sum(end in (State.DROPPED, State.CANCELLED) for end in ends.values())
        # A retry of one whose moment was to come is a record of its own that waits.
        retried = [one for one, end in ends.items() if end is State.RETRIED]
        delivered += len([one for one in retried if one not in moved_from])
        active = tuple(one for one, end in ends.items() if end is State.ACTIVE)
        newest_py = max((*(one.phy_offset for one in newest.values()), *ends), default=-1)
        return Found(pending, cancelled, delivered, newest_py, active)

    def _deleted_names(
        self, deletes: Sequence[tuple[TimerFacts, bytes]], moved_from: set[int | None]
    ) -> set[bytes | tuple[int, bytes]]:
        """What deletes have taken back for certain.

        One that makes way counts with the message that it makes way for: a power cut may have kept
        it alone. One without an order is RocketMQ's: it has had its effect, if any, when its slot
        is through.
        """
        names: set[bytes | tuple[int, bytes]] = set()
        for facts, properties in deletes:
            name = deleted_name(properties) or b""
            target_py = find(properties, DELETE_FOR[:-1])
            if find(properties, DELETE_ORDER[:-1]) is None:
                if facts.out_ms < self.state.commit_read_ms:
                    names.add((facts.out_ms, name))
            elif (
                target_py is None
                or facts.rolls
                or (is_position(target_py) and int(target_py) in moved_from)
            ):
                names.add(name)
        return names

    def _query(self, topic: str, key: str, *, is_unique_key: bool) -> list[bytes]:
        return self.store.query(
            topic,
            key,
            count_max=RECORDS_MAX,
            begin_ms=0,
            end_ms=_ALWAYS_MS,
            unique=is_unique_key,
        )


def _asked_for(record: bytes) -> str | None:
    """Where a message asked to go of whose record no timer can be made."""
    try:
        topic = find(record_properties(record), REAL_TOPIC[:-1])
    except RecordError:
        return None
    return None if topic is None else topic.decode("utf-8", "replace")


def _names(one: Waiting) -> set[bytes | tuple[int, bytes]]:
    """How a delete names a message: ours by its order, RocketMQ's by slot and key."""
    facts = one.facts
    full = facts.destination.topic.encode() + b"+" + one.unique_key
    return {order_name(facts.order_py), (facts.out_ms, one.unique_key), (facts.out_ms, full)}


def _too_common(key: str) -> CancelError:
    return CancelError(
        "CANCEL_KEY_TOO_COMMON",
        f"{RECORDS_MAX} records or more have the key {key}: not all of them can be looked at",
    )


def _came_later(arrived: Sequence[bytes], one: Waiting) -> bool:
    """Whether a message with the key that names no origin arrived in or after the slot: Java's."""
    return any(
        origin_in(record) is None and store_ms_of(record) >= one.facts.out_ms for record in arrived
    )
