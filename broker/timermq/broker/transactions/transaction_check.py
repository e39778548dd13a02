"""The check: producers that have not decided about a transaction are asked.

Every ``transaction_check_interval_ms`` one round goes through the open ones. One older than its
immunity is renewed, which counts, and one producer of its group is asked (39); it answers by
END_TRANSACTION. After ``transaction_check_max`` checks the transaction is discarded: its message
goes to ``TRANS_CHECK_MAX_TIME_TOPIC``, where an operator finds it. As in RocketMQ a check counts
also when no producer of the group is there to be asked.

Source: Java ``TransactionalMessageCheckService``, ``TransactionalMessageServiceImpl.check``,
``AbstractTransactionalMessageCheckListener``.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Sequence

import structlog
import trio

from timermq.remoting.codes import FLAG_ONEWAY, LanguageCode, RequestCode
from timermq.remoting.command import Command
from timermq.timerstore.message_id import offset_message_id

from ..client_registry import ClientRegistry
from ..consuming.zlib_bodies import with_zlib_bodies
from ..options import BrokerOptions
from ..security.log_limit import LogLimit
from ..session import OPAQUE_MAX, Session
from ..topic_config import TopicConfig, TopicConfigTable
from ..topic_validator import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from .half_message import HalfMessage, HalfMessageError, asked_about
from .transactions import Transactions

CHECK_COUNT = 64
"""Half messages that are renewed together."""
CHECK_SIZE = 1 << 20
"""Bytes of their records; one record is taken even if it is larger."""
RENEW_ROUNDS = 10
"""A half message that is not to be asked about yet is renewed when it is so many rounds old."""

log = structlog.get_logger("timermq.broker.transaction_check")


class Step(enum.Enum):
    """The action of a round about an open transaction."""

    WAIT = "wait"
    RENEW = "renew"
    """It may not be asked about yet, but the log is to be cleaned up to a later place."""
    CHECK = "check"
    DISCARD = "discard"


def next_step(half: HalfMessage, options: BrokerOptions, now_ms: int) -> Step:
    """Decide about one open transaction.

    Args:
        half: Its newest half message.
        options: Immunity, interval and number of checks.
        now_ms: The present; before the half message when the clock was set back: then it is asked
            about, as in RocketMQ.
    """
    immunity_ms = max(half.immunity_ms or 0, options.transaction_time_out_ms)
    if not 0 <= now_ms - half.first_ms < immunity_ms:
        is_last = half.check_times >= options.transaction_check_max
        return Step.DISCARD if is_last else Step.CHECK
    renewed_ms = now_ms - half.record.store_ms
    if renewed_ms >= RENEW_ROUNDS * options.transaction_check_interval_ms:
        return Step.RENEW
    return Step.WAIT


class TransactionCheck:
    """The task that asks.

    Args:
        transactions: The open ones.
        clients: The producers.
        topics: Gets the topic of discarded transactions.
        options: See `next_step`.
        now_ms: The wall clock.
    """

    def __init__(
        self,
        transactions: Transactions,
        clients: ClientRegistry,
        topics: TopicConfigTable,
        options: BrokerOptions,
        now_ms: Callable[[], int],
    ) -> None:
        self._transactions = transactions
        self._clients = clients
        self._topics = topics
        self._options = options
        self._now_ms = now_ms
        self._turn = itertools.count()
        self._unasked = LogLimit()
        self._opaque = itertools.cycle(range(1, OPAQUE_MAX))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask at every interval until cancelled; between rounds recovery is told where to begin.

        Cancellation: between two batches of a round; every transaction stays as it is.
        """
        task_status.started()
        pause = self._options.flush_consumer_offset_interval_ms / 1000
        checked = trio.current_time()
        while True:
            await trio.sleep(min(pause, max(self._due(checked) - trio.current_time(), 0)))
            self._transactions.commit_offsets()
            if trio.current_time() >= self._due(checked):
                await self.check()
                checked = trio.current_time()

    def _due(self, checked: float) -> float:
        """When the next round is, as the interval is now."""
        return checked + self._options.transaction_check_interval_ms / 1000

    async def check(self) -> None:
        """Check each transaction that is open now, once."""
        for halves in self._batches(self._transactions.open.names()):
            if not self._take(halves):
                return
            await trio.lowlevel.checkpoint()

    def _batches(self, names: Sequence[int]) -> Iterator[list[HalfMessage]]:
        """Those of them that are still open, in batches that one write takes."""
        batch: list[HalfMessage] = []
        size = 0
        for name in names:
            half = self._newest(name)
            if half is not None:
                batch.append(half)
                size += len(half.data)
            if len(batch) >= CHECK_COUNT or size >= CHECK_SIZE:
                yield batch
                batch, size = [], 0
        yield batch

    def _newest(self, name: int) -> HalfMessage | None:
        """A transaction's newest half message; None when it has ended, or now is in quarantine."""
        try:
            return self._transactions.newest(name)
        except HalfMessageError as error:
            self._transactions.quarantine(name, str(error))
            return None

    def _take(self, halves: Sequence[HalfMessage]) -> bool:
        """Ask about a batch, or discard it; False when the store does not take it now."""
        checks: list[tuple[HalfMessage, Session | None]] = []
        renewals: list[HalfMessage] = []
        for half in halves:
            step = next_step(half, self._options, self._now_ms())
            if step is Step.DISCARD:
                if not self._discard(half):
                    return False
            elif step is Step.RENEW:
                renewals.append(half)
            elif step is Step.CHECK:
                producers = self._producers(half)
                session = self._ready(producers)
                if session is not None or not producers:
                    checks.append((half, session))
        if len(self._transactions.renew(renewals, is_check=False)) < len(renewals):
            return False
        asked = self._transactions.renew([half for half, _ in checks], is_check=True)
        for half, (_, session) in zip(asked, checks, strict=False):
            if session is None:
                if count := self._unasked.take():
                    log.warning(
                        "no producer to ask about transactions",
                        count=count,
                        group=half.group,
                        unique_key=half.unique_key,
                        checks=half.check_times,
                    )
            else:
                session.send(self._request(half, session))
        return len(asked) == len(checks)

    def _discard(self, half: HalfMessage) -> bool:
        if self._topics.get(TRANS_CHECK_MAX_TIME_TOPIC) is None:
            self._topics.put(
                TopicConfig(
                    topic_name=TRANS_CHECK_MAX_TIME_TOPIC, read_queue_nums=1, write_queue_nums=1
                )
            )
        return self._transactions.discard(half)

    def _producers(self, half: HalfMessage) -> list[Session]:
        """The producers of its group that may see it: any client can register for any group."""
        return [
            session
            for session, producer in self._clients.producers(half.group).items()
            if producer.speaker.may_send(half.topic)
        ]

    def _ready(self, producers: Sequence[Session]) -> Session | None:
        """One of them that has read its earlier requests; they are asked round robin."""
        sessions = [session for session in producers if session.is_open and session.has_room()]
        return sessions[next(self._turn) % len(sessions)] if sessions else None

    def _request(self, half: HalfMessage, session: Session) -> Command:
        """The request that asks a producer about a half message (39), one-way."""
        body = asked_about(half)
        if session.knows_zlib_alone:
            body = b"".join(with_zlib_bodies([body], checks_zlib=session.is_cpp).records)
        return Command(
            code=RequestCode.CHECK_TRANSACTION_STATE,
            opaque=next(self._opaque),
            flag=FLAG_ONEWAY,
            language=LanguageCode.JAVA,
            ext={
                "topic": TRANS_HALF_TOPIC,
                "tranStateTableOffset": str(half.queue_offset),
                "commitLogOffset": str(half.phy_offset),
                "msgId": half.unique_key,
                "transactionId": half.unique_key,
                "offsetMsgId": offset_message_id(half.record.store_host, half.phy_offset),
                "bname": self._options.broker_name,
            },
            body=body,
        )
