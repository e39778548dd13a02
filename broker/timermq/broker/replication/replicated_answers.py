"""Answers that wait until enough followers have what they tell of (SYNC_MASTER).

They wait in the order of the log. An acknowledgement lets all go that it covers, in the same step;
those that have waited for ``slave_timeout_ms`` go with FLUSH_SLAVE_TIMEOUT, and with too few
followers near enough they do not wait at all: SLAVE_NOT_AVAILABLE. Their messages are stored then.

Source: Java ``GroupTransferService``, ``CommitLog.handleHA``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import ResponseCode

from ..unflushed_answer import UnflushedAnswer
from .followers import Followers


class ReplicatedAnswers:
    """The answers that wait.

    Args:
        followers: Say who has what.
        finish: Sends answers.
    """

    def __init__(
        self, followers: Followers, finish: Callable[[Sequence[UnflushedAnswer]], None]
    ) -> None:
        self._followers = followers
        self._finish = finish
        self._waiting: deque[tuple[float, UnflushedAnswer]] = deque()
        """Each with trio's time at which it goes in any case."""
        self._added = Signal()
        followers.on_change(self._let_go)

    @property
    def waiting(self) -> int:
        """Number of answers that wait for followers."""
        return len(self._waiting)

    def add(self, answers: Sequence[UnflushedAnswer]) -> None:
        """Let answers wait, or go at once where followers have all or there are too few."""
        if not answers:
            return
        followers = self._followers
        may_wait, reached = followers.may_have(), followers.reached()
        deadline = trio.current_time() + followers.timeout
        done: list[UnflushedAnswer] = []
        for one in answers:
            if one.end > reached and may_wait:
                self._waiting.append((deadline, one))
                continue
            if one.end > reached:
                one.answer.code = ResponseCode.SLAVE_NOT_AVAILABLE
                one.answer.remark = f"SLAVE_NOT_AVAILABLE: stored, {followers.shortage()}"
            done.append(one)
        if self._waiting:
            self._added.set()
        self._finish(done)

    def _let_go(self) -> None:
        """Send what followers have now."""
        if self._waiting:
            reached = self._followers.reached()
            done: list[UnflushedAnswer] = []
            while self._waiting and self._waiting[0][1].end <= reached:
                done.append(self._waiting.popleft()[1])
            if done:
                self._finish(done)

    async def run(self) -> None:
        """Send what has waited for too long, until cancelled.

        Cancellation: answers that wait are not sent.
        """
        while True:
            await self._added.wait()
            while self._waiting:
                await trio.sleep_until(self._waiting[0][0])
                self._give_up()

    def _give_up(self) -> None:
        now, reached = trio.current_time(), self._followers.reached()
        late: list[UnflushedAnswer] = []
        while self._waiting and self._waiting[0][0] <= now:
            one = self._waiting.popleft()[1]
            one.answer.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
            one.answer.remark = (
                f"FLUSH_SLAVE_TIMEOUT: stored, replicated to {reached}, it ends at {one.end}"
            )
            late.append(one)
        self._finish(late)
