"""What clients of a simulation do, as data: steps with their times, and the messages in them."""

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
"""Of one variant of a job."""
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
    """With AT: from the wall clock of that moment on, may be negative; with DELAY the delay."""
    level: int = 0
    body_size: int = 8


@attrs.frozen(kw_only=True)
class Send:
    """Send messages: in one frame where the coding has that, else one behind the other."""

    at_ms: int
    items: tuple[Item, ...]


class Name(enum.Enum):
    """What a message that waits is called by."""

    ID = "id"
    KEY = "key"
    HANDLE = "handle"
    """By RocketMQ's own request (370), if the client has got a handle; else nothing is asked."""


@attrs.frozen(kw_only=True)
class Cancel:
    """Take a message back."""

    at_ms: int
    number: int
    topic: str
    name: Name = Name.ID


@attrs.frozen(kw_only=True)
class Move:
    """Give a message another moment."""

    at_ms: int
    number: int
    topic: str
    ahead_ms: int


@attrs.frozen(kw_only=True)
class LookUp:
    """Look a message up by its unique key."""

    at_ms: int
    number: int
    topic: str


@attrs.frozen(kw_only=True)
class Pull:
    """Pull what a queue has from where this client stands."""

    at_ms: int
    topic: str
    queue_id: int
    hold_ms: int = 0
    """How long the broker may hold the pull when there is nothing."""


@attrs.frozen(kw_only=True)
class Commit:
    """Commit where this client stands; what it pulls next begins there after a disconnect."""

    at_ms: int


class Leaving(enum.Enum):
    """How a connection ends."""

    CLOSE = "close"
    CUT = "cut"
    """Both ends find it broken; what is under way is lost, in both directions."""
    HALF = "half"
    """The client sends its end and reads on."""


class Decision(enum.Enum):
    """What a producer says of its transaction, as RocketMQ's flags."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


@attrs.frozen(kw_only=True)
class Transact:
    """Send a half message, and end the transaction at once unless that is not known."""

    at_ms: int
    item: Item
    decision: Decision
    checked: Decision
    """What is answered when the broker asks."""


@attrs.frozen(kw_only=True)
class Schedule:
    """Run a bulk job from its beginning; nothing is done twice, whoever runs it again."""

    at_ms: int
    job: str
    variant: int
    """Runs with another one have other rows under the same name."""
    rows: tuple[Item, ...]


@attrs.frozen(kw_only=True)
class Poison:
    """A record stands in the timer topic that no timer can be made of; ``topic`` would be right."""

    at_ms: int
    item: Item


@attrs.frozen(kw_only=True)
class Release:
    """Decide about all of this client's records that are in quarantine."""

    at_ms: int
    drops: bool
    """Let them go; else try them again."""


@attrs.frozen(kw_only=True)
class AcceptClock:
    """Say that the wall clock is right, as an operator does."""

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
