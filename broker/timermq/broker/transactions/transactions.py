"""The transactions of a broker: half messages come in, and end once.

Everything here happens between two checkpoints of the event loop, so a transaction is open or has
ended, and nothing lies between. What ends it is one write: the message for the real topic first,
behind it the op message. A process that ends in the middle of the write leaves the first alone,
and recovery finds it (`recovery`): the message is committed, and is not committed again.

Source: Java ``TransactionalMessageServiceImpl``, ``EndTransactionProcessor``.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import structlog

from timermq.pipeline.admission.admission import Refusal, TimerPutResult, accepted, refused
from timermq.pipeline.quarantine.quarantine import HOPELESS
from timermq.pipeline.records.undeliverable import Reason, Undeliverable
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.message import Message
from timermq.timerstore.put_status import PutResult

from ..consumer_offset import ConsumerOffsetTable
from ..histogram import Histogram
from ..indexed_requests import check_index
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..sending.send_request import RESPONSE_CODES, remark_of
from ..topic_validator import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from .half_message import (
    HalfMessage,
    HalfMessageError,
    committed,
    discarded,
    resumed,
    size_refusal,
)
from .op_message import OP_QUEUE_ID, Ending, Mark, how_ended, op_message
from .open_transactions import TransactionShares
from .recovery import half_place, read_half, recover
from .renewals import Renewals, log_stuck

COMMIT_BOUNDS_S = (5, 60, 600, 3_600, 43_200, 86_400)
"""Bounds of ``finish_message_latency``, as in Java's ``BrokerMetricsManager``."""

log = structlog.get_logger("timermq.broker.transactions")


@attrs.frozen(kw_only=True)
class TransactionStatistics:
    """Transactions by their ends; counts are since the start."""

    open: int
    """Transactions that are open now."""
    committed: int
    rolled_back: int
    discarded: int
    """Abandoned by their producers: they are in TRANS_CHECK_MAX_TIME_TOPIC."""
    checks: int
    """Times that the producers of one were asked."""


@attrs.frozen
class _Mark:
    """Op messages below ``op_offset`` name half messages below ``half_offset`` alone."""

    half_offset: int
    op_offset: int


@attrs.frozen
class _Offsets:
    """Offsets that may be committed when the log is durable up to ``end``."""

    half_offset: int
    op_offset: int
    end: int


