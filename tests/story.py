"""Histories told step by step, for tests: a clock that ticks, one producer, one consumer."""

from __future__ import annotations

from typing import Literal, Self

import attrs

from timermq.client.history import (
    Ack,
    Cancel,
    Deliver,
    End,
    Event,
    Refused,
    Reschedule,
    Send,
    Unknown,
    Verdict,
)
from timermq.simulator.rules.broken import Rule
from timermq.simulator.rules.check import Report, check

VerdictName = Literal["cancelled", "moved", "too_late", "not_found", "refused", "unknown"]
TOPIC = "T"
SEEN_AFTER_MS = 2
"""From the store to the consumer."""


@attrs.define
class Story:
    """Events of one file; every step takes a millisecond, and returns the story."""

    who: str = "p"
    now_ms: int = 1_000
    events: list[Event] = attrs.Factory(list[Event])
    op: int = 0
    group: str = ""

    def reader(self, group: str) -> Self:
        """From here on a consumer of another group reads, from the beginning."""
        self.group = group
        return self

    def tell(self, event: Event) -> Self:
        """One event as it is."""
        self.events.append(event)
        self.now_ms += 1
        return self

    def at(self, now_ms: int) -> Self:
        """Time passes up to a moment."""
        self.now_ms = now_ms
        return self

    def send(self, *ids: str, deliver_ms: int | None = None, keys: tuple[str, ...] = ()) -> Self:
        """Send messages of these ids in one operation."""
        self.op += 1
        for one in ids:
            self.tell(
                Send(
                    at_ms=self.now_ms,
                    who=self.who,
                    message_id=one,
                    topic=TOPIC,
                    deliver_ms=deliver_ms,
                    keys=keys,
                    op=self.op,
                )
            )
        return self

    def ack(self, message_id: str, *, offset: int = 0, deliver_ms: int | None = None) -> Self:
        """The broker acknowledges a message, at an offset of queue 0."""
        return self.tell(
            Ack(
                at_ms=self.now_ms,
                who=self.who,
                message_id=message_id,
                queue=0,
                offset=offset,
                deliver_ms=deliver_ms,
            )
        )

    def refused(self, message_id: str) -> Self:
        """The broker does not take it."""
        return self.tell(Refused(at_ms=self.now_ms, who=self.who, message_id=message_id))

    def unknown(self, message_id: str) -> Self:
        """No answer comes for a message: it may be stored or not."""
        return self.tell(Unknown(at_ms=self.now_ms, who=self.who, message_id=message_id))

    def sent(self, *ids: str, deliver_ms: int | None = None, offset: int = 0) -> Self:
        """Messages leave together and are acknowledged."""
        self.send(*ids, deliver_ms=deliver_ms)
        for more, one in enumerate(ids):
            self.ack(one, offset=offset + more, deliver_ms=deliver_ms)
        return self

    def ask_cancel(self, message_id: str = "", *, key: str = "") -> int:
        """A cancel is asked for; returns its number."""
        self.op += 1
        self.tell(
            Cancel(
                at_ms=self.now_ms,
                who=self.who,
                op=self.op,
                topic=TOPIC,
                message_id=message_id,
                key=key,
            )
        )
        return self.op

    def ask_move(self, message_id: str, deliver_ms: int) -> int:
        """A move is asked for; returns its number."""
        self.op += 1
        self.tell(
            Reschedule(
                at_ms=self.now_ms,
                who=self.who,
                op=self.op,
                topic=TOPIC,
                message_id=message_id,
                deliver_ms=deliver_ms,
            )
        )
        return self.op

    def answer(
        self, op: int, verdict: VerdictName, *, message_id: str = "", deliver_ms: int | None = None
    ) -> Self:
        """The broker answers a cancel or a move with a verdict."""
        return self.tell(
            Verdict(
                at_ms=self.now_ms,
                who=self.who,
                op=op,
                verdict=verdict,
                message_id=message_id,
                deliver_ms=deliver_ms,
            )
        )

    def cancel(self, message_id: str, verdict: VerdictName) -> Self:
        """A cancel and its verdict."""
        return self.answer(self.ask_cancel(message_id), verdict)

    def move(self, message_id: str, deliver_ms: int, verdict: VerdictName = "moved") -> Self:
        """A move and its verdict."""
        op = self.ask_move(message_id, deliver_ms)
        return self.answer(op, verdict, deliver_ms=deliver_ms if verdict == "moved" else None)

    def arrive(
        self,
        message_id: str,
        offset: int,
        *,
        stored_ms: int | None = None,
        deliver_ms: int | None = None,
        topic: str = TOPIC,
        queue: int = 0,
        keys: tuple[str, ...] = (),
    ) -> Self:
        """The consumer has it, two milliseconds after it was stored."""
        stored_ms = self.now_ms if stored_ms is None else stored_ms
        self.now_ms = max(self.now_ms, stored_ms + SEEN_AFTER_MS)
        return self.tell(
            Deliver(
                at_ms=self.now_ms,
                who="c",
                message_id=message_id,
                topic=topic,
                queue=queue,
                offset=offset,
                stored_ms=stored_ms,
                deliver_ms=deliver_ms,
                received_ms=self.now_ms,
                keys=keys,
                group=self.group,
            )
        )

    def end(self, waited_until_ms: int = 1_000_000, *, drained: bool = True) -> Self:
        """The consumer has seen everything."""
        return self.tell(
            End(
                at_ms=self.now_ms,
                who="c",
                waited_until_ms=waited_until_ms,
                drained=drained,
                topics=(TOPIC,),
                group=self.group,
            )
        )


def judge(*stories: Story, others_send: bool = False) -> Report:
    """The report on stories, each in a file of its own."""
    files = {f"{at}.jsonl": enumerate(one.events, start=2) for at, one in enumerate(stories)}
    return check(files, others_send=others_send)


def broken(*stories: Story) -> list[tuple[Rule, str]]:
    """The rules that are broken, each with the message."""
    return [(one.rule, one.message_id) for one in judge(*stories).broken]
