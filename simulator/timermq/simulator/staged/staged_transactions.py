"""Transactions of a simulated client: half messages, endings, and answers to checks.

What is decided stays decided: a check is answered as the plan says, whatever was answered before.
A message that is rolled back is refused from then on, even if the broker does not know it yet. One
that is committed is acknowledged when the broker has said so.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import msgspec

from timermq.client.history import Ack, Event, Refused
from timermq.client.history import Send as Sending
from timermq.remoting import Coding, Command, RequestCode, ResponseCode

from ..steps import Decision, Item, Transact, When, key_of, unique_key
from .staged_clock import StagedClock
from .staged_link import StagedLink
from .staged_message import body_of, fields_of, transaction_properties_of

PREPARED = "4"
"""The flag that a half message has."""


@attrs.define(eq=False, kw_only=True)
class StagedTransactions:
    """Begins and ends the transactions of one client, and answers the broker's checks."""

    number: int
    """The number of the client. Its producers are a group of their own."""
    coding: Coding
    link: StagedLink
    clock: StagedClock
    tell: Callable[[Event], None]
    """Writes an event into the history."""
    _decisions: dict[str, Transact] = attrs.field(factory=dict[str, Transact], init=False)
    """The steps of the plan, by the unique keys of their messages."""
    _told: set[str] = attrs.field(factory=set[str], init=False)
    """Unique keys of the transactions whose ending is in the history."""

    async def take(self, step: Transact) -> None:
        """Send a half message, and end its transaction if the plan says so."""
        item, name, now_ms = step.item, unique_key(step.item.number), self.clock.now_ms()
        self._decisions[name] = step
        self.tell(
            Sending(
                at_ms=now_ms,
                who=self._who,
                message_id=name,
                topic=item.topic,
                queue=item.queue_id,
                deliver_ms=now_ms + item.ahead_ms if item.when is When.AT else None,
                delay_ms=item.ahead_ms if item.when is When.DELAY else None,
                level=item.level if item.when is When.LEVEL else None,
                keys=(key_of(item.number),),
            )
        )
        answers = await self.link.ask([self._heartbeat(), self._half(item)])
        answer = answers[1] if answers else None
        if answers is None:
            self._refuse(name, "NOT_SENT")
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return
        ext = {
            "tranStateTableOffset": answer.ext["queueOffset"],
            "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
            "transactionId": name,
        }
        if step.decision is not Decision.UNKNOWN:
            await self._end(step, step.decision, ext, is_checked=False)

    async def answer_checks(self) -> None:
        """Answer what the broker has asked meanwhile."""
        checks, self.link.checks = self.link.checks, []
        for check in checks:
            step = self._decisions.get(check.ext["transactionId"])
            if step is not None:
                names = ("tranStateTableOffset", "commitLogOffset", "transactionId")
                ext = {name: check.ext[name] for name in names}
                await self._end(step, step.checked, ext, is_checked=True)

    async def _end(
        self, step: Transact, decision: Decision, ext: dict[str, str], *, is_checked: bool
    ) -> None:
        name = unique_key(step.item.number)
        if decision is Decision.ROLLBACK:
            self._refuse(name, "ROLLED_BACK")
        words = {
            "producerGroup": self._group,
            "commitOrRollback": str(decision.value),
            "fromTransactionCheck": "true" if is_checked else "false",
            "msgId": name,
        }
        command = Command(RequestCode.END_TRANSACTION, ext={**words, **ext}, coding=self.coding)
        answers = await self.link.ask([command])
        answer = answers[0] if answers else None
        if answer is None or answer.code != ResponseCode.SUCCESS or name in self._told:
            return
        self._told.add(name)
        # Its place is not told: without a moment of its own that was any time ago.
        self.tell(
            Ack(
                at_ms=self.clock.now_ms(),
                who=self._who,
                message_id=name,
                queue=step.item.queue_id,
                offset=0,
                deliver_ms=0 if step.item.when is When.NOW else None,
            )
        )

    def _refuse(self, name: str, rule: str) -> None:
        if name not in self._told:
            self._told.add(name)
            at_ms = self.clock.now_ms()
            self.tell(Refused(at_ms=at_ms, who=self._who, message_id=name, rule=rule))

    def _heartbeat(self) -> Command:
        """Say that the group is here, so that it is asked."""
        body = {
            "clientID": self._who,
            "producerDataSet": [{"groupName": self._group}],
            "consumerDataSet": [],
        }
        return Command(RequestCode.HEART_BEAT, body=msgspec.json.encode(body), coding=self.coding)

    def _half(self, item: Item) -> Command:
        properties = transaction_properties_of(item, self._group, self.clock.now_ms())
        ext = fields_of(item, self._group, properties, self.clock.now_ms())
        ext["sysFlag"] = PREPARED
        return Command(RequestCode.SEND_MESSAGE, ext=ext, body=body_of(item), coding=self.coding)

    @property
    def _who(self) -> str:
        return f"client-{self.number}"

    @property
    def _group(self) -> str:
        return f"P{self.number}"
