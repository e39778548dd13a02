"""END_TRANSACTION (37): a producer commits its transaction, or rolls it back.

A producer that does not know yet says so by 0, and is asked later. An ending is answered when it is
durable, unless it is one-way, as Java sends it; the same ending again is answered the same, any
other one is refused.

Source: Java ``EndTransactionProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.field import FieldError
from timermq.remoting.transaction_header import EndTransactionHeader
from timermq.timerstore.message import SysFlag
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.message_store import MessageStore

from ..durable_answers import DurableAnswers
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from .half_message import HalfMessage, HalfMessageError, decode_half
from .transactions import Transactions

UNKNOWN = 0
COMMIT = int(SysFlag.TRANSACTION_COMMIT)
ROLLBACK = int(SysFlag.TRANSACTION_ROLLBACK)


@attrs.frozen(eq=False, kw_only=True)
class EndTransactionProcessor:
    """Commits and rolls back transactions for their producers."""

    options: BrokerOptions
    store: MessageStore
    transactions: Transactions
    durable: DurableAnswers
    now_ms: Callable[[], int]

    def handle(self, session: Session, command: Command) -> Command | None:
        """End a transaction; the checks are in Java's order."""
        header = EndTransactionHeader.of(command)
        decision = header.decision
        if decision == UNKNOWN:
            return None
        if decision not in (COMMIT, ROLLBACK):
            expected = f"{COMMIT}, {ROLLBACK} or {UNKNOWN}"
            raise FieldError(command, "commitOrRollback", expected, str(decision))
        half = self._half(header)
        self._check_immunity(header, half)
        _check_named(header, half)
        transactions = self.transactions
        end = transactions.commit(half) if decision == COMMIT else transactions.rollback(half)
        if command.is_oneway:
            return None
        return self.durable.answer(session, command.answer(ResponseCode.SUCCESS), end)

    def _half(self, header: EndTransactionHeader) -> HalfMessage:
        offset = header.phy_offset
        data = look_message_by_offset(self.store, offset, check_crc=False)
        try:
            if data is not None:
                return decode_half(data)
            reason = "no message begins there"
        except HalfMessageError as error:
            reason = str(error)
        raise _wrong("TRANSACTION_NOT_FOUND", f"no half message begins at {offset}: {reason}")

    def _check_immunity(self, header: EndTransactionHeader, half: HalfMessage) -> None:
        """Refuse an ending of the producer's own that comes when it is to be asked (604)."""
        if half.immunity_ms is None or header.from_transaction_check:
            return
        immunity_ms = max(half.immunity_ms, self.options.transaction_time_out_ms)
        age_ms = self.now_ms() - half.first_ms
        if age_ms > immunity_ms:
            raise RefusedError(
                ResponseCode.ILLEGAL_OPERATION,
                "TRANSACTION_IMMUNITY",
                f"the transaction is {age_ms} ms old: after {immunity_ms} ms only an answer to "
                "a check ends it",
            )


def _check_named(header: EndTransactionHeader, half: HalfMessage) -> None:
    """Refuse an ending whose words are not those of the half message (1)."""
    group = header.producer_group
    if half.group != group:
        raise _wrong(
            "TRANSACTION_GROUP",
            f"the half message is of group {ascii(half.group)[:130]}, the request of "
            f"{ascii(group)[:130]}",
        )
    offset = header.queue_offset
    if half.queue_offset != offset:
        raise _wrong(
            "TRANSACTION_OFFSET",
            f"the half message has the queue offset {half.queue_offset}, the request {offset}",
        )
    # RocketMQ looks at the two offsets alone: after a power cut another half message of the group
    # may have them.
    unique_key = header.unique_key
    if unique_key and unique_key != half.unique_key:
        raise _wrong(
            "TRANSACTION_ID",
            f"the half message is of the transaction {ascii(half.unique_key)[:130]}, the request "
            f"of {ascii(unique_key)[:130]}",
        )


def _wrong(rule: str, reason: str) -> RefusedError:
    return RefusedError(ResponseCode.SYSTEM_ERROR, rule, reason)
