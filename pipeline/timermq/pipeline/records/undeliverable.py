"""A message that cannot be delivered, and why: from the stage that finds it, for the quarantine."""

from __future__ import annotations

import enum

import attrs

from timermq.timerstore.errors import StoreError
from timermq.timerstore.queue_unit import LOST_SIZE


class Reason(enum.Enum):
    """Why a message cannot be delivered; the values stand in the store and in answers."""

    GONE = "gone"
    """The commit log does not hold its record."""
    DAMAGED = "damaged"
    """Its bytes are no record: magic, sizes or lengths do not fit."""
    CHECKSUM = "checksum"
    """Its body is not the one that was stored."""
    NO_TOPIC = "no_topic"
    """It names no real topic and queue."""
    ILLEGAL_TOPIC = "illegal_topic"
    """No message can go to the topic that it names."""
    NO_MOMENT = "no_moment"
    """It names no slot, or a moment that does not belong to its slot."""
    PROPERTIES = "properties"
    """Another property of the broker's says nothing that can be."""
    IN_DOUBT = "in_doubt"
    """The commit log is damaged where it may tell that the message was delivered."""
    REFUSED = "refused"
    """The store does not take the message that it becomes."""


UNSOUND = frozenset({Reason.GONE, Reason.DAMAGED, Reason.CHECKSUM})
"""The record is not as it was written; with all others something else is wrong."""


class TimerRecordError(StoreError):
    """A record of the timer topic that no timer can be made of; it is quarantined for this.

    Attributes:
        reason: The kind of fault.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def check_size(record: bytes | None, phy_offset: int, size: int) -> None:
    """Refuse what was read of a record if it is not of its size.

    Raises:
        TimerRecordError: It is gone, with its unit or without, or has another size.
    """
    if size == LOST_SIZE:
        text = f"timer record around {phy_offset}: expected it there, found the commit log damaged"
        raise TimerRecordError(Reason.GONE, text)
    if not record:
        text = f"timer record at {phy_offset}: expected {size} bytes of the commit log, found none"
        raise TimerRecordError(Reason.GONE, text)
    stated = int.from_bytes(record[:4])
    if stated != size or len(record) != size:
        text = f"timer record at {phy_offset}: expected {size} bytes, found {stated} stated"
        raise TimerRecordError(Reason.DAMAGED, text)


@attrs.frozen(kw_only=True)
class Undeliverable:
    """One message that is to be quarantined."""

    offset_py: int
    """Position of its record of the timer topic: the origin, by which it is known."""
    size_py: int
    """Bytes that its record should have."""
    record: bytes
    """Its record as far as it can be read."""
    reason: Reason
    text: str
    """The expected value and the found one."""
    topic_hash: int | None = None
    """Of the topic that it counts for among the pending; None when it never was."""
    deliver_ms: int | None = None
    """When it is due, if its record does not say."""
    order_py: int | None = None
    """Position of the message's first record, if it is known without this one."""
    is_delete: bool = False
    """Its unit says that it cancels another message."""

    @property
    def is_sound(self) -> bool:
        """Whether its record is there as it was written, and something else is wrong."""
        return self.reason not in UNSOUND

    @classmethod
    def of(
        cls,
        error: TimerRecordError,
        offset_py: int,
        size_py: int,
        record: bytes | None,
        topic_hash: int | None = None,
    ) -> Undeliverable:
        """A message by what is wrong with its record."""
        return cls(
            offset_py=offset_py,
            size_py=size_py,
            record=record or b"",
            reason=error.reason,
            text=str(error),
            topic_hash=topic_hash,
        )
