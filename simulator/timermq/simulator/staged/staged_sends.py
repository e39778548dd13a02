"""The sends of a simulated client, and the lines that it writes about the answers."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.client.history import Ack, Event, Refused, Unknown
from timermq.client.history import Send as Sending
from timermq.remoting import Coding, Command, RequestCode, ResponseCode
from timermq.remoting.send_batch import SendItem, decode_results, encode_items
from timermq.remoting.send_header import LETTERS

from ..steps import Item, When, key_of, unique_key
from .staged_clock import StagedClock
from .staged_link import StagedLink
from .staged_message import body_of, fields_of, properties_of


@attrs.define(eq=False, kw_only=True)
class StagedSends:
    """Sends the messages of one client, and writes them into the history."""

    who: str
    coding: Coding
    link: StagedLink
    clock: StagedClock
    tell: Callable[[Event], None]
    """Writes an event into the history."""
    handles: dict[int, str] = attrs.field(factory=dict[int, str], init=False)
    """Number of a message to its recall handle, where the broker has given one."""

    async def send(self, items: tuple[Item, ...], op: int) -> None:
        """Send messages: in one frame where the coding has that, else one behind the other.

        Args:
            items: What is sent.
            op: Number of the request within this client.
        """
        now_ms = self.clock.now_ms()
        for item in items:
            self.tell(self._sending(item, op, now_ms))
        if self.coding is Coding.CBOR:
            await self._send_together(items, now_ms)
        else:
            answers = await self.link.ask([self._send_command(item, now_ms) for item in items])
            for item, answer in zip(items, answers or [None] * len(items), strict=True):
                self._sent(item, answer, has_left=answers is not None)

    async def _send_together(self, items: tuple[Item, ...], now_ms: int) -> None:
        body = encode_items(
            [
                SendItem(item.topic, item.queue_id, 0, properties_of(item, now_ms), body_of(item))
                for item in items
            ]
        )
        answers = await self.link.ask(
            [Command(RequestCode.SEND_MESSAGES, body=body, coding=self.coding)]
        )
        answer = answers[0] if answers else None
        if answer is None or answer.code != ResponseCode.SUCCESS:
            for item in items:
                self._sent(item, answer, has_left=answers is not None)
            return
        for item, result in zip(items, decode_results(answer.body), strict=True):
            ext = {"queueId": str(result.queue_id), "queueOffset": str(result.queue_offset)}
            if result.recall_handle is not None:
                ext["recallHandle"] = result.recall_handle
            if result.deliver_ms is not None:
                ext["deliverMs"] = str(result.deliver_ms)
            self._sent(item, answer.answer(result.code, remark=result.remark, ext=ext))

    def _sending(self, item: Item, op: int, now_ms: int) -> Sending:
        return Sending(
            at_ms=now_ms,
            who=self.who,
            message_id=unique_key(item.number),
            topic=item.topic,
            queue=item.queue_id,
            deliver_ms=now_ms + item.ahead_ms if item.when is When.AT else None,
            delay_ms=item.ahead_ms if item.when is When.DELAY else None,
            level=item.level if item.when is When.LEVEL else None,
            keys=(key_of(item.number),),
            op=op,
        )

    def _send_command(self, item: Item, now_ms: int) -> Command:
        ext = fields_of(item, "P", properties_of(item, now_ms), now_ms)
        code = RequestCode.SEND_MESSAGE
        if item.number % 4:
            code, ext = (
                RequestCode.SEND_MESSAGE_V2,
                {LETTERS[name]: value for name, value in ext.items()},
            )
        return Command(code, ext=ext, body=body_of(item), coding=self.coding)

    def _sent(self, item: Item, answer: Command | None, *, has_left: bool = True) -> None:
        """Write down what became of a message."""
        at_ms, key = self.clock.now_ms(), unique_key(item.number)
        if not has_left:
            self.tell(Refused(at_ms=at_ms, who=self.who, message_id=key, rule="NOT_SENT"))
        elif answer is None:
            self.tell(Unknown(at_ms=at_ms, who=self.who, message_id=key, reason="no answer"))
        elif answer.code == ResponseCode.SUCCESS:
            deliver_ms = answer.ext.get("deliverMs")
            self.tell(
                Ack(
                    at_ms=at_ms,
                    who=self.who,
                    message_id=key,
                    queue=int(answer.ext["queueId"]),
                    offset=int(answer.ext["queueOffset"]),
                    deliver_ms=None if deliver_ms is None else int(deliver_ms),
                )
            )
            if "recallHandle" in answer.ext:
                self.handles[item.number] = answer.ext["recallHandle"]
        elif answer.code in (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SYSTEM_ERROR):
            reason = (answer.remark or "")[:120]
            self.tell(Unknown(at_ms=at_ms, who=self.who, message_id=key, reason=reason))
        else:
            self.tell(
                Refused(
                    at_ms=at_ms,
                    who=self.who,
                    message_id=key,
                    code=answer.code,
                    rule=(answer.remark or "").partition(":")[0],
                )
            )
