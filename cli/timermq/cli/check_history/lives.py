"""What histories say of each message: its sends, requests and arrivals, with the lines.

One pass over the files; memory is a few objects a message. Nothing is judged here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import attrs

from timermq.client.history import (
    Ack,
    Cancel,
    ClockStep,
    Crash,
    Deliver,
    End,
    Event,
    Fault,
    HistoryError,
    Publish,
    Refused,
    Reschedule,
    Send,
    Start,
    Unknown,
    Verdict,
)

Numbered = Iterable[tuple[int, Event]]
"""Events with the numbers of their lines."""


@attrs.frozen
class Mark:
    """Where and when something was seen."""

    file: int
    line: int
    at_ms: int


@attrs.define
class Attempt:
    """One send of a message."""

    sent: Mark
    send: Send
    answered: Mark | None = None
    ack: Ack | None = None
    is_refused: bool = False

    @property
    def earliest_ms(self) -> int:
        """The message may not appear before it."""
        asked_ms = self.moment_ms
        if asked_ms is not None:
            return asked_ms
        return 0 if self.send.delay_ms is None else self.sent.at_ms + self.send.delay_ms

    @property
    def latest_ms(self) -> float:
        """The message is due by then; infinite where the history does not say."""
        if self.ack is None or self.answered is None:
            return math.inf
        if self.moment_ms is not None:
            return max(self.moment_ms, self.answered.at_ms)  # one that is past means now
        if self.send.delay_ms is not None:
            return self.answered.at_ms + self.send.delay_ms
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
    """One queue of a topic."""

    topic: str
    broker: str
    number: int

    def __str__(self) -> str:
        """As it is called in reports."""
        return f"{self.topic}/{self.number}" + (f" of {self.broker}" if self.broker else "")


@attrs.frozen
class Arrival:
    """A message stands at a place; the first sight of it."""

    seen: Mark
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
    """Everything about one message."""

    message_id: str
    attempts: list[Attempt] = attrs.Factory(list[Attempt])
    requests: list[Request] = attrs.Factory(list[Request])
    arrivals: list[Arrival] = attrs.Factory(list[Arrival])
    """One a place."""


@attrs.define
class Histories:
    """Several histories of one run, taken together."""

    files: tuple[str, ...]
    lives: dict[str, Life] = attrs.Factory(dict[str, Life])
    queues: dict[Queue, dict[int, Arrival]] = attrs.Factory(dict[Queue, dict[int, Arrival]])
    """Queue to offset to what stands there."""
    displaced: list[tuple[Arrival, Arrival]] = attrs.Factory(list[tuple[Arrival, Arrival]])
    """Two messages at one place."""
    ends: list[End] = attrs.Factory(list[End])
    power_cuts: list[Mark] = attrs.Factory(list[Mark])
    counts: Counter[str] = attrs.Factory(Counter[str])
    """Crashes and faults by their kind, clock steps as ``clock_step``."""
    steps_ms: int = 0
    """Sum of what the clock was set by, either way."""
    unsynced_ms: int | None = None
    """With ASYNC_FLUSH: age up to which a power cut takes back; None: it takes back nothing."""
    unjudged_requests: int = 0
    """Requests by a key that several messages have, without an answer that names one."""

    @classmethod
    def read(cls, named: Mapping[str, Numbered]) -> Histories:
        """Take in all files.

        Raises:
            HistoryError: An answer stands in a file without its question.
        """
        histories = cls(tuple(named))
        reader = _Reader(histories)
        for file, events in enumerate(named.values()):
            for line, event in events:
                reader.take(Mark(file, line, event.at_ms), event)
        reader.resolve_arrivals()
        reader.resolve_requests()
        return histories

    def place(self, mark: Mark) -> str:
        """``file:line`` of a mark."""
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

    def may_be_undone(self, mark: Mark | None) -> bool:
        """Whether a power cut may have taken back what was seen at ``mark``."""
        if mark is None or self.unsynced_ms is None:
            return False
        reach = self.unsynced_ms + self.steps_ms
        return any(
            cut.at_ms - reach <= mark.at_ms <= cut.at_ms + self.steps_ms for cut in self.power_cuts
        )

    def horizon_ms(self, topic: str) -> int:
        """What was due on a topic by then was waited for; -1: nobody saw all of it."""
        groups: dict[str, int] = {}
        for end in self.ends:
            if end.drained and (not end.topics or topic in end.topics):
                until = groups.get(end.group, end.waited_until_ms)
                groups[end.group] = min(until, end.waited_until_ms)
        return max(groups.values(), default=-1)


class _Reader:
    """Puts events where they belong, answers to their questions."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._open_sends: dict[tuple[str, str], Attempt] = {}
        self._open_requests: dict[tuple[str, int], Request] = {}
        self._requests: list[Request] = []

    def take(self, mark: Mark, event: Event) -> None:
        """One event."""
        histories = self._histories
        match event:
            case Send():
                attempt = Attempt(mark, event)
                self._life(event.message_id).attempts.append(attempt)
                self._open_sends[event.who, event.message_id] = attempt
            case Ack() | Refused() | Unknown():
                self._answer_send(mark, event)
            case Cancel() | Reschedule():
                request = self._open_requests[event.who, event.op] = Request(mark, event)
                self._requests.append(request)
            case Verdict():
                self._answer_request(mark, event)
            case Publish() | Deliver():
                self._arrive(mark, event)
            case Start():
                if event.flush == "ASYNC_FLUSH":
                    histories.unsynced_ms = max(histories.unsynced_ms or 0, event.unsynced_ms)
            case Crash():
                histories.counts[event.kind] += 1
                if event.kind == "power":
                    histories.power_cuts.append(mark)
            case Fault():
                histories.counts[event.kind] += 1
            case ClockStep():
                histories.counts["clock_step"] += 1
                histories.steps_ms += abs(event.by_ms)
            case End():
                histories.ends.append(event)

    def resolve_arrivals(self) -> None:
        """Give arrivals whose id nobody sent to the message that was sent by the name of a key."""
        lives = self._histories.lives
        for life in [one for one in lives.values() if one.arrivals and not one.attempts]:
            nobodys: list[Arrival] = []
            for arrival in life.arrivals:
                named = [lives[key] for key in arrival.keys if key in lives]
                sent = [one for one in named if one.attempts]
                (sent[0].arrivals if len(sent) == 1 else nobodys).append(arrival)
            life.arrivals = nobodys

    def resolve_requests(self) -> None:
        """Give each request to the message that it means: named, answered, or known by its key."""
        by_key: dict[tuple[str, str], list[str]] = {}
        if any(not request.event.message_id for request in self._requests):
            for life in self._histories.lives.values():
                for send in {attempt.send for attempt in life.attempts}:
                    for key in send.keys:
                        by_key.setdefault((send.topic, key), []).append(life.message_id)
        for request in self._requests:
            event = request.event
            known = by_key.get((event.topic, event.key), [])
            found = self._histories.lives.get(request.found_id)
            if event.message_id:
                self._life(event.message_id).requests.append(request)
            elif found is not None and found.attempts:
                found.requests.append(request)
            elif len(known) == 1:
                self._life(known[0]).requests.append(request)
            else:  # any of them may have been meant
                self._histories.unjudged_requests += 1
                for one in known:
                    self._life(one).requests.append(Request(request.asked, event))

    def _life(self, message_id: str) -> Life:
        lives = self._histories.lives
        life = lives.get(message_id)
        if life is None:
            life = lives[message_id] = Life(message_id)
        return life

    def _answer_send(self, mark: Mark, event: Ack | Refused | Unknown) -> None:
        attempt = self._open_sends.pop((event.who, event.message_id), None)
        if attempt is None:
            raise self._misplaced(mark, f"a send of {event.message_id} by {event.who}")
        attempt.answered = None if isinstance(event, Unknown) else mark
        attempt.ack = event if isinstance(event, Ack) else None
        attempt.is_refused = isinstance(event, Refused)

    def _answer_request(self, mark: Mark, event: Verdict) -> None:
        request = self._open_requests.pop((event.who, event.op), None)
        if request is None:
            raise self._misplaced(mark, f"request {event.op} of {event.who}")
        request.answered = None if event.verdict == "unknown" else mark
        request.verdict = event.verdict
        request.found_id = event.message_id
        request.moved_to_ms = event.deliver_ms

    def _arrive(self, mark: Mark, event: Publish | Deliver) -> None:
        queue = Queue(event.topic, event.broker, event.queue)
        places = self._histories.queues.setdefault(queue, {})
        there = places.get(event.offset)
        if there is not None and there.message_id == event.message_id:
            return  # another group, or once more to the same
        arrival = Arrival(
            mark,
            queue,
            event.offset,
            event.stored_ms,
            event.deliver_ms,
            event.message_id,
            event.keys,
        )
        if there is None:
            places[event.offset] = arrival
        else:
            self._histories.displaced.append((there, arrival))
        self._life(event.message_id).arrivals.append(arrival)

    def _misplaced(self, mark: Mark, what: str) -> HistoryError:
        return HistoryError(
            f"{self._histories.place(mark)}: expected {what} before its answer, found none"
        )
