"""Answers to sends that wait until their messages are on the disk (SYNC_FLUSH).

One task for the whole broker takes all answers that wait, has the log flushed to the furthest of
their ends and sends them; what arrives meanwhile makes up the next round. So one flush serves every
connection, and connections go on receiving during it.

Source: Java ``CommitLog.GroupCommitService``.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import FlushDiskType

from .admin.put_times import PutTimes
from .session import Session


@attrs.frozen
class UnflushedAnswer:
    """An answer that says "stored" as soon as that is durable."""

    session: Session
    answer: Command
    end: int
    """Position in the commit log up to which it must be flushed."""
    begun_ms: int | None = None
    """Of a send: the wall clock when its put began, epoch ms."""


class DurableAnswers:
    """The answers that wait.

    Args:
        store: Its commit log is flushed.
        waiting_max: Answers from which on connections rest before their next request.
        put_times: Counts how long sends took.
    """

    def __init__(self, store: MessageStore, waiting_max: int, put_times: PutTimes) -> None:
        self._store = store
        self._waiting_max = waiting_max
        self._put_times = put_times
        self._waiting: list[UnflushedAnswer] = []
        self._in_flush = 0
        self._added = Signal()
        self._round_done = trio.Event()

    @property
    def waiting(self) -> int:
        """Number of answers that wait for the disk."""
        return len(self._waiting) + self._in_flush

    def answer(self, session: Session, answer: Command, end: int) -> Command | None:
        """The answer, if it may go now; with SYNC_FLUSH it follows when ``end`` is durable."""
        if self._store.options.flush_disk_type is not FlushDiskType.SYNC_FLUSH:
            return answer
        self.add([UnflushedAnswer(session, answer, end)])
        return None

    def add(self, answers: Iterable[UnflushedAnswer]) -> None:
        """Let answers wait for their flush."""
        for one in answers:
            one.session.unflushed += 1
            self._waiting.append(one)
        self._added.set()

    async def wait_room(self) -> None:
        """Wait until fewer answers wait than the limit; at once while they do."""
        while self.waiting >= self._waiting_max:
            await self._round_done.wait()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush and answer until cancelled.

        Cancellation: answers that wait are not sent; their clients ask elsewhere or again.
        """
        task_status.started()
        while True:
            await self._added.wait()
            while self._waiting:
                answers, self._waiting = self._waiting, []
                self._in_flush = len(answers)
                await self._store.wait_flushed(max(one.end for one in answers))
                self._in_flush = 0
                self._send(answers)
                self._round_done.set()
                self._round_done = trio.Event()

    def _send(self, answers: list[UnflushedAnswer]) -> None:
        flushed = self._store.commit_log.flushed_where
        for one in answers:
            if one.end > flushed:
                one.answer.code = ResponseCode.FLUSH_DISK_TIMEOUT
                one.answer.remark = (
                    f"FLUSH_DISK_TIMEOUT: flushed to {flushed}, the message ends at {one.end}"
                )
            one.session.unflushed -= 1
            if one.begun_ms is not None:
                self._put_times.count(one.begun_ms, 1)
        Session.send_all((one.session, one.answer) for one in answers)
