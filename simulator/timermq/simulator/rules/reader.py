"""Reads histories: puts events where they belong, and answers to their questions.

One pass over the files; memory is a few objects a message. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    Skip,
    Start,
    Unknown,
    Verdict,
)

from .histories import Arrival, Attempt, Histories, Life, Mark, Queue, Reader, Request

Numbered = Iterable[tuple[int, Event]]
"""Events with the numbers of their lines."""


def read_all(named: Mapping[str, Numbered]) -> Histories:
    """Take in all files.

    Args:
        named: Name of each file to its events.

    Raises:
        HistoryError: An answer stands in a file without its question.
    """
    histories = Histories(tuple(named))
    reader = _Reader(histories)
    for file, events in enumerate(named.values()):
        stepped_ms = 0
        for line, event in events:
            reader.take(Mark(file, line, event.at_ms, stepped_ms), event)
            if isinstance(event, ClockStep):
                stepped_ms += max(event.by_ms, 0)
    reader.resolve_delays()
    reader.resolve_arrivals()
    reader.resolve_requests()
    return histories


class _Reader:
    """Fills in histories; what is asked is kept until it is answered."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._unsynced_kills: list[Mark] = []
        """Kills behind which no broker has begun to serve: what they left is not synced."""
        self._starts: dict[tuple[int, str], Mark] = {}
        """By file and writer."""
        self._open_sends: dict[tuple[str, str], Attempt] = {}
        self._open_requests: dict[tuple[str, int], Request] = {}
        self._requests: list[Request] = []
        self._arrivals: dict[tuple[Queue, int, str, int], Arrival] = {}
        """By place, message and store time: groups, and pulls repeated, see one several times."""

    def take(self, mark: Mark, event: Event) -> None:
        """Put one event where it belongs; HistoryError for an answer without its question."""
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
                self._starts.setdefault((mark.file, event.who), mark)
                if event.flush == "ASYNC_FLUSH":
                    histories.unsynced_ms = max(histories.unsynced_ms or 0, event.unsynced_ms)
            case Crash():
                histories.counts[event.kind] += 1
                self._unsynced_kills.append(mark)
                if event.kind == "power":
                    histories.power_cuts += self._unsynced_kills
                    self._unsynced_kills.clear()
            case Fault():
                if event.kind == "repair":
                    histories.repairs.append(mark)
                if event.kind in ("start", "stop"):
                    self._unsynced_kills.clear()
                histories.counts[event.kind] += 1
            case Skip():
                queue = Queue(event.topic, event.broker, event.queue)
                histories.skips.setdefault(queue, set()).add(event.offset)
            case ClockStep():
                histories.counts["clock_step"] += 1
                histories.steps_ms += abs(event.by_ms)
            case End():
                histories.ends.append(event)
                start = self._starts.get((mark.file, event.who))
                if start is not None:
                    # Where it saw something, its first sight counts.
                    histories.readers.setdefault(event.group, Reader(start))

    def resolve_delays(self) -> None:
        """A delay counts from the broker's receiving it: the clock may have stepped before."""
        for life in self._histories.lives.values():
            for attempt in life.attempts:
                attempt.steps_ms = self._histories.steps_ms

    def resolve_arrivals(self) -> None:
        """Give arrivals whose id was not sent to the message that was sent by the name of a key."""
        lives = self._histories.lives
        for life in [one for one in lives.values() if one.arrivals and not one.attempts]:
            unclaimed: list[Arrival] = []
            for arrival in life.arrivals:
                named = [lives[key] for key in arrival.keys if key in lives]
                sent = [one for one in named if one.attempts]
                (sent[0].arrivals if len(sent) == 1 else unclaimed).append(arrival)
            life.arrivals = unclaimed

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
        if isinstance(event, Deliver):
            reader = self._histories.readers.setdefault(event.group, Reader(mark))
            reader.lowest[queue] = min(reader.lowest.get(queue, event.offset), event.offset)
        name = (queue, event.offset, event.message_id, event.stored_ms)
        known = self._arrivals.get(name)
        if known is not None:
            known.seen_last = mark
            return
        arrival = self._arrivals[name] = Arrival(
            mark,
            mark,
            queue,
            event.offset,
            event.stored_ms,
            event.deliver_ms,
            event.message_id,
            event.keys,
        )
        places = self._histories.queues.setdefault(queue, {})
        places.setdefault(event.offset, []).append(arrival)
        self._life(event.message_id).arrivals.append(arrival)

    def _misplaced(self, mark: Mark, what: str) -> HistoryError:
        return HistoryError(
            f"{self._histories.place(mark)}: expected {what} before its answer, found none"
        )
