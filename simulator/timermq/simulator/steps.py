"""The steps of a simulation's clients, as data: with their times, and the messages in them."""

from __future__ import annotations

import enum

import attrs

from timermq.remoting.command import Coding

TOPICS = ("A", "B")
FIRST_TRANSACTION = 500_000
"""Number of the first message in a transaction; those of other sends are below."""
FIRST_POISON = 600_000
"""Number of the first record that no timer can be made of."""
FIRST_ROW = 700_000
"""Number of the first row of a bulk job."""
ROWS_MAX = 1_000
"""Rows that one variant of a bulk job has at most."""
FIRST_BEGUN = 800_000
"""Number of the first message that RocketMQ has left."""
QUEUES = 2
"""Queues of each topic that messages are sent to."""


class When(enum.Enum):
    """How a message asks for its moment."""

    NOW = "now"
    AT = "at"
    DELAY = "delay"
    LEVEL = "level"


@attrs.frozen(kw_only=True)
class Item:
    """One message; its number names it."""

    number: int
    topic: str
    queue_id: int
    when: When = When.NOW
    ahead_ms: int = 0
    """With AT, milliseconds from the sending to the moment, negative if it is past; with DELAY,
    the delay."""
    level: int = 0
    body_size: int = 8


@attrs.frozen(kw_only=True)
class Send:
    """Send messages: in one frame where the coding has that, else one behind the other."""

    at_ms: int
    items: tuple[Item, ...]


class Name(enum.Enum):
    """The name by which a request finds a pending message."""

    ID = "id"
    KEY = "key"
    HANDLE = "handle"
    """By RocketMQ's own request (370), if the client has got a handle; else nothing is asked."""


@attrs.frozen(kw_only=True)
class Cancel:
    """The client cancels a message."""

    at_ms: int
    number: int
    topic: str
    name: Name = Name.ID


@attrs.frozen(kw_only=True)
class Move:
    """The client gives a message another moment."""

    at_ms: int
    number: int
    topic: str
    ahead_ms: int


@attrs.frozen(kw_only=True)
class LookUp:
    """The client looks a message up by its unique key."""

    at_ms: int
    number: int
    topic: str


@attrs.frozen(kw_only=True)
class Pull:
    """The client pulls what a queue has, from the offset where it stands."""

    at_ms: int
    topic: str
    queue_id: int
    hold_ms: int = 0
    """How long the broker may hold the pull when there is nothing."""


@attrs.frozen(kw_only=True)
class Commit:
    """The client commits its offset. After a disconnect its next pull begins there."""

    at_ms: int


class Leaving(enum.Enum):
    """How a client ends its connection."""

    CLOSE = "close"
    CUT = "cut"
    """Both ends find it broken; what is under way is lost, in both directions."""
    HALF = "half"
    """The client sends its end and reads on."""


class Decision(enum.Enum):
    """The decision of a producer on its transaction, as RocketMQ's flags."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


@attrs.frozen(kw_only=True)
class Transact:
    """The client sends a half message, and ends the transaction at once or is asked about it."""

    at_ms: int
    item: Item
    decision: Decision
    checked: Decision
    """The client's answer when the broker asks about the transaction."""


@attrs.frozen(kw_only=True)
class Schedule:
    """The client runs a bulk job from its beginning; what was done before is not done twice."""

    at_ms: int
    job: str
    variant: int
    """Which rows the job has: a run with another number brings other rows under the same name."""
    rows: tuple[Item, ...]


@attrs.frozen(kw_only=True)
class Poison:
    """The timer topic gets a record from which no timer can be made, though its topic is right."""

    at_ms: int
    item: Item


@attrs.frozen(kw_only=True)
class Release:
    """The client decides about all of its records that are in quarantine."""

    at_ms: int
    drops: bool
    """True drops the records; false tries them again."""


@attrs.frozen(kw_only=True)
class AcceptClock:
    """The client tells the broker that the wall clock is right, as an operator does."""

    at_ms: int


@attrs.frozen(kw_only=True)
class Disconnect:
    """End the connection; the next step opens another."""

    at_ms: int
    leaving: Leaving
    turns: int = 0
    """With CUT: turns that the other tasks get in between."""


Step = (
    Send
    | Cancel
    | Move
    | LookUp
    | Pull
    | Commit
    | Transact
    | Schedule
    | Poison
    | Release
    | AcceptClock
    | Disconnect
)


@attrs.frozen(kw_only=True)
class ClientPlan:
    """One client: its steps in the order of their times."""

    number: int
    coding: Coding
    steps: tuple[Step, ...]


def unique_key(number: int) -> str:
    """The unique key of a message."""
    return f"M{number:06}"


def key_of(number: int) -> str:
    """A key that no other message has."""
    return f"K{number}"
