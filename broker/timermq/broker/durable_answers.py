"""Answers that wait until what they tell of is on the disk (SYNC_FLUSH) and on replicas.

One task for the whole broker takes all answers that wait, has the log flushed to the furthest of
their ends and sends them; what arrives meanwhile makes up the next round. So one flush serves every
connection, and connections go on receiving during it. With SYNC_MASTER an answer then waits for
followers (``replicated_answers``), while the next round is flushed.

Source: Java ``CommitLog.GroupCommitService``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.timerstore.message_store import MessageStore

from .admin.put_times import PutTimes
from .replication.followers import Followers
from .replication.replicated_answers import ReplicatedAnswers
from .session import Session
from .unflushed_answer import UnflushedAnswer


class DurableAnswers:
    """The answers that wait.

    Args:
        store: Its commit log is flushed.
        waiting_max: Answers from which on connections rest before their next request.
        put_times: Counts how long sends took.
        followers: Those that answers wait for with SYNC_MASTER.
    """

    def __init__(
        self, store: MessageStore, waiting_max: int, put_times: PutTimes, followers: Followers
    ) -> None:
        self._store = store
        self._is_sync_flush = store.options.is_sync_flush
        self._followers = followers
        self._replicated = ReplicatedAnswers(followers, self._finish)
        self._waiting_max = waiting_max
        self._put_times = put_times
        self._waiting: list[UnflushedAnswer] = []
        self._in_flush = 0
        self._added = Signal()
        self._round_done = trio.Event()

    @property
    def waiting(self) -> int:
        """Number of answers that wait for the disk, or for replicas."""
        return len(self._waiting) + self._in_flush + self._replicated.waiting

    @property
    def waits(self) -> bool:
        """Whether answers wait for anything."""
        return self._is_sync_flush or self._followers.waits

    def answer(self, session: Session, answer: Command, end: int) -> Command | None:
        """The answer, if it may go now; else it follows when ``end`` is durable and replicated."""
        if not self.waits:
            return answer
        self.add([UnflushedAnswer(session, answer, end)])
        return None

    def add(self, answers: Iterable[UnflushedAnswer]) -> None:
        """Let answers wait for their flush, and for replicas."""
        added = list(answers)
        for one in added:
            one.session.unflushed += 1
        if self._is_sync_flush:
            self._waiting += added
            self._added.set()
        else:
            self._replicated.add(added)

    async def wait_room(self) -> None:
        """Wait until fewer answers wait than the limit; at once while they do."""
        while self.waiting >= self._waiting_max:
            await self._round_done.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush and answer until cancelled.

        Cancellation: answers that wait are not sent; their clients ask elsewhere or again.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._replicated.run, name="replicated answers")
            task_status.started()
            await self._flush()

    async def _flush(self) -> None:
        while True:
            await self._added.wait()
            while self._waiting:
                answers, self._waiting = self._waiting, []
                self._in_flush = len(answers)
                await self._store.wait_flushed(max(one.end for one in answers))
                self._in_flush = 0
                self._send(answers)

    def _send(self, answers: list[UnflushedAnswer]) -> None:
        """Send the answers of a round, or have them wait for replicas."""
        flushed = self._store.commit_log.flushed_where
        done: list[UnflushedAnswer] = []
        durable: list[UnflushedAnswer] = []
        for one in answers:
            if one.end > flushed:
                one.answer.code = ResponseCode.FLUSH_DISK_TIMEOUT
                one.answer.remark = (
                    f"FLUSH_DISK_TIMEOUT: flushed to {flushed}, the message ends at {one.end}"
                )
            elif self._followers.waits:
                durable.append(one)
                continue
            done.append(one)
        self._finish(done)
        self._replicated.add(durable)

    def _finish(self, answers: Sequence[UnflushedAnswer]) -> None:
        """Send answers that have waited for all."""
        for one in answers:
            one.session.unflushed -= 1
            if one.begun_ms is not None:
                self._put_times.count(one.begun_ms, 1)
        Session.send_all((one.session, one.answer) for one in answers)
        self._round_done.set()
        self._round_done = trio.Event()
