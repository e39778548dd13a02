"""Long polling: pulls that found nothing are held until something arrives or their time is up.

Every client keeps exactly one pull per queue under way and consumes nothing from the queue until
it is answered, so a held pull is always answered, at the latest when its time is up; only the end
of its connection takes it away. What arrives on a queue wakes the pulls of that queue, which then
run again; those whose filter lets nothing through stay, from the offset that they have reached.
Whose pulls they are take turns: thousands of one client delay no other's.

Answers that are held back on purpose wait here as well: errors for clients that would pull again at
once, or that are being asked for their subscriptions. Deadlines are kept in buckets of 100 ms: a
pull that is answered early leaves nothing behind.

Source: Java ``PullRequestHoldService``, which looks at timeouts every 5 s.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import attrs
import structlog
import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.timerstore.consume_queue import ConsumeQueue

from ..client_registry import Subscription
from ..costly_requests import ROUND_SECONDS, CostlyRequests
from ..pauses import Pauses
from ..pool import Pool
from ..refusal import failed_answer
from ..security.log_limit import LogLimit
from ..session import Session
from .filter import MessageFilter

BUCKETS_A_SECOND = 10
RUN_COUNT = 32
"""Pulls answered between two looks at the other tasks."""
RUN_SIZE = 1 << 20
"""Bytes of their bodies, and one more."""

_Key = TypeVar("_Key")

log = structlog.get_logger("timermq.broker.consuming.long_polling")


@attrs.define(eq=False, kw_only=True)
class HeldPull:
    """A pull whose answer is still to come."""

    session: Session
    command: Command
    group: str
    topic: str
    queue_id: int
    first_offset: int
    """Offset that the client asked for."""
    offset: int
    """Offset to read from next: what lies between has been looked at and did not match."""
    count_max: int
    """Messages in one answer."""
    message_filter: MessageFilter
    subscription: Subscription | None = None
    """The subscription that the filter was made of; None: it was made of the request."""
    owner: str = ""
    """Set by ``hold``: whose share of the pool it takes."""
    bucket: int = 0
    """Set by ``hold``: when it is answered at the latest."""
    has_more: bool = False
    """More has arrived than one run looks at, or unpacks: the client is to ask again at once."""
    is_put_off: bool = False
    """Its time is up: it is answered as soon as it has been run, with or without messages."""
    is_in_line: bool = False
    """Whether it is in line to be run."""
    answer: Command | None = None
    """Set for an answer that is only held back; nothing is read for it."""


class LongPolling:
    """The held pulls of all connections.

    Args:
        pool: Of pulls held at a time.
        costly: Knows whose requests take long.
        held_per_session_max: Of these, pulls of one connection.
    """

    def __init__(self, pool: Pool, costly: CostlyRequests, *, held_per_session_max: int) -> None:
        self._pool = pool
        self._costly = costly
        self._held_per_session_max = held_per_session_max
        # Dicts in place of sets: in order of arrival, whatever the hash of an object.
        self._by_queue: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._by_bucket: dict[int, dict[HeldPull, None]] = {}
        self._by_session: dict[Session, dict[HeldPull, None]] = {}
        self._first_bucket: float = math.inf
        """No bucket is before it."""
        self._arrived: dict[tuple[str, int], None] = {}
        self._costly_queues: dict[tuple[str, int], None] = {}
        """Queues with pulls that wait for the rest behind a costly one."""
        self._roomless: dict[Session, dict[tuple[str, int], None]] = {}
        """Queues with pulls that wait until their peer has read; it is asked to tell once."""
        self._lines: dict[tuple[str, bool], deque[HeldPull]] = {}
        """Pulls that are to be run, of each owner those that something has arrived for and those
        whose time is up, in the order of their turns; some may be held no more."""
        self._pauses = Pauses(costly.work_seconds)
        """Pauses of their own: due messages go out here, while all other work pauses."""
        self._changed = Signal()
        self._log_limit = LogLimit()

    @property
    def held(self) -> int:
        """Number of pulls that are held."""
        return self._pool.used

    def hold(self, pull: HeldPull, seconds: float) -> bool:
        """Hold a pull for at most ``seconds``; False when there is no room for it."""
        session = pull.session
        pull.owner = session.owner
        if session.held_pulls >= self._held_per_session_max or not self._pool.take(pull.owner):
            if count := self._log_limit.take():
                log.warning("pulls not held", count=count, held=self.held, remote=session.peer)
            return False
        # Rounded down: a client must not wait longer than it asked for.
        pull.bucket = math.floor((trio.current_time() + seconds) * BUCKETS_A_SECOND)
        if pull.answer is None:
            self._by_queue.setdefault((pull.topic, pull.queue_id), {})[pull] = None
        if pull.bucket < self._first_bucket:
            self._first_bucket = pull.bucket
            self._changed.set()
        self._by_bucket.setdefault(pull.bucket, {})[pull] = None
        self._by_session.setdefault(session, {})[pull] = None
        session.held_pulls += 1
        return True

    def holds(self, pull: HeldPull) -> bool:
        """Whether a pull is held, and not answered yet."""
        return pull in self._by_session.get(pull.session, ())

    def release(self, pull: HeldPull) -> None:
        """Forget a held pull, which is answered in another way."""
        self._forget(pull)

    def resume(self, pull: HeldPull, *, later: float) -> None:
        """Run a pull whose answer was held back; if it still has that answer, send it.

        Args:
            pull: A held pull.
            later: Seconds by which its deadline moves; negative: it is earlier.
        """
        _discard(self._by_bucket, pull.bucket, pull)
        pull.bucket += math.floor(later * BUCKETS_A_SECOND)
        self._by_bucket.setdefault(pull.bucket, {})[pull] = None
        self._first_bucket = min(self._first_bucket, pull.bucket)
        if pull.answer is None:
            self._by_queue.setdefault((pull.topic, pull.queue_id), {})[pull] = None
        self._put_in_line(pull, is_due=False)
        self._changed.set()

    def notify_message_arriving(self, queue: ConsumeQueue) -> None:
        """Something has been stored in a queue: wake its pulls. Called by the store, plain code."""
        self.wake(queue.topic, queue.queue_id)

    def wake(self, topic: str, queue_id: int) -> None:
        """Run the pulls of a queue again: something about it has changed."""
        key = (topic, queue_id)
        if key in self._by_queue:
            self._arrived[key] = None
            self._changed.set()

    def wake_topic(self, topic: str) -> None:
        """The same for all queues of a topic."""
        for _, queue_id in [key for key in self._by_queue if key[0] == topic]:
            self.wake(topic, queue_id)

    def wake_all(self) -> None:
        """Run all pulls again: something about every queue has changed."""
        for topic, queue_id in list(self._by_queue):
            self.wake(topic, queue_id)

    def drop(self, session: Session) -> None:
        """Drop the pulls of a connection that has closed."""
        self._roomless.pop(session, None)
        for pull in list(self._by_session.get(session, ())):
            self._forget(pull)

    def pulls(self) -> list[HeldPull]:
        """All held pulls, connection by connection."""
        return [pull for pulls in self._by_session.values() for pull in pulls]

    async def run(
        self,
        run_again: Callable[[HeldPull], Command],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer held pulls until cancelled.

        Args:
            run_again: Runs a pull from its ``offset`` and moves that on past what did not match.
            task_status: Started at once.
        """
        task_status.started()
        while True:
            await self._wait()
            await self._pauses.work(partial(self._run_next, run_again))
            await trio.lowlevel.checkpoint()

    async def _wait(self) -> None:
        """Wait until a pull is to be run."""
        due_at = self._first_bucket / BUCKETS_A_SECOND
        if self._costly_queues:
            due_at = min(due_at, self._costly.rest_until)
        if self._lines:
            return
        if due_at == math.inf:
            await self._changed.wait()
        else:
            await self._changed.wait_at_most(max(due_at - trio.current_time(), 0))

    def _line_up(self) -> None:
        """Have the pulls run that something has arrived for, and those whose time is up."""
        now = trio.current_time()
        if self._costly_queues and now >= self._costly.rest_until:
            self._arrived |= self._costly_queues
            self._costly_queues = {}
        arrived, self._arrived = self._arrived, {}
        for key in arrived:
            for pull in self._by_queue.get(key, ()):
                self._put_in_line(pull, is_due=False)
        if self._first_bucket / BUCKETS_A_SECOND > now:
            return
        for bucket in sorted(one for one in self._by_bucket if one / BUCKETS_A_SECOND <= now):
            for pull in self._by_bucket.pop(bucket):
                # Where it may not be run now, it is lined up again when it may, or in a second.
                pull.is_put_off = True
                pull.bucket = bucket + BUCKETS_A_SECOND
                self._by_bucket.setdefault(pull.bucket, {})[pull] = None
                self._put_in_line(pull, is_due=True)
        self._first_bucket = min(self._by_bucket, default=math.inf)

    def _put_in_line(self, pull: HeldPull, *, is_due: bool) -> None:
        if not pull.is_in_line:
            pull.is_in_line = True
            self._lines.setdefault((pull.owner, is_due), deque()).append(pull)

    def _run_next(self, run_again: Callable[[HeldPull], Command]) -> None:
        """Run some pulls of the owner whose turn it is."""
        if not self._lines:
            self._line_up()
            if not self._lines:
                return
        # The line is taken out while it is worked on: to run a pull may wake others of its owner,
        # which make a new line under the same key.
        key = next(iter(self._lines))
        line = self._lines.pop(key)
        chunk = _Chunk()
        while line and not chunk.is_full:
            pull = line.popleft()
            pull.is_in_line = False
            answer = pull.answer or self._answer_of(pull, run_again)
            # It may have ended while it ran: with its connection, or answered before in this chunk.
            if answer is not None and self.holds(pull):
                chunk.add(pull, answer)
        self._finish(chunk)
        # Messages that arrived meanwhile have their turn before the rest of them.
        self._line_up()
        if line:
            line.extend(self._lines.pop(key, ()))
            self._lines[key] = line

    def _answer_of(
        self, pull: HeldPull, run_again: Callable[[HeldPull], Command]
    ) -> Command | None:
        """Run a pull if it may be; None when it stays held."""
        if not self._may_run(pull):
            return None
        answer = self._answer(pull, run_again)
        is_one = answer.code not in _NOTHING_YET or pull.has_more or pull.is_put_off
        return answer if is_one else None

    def _may_run(self, pull: HeldPull) -> bool:
        """Whether a pull is held and may be run now; one that may not is run again later."""
        session, key = pull.session, (pull.topic, pull.queue_id)
        if not self.holds(pull):
            return False
        if not session.has_room():
            # Answers for a peer that reads nothing would pile up.
            if session not in self._roomless:
                self._roomless[session] = {}
                session.when_room(partial(self._wake_all, session))
            self._roomless[session][key] = None
            return False
        if trio.current_time() < self._costly.rest_until and self._costly.is_costly(session):
            self._costly_queues[key] = None
            return False
        return True

    def _wake_all(self, session: Session) -> None:
        """A peer has read: run the pulls again that have waited for that."""
        for key in self._roomless.pop(session, ()):
            self.wake(*key)

    def _answer(self, pull: HeldPull, run_again: Callable[[HeldPull], Command]) -> Command:
        began = self._costly.work_seconds()
        try:
            return run_again(pull)
        except Exception:
            # One task answers all held pulls: a mistake of ours with one must not take the others.
            log.exception(
                "held pull failed",
                remote=pull.session.remote_address,
                topic=pull.topic,
                queue_id=pull.queue_id,
                offset=pull.offset,
            )
            return failed_answer(pull.command)
        finally:
            self._costly.worked(pull.session, self._costly.work_seconds() - began)

    def _finish(self, chunk: _Chunk) -> None:
        """Answer some pulls, those of one connection with one write."""
        for pull, _ in chunk.answers:
            self._forget(pull)
        Session.send_all((pull.session, answer) for pull, answer in chunk.answers)

    def _forget(self, pull: HeldPull) -> None:
        _discard(self._by_queue, (pull.topic, pull.queue_id), pull)
        _discard(self._by_bucket, pull.bucket, pull)
        _discard(self._by_session, pull.session, pull)
        pull.session.held_pulls -= 1
        self._pool.give_back(pull.owner)


@attrs.define
class _Chunk:
    """Pulls that are answered between two looks at the other tasks."""

    answers: list[tuple[HeldPull, Command]] = attrs.Factory(list[tuple[HeldPull, Command]])
    size: int = 0
    """Bytes of their bodies."""
    began: float = attrs.Factory(trio.current_time)

    def add(self, pull: HeldPull, answer: Command) -> None:
        """Keep one more answer until they are sent together."""
        self.answers.append((pull, answer))
        self.size += len(answer.body)

    @property
    def is_full(self) -> bool:
        """Whether they are many or large, or have taken long enough."""
        return (
            len(self.answers) >= RUN_COUNT
            or self.size >= RUN_SIZE
            or trio.current_time() - self.began >= ROUND_SECONDS
        )


_NOTHING_YET = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY})


def _discard(table: dict[_Key, dict[HeldPull, None]], key: _Key, pull: HeldPull) -> None:
    pulls = table.get(key)
    if pulls is not None:
        pulls.pop(pull, None)
        if not pulls:
            del table[key]
