"""The requests of a simulated client about records that make no timer.

A broken broker has written them: they come behind the back of admission. They wait in quarantine
until an operator has them retried on a topic that is one, or lets them go. What is decided about
one stays decided. One that is let go is refused from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import cbor2

from timermq.client.history import Ack, Event, Refused
from timermq.client.history import Send as Sending
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.remoting import Coding, Command, RequestCode, ResponseCode
from timermq.remoting.stored_message import property_text
from timermq.timerstore.message import Message

from ..steps import Poison, Release, key_of, unique_key
from .staged_clock import StagedClock
from .staged_link import StagedLink
from .staged_message import body_of

LIMIT = 1_000
"""Entries that are listed: all of a plan."""
SLOT_MS = 1_000


@attrs.define(eq=False, kw_only=True)
class StagedQuarantine:
    """The records that one client writes, and from which no timer can be made."""

    who: str
    coding: Coding
    link: StagedLink
    clock: StagedClock
    tell: Callable[[Event], None]
    """Writes an event into the history."""
    put: Callable[[Message], bool]
    """Writes into the log of the process that is there; whether that has taken it."""
    kept: set[str] = attrs.field(factory=set[str], init=False)
    """Unique keys of those that were written, and about which nothing has been asked."""
    _poisons: dict[str, Poison] = attrs.field(factory=dict[str, Poison], init=False)

    def poison(self, step: Poison) -> None:
        """Write such a record into the log."""
        item, name, now_ms = step.item, unique_key(step.item.number), self.clock.now_ms()
        out_ms = (now_ms + item.ahead_ms) // SLOT_MS * SLOT_MS
        pairs = {
            "KEYS": key_of(item.number),
            "TIMER_OUT_MS": str(out_ms),
            "REAL_TOPIC": "a/../b",
            "REAL_QID": str(item.queue_id),
            "UNIQ_KEY": name,
        }
        self.tell(
            Sending(
                at_ms=now_ms,
                who=self.who,
                message_id=name,
                topic=item.topic,
                queue=item.queue_id,
                keys=(key_of(item.number),),
            )
        )
        self._poisons[name] = step
        if self.put(Message(TIMER_TOPIC, 0, body_of(item), property_text(pairs))):
            self.kept.add(name)

    async def release(self, step: Release) -> None:
        """Decide about everything of this client that is in quarantine now."""
        answers = await self._ask(RequestCode.LIST_QUARANTINE, {"limit": LIMIT})
        for row in answers.get("rows", ()):
            name = row["unique_id"]
            poison = self._poisons.get(name)
            if poison is None or name not in self.kept:
                continue
            self.kept.discard(name)
            if step.drops:
                self._tell_refused(name)
                await self._ask(RequestCode.DROP_QUARANTINE, {"id": row["id"], "by": self.who})
                continue
            wanted = {"id": row["id"], "topic": poison.item.topic, "by": self.who}
            answer = await self._ask(RequestCode.RETRY_QUARANTINE, wanted)
            if answer.get("verdict") == "retried":
                self._tell_retried(name, poison)

    async def _ask(self, code: RequestCode, body: Mapping[str, object]) -> dict[str, Any]:
        """The body of the answer; empty without one."""
        command = Command(code, body=cbor2.dumps(dict(body)), coding=self.coding)
        answers = await self.link.ask([command])
        answer = answers[0] if answers else None
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return {}
        found: dict[str, Any] = cbor2.loads(answer.body)
        return found

    def _tell_refused(self, name: str) -> None:
        at_ms = self.clock.now_ms()
        self.tell(Refused(at_ms=at_ms, who=self.who, message_id=name, rule="DROPPED"))

    def _tell_retried(self, name: str, poison: Poison) -> None:
        at_ms, queue = self.clock.now_ms(), poison.item.queue_id
        # Its place is not told: its moment was any time ago.
        self.tell(
            Ack(at_ms=at_ms, who=self.who, message_id=name, queue=queue, offset=0, deliver_ms=0)
        )