class Transactions:
    """The transactions of one running broker; plain code.

    Args:
        timer_store: Its store holds them; committed messages may ask for a moment.
        offsets: Where the offsets of ``CID_RMQ_SYS_TRANS`` are; read already.
        options: Settings of the broker.
    """

    def __init__(
        self, timer_store: TimerMessageStore, offsets: ConsumerOffsetTable, options: BrokerOptions
    ) -> None:
        self._timer_store = timer_store
        self._store = timer_store.store
        self._now_ms = timer_store.clock.now_ms
        self._table = offsets
        self._options = options
        self._store.pins.add("transactions", self.needed_from)
        self._counts = dict.fromkeys(Ending, 0)
        self.commit_latency = Histogram(COMMIT_BOUNDS_S)
        """Seconds from the birth of half messages to their commit."""
        self._begin()

    def _begin(self) -> None:
        recovered = recover(self._store, self._table)
        self.open = recovered.open
        self._unmarked = recovered.unmarked
        self._op_next = self._op_end()
        self._op_offset = recovered.op_offset
        self._mark = _Mark(self.open.next_offset, self._op_next)
        self._to_commit: _Offsets | None = None
        self._renewals = Renewals(self._store, self.open, self._put)
        self._shares = TransactionShares(lambda: self._options.transactions_max, self.open.names())

    def begin_anew(self) -> None:
        """Find out again what is open: the log was copied from another broker since."""
        self._begin()

    # -- half messages ------------------------------------------------------------------------

    def put_halves(
        self, messages: Sequence[Message], owners: Sequence[str]
    ) -> list[TimerPutResult]:
        """Store half messages; one result each, in order.

        Args:
            messages: What `half_message.parked` made, checked already.
            owners: Whose share of the open transactions each of them takes.
        """
        refusals = [
            size_refusal(message) or self._shares.take(owner)
            for message, owner in zip(messages, owners, strict=True)
        ]
        taken = [
            (message, owner)
            for message, owner, refusal in zip(messages, owners, refusals, strict=True)
            if refusal is None
        ]
        try:
            results = self._store.put([message for message, _ in taken])
        except BaseException:
            for _, owner in taken:
                self._shares.give_back(owner)
            raise
        for result, (_, owner) in zip(results, taken, strict=True):
            if result.status.is_stored:
                self.open.put(result.phy_offset, result.queue_offset)
                self._shares.opened(result.phy_offset, owner)
            else:
                self._shares.give_back(owner)
        stored = iter(results)
        return [self._half_result(refusal or next(stored)) for refusal in refusals]

    def resume(self, data: bytes, owner: str) -> int:
        """Begin a new transaction with the message of an abandoned one.

        Args:
            data: Its record in ``TRANS_CHECK_MAX_TIME_TOPIC``.
            owner: Whose share of the open transactions it takes.

        Returns:
            Position up to which the log has to be durable before that is told.

        Raises:
            HalfMessageError: The record is no such message.
            RefusedError: The store does not take the message now.
        """
        (result,) = self.put_halves([resumed(data)], [owner])
        if not result.result.status.is_stored:
            raise _refused(result)
        return result.result.end

    def _forget(self, name: int) -> None:
        """Drop everything that memory holds of a transaction that has ended."""
        self.open.end(name)
        self._renewals.end(name)
        self._shares.ended(name)

    def _half_result(self, one: PutResult | Refusal) -> TimerPutResult:
        """The result for one half message, as a send has it."""
        if isinstance(one, Refusal):
            return refused(one, self._now_ms())
        return TimerPutResult(result=one)

    def newest(self, name: int) -> HalfMessage | None:
        """The newest half message of an open transaction; None when the transaction has ended.

        Its checks are all that there were, also those that the record does not tell.

        Raises:
            HalfMessageError: It cannot be read, or is not as it was written.
        """
        offset = self.open.offset_of(name)
        return None if offset is None else self._renewals.counted(read_half(self._store, offset))

    def needed_from(self) -> int | None:
        """Lowest position of the log that an open transaction needs; None without any."""
        if not len(self.open) or self._timer_store.is_parked:
            # The master of a copied log knows what is open, and keeps it.
            return None
        try:
            return read_half(self._store, self.open.first_offset).phy_offset
        except HalfMessageError:
            # Which record its damaged unit means cannot be told: the first ones stand before it.
            return min(self.open.names())

    # -- endings ------------------------------------------------------------------------------

    def commit(self, half: HalfMessage) -> int:
        """Bring the message of a transaction to its consumers.

        Args:
            half: Any half message of it.

        Returns:
            Position up to which the log has to be durable before that is told; of a transaction
            that was committed before, too.

        Raises:
            RefusedError: It has ended otherwise, or the store does not take the message now.
        """
        newest = self._open_half(half, Ending.COMMIT)
        if newest is None:
            return self._store.commit_log.max_offset
        message, now_ms = committed(newest), self._now_ms()
        decision = self._timer_store.admission.admit(message, now_ms)
        if isinstance(decision, Refusal):
            raise _refused(refused(decision, now_ms))
        if decision.deliver_ms is not None:
            self._timer_store.state.expect(decision.deliver_ms, now_ms)
        result = self._end(newest, Ending.COMMIT, decision.message)
        if not result.status.is_stored:
            raise _refused(accepted(decision, result))
        self.commit_latency.observe(max(now_ms - newest.record.born_ms, 0) // 1000)
        return result.end

    def rollback(self, half: HalfMessage) -> int:
        """Let the message of a transaction go; as ``commit``."""
        newest = self._open_half(half, Ending.ROLLBACK)
        if newest is None:
            return self._store.commit_log.max_offset
        result = self._end(newest, Ending.ROLLBACK)
        if not result.status.is_stored:
            raise _refused(TimerPutResult(result=result))
        return result.end

    def discard(self, half: HalfMessage) -> bool:
        """Discard a transaction that its producer abandoned; False when that can only be later."""
        result = self._end(half, Ending.DISCARD, discarded(half))
        if result.status.is_stored:
            log.error(
                "transaction discarded: not decided in time",
                topic=half.topic,
                group=half.group,
                unique_key=half.unique_key,
                checks=half.check_times,
            )
            return True
        text = "transaction not discarded"
        if result.status not in HOPELESS:
            log.warning(text, reason=result.remark)
            return False
        log_stuck(text, half, result)
        return True

    def quarantine(self, name: int, reason: str) -> bool:
        """Put a transaction into quarantine whose newest half message is damaged.

        No message is made of a damaged record. The entry has the position of the record as its
        name, and the bytes that are left of it.

        Args:
            name: An open transaction.
            reason: The damage of the record.

        Returns:
            False when that can only be later.
        """
        offset = self.open.offset_of(name)
        place = None if offset is None else half_place(self._store, offset)
        if offset is None or place is None:
            return True
        phy_offset, size = place
        (record,) = self._store.commit_log.records_at([place])
        fault = Undeliverable(
            offset_py=phy_offset,
            size_py=size,
            record=record or b"",
            reason=Reason.DAMAGED if record else Reason.GONE,
            text=reason,
        )
        refusal = self._timer_store.quarantine.add([fault], self._now_ms())
        if refusal is None:
            mark = Mark(ending=Ending.DISCARD, offsets=(offset,), name=name)
            results = self._put([], mark, even_when_full=True)
            if results[-1].status.is_stored:
                self._forget(name)
                return True
            refusal = results[-1].remark
        log.warning("damaged transaction not in quarantine yet", name=name, reason=refusal)
        return False

    def renew(self, halves: Sequence[HalfMessage], *, is_check: bool) -> list[HalfMessage]:
        """Write half messages again at the end of their queue.

        Args:
            halves: The newest ones of open transactions.
            is_check: Their producers are asked.

        Returns:
            The newest ones now, in order; one that never can be renewed is there as it was. Fewer
            when the store does not take the rest now.
        """
        found = self._renewals.renew(halves, is_check=is_check)
        if is_check:
            self._counts[Ending.RENEWED] += len(found)
        return found

    def _open_half(self, half: HalfMessage, ending: Ending) -> HalfMessage | None:
        """The newest half message of a transaction; None when it ended as it is to end."""
        offset = self.open.offset_of(half.name)
        if offset == half.queue_offset:
            return half
        if offset is not None:
            try:
                return read_half(self._store, offset)
            except HalfMessageError as error:
                code = ResponseCode.SYSTEM_ERROR
                raise RefusedError(code, "TRANSACTION_NOT_FOUND", str(error)) from None
        # It may be one of those that recovery found: then this tells how it ended.
        self._mark_rest()
        check_index(self._store)
        how = how_ended(self._store, half)
        if how is not ending:
            raise RefusedError(
                ResponseCode.ILLEGAL_OPERATION,
                "TRANSACTION_ENDED",
                f"the transaction {half.unique_key} has ended before, how is not known"
                if how is None
                else f"the transaction {half.unique_key} has ended by {how.value} before",
            )
        return None

    def _end(self, half: HalfMessage, ending: Ending, *messages: Message) -> PutResult:
        """End a transaction; the last result, which is of all."""
        results = self._put(messages, Mark.of(ending, half), even_when_full=True)
        if results[-1].status.is_stored:
            self._forget(half.name)
            self._counts[ending] += 1
        return results[-1]

    def _put(
        self, messages: Sequence[Message], mark: Mark, *, even_when_full: bool = False
    ) -> list[PutResult]:
        """Store messages and, behind them, the op messages of all that is not marked yet."""
        now_ms = self._now_ms()
        ops = [op_message(one, now_ms, is_late=True) for one in self._unmarked]
        ops.append(op_message(mark, now_ms))
        results = self._store.put([*messages, *ops], even_when_full=even_when_full, whole=True)
        if results[-1].status.is_stored:
            self._unmarked.clear()
            self._op_next = results[-1].queue_offset + 1
        return results

    # -- offsets ------------------------------------------------------------------------------

    def commit_offsets(self) -> None:
        """Let recovery begin later, as far as the log is durable; called from time to time.

        The log must be durable up to the end that it had when an offset was read: its last records
        may have ended the half messages before the offset.
        """
        durable = self._store.commit_log.flushed_where
        if self._to_commit is not None and self._to_commit.end <= durable:
            self._commit(TRANS_HALF_TOPIC, self._to_commit.half_offset)
            self._commit(TRANS_OP_HALF_TOPIC, self._to_commit.op_offset)
            self._to_commit = None
        if not self._mark_rest():
            return
        half_offset = self.open.first_offset
        if half_offset >= self._mark.half_offset:
            self._op_offset = self._mark.op_offset
            self._mark = _Mark(self.open.next_offset, self._op_next)
        if self._to_commit is None:
            end = self._store.commit_log.max_offset
            self._to_commit = _Offsets(half_offset, self._op_offset, end)

    def _mark_rest(self) -> bool:
        """Write the op messages that recovery found missing; False when there is no room now."""
        if not self._unmarked:
            return True
        last = self._unmarked.pop()
        is_stored = self._put([], last)[-1].status.is_stored
        if not is_stored:
            self._unmarked.append(last)
        return is_stored

    def statistics(self) -> TransactionStatistics:
        """A moment's picture; reads memory only."""
        counts = self._counts
        return TransactionStatistics(
            open=len(self.open),
            committed=counts[Ending.COMMIT],
            rolled_back=counts[Ending.ROLLBACK],
            discarded=counts[Ending.DISCARD],
            checks=counts[Ending.RENEWED],
        )

    def _commit(self, topic: str, offset: int) -> None:
        if self._table.query(group=TRANS_GROUP, topic=topic, queue_id=0) != offset:
            self._table.keep(group=TRANS_GROUP, topic=topic, queue_id=0, offset=offset)

    def _op_end(self) -> int:
        queue = self._store.queue(TRANS_OP_HALF_TOPIC, OP_QUEUE_ID)
        return 0 if queue is None else queue.max_offset


def _refused(result: TimerPutResult) -> RefusedError:
    """The refusal of what the store does not take; a transaction stays as it was."""
    remark = remark_of(result)
    rule, _, text = remark.partition(": ")
    return RefusedError(RESPONSE_CODES[result.result.status], rule, text)
