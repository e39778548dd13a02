"""Sends: everything that one chunk of a connection brings goes to the store as one put.

Source: Java ``SendMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from timermq.pipeline.admission.admission import TimerPutResult
from timermq.pipeline.run_admission import RunAdmission
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import FLAG_ONEWAY, RequestCode
from timermq.remoting.command import Command
from timermq.remoting.connection import Received, Request
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.send_run.send_run import SendRun
from timermq.remoting.send_run.send_v2 import SendV2
from timermq.timerstore.message import Message
from timermq.timerstore.put_status import PutStatus

from ..admin.broker_stats import BrokerStats
from ..durable_answers import DurableAnswers
from ..refusal import RefusedError, refusal_answer
from ..session import Answer, Session
from ..steps import Steps
from ..transactions.transactions import Transactions
from ..unflushed_answer import UnflushedAnswer
from .run_answers import run_answers
from .run_reader import RunReader
from .send_reader import SendReader
from .send_request import (
    Addressed,
    AddressedRun,
    AnswerFacts,
    BatchSend,
    SendRequest,
    SingleSend,
)

SessionRequest = tuple[Session, Request]
"""A send and who sends it."""
SessionReceived = tuple[Session, Received]
"""The same, or a run and who sends it."""

SEND_CODES = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_MESSAGES,
    }
)


@attrs.frozen(eq=False)
class _Sends:
    """Requests that are put together, and their messages."""

    requests: list[tuple[Session, SendRequest, int]] = attrs.Factory(
        list[tuple[Session, SendRequest, int]]
    )
    """Each with the number of its messages."""
    messages: list[Message] = attrs.Factory(list[Message])

    @property
    def owners(self) -> list[str]:
        """Of each message, whose share of a pool it takes."""
        return [session.owner for session, _, count in self.requests for _ in range(count)]

    def add(self, session: Session, send: SendRequest) -> None:
        brought = send.messages
        self.requests.append((session, send, len(brought)))
        self.messages.extend(brought)


@attrs.frozen(eq=False)
class _SortedSends:
    """Plain messages, and those that begin transactions."""

    read: _Sends = attrs.Factory(_Sends)
    halves: _Sends = attrs.Factory(_Sends)

    def add(self, session: Session, send: SendRequest) -> None:
        is_half = isinstance(send, SingleSend) and send.is_half
        (self.halves if is_half else self.read).add(session, send)


@attrs.define(eq=False, kw_only=True)
class SendProcessor:
    """The processor; ``handle`` is plain code."""

    timer_store: TimerMessageStore
    transactions: Transactions
    run_admission: RunAdmission
    run_reader: RunReader
    reader: SendReader
    durable: DurableAnswers
    stats: BrokerStats
    facts: AnswerFacts
    requests: int = 0
    """Requests so far."""
    messages: int = 0
    """Messages brought to the store so far."""
    refused: int = 0
    """Requests refused before the store."""

    def handle(self, requests: Sequence[SessionReceived]) -> list[tuple[Session, Answer]]:
        """Put the messages of all ``requests`` at once.

        Returns:
            The answers that can go now. Those that wait for a flush follow by themselves, and
            one-way requests have none.
        """
        answers: list[tuple[Session, Answer]] = []
        singles: list[SessionRequest] = []
        for session, request in requests:
            if not isinstance(request, SendRun):
                singles.append((session, request))
                continue
            sent = None if self.durable.waits else self.run_reader.read_run(session, request)
            if sent is None:
                singles += [(session, send) for send in request.sends()]
                continue
            # What came before it on its connection is stored before it.
            answers += self._handle_singles(singles)
            singles = []
            answers += self._put_run(session, sent)
        return [*answers, *self._handle_singles(singles)]

    def steps(self, session: Session, command: Command) -> Steps[list[tuple[Session, Answer]]]:
        """The same for one request of many messages: it is read in steps, and put in the last."""
        self.requests += 1
        sends = _SortedSends()
        try:
            sends.add(session, (yield from self.reader.steps(session, command)))
        except (RefusedError, RemoteProtocolError) as error:
            return self._refused(session, command, error)
        return self._put(sends)

    def _handle_singles(self, requests: Sequence[SessionRequest]) -> list[tuple[Session, Answer]]:
        if not requests:
            return []
        self.requests += len(requests)
        read = self.run_reader.read(requests)
        if not self.durable.waits:
            sends = [
                (session, request, sent)
                for (session, request), sent in zip(requests, read, strict=True)
                if sent is not None and isinstance(request, SendV2)
            ]
            if len(sends) == len(requests):
                return self._put_sends(sends)
        return self._handle_any(requests, read)

    def _put_run(self, session: Session, sent: AddressedRun) -> list[tuple[Session, Answer]]:
        """Put a run as columns, in a put of its own."""
        count = len(sent.run)
        self.requests += count
        self.messages += count
        put_times = self.stats.put_times
        begun_ms = put_times.now_ms()
        result = self.run_admission.put(sent.columns)
        put_times.count(begun_ms, count)
        if isinstance(result, list):
            sends = [(session, *pair) for pair in zip(sent.run.sends(), sent.each(), strict=True)]
            return self._answer_sends(sends, result)
        if sent.run.is_oneway:
            return []
        return [(session, run_answers(self.facts, sent, result))]

    def _put_sends(
        self, sends: list[tuple[Session, SendV2, Addressed]]
    ) -> list[tuple[Session, Answer]]:
        """Put the sends of a chunk that all fit into runs, with no sync to wait for."""
        self.messages += len(sends)
        put_times = self.stats.put_times
        begun_ms = put_times.now_ms()
        results = self.timer_store.put([sent.message for _, _, sent in sends])
        put_times.count(begun_ms, len(sends))
        return self._answer_sends(sends, results)

    def _answer_sends(
        self, sends: list[tuple[Session, SendV2, Addressed]], results: Sequence[TimerPutResult]
    ) -> list[tuple[Session, Answer]]:
        answer, facts = self.facts.stored_frame, self.facts
        frames: dict[Session, list[bytes]] = {}
        refusals: list[tuple[Session, Answer]] = []
        for (session, send, sent), one in zip(sends, results, strict=True):
            if send.flag & FLAG_ONEWAY:
                continue
            if one.result.status is PutStatus.PUT_OK:
                own = frames.get(session)
                if own is None:
                    own = frames[session] = []
                own.append(answer(send, sent, one))
            else:
                refused = SingleSend(command=send.to_command(), sent=sent, waits=True)
                refusals.append((session, refused.answer(facts, [one])))
        return [*((session, b"".join(own)) for session, own in frames.items()), *refusals]

    def _handle_any(
        self, requests: Sequence[SessionRequest], read: Sequence[Addressed | None]
    ) -> list[tuple[Session, Answer]]:
        answers: list[tuple[Session, Answer]] = []
        sends = _SortedSends()
        for (session, request), sent in zip(requests, read, strict=True):
            command = request.to_command() if isinstance(request, SendV2) else request
            try:
                send = (
                    self.reader.read(session, command)
                    if sent is None
                    else SingleSend(command=command, sent=sent, waits=True)
                )
            except (RefusedError, RemoteProtocolError) as error:
                answers += self._refused(session, command, error)
            else:
                sends.add(session, send)
        return [*answers, *self._put(sends)]

    def _refused(
        self, session: Session, command: Command, error: RefusedError | RemoteProtocolError
    ) -> list[tuple[Session, Answer]]:
        self.refused += 1
        return [] if command.is_oneway else [(session, refusal_answer(command, error))]

    def _put(self, sends: _SortedSends) -> list[tuple[Session, Answer]]:
        read, halves = sends.read, sends.halves
        answers: list[tuple[Session, Answer]] = []
        begun_ms = self.stats.put_times.now_ms()
        if read.requests:
            answers += self._answers(read, self.timer_store.put(read.messages), begun_ms)
        if halves.requests:
            results = self.transactions.put_halves(halves.messages, halves.owners)
            answers += self._answers(halves, results, begun_ms)
        return answers

    def _answers(
        self, sends: _Sends, results: Sequence[TimerPutResult], begun_ms: int
    ) -> list[tuple[Session, Answer]]:
        """The answers of now; those that wait for a flush follow."""
        self.messages += len(sends.messages)
        waits = self.durable.waits
        answers: list[tuple[Session, Answer]] = []
        unflushed: list[UnflushedAnswer] = []
        first = 0
        for session, request, count in sends.requests:
            own = results[first : first + count]
            first += count
            if isinstance(request, BatchSend) and own[0].out_ms is None:
                stored = sum(one.result.status.is_stored for one in own)
                self.stats.count_batch(request.parts[0].topic, stored)
            if request.command.is_oneway:
                continue
            answer = request.answer(self.facts, own)
            end = max((one.result.end for one in own if one.result.status.is_stored), default=0)
            if waits and request.waits and end:
                unflushed.append(UnflushedAnswer(session, answer, end, begun_ms))
            else:
                answers.append((session, answer))
        self.stats.put_times.count(begun_ms, len(sends.requests) - len(unflushed))
        if unflushed:
            self.durable.add(unflushed)
        return answers
