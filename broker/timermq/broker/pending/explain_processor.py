"""EXPLAIN_MESSAGE (9006): the history of one message, and its state now.

Request body: a CBOR map of ``id`` (the unique key, which clients call the message id) and ``topic``
(looked at as well; null: those that the message names). Answer body: a CBOR map of ``now``
(a ``Now``), ``deliver_ms`` (its moment, or null), ``steps`` (an array of maps, a map a
``LifeStep``, in the order of the log) and ``is_whole`` (false where the oldest are left out).
"""

from __future__ import annotations

from typing import cast

import attrs
import cbor2
import msgspec
import trio

from timermq.pipeline.records.cancel_verdict import CancelError
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.cbor import CborError, decode_cbor
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command

from ..consumer_offset import ConsumerOffsetTable
from ..deferred_answers import answer_later
from ..refusal import RefusedError
from ..security.access_rules import QUERY_SIZE_MAX
from ..session import Session
from ..transactions.transactions import Transactions
from .message_life import MessageLife, MessageLives


class ExplainQuery(msgspec.Struct, frozen=True):
    """The body of EXPLAIN_MESSAGE: the message that is asked for."""

    id: str
    topic: str | None = None


@attrs.frozen(eq=False, kw_only=True)
class ExplainProcessor:
    """Answers the history of one message."""

    timer_store: TimerMessageStore
    offsets: ConsumerOffsetTable
    transactions: Transactions

    def handle(self, session: Session, command: Command) -> Command | None:
        """Look for the message; the answer follows, and other work is done between two look-ups."""
        query = decode_query(command.body)
        if not self.timer_store.store.options.message_index_enable:
            text = "messageIndexEnable is false on this broker"
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, "EXPLAIN_NEEDS_INDEX", text)

        async def look() -> Command:
            looking = self.lives().of(query.id, query.topic)
            while True:
                try:
                    next(looking)
                except StopIteration as done:
                    body = cbor2.dumps(life_row(cast("MessageLife", done.value)))
                    return command.answer(ResponseCode.SUCCESS, body=body)
                except CancelError as error:
                    code, rule = ResponseCode.ILLEGAL_OPERATION, "EXPLAIN_TOO_COMMON"
                    raise RefusedError(code, rule, error.text) from error
                await trio.lowlevel.checkpoint()

        answer_later(session, command, look)
        return None

    def lives(self) -> MessageLives:
        """The messages of this broker's store."""
        return MessageLives(
            source=self.timer_store.store,
            quarantine=self.timer_store.quarantine,
            options=self.timer_store.options,
            offsets=self.offsets,
            open_transactions=self.transactions.open,
            read_ms=self.timer_store.state.commit_read_ms,
        )


def life_row(life: MessageLife) -> dict[str, object]:
    """The body of the answer, before it is encoded as CBOR."""
    return {
        "now": life.now.value,
        "deliver_ms": life.deliver_ms,
        "steps": [step.to_row() for step in life.steps],
        "is_whole": life.is_whole,
    }


def decode_query(body: bytes) -> ExplainQuery:
    """Read the body of a request.

    Raises:
        RefusedError: It is no such question (29).
    """
    try:
        query = msgspec.convert(decode_cbor(body, size_max=QUERY_SIZE_MAX), ExplainQuery)
    except (CborError, msgspec.ValidationError) as error:
        raise _malformed(str(error)) from error
    if not query.id or query.topic == "":
        raise _malformed("expected an id, and a topic or null, found an empty text")
    return query


def _malformed(reason: str) -> RefusedError:
    return RefusedError(ResponseCode.INVALID_PARAMETER, "EXPLAIN_BODY", reason)
