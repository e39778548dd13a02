"""Sends: everything that one chunk of a connection brings goes through the store's door as one put.

Source: Java ``SendMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import RequestCode
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError
from timermq.timerstore.message import Message
from timermq.timerstore.store_options import FlushDiskType

from .answers import refusal_answer
from .durable_answers import DurableAnswers, UnflushedAnswer
from .refusal import RefusedError
from .send_reader import SendReader
from .send_request import AnswerFacts, SendRequest
from .session import Session

SEND_CODES = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_MESSAGES,
    }
)


@attrs.define(eq=False, kw_only=True)
class SendProcessor:
    """The processor; ``handle`` is plain code."""

    timer_store: TimerMessageStore
    reader: SendReader
    durable: DurableAnswers
    facts: AnswerFacts
    requests: int = 0
    """Requests so far."""
    messages: int = 0
    """Messages brought to the store so far."""
    refused: int = 0
    """Requests refused before the store."""

    def handle(self, session: Session, commands: Sequence[Command]) -> list[Command]:
        """Put the messages of all ``commands`` at once.

        Returns:
            The answers that can go now. Those that wait for a flush follow by themselves, and
            one-way requests have none.
        """
        self.requests += len(commands)
        answers: list[Command] = []
        requests: list[tuple[SendRequest, int]] = []
        messages: list[Message] = []
        for command in commands:
            try:
                request = self.reader.read(session, command)
            except (RefusedError, RemoteProtocolError) as error:
                self.refused += 1
                if not command.is_oneway:
                    answers.append(refusal_answer(command, error))
            else:
                brought = request.messages
                requests.append((request, len(brought)))
                messages += brought
        if requests:
            answers += self._put(session, requests, messages)
        return answers

    def _put(
        self, session: Session, requests: list[tuple[SendRequest, int]], messages: list[Message]
    ) -> list[Command]:
        self.messages += len(messages)
        results = self.timer_store.put(messages)
        is_sync = self.timer_store.store.options.flush_disk_type is FlushDiskType.SYNC_FLUSH
        answers: list[Command] = []
        unflushed: list[UnflushedAnswer] = []
        first = 0
        for request, count in requests:
            own = results[first : first + count]
            first += count
            if request.command.is_oneway:
                continue
            answer = request.answer(self.facts, own)
            end = max((one.result.end for one in own if one.result.status.is_stored), default=0)
            if is_sync and request.waits and end:
                unflushed.append(UnflushedAnswer(session, answer, end))
            else:
                answers.append(answer)
        if unflushed:
            self.durable.add(unflushed)
        return answers
