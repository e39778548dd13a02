"""A client of the simulation: takes its steps over one connection, and writes down all it saw.

It speaks RocketMQ's protocol in one of the three header codings, through the same frames as the
client library. It never sends a message twice: one without an answer is stored or it is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import trio

from timermq.client.history import Cancel as CancelAsked
from timermq.client.history import End, Event, Reschedule, Start
from timermq.client.history import Verdict as VerdictGiven
from timermq.remoting import Command, RequestCode, ResponseCode
from timermq.remoting.stored_message import decode_messages
from timermq.timerstore.message import Message

from ..seen_messages import SeenMessages, place_of
from ..steps import (
    QUEUES,
    TOPICS,
    AcceptClock,
    Cancel,
    ClientPlan,
    Commit,
    Disconnect,
    Leaving,
    LookUp,
    Move,
    Name,
    Poison,
    Pull,
    Release,
    Schedule,
    Send,
    Step,
    Transact,
    key_of,
    unique_key,
)
from .staged_bulk import BulkLedger, StagedBulk
from .staged_clock import StagedClock
from .staged_link import Reachable, StagedLink
from .staged_message import LOST, arrival_of, damage_of
from .staged_quarantine import StagedQuarantine
from .staged_sends import StagedSends, is_doubtful
from .staged_transactions import StagedTransactions

PULL_COUNT = 32
_SUSPEND, _SUBSCRIPTION = 2, 4
_FOUND_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)


class StagedClient:
    """One client.

    Args:
        plan: Its steps.
        network: Where it connects.
        clock: The wall clock.
        tell: Takes events for the history.
        complain: Takes what must not happen.
        seen: What any client has received, and the log still holds.
        put: Writes a record behind the back of admission; whether the log has taken it.
        ledger: What drivers were told of bulk jobs.
    """

    def __init__(
        self,
        plan: ClientPlan,
        *,
        network: Reachable,
        clock: StagedClock,
        tell: Callable[[Event], None],
        complain: Callable[[str], None],
        seen: SeenMessages,
        put: Callable[[Message], bool],
        ledger: BulkLedger,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._tell = tell
        self._complain = complain
        self._seen = seen
        self._who = f"client-{plan.number}"
        self._group = f"G{plan.number}"
        self._ops = itertools.count(1)
        self._offsets: dict[tuple[str, int], int] = {}
        """Its offsets in the queues, on this connection."""
        self._link = StagedLink(network, self._offsets.clear, ledger.counts, complain)
        self.quarantine = StagedQuarantine(
            who=self._who, coding=plan.coding, link=self._link, clock=clock, tell=tell, put=put
        )
        self.bulk = StagedBulk(self._link, clock, ledger)
        self._sends = StagedSends(
            who=self._who, coding=plan.coding, link=self._link, clock=clock, tell=tell
        )
        self._transactions = StagedTransactions(
            number=plan.number, coding=plan.coding, link=self._link, clock=clock, tell=tell
        )

    async def run(self) -> None:
        """Take all steps, each at its time or as soon as the one before it is done."""
        for step in self._plan.steps:
            await trio.sleep_until(step.at_ms / 1000)
            await self._take(step)
            await self._transactions.answer_checks()
        self._link.disconnect()

    @property
    def requests(self) -> int:
        """How many requests the client has sent."""
        return self._link.requests

    async def read_all(self) -> None:
        """Begin now, pull all queues from their first message to their last, and end."""
        begun_ms = self._clock.now_ms()
        self._tell(Start(at_ms=begun_ms, who=self._who, settings={"consumer_group": self._group}))
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                await self._pull_all(topic, queue_id)
        self._tell(
            End(
                at_ms=self._clock.now_ms(),
                who=self._who,
                waited_until_ms=begun_ms,
                drained=True,
                group=self._group,
            )
        )

    async def _pull_all(self, topic: str, queue_id: int) -> None:
        self._offsets[topic, queue_id] = 0
        place, offset = (topic, queue_id), -1
        while self._offsets.get(place, 0) != offset:
            offset = self._offsets[place]
            await self._pull(topic, queue_id, 0)

    async def _take(self, step: Step) -> None:
        match step:
            case Send(items=items):
                await self._sends.send(items, next(self._ops))
            case Cancel():
                await self._cancel(step)
            case Move():
                await self._move(step)
            case LookUp():
                await self._look_up(step)
            case Pull():
                await self._pull(step.topic, step.queue_id, step.hold_ms)
            case Commit():
                await self._commit()
            case Transact():
                await self._transactions.take(step)
            case Schedule():
                await self.bulk.run(step)
            case Poison():
                self.quarantine.poison(step)
            case Release():
                await self.quarantine.release(step)
            case AcceptClock():
                await self._link.ask([self._command(RequestCode.CLOCK, {"accept": "true"})])
            case Disconnect(leaving=Leaving.CLOSE):
                self._link.disconnect()
            case Disconnect():
                self._link.leaving = step

    async def _cancel(self, step: Cancel) -> None:
        handle = self._sends.handles.get(step.number, "")
        code, key, op = RequestCode.CANCEL_MESSAGE, "", next(self._ops)
        message_id = unique_key(step.number)
        if step.name is Name.HANDLE:
            if not handle:
                return
            code, ext = RequestCode.RECALL_MESSAGE, {"recallHandle": handle, "producerGroup": "P"}
        elif step.name is Name.KEY:
            message_id, key = "", key_of(step.number)
            ext = {"key": key}
        else:
            ext = {"uniqueKey": message_id}
        self._tell(
            CancelAsked(
                at_ms=self._clock.now_ms(),
                who=self._who,
                op=op,
                topic=step.topic,
                message_id=message_id,
                key=key,
            )
        )
        answers = await self._link.ask([self._command(code, {"topic": step.topic, **ext})])
        self._judged(op, answers, step)

    async def _move(self, step: Move) -> None:
        op, now_ms = next(self._ops), self._clock.now_ms()
        deliver_ms = max(now_ms + step.ahead_ms, 0)
        message_id = unique_key(step.number)
        self._tell(
            Reschedule(
                at_ms=now_ms,
                who=self._who,
                op=op,
                topic=step.topic,
                message_id=message_id,
                deliver_ms=deliver_ms,
            )
        )
        ext = {"topic": step.topic, "uniqueKey": message_id, "deliverMs": str(deliver_ms)}
        answers = await self._link.ask([self._command(RequestCode.CANCEL_MESSAGE, ext)])
        self._judged(op, answers, step)

    def _judged(self, op: int, answers: list[Command | None] | None, step: Cancel | Move) -> None:
        """Write down the verdict on a cancel or a move."""
        answer = answers[0] if answers else None
        deliver_ms, message_id = None, ""
        if answers is None:
            verdict = "refused"
        elif answer is None or is_doubtful(answer):
            verdict = "unknown"
        elif answer.code == ResponseCode.SUCCESS:
            verdict = answer.ext.get("verdict", "cancelled")
            message_id = answer.ext.get("uniqueKey", "")
            deliver_ms = int(answer.ext["deliverMs"]) if "deliverMs" in answer.ext else None
        else:
            verdict = _VERDICTS.get((answer.remark or "").partition(":")[0], "refused")
            if "is past" in (answer.remark or ""):
                verdict = "not_found"  # it may have been there, and is there no more
        if verdict == "not_found" and unique_key(step.number) in self._seen.forgotten:
            verdict = "refused"  # it was cancelled, and cleaned since then
        self._tell(
            VerdictGiven(
                at_ms=self._clock.now_ms(),
                who=self._who,
                op=op,
                verdict=verdict,  # type: ignore[arg-type]  # as the broker says it
                message_id=message_id,
                deliver_ms=deliver_ms,
            )
        )

    async def _look_up(self, step: LookUp) -> None:
        ext = {
            "topic": step.topic,
            "key": unique_key(step.number),
            "maxNum": "32",
            "beginTimestamp": "0",
            "endTimestamp": str(2**62),
            "_UNIQUE_KEY_QUERY": "true",
        }
        wanted = step.topic, unique_key(step.number)
        must_be_found = self._seen.places(*wanted)
        answers = await self._link.ask([self._command(RequestCode.QUERY_MESSAGE, ext)])
        answer = answers[0] if answers else None
        if answer is None or answer.code not in _FOUND_OR_NOT:
            return
        if self._seen.is_doubtful:
            return
        found = decode_messages(answer.body) if answer.code == ResponseCode.SUCCESS else []
        for fault in self._seen.faults_of(found, wanted, must_be_found):
            self._complain(fault)

    async def _pull(self, topic: str, queue_id: int, hold_ms: int) -> None:
        place = (topic, queue_id)
        if place not in self._offsets and not await self._find_offset(place):
            return
        ext = {
            **self._place(place),
            "queueOffset": str(self._offsets[place]),
            "maxMsgNums": str(PULL_COUNT),
            "sysFlag": str(_SUBSCRIPTION | (_SUSPEND if hold_ms else 0)),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(hold_ms),
            "subscription": "*",
            "expressionType": "TAG",
        }
        power_cuts = self._seen.power_cuts
        answers = await self._link.ask([self._command(RequestCode.PULL_MESSAGE, ext)])
        answer = answers[0] if answers else None
        if answer is None or "nextBeginOffset" not in answer.ext:
            return
        if answer.code == ResponseCode.SUCCESS and not self._seen.is_doubtful:
            for message in decode_messages(answer.body):
                if LOST in message.properties:
                    self._seen.fillers.add(place_of(message))
                    continue
                if place_of(message) in self._seen.left_damaged:
                    continue
                arrival = arrival_of(message, self._who, self._group, self._clock.now_ms())
                self._tell(arrival)
                self._seen.add(arrival, power_cuts)
                damage = damage_of(message)
                if damage is not None:
                    self._complain(f"a damaged message arrived: {damage}")
        self._offsets[place] = int(answer.ext["nextBeginOffset"])

    async def _find_offset(self, place: tuple[str, int]) -> bool:
        """Ask where our group stands; False without an answer."""
        command = self._command(RequestCode.QUERY_CONSUMER_OFFSET, self._place(place))
        answers = await self._link.ask([command])
        answer = answers[0] if answers else None
        if answer is None or answer.code not in _FOUND_OR_NOT:
            return False
        self._offsets[place] = int(answer.ext.get("offset", "0"))
        return True

    async def _commit(self) -> None:
        commands = [
            self._command(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {**self._place(place), "commitOffset": str(offset)},
            )
            for place, offset in self._offsets.items()
        ]
        if commands:
            await self._link.ask(commands)

    def _place(self, place: tuple[str, int]) -> dict[str, str]:
        return {"consumerGroup": self._group, "topic": place[0], "queueId": str(place[1])}

    def _command(
        self, code: RequestCode, ext: dict[str, str] | None = None, body: bytes = b""
    ) -> Command:
        return Command(code, ext=ext or {}, body=body, coding=self._plan.coding)


_VERDICTS = {"RECALL_TOO_LATE": "too_late", "RECALL_NOT_FOUND": "not_found"}
