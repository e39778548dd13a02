"""The histories of each message: its sends, requests and arrivals, with the lines."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import attrs

from timermq.client.history import Ack, Cancel, End, Reschedule, Send


@attrs.frozen
class Mark:
    """The place and time of an observation."""

    file: int
    line: int
    at_ms: int
    stepped_ms: int = 0
    """By how much the clock of this file was set forward until then, all steps together."""


@attrs.define
class Attempt:
    """One attempt to send a message, and the answer to it, if any."""

    sent: Mark
    send: Send
    answered: Mark | None = None
    ack: Ack | None = None
    is_refused: bool = False
    steps_ms: int = 0
    """Sum of what the clock was set by in all, either way."""

    @property
    def earliest_ms(self) -> int:
        """The message may not appear before it."""
        asked_ms = self.moment_ms
        if asked_ms is not None:
            return asked_ms
        if self.send.delay_ms is None:
            return 0
        return max(self.sent.at_ms + self.send.delay_ms - self.steps_ms, 0)

    @property
    def latest_ms(self) -> float:
        """The message is due by then; infinite where the history does not say."""
        if self.ack is None or self.answered is None:
            return math.inf
        if self.moment_ms is not None:
            return max(self.moment_ms, self.answered.at_ms)  # one that is past means now
        if self.send.delay_ms is not None:
            return self.answered.at_ms + self.send.delay_ms + self.steps_ms
        return math.inf if self.send.is_delayed else self.answered.at_ms

    @property
    def moment_ms(self) -> int | None:
        """The very moment, where it was asked for or answered."""
        if self.send.deliver_ms is not None:
            return self.send.deliver_ms
        return None if self.ack is None else self.ack.deliver_ms


@attrs.define
class Request:
    """A cancel or a move, and its verdict."""

    asked: Mark
    event: Cancel | Reschedule
    answered: Mark | None = None
    verdict: Literal["cancelled", "moved", "too_late", "not_found", "refused", "unknown"] = (
        "unknown"
    )
    found_id: str = ""
    moved_to_ms: int | None = None


@attrs.frozen
class Queue:
    """A queue of a topic on one broker, as histories name it."""

    topic: str
    broker: str
    number: int

    def __str__(self) -> str:
        """As it is called in reports."""
        return f"{self.topic}/{self.number}" + (f" of {self.broker}" if self.broker else "")


class Fate(enum.Enum):
    """The judgement of an arrival that was seen."""

    LASTING = enum.auto()
    """No power cut was near, or it was seen again behind the cut."""
    GONE = enum.auto()
    """A cut took it: who read its whole queue afterwards did not see it."""
    UNKNOWN = enum.auto()


@attrs.define(eq=False)
class Arrival:
    """A message stands at a place, stored at one time."""

    seen: Mark
    """The first sight of it."""
    seen_last: Mark
    queue: Queue
    offset: int
    stored_ms: int
    deliver_ms: int | None
    message_id: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        """As it is called in reports."""
        return f"it at {self.queue}@{self.offset}, stored {self.stored_ms}"


@attrs.define
class Life:
    """One message with its sends, requests and arrivals."""

    message_id: str
    attempts: list[Attempt] = attrs.Factory(list[Attempt])
    requests: list[Request] = attrs.Factory(list[Request])
    arrivals: list[Arrival] = attrs.Factory(list[Arrival])
    """One a place."""


@attrs.define
class Reader:
    """How far back a group of consumers has read."""

    first: Mark
    """Its first sight of anything, or its start where it saw nothing."""
    lowest: dict[Queue, int] = attrs.Factory(dict[Queue, int])
    """Queue to the lowest offset that it has seen."""


@attrs.define
class Histories:
    """Several histories of one run, taken together."""

    files: tuple[str, ...]
    lives: dict[str, Life] = attrs.Factory(dict[str, Life])
    queues: dict[Queue, dict[int, list[Arrival]]] = attrs.Factory(
        dict[Queue, dict[int, list[Arrival]]]
    )
    """Queue to offset to what was seen there: one, unless a power cut took it, or it is broken."""
    readers: dict[str, Reader] = attrs.Factory(dict[str, Reader])
    """Group to what it has read."""
    ends: list[End] = attrs.Factory(list[End])
    power_cuts: list[Mark] = attrs.Factory(list[Mark])
    repairs: list[Mark] = attrs.Factory(list[Mark])
    """The starts of each `store repair`."""
    skips: dict[Queue, set[int]] = attrs.Factory(dict[Queue, set[int]])
    """Offsets at which queues went on that did not tell where they had ended."""
    counts: Counter[str] = attrs.Factory(Counter[str])
    """Crashes and faults by their kind, clock steps as ``clock_step``."""
    steps_ms: int = 0
    """Sum of what the clock was set by, either way."""
    unsynced_ms: int | None = None
    """With ASYNC_FLUSH: age up to which a power cut undoes; None: it undoes nothing."""
    unjudged_requests: int = 0
    """Requests by a key that several messages have, without an answer that names one."""

    def place(self, mark: Mark) -> str:
        """The place of a mark as ``file:line``, for reports."""
        return f"{self.files[mark.file]}:{mark.line}"

    def is_before(self, first: Mark, second: Mark) -> bool:
        """Whether what was seen at ``first`` was over when the other began, for certain.

        Within a file the lines say it. Between files the clock does, unless it was set.
        """
        if first.file == second.file:
            return first.line < second.line
        return self.is_earlier(first.at_ms, second.at_ms)

    def is_earlier(self, first_ms: int, second_ms: int) -> bool:
        """Whether one reading of the clock was before another, for certain."""
        return first_ms < second_ms and not self.steps_ms

    def may_be_undone(self, seen: Mark, since: Mark | None = None) -> bool:
        """Whether a power cut may have undone what was seen.

        Args:
            seen: Where it was written down.
            since: Where it was asked for: it was given at some time from then on.
        """
        return any(self._may_undo(cut, since or seen, seen) for cut in self.power_cuts)

    def fate(self, arrival: Arrival) -> Fate:
        """Whether it still stands where it was seen."""
        if not self.may_be_undone(arrival.seen_last):
            return Fate.LASTING
        lowest = self.read_behind(self.power_cuts, arrival.queue)
        if any(offset <= arrival.offset for offset in lowest):
            return Fate.GONE
        return Fate.UNKNOWN

    def read_behind(self, cuts: Iterable[Mark], queue: Queue) -> Iterator[float]:
        """Of each group that began to read behind some cuts, and saw all: its lowest offset.

        Infinite of one that saw nothing in the queue.
        """
        drained = {end.group for end in self.ends if end.drained}
        for group, reader in self.readers.items():
            if group in drained and all(self.is_before(cut, reader.first) for cut in cuts):
                yield reader.lowest.get(queue, math.inf)

    def lasting(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """The arrivals that no power cut can have taken."""
        return [one for one in arrivals if self.fate(one) is Fate.LASTING]

    def _may_undo(self, cut: Mark, since: Mark, seen: Mark) -> bool:
        if self.unsynced_ms is None:
            return False
        if cut.file == seen.file:
            if seen.line > cut.line:
                return since.line < cut.line  # it may have been given before the cut
            forward_ms = cut.stepped_ms - seen.stepped_ms
            return cut.at_ms - seen.at_ms <= self.unsynced_ms + forward_ms
        reach_ms = self.unsynced_ms + self.steps_ms
        return cut.at_ms - reach_ms <= seen.at_ms and since.at_ms <= cut.at_ms + self.steps_ms

    def horizon_ms(self, topic: str) -> int:
        """The last moment whose messages of a topic were waited for; -1: not all were seen."""
        groups: dict[str, int] = {}
        for end in self.ends:
            if end.drained and (not end.topics or topic in end.topics):
                until = groups.get(end.group, end.waited_until_ms)
                groups[end.group] = min(until, end.waited_until_ms)
        return max(groups.values(), default=-1)
