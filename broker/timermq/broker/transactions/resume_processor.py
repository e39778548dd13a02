"""RESUME_CHECK_HALF_MESSAGE (323): an operator begins an abandoned transaction again.

A transaction that was discarded after all its checks is in ``TRANS_CHECK_MAX_TIME_TOPIC``. Each
request makes its message the half message of a new transaction, about which producers are asked.

Source: Java ``AdminBrokerProcessor.resumeCheckHalfMessage``.
"""

from __future__ import annotations

import attrs
import structlog

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.query_header import HalfMessageHeader
from timermq.timerstore.message_id import parse_offset_message_id
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.message_store import MessageStore

from ..durable_answers import DurableAnswers
from ..refusal import RefusedError
from ..session import Session
from .half_message import HalfMessageError
from .transactions import Transactions

log = structlog.get_logger("timermq.broker.transactions")


@attrs.frozen(eq=False, kw_only=True)
class ResumeProcessor:
    """Begins abandoned transactions again for operators."""

    store: MessageStore
    transactions: Transactions
    durable: DurableAnswers

    def handle(self, session: Session, command: Command) -> Command | None:
        """Begin a transaction again; answered when its half message is durable."""
        message_id = HalfMessageHeader.of(command).message_id
        try:
            _, offset = parse_offset_message_id(message_id)
        except ValueError as error:
            raise _not_found(str(error)) from None
        data = look_message_by_offset(self.store, offset, check_crc=False)
        if data is None:
            raise _not_found(f"no message begins at {offset}")
        try:
            end = self.transactions.resume(data, session.owner)
        except HalfMessageError as error:
            raise _not_found(str(error)) from None
        log.warning("transaction begun again", message_id=message_id, remote=session.remote_address)
        return self.durable.answer(session, command.answer(ResponseCode.SUCCESS), end)


def _not_found(reason: str) -> RefusedError:
    return RefusedError(
        ResponseCode.SYSTEM_ERROR,
        "TRANSACTION_NOT_FOUND",
        f"expected the offset message id of a message in TRANS_CHECK_MAX_TIME_TOPIC: {reason}",
    )
