"""Histories: what producers, consumers and those who disturb a broker saw, one event a line.

The first line of a file names the format and its version; each line after it is one JSON object
with the kind of event, the wall clock (``at_ms``) and who saw it (``who``: one producer, consumer
or observer). Lines stand in the order in which things were seen: what was asked is written before
the request leaves, what was answered after the answer came. Several processes may append to one
file, and several files, written on one machine, may be judged together.

``timermq check-history`` judges them (docs/testing.md names the rules). Times are epoch
milliseconds.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Self

import msgspec

from .moment import now_ms

FORMAT = "timermq-history"
VERSION = 1

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="event",
):
    at_ms: int
    """The wall clock of the observer."""
    who: str
    """One producer, consumer or observer; no two processes have the same."""


class Start(_Event, tag="start", frozen=True, kw_only=True):
    """A producer, consumer or observer begins to write."""

    flush: Literal["ASYNC_FLUSH", "SYNC_FLUSH", ""] = ""
    """How the broker flushes, from a writer that knows it."""
    unsynced_ms: _Natural = 500
    """With ASYNC_FLUSH: age up to which a power cut may undo what was acknowledged."""
    settings: dict[str, str | int | float | bool] = {}
    """For people: seed, sizes, versions."""


class Send(_Event, tag="send", frozen=True, kw_only=True):
    """A message is about to leave; at most one of ``deliver_ms``, ``delay_ms`` and ``level``."""

    message_id: str
    """The unique key; two sends with one id are two attempts to send one message."""
    topic: str
    queue: int | None = None
    """The topic in which it is to appear, if the producer names it."""
    deliver_ms: int | None = None
    """The moment asked for."""
    delay_ms: int | None = None
    level: int | None = None
    keys: tuple[str, ...] = ()
    op: int = -1
    """Number of the request within its writer: messages with one number left together, in order of
    their lines; -1: alone."""

    @property
    def is_delayed(self) -> bool:
        """Whether a moment was asked for in any way."""
        return not (self.deliver_ms is None and self.delay_ms is None and self.level is None)


class Ack(_Event, tag="ack", frozen=True, kw_only=True):
    """The broker has stored a message."""

    message_id: str
    queue: int
    offset: int
    """Of a delayed message: its place among those that wait."""
    deliver_ms: int | None = None
    """The moment that the broker answered, if it did."""


class Refused(_Event, tag="refused", frozen=True, kw_only=True):
    """A message was not stored: refused by the broker, or it never left (``NOT_SENT``)."""

    message_id: str
    code: int = 0
    rule: str = ""


class Unknown(_Event, tag="unknown", frozen=True, kw_only=True):
    """A send without an answer: stored or not, now or later."""

    message_id: str
    reason: str = ""


class Cancel(_Event, tag="cancel", frozen=True, kw_only=True):
    """A cancel is about to be asked for."""

    op: int
    """Number of the request within its writer; its verdict has the same."""
    topic: str
    message_id: str = ""
    """Empty when it is asked for by a key."""
    key: str = ""


class Reschedule(_Event, tag="reschedule", frozen=True, kw_only=True):
    """A move is about to be asked for; one of ``deliver_ms`` and ``delay_ms``."""

    op: int
    topic: str
    message_id: str = ""
    key: str = ""
    deliver_ms: int | None = None
    delay_ms: int | None = None


class Verdict(_Event, tag="verdict", frozen=True, kw_only=True):
    """The answer to a cancel or a move."""

    op: int
    verdict: Literal["cancelled", "moved", "too_late", "not_found", "refused", "unknown"]
    """``refused``: nothing was done; ``unknown``: no answer, done or not, now or later."""
    message_id: str = ""
    """The message that was found, if the answer names one."""
    deliver_ms: int | None = None
    """When moved: the new moment."""


class Publish(_Event, tag="publish", frozen=True, kw_only=True):
    """A message stands on its topic, read from the log; ``at_ms`` is when it was read."""

    message_id: str
    topic: str
    queue: int
    offset: int
    stored_ms: int
    """The broker's clock when it was put there."""
    deliver_ms: int | None = None
    """The moment in its properties."""
    broker: str = ""
    keys: tuple[str, ...] = ()
    """A producer that does not learn the unique key of what it sent names it by a key: a message
    with an id that was not sent is the one with the id of its key."""


class Deliver(_Event, tag="deliver", frozen=True, kw_only=True):
    """A consumer has a message; fields as for ``Publish``."""

    message_id: str
    topic: str
    queue: int
    offset: int
    stored_ms: int
    deliver_ms: int | None = None
    broker: str = ""
    keys: tuple[str, ...] = ()
    received_ms: int
    """The consumer's clock when it was pulled."""
    group: str = ""


