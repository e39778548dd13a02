"""Messages as a program sees them: outgoing, acknowledged, received."""

from __future__ import annotations

import datetime
import enum
import functools
from collections.abc import Mapping, Sequence

import attrs

from timermq.remoting import RemoteProtocolError
from timermq.remoting.stored_message import StoredMessage, property_text, unpack_body

from .errors import UnreadableBodyError
from .moment import delay_ms, epoch_ms

DELIVER_MS_DIGITS_MAX = 19
"""Digits of a 64-bit number."""


@attrs.frozen(kw_only=True)
class OutgoingMessage:
    """A message to send; at most one of ``at``, ``delay`` and ``level``.

    Raises:
        ValueError: More than one of the three, a moment without a time zone, a negative delay, a
            level below 1, or a key that is empty or holds a blank.
    """

    topic: str
    body: bytes
    at: datetime.datetime | int | None = None
    """The moment: an aware datetime or epoch milliseconds; microseconds count as one more."""
    delay: datetime.timedelta | None = None
    """From the broker's receiving it; microseconds count as one more millisecond."""
    level: int | None = None
    """One of RocketMQ's delay levels, 1 and up."""
    keys: Sequence[str] = ()
    tag: str = ""
    properties: Mapping[str, str] = attrs.Factory(dict[str, str])
    queue_id: int | None = None
    """None: the client picks queues in turn."""
    flag: int = 0

    def __attrs_post_init__(self) -> None:
        """Check what the broker could only refuse."""
        if sum(value is not None for value in (self.at, self.delay, self.level)) > 1:
            raise ValueError("expected at most one of at, delay and level")
        if isinstance(self.at, datetime.datetime) and self.at.tzinfo is None:
            raise ValueError(f"at: expected a datetime with a time zone, found {self.at}")
        if self.delay is not None and self.delay < datetime.timedelta(0):
            raise ValueError(f"delay: expected 0 or more, found {self.delay}")
        if self.level is not None and self.level < 1:
            raise ValueError(f"level: expected 1 or more, found {self.level}")
        if any(" " in key or not key for key in self.keys):
            raise ValueError("keys: expected texts without blanks")

    def encode_properties(self, unique_key: str) -> bytes:
        """RocketMQ's property text, with the message's id.

        Raises:
            ValueError: A key, tag or property holds a separator or is not UTF-8 text.
        """
        pairs = dict(self.properties)
        if self.keys:
            pairs["KEYS"] = " ".join(self.keys)
        if self.tag:
            pairs["TAGS"] = self.tag
        if self.at is not None:
            pairs["TIMER_DELIVER_MS"] = str(epoch_ms(self.at))
        if self.delay is not None:
            pairs["TIMER_DELAY_MS"] = str(delay_ms(self.delay))
        if self.level is not None:
            pairs["DELAY"] = str(self.level)
        pairs["UNIQ_KEY"] = unique_key
        return property_text(pairs)


class Verdict(enum.Enum):
    """The answer to a cancel or a move; what it says stays true."""

    CANCELLED = "cancelled"
    """It will not arrive."""
    MOVED = "moved"
    """It will arrive at its new moment only."""
    TOO_LATE = "too_late"
    """It has arrived."""
    NOT_FOUND = "not_found"
    """The broker knows of no such message."""


@attrs.frozen(kw_only=True, slots=False)  # without slots: a body is kept once it is unpacked
class ReceivedMessage:
    """A message from a topic; times are epoch milliseconds."""

    topic: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_message_id: str
    keys: tuple[str, ...]
    tags: str
    properties: dict[str, str]
    raw_body: bytes
    """As it is stored: packed if ``sys_flag`` says so."""
    born_ms: int
    stored_ms: int
    received_ms: int
    deliver_ms: int | None
    """The moment that was asked for; None without one."""
    reconsume_times: int
    sys_flag: int = 0
    """RocketMQ's flags: 1 packed; 0x100 LZ4, 0x200 Zstandard, else zlib."""
    broker_name: str = ""
    """The broker of its queue: queues of one number are on several brokers."""

    @functools.cached_property
    def body(self) -> bytes:
        """The body as its producer had it.

        It is unpacked here, not when it arrives: a message that cannot be read is the business of
        the reader, and those behind it come all the same.

        Raises:
            UnreadableBodyError: It does not unpack; ``raw_body`` is what there is.
        """
        try:
            return unpack_body(self.raw_body, self.sys_flag)
        except RemoteProtocolError as error:
            place = f"message {self.topic}/{self.queue_id}@{self.queue_offset}"
            reason = (error.remark or "").removeprefix("MESSAGE: ")
            raise UnreadableBodyError(f"{place}: {reason}") from error

    @property
    def original_topic(self) -> str:
        """The topic that it was sent to, also of one that comes again."""
        return self.properties.get("RETRY_TOPIC", self.topic)

    @property
    def lateness_ms(self) -> int | None:
        """How long after its moment it was received, by this machine's clock."""
        return None if self.deliver_ms is None else self.received_ms - self.deliver_ms

    @classmethod
    def of(
        cls, stored: StoredMessage, received_ms: int, *, broker_name: str = ""
    ) -> ReceivedMessage:
        """The message of a record that a pull has brought."""
        properties = stored.properties
        return cls(
            topic=stored.topic,
            queue_id=stored.queue_id,
            queue_offset=stored.queue_offset,
            message_id=properties.get("UNIQ_KEY", stored.offset_message_id),
            offset_message_id=stored.offset_message_id,
            keys=tuple(properties.get("KEYS", "").split()),
            tags=properties.get("TAGS", ""),
            properties=properties,
            raw_body=stored.body,
            sys_flag=stored.sys_flag,
            born_ms=stored.born_ms,
            stored_ms=stored.stored_ms,
            received_ms=received_ms,
            deliver_ms=_deliver_ms(properties.get("TIMER_DELIVER_MS", "")),
            reconsume_times=stored.reconsume_times,
            broker_name=broker_name,
        )


def _deliver_ms(text: str) -> int | None:
    """The moment in a property; anybody may have written it, so it may be anything."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= DELIVER_MS_DIGITS_MAX
    return int(text) if is_number else None
