"""Naming a pending message, to cancel it or to move it, and reading the verdict.

A handle says which broker has the message. By its id or a key every broker of the topic is asked,
and the best of their answers counts: one of them may have it.
"""

from __future__ import annotations

import datetime

import attrs

from timermq.remoting import Command, RequestCode
from timermq.remoting.recall_header import CancelHeader, RecallHeader

from .errors import MalformedAnswerError, check_answer
from .message import Verdict
from .moment import delay_ms, epoch_ms

_BEST_FIRST = (Verdict.MOVED, Verdict.CANCELLED, Verdict.TOO_LATE, Verdict.NOT_FOUND)


@attrs.frozen
class PendingMessage:
    """A pending message, by exactly one of its names.

    Raises:
        ValueError: None or more than one is given.
    """

    topic: str
    recall_handle: str | None = None
    message_id: str | None = None
    """The unique key: what a receipt calls ``message_id``."""
    key: str | None = None
    """A key that no other pending message of the topic has."""

    def __attrs_post_init__(self) -> None:
        names = (self.recall_handle, self.message_id, self.key)
        if sum(name is not None for name in names) != 1:
            raise ValueError("expected one of recall handle, message id and key")

    def command(
        self,
        *,
        at: datetime.datetime | int | None = None,
        delay: datetime.timedelta | None = None,
    ) -> Command:
        """The request that cancels it or, with a moment, moves it."""
        header = CancelHeader(
            topic=self.topic,
            recall_handle=self.recall_handle,
            unique_key=self.message_id,
            key=self.key,
            deliver_ms=None if at is None else epoch_ms(at),
            delay_ms=None if delay is None else delay_ms(delay),
        )
        return Command(RequestCode.CANCEL_MESSAGE, ext=header.to_ext())


def recall_request(group: str, topic: str, recall_handle: str) -> Command:
    """The request that cancels the message of a handle, in RocketMQ's way."""
    header = RecallHeader(producer_group=group, topic=topic, recall_handle=recall_handle)
    return Command(RequestCode.RECALL_MESSAGE, ext=header.to_ext())


@attrs.frozen(kw_only=True)
class CancelReceipt:
    """The outcome of a request to cancel a message or to move it."""

    verdict: Verdict
    message_id: str
    """Its unique key, or what it was looked for by."""
    deliver_ms: int | None = None
    """When moved: the new moment, epoch milliseconds."""
    recall_handle: str | None = None
    """When moved: what ``cancel`` takes now."""


def receipt_of(answer: Command) -> CancelReceipt:
    """Read an answer.

    Raises:
        BrokerRefusedError: The broker gives no verdict; ``rule`` says why.
        MalformedAnswerError: It is none.
    """
    ext = check_answer(answer).ext
    try:
        deliver_ms = ext.get("deliverMs")
        return CancelReceipt(
            verdict=Verdict(ext.get("verdict")),
            message_id=ext.get("uniqueKey", ""),
            deliver_ms=None if deliver_ms is None else int(deliver_ms),
            recall_handle=ext.get("recallHandle"),
        )
    except ValueError as error:
        raise MalformedAnswerError(f"answer to a cancel: {error}") from error


def best_of(receipts: list[CancelReceipt]) -> CancelReceipt:
    """Of several brokers' receipts, at least one, that which decides."""
    return min(receipts, key=lambda one: _BEST_FIRST.index(one.verdict))