class Crash(_Event, tag="crash", frozen=True, kw_only=True):
    """The broker ended without a word."""

    kind: Literal["kill", "power"]


class Fault(_Event, tag="fault", frozen=True, kw_only=True):
    """Something else was done to the broker; it breaks no promise, it only explains."""

    kind: str
    """Such as ``stop``, ``continue``, ``disk_full``, ``disk_free``."""
    text: str = ""
    """For people: what it led to."""


class Skip(_Event, tag="skip", frozen=True, kw_only=True):
    """A queue went on behind offsets of which nothing told whether they had been given out."""

    topic: str
    queue: int
    offset: int
    """The queue offset at which it went on."""
    broker: str = ""


class ClockStep(_Event, tag="clock_step", frozen=True, kw_only=True):
    """The wall clock was set by so much; ``at_ms`` is the clock before it."""

    by_ms: int


class End(_Event, tag="end", frozen=True, kw_only=True):
    """A producer, consumer or observer ends, and says how much it has seen."""

    waited_until_ms: int = 0
    """With ``drained``: whatever was due by then would have been seen."""
    drained: bool = False
    """Whether this observer has seen all that its topics (and, of several in a group, its queues)
    hold."""
    topics: tuple[str, ...] = ()
    """The topics that it observed; empty: all."""
    group: str = ""
    """Its group: the horizon of a group is that of its earliest member."""


Event = (
    Start
    | Send
    | Ack
    | Refused
    | Unknown
    | Cancel
    | Reschedule
    | Verdict
    | Publish
    | Deliver
    | Crash
    | Fault
    | Skip
    | ClockStep
    | End
)


class HistoryError(Exception):
    """A file is no history that this version reads; its writer is to blame."""


class _Header(msgspec.Struct, frozen=True):
    format: str
    version: int


_encoder = msgspec.json.Encoder()
_HEADER = _encoder.encode(_Header(FORMAT, VERSION)) + b"\n"
_decode_header = msgspec.json.Decoder(_Header).decode
_decode_event: Callable[[bytes], Event] = msgspec.json.Decoder(Event).decode
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError)


class HistoryWriter:
    """Writes one writer's events to a file; use it as a context manager.

    When ``write`` returns they are in the file, though not on the disk.

    Args:
        path: Appended to; made when it is not there.
        who: The writer's name; None: one that no other writer has.
        clock_ms: The wall clock.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        who: str | None = None,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self.who = f"{os.getpid()}-{secrets.token_hex(4)}" if who is None else who
        self.clock_ms = clock_ms
        self._op = 0
        # Unbuffered and appending: a line is whole, and there before what it announces.
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed by close()
        if self._file.tell() == 0:
            self._append(_HEADER)

    def __enter__(self) -> Self:
        """The writer itself; its file is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file, however the block ended."""
        self.close()

    def close(self) -> None:
        """Close the file; nothing more can be written."""
        self._file.close()

    def next_op(self) -> int:
        """A number that no other request of this writer has."""
        self._op += 1
        return self._op

    def write(self, *events: Event) -> None:
        """Append events, all at once.

        Raises:
            OSError: They may be in the file in part.
        """
        self._append(b"".join([_encoder.encode(event) + b"\n" for event in events]))

    def _append(self, lines: bytes) -> None:
        rest = memoryview(lines)
        while rest:  # a disk that fills takes a part first
            rest = rest[self._file.write(rest) :]


def read_history(path: str | os.PathLike[str]) -> Iterator[tuple[int, Event]]:
    """The events of a file with the numbers of their lines, from 2 on.

    A last line without an end is left out: its writer died in the middle of it.

    Raises:
        HistoryError: The file is something else, of another version, or a line is no event.
        OSError: It cannot be read.
    """
    with Path(path).open("rb") as lines:
        header = lines.readline()
        place = f"{os.fspath(path)}:1"
        try:
            found = _decode_header(header)
        except _NO_JSON as error:
            raise HistoryError(f"{place}: expected the header of a history: {error}") from error
        if (found.format, found.version) != (FORMAT, VERSION):
            raise HistoryError(
                f"{place}: expected {FORMAT} version {VERSION}, "
                f"found {found.format} version {found.version}"
            )
        for number, line in enumerate(lines, start=2):
            if not line.endswith(b"\n"):
                return
            if line == _HEADER:  # two processes began the file at once
                continue
            try:
                yield number, _decode_event(line)
            except _NO_JSON as error:
                raise HistoryError(f"{os.fspath(path)}:{number}: {error}") from error
