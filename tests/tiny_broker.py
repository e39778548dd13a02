"""A tiny broker that keeps its promises, also when it loses power: its histories are clean."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

import attrs
import msgspec

from timermq.client.history import (
    Ack,
    Cancel,
    Crash,
    Deliver,
    End,
    Event,
    Reschedule,
    Send,
    Start,
    Unknown,
    Verdict,
)

LAST_MS = 1_000
"""Everything is due by then."""

Kind = Literal["cancel", "move"]


@attrs.frozen
class Asked:
    """A cancel or a move: when it takes effect, how long asking and answering take."""

    kind: Kind
    at_ms: int
    before_ms: int
    behind_ms: int
    to_ms: int
    is_answered: bool
    is_done: bool


@attrs.frozen
class Planned:
    """A message: times as for ``Asked``."""

    at_ms: int
    before_ms: int
    behind_ms: int
    deliver_ms: int | None
    """May be past; None: none."""
    is_answered: bool
    is_stored: bool
    requests: tuple[Asked, ...]


@attrs.frozen
class Cut:
    """A power cut, and how much of the time before it is gone."""

    at_ms: int
    lost_ms: int


UNSYNCED_MS = 60


@attrs.define
class _Message:
    message_id: str
    order: int
    moment_ms: int
    """When it is due; of one that was past when it came, when it came."""
    deliver_ms: int | None
    is_gone: bool = False


class TinyBroker:
    """Does one thing at a time, and writes down what everybody sees."""

    def __init__(self, lateness_ms: int, cut: Cut | None = None) -> None:
        self._lateness_ms = lateness_ms
        self._cut = cut
        self._since_ms = 0
        """Nothing is stored before it: it came back then."""
        self._seen: list[tuple[int, Event]] = []
        self._waiting: dict[str, _Message] = {}
        self._gone: set[str] = set()
        self._arrived: set[str] = set()
        self._count = itertools.count()
        self._standing: list[Deliver] = []
        self._saved: tuple[dict[str, _Message], set[str], set[str], list[Deliver]] = (
            {},
            set(),
            set(),
            [],
        )
        """What of the four above is on the disk."""

    def run(self, plan: list[Planned]) -> list[Event]:
        """The history of a plan, in the order of the clock."""
        steps: list[tuple[int, int, Callable[[int], None]]] = []
        count = itertools.count()
        for number, one in enumerate(plan):
            steps.append((one.at_ms, next(count), self._sender(f"M{number}", one)))
            steps += [
                (request.at_ms, next(count), self._asker(f"M{number}", request))
                for request in one.requests
            ]
        if self._cut is not None:
            start = Start(at_ms=0, who="n", flush="ASYNC_FLUSH", unsynced_ms=UNSYNCED_MS)
            self._see(-LAST_MS, start)
            steps.append((self._cut.at_ms - self._cut.lost_ms, next(count), self._save))
            steps.append((self._cut.at_ms, next(count), self._lose_power))
        for now_ms, _, step in sorted(steps, key=lambda one: one[:2]):
            self._publish(now_ms)
            step(now_ms)
        self._publish(LAST_MS)
        self._see(2 * LAST_MS, End(at_ms=0, who="c", waited_until_ms=LAST_MS, drained=True))
        if self._cut is not None:
            for stood in self._standing:
                self._see(2 * LAST_MS, msgspec.structs.replace(stood, who="late", group="late"))
            end = End(at_ms=0, who="late", waited_until_ms=LAST_MS, drained=True, group="late")
            self._see(2 * LAST_MS, end)
        in_time = sorted(self._seen, key=lambda one: one[0])
        return [msgspec.structs.replace(event, at_ms=at_ms) for at_ms, event in in_time]

    def _see(self, at_ms: int, event: Event) -> None:
        self._seen.append((at_ms, event))

    def _save(self, _: int) -> None:
        self._saved = (
            dict(self._waiting),
            set(self._gone),
            set(self._arrived),
            list(self._standing),
        )

    def _lose_power(self, now_ms: int) -> None:
        """What was not on the disk is gone, and what was not answered yet never will be."""
        self._waiting, self._gone, self._arrived, self._standing = self._saved
        self._since_ms = now_ms
        seen = [(at_ms, event) for at_ms, event in self._seen if at_ms < now_ms]
        for at_ms, event in self._seen:
            if at_ms >= now_ms and isinstance(event, Ack | Unknown):
                seen.append((at_ms, Unknown(at_ms=0, who="p", message_id=event.message_id)))
            elif at_ms >= now_ms and isinstance(event, Verdict):
                seen.append((at_ms, Verdict(at_ms=0, who="q", op=event.op, verdict="unknown")))
        self._seen = seen
        self._see(now_ms, Crash(at_ms=0, who="n", kind="power"))

    def _publish(self, until_ms: int) -> None:
        """What is due a little before now stands on its topic, the oldest moment first."""
        due = [
            one for one in self._waiting.values() if one.moment_ms + self._lateness_ms < until_ms
        ]
        for one in sorted(due, key=lambda one: (one.moment_ms, one.order)):
            self._arrive(one, max(one.moment_ms + self._lateness_ms, self._since_ms))

    def _arrive(self, one: _Message, stored_ms: int) -> None:
        self._waiting.pop(one.message_id, None)
        self._arrived.add(one.message_id)
        arrival = Deliver(
            at_ms=0,
            who="c",
            message_id=one.message_id,
            topic="T",
            queue=0,
            offset=len(self._standing),
            stored_ms=stored_ms,
            deliver_ms=one.deliver_ms,
            received_ms=stored_ms,
        )
        self._standing.append(arrival)
        self._see(stored_ms + 1, arrival)

    def _sender(self, message_id: str, plan: Planned) -> Callable[[int], None]:
        def send(now_ms: int) -> None:
            deliver_ms = plan.deliver_ms
            order = next(self._count)
            asked = Send(
                at_ms=0, who="p", message_id=message_id, topic="T", deliver_ms=deliver_ms, op=order
            )
            self._see(now_ms - plan.before_ms - 1, asked)
            if plan.is_answered or plan.is_stored:
                message = _Message(message_id, order, max(deliver_ms or 0, now_ms), deliver_ms)
                if deliver_ms is None:
                    self._arrive(message, now_ms)
                else:
                    self._waiting[message_id] = message
            answer: Event = Unknown(at_ms=0, who="p", message_id=message_id)
            if plan.is_answered:
                offset = order
                if deliver_ms is None:
                    (offset,) = [
                        seen.offset
                        for _, seen in self._seen
                        if isinstance(seen, Deliver) and seen.message_id == message_id
                    ]
                answer = Ack(
                    at_ms=0,
                    who="p",
                    message_id=message_id,
                    queue=0,
                    offset=offset,
                    deliver_ms=deliver_ms,
                )
            self._see(now_ms + plan.behind_ms + 1, answer)

        return send

    def _asker(self, message_id: str, plan: Asked) -> Callable[[int], None]:
        def ask(now_ms: int) -> None:
            op = next(self._count)
            to_ms = now_ms + plan.to_ms
            question = (
                Cancel(at_ms=0, who="q", op=op, topic="T", message_id=message_id)
                if plan.kind == "cancel"
                else Reschedule(
                    at_ms=0, who="q", op=op, topic="T", message_id=message_id, deliver_ms=to_ms
                )
            )
            self._see(now_ms - plan.before_ms - 1, question)
            verdict: Literal["cancelled", "moved", "too_late", "not_found", "unknown"] = "unknown"
            if plan.is_answered or plan.is_done:
                verdict = self._decide(message_id, plan.kind, to_ms)
            answer = Verdict(
                at_ms=0,
                who="q",
                op=op,
                verdict=verdict if plan.is_answered else "unknown",
                deliver_ms=to_ms if verdict == "moved" and plan.is_answered else None,
            )
            self._see(now_ms + plan.behind_ms + 1, answer)

        return ask

    def _decide(
        self, message_id: str, kind: Kind, to_ms: int
    ) -> Literal["cancelled", "moved", "too_late", "not_found"]:
        if message_id in self._arrived:
            return "too_late"
        if message_id in self._gone:
            return "cancelled" if kind == "cancel" else "not_found"
        if message_id not in self._waiting:
            return "not_found"
        if kind == "cancel":
            self._gone.add(message_id)
            del self._waiting[message_id]
            return "cancelled"
        self._waiting[message_id] = _Message(message_id, next(self._count), to_ms, to_ms)
        return "moved"
