"""Long polling: pulls that found nothing are held until something arrives or their time is up.

Every client keeps exactly one pull per queue under way and consumes nothing from the queue until
it is answered, so a held pull is always answered, at the latest when its time is up; only the end
of its connection takes it away. What arrives on a queue wakes the pulls of that queue, which then
run again; those whose filter lets nothing through stay, from the offset that they have reached.

Answers that are held back on purpose (errors towards clients that would ask again at once) wait
here as well. Deadlines are kept in buckets of 100 ms: a pull that is answered early leaves
nothing behind.

Source: Java ``PullRequestHoldService``, which looks at timeouts every 5 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import attrs
import structlog
import trio

from timermq.pipeline.signal import Signal
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.timerstore.consume_queue import ConsumeQueue

from ..answers import failed_answer
from ..client_registry import Subscription
from ..session import Session
from .filter import MessageFilter

BUCKETS_A_SECOND = 10
RUN_COUNT = 32
"""Pulls run again between two looks at the other tasks: some milliseconds."""

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
    """What the filter was made of; None: of the request itself."""
    bucket: int = 0
    """Set by ``hold``: when it is answered at the latest."""
    has_more: bool = False
    """More has arrived than one run looks at: the client is to ask again at once."""
    answer: Command | None = None
    """Set for an answer that is only held back; nothing is read for it."""


class LongPolling:
    """The held pulls of all connections.

    Args:
        held_max: Pulls held at a time.
        held_per_session_max: Of these, pulls of one connection.
    """

    def __init__(self, *, held_max: int, held_per_session_max: int) -> None:
        self._held_max = held_max
        self._held_per_session_max = held_per_session_max
        # Dicts in place of sets: in order of arrival, whatever the hash of an object.
        self._by_queue: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._by_bucket: dict[int, dict[HeldPull, None]] = {}
        self._by_session: dict[Session, dict[HeldPull, None]] = {}
        self._first_bucket: float = math.inf
        """No bucket is before it."""
        self._arrived: dict[tuple[str, int], None] = {}
        self._changed = Signal()
        self.held = 0
        """Pulls held now."""

    def hold(self, pull: HeldPull, seconds: float) -> bool:
        """Hold a pull for at most ``seconds``; False when there is no room for it."""
        session = pull.session
        if self.held >= self._held_max or session.held_pulls >= self._held_per_session_max:
            log.warning("pull not held", held=self.held, remote=session.remote_address)
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
        self.held += 1
        return True

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

    def drop(self, session: Session) -> None:
        """The connection is closed: nobody waits for these answers any more."""
        for pull in list(self._by_session.get(session, ())):
            self._forget(pull)

    def pulls(self) -> list[HeldPull]:
        """The pulls held now."""
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
            await self._run_arrived(run_again)
            await self._run_due(run_again)

    async def _wait(self) -> None:
        self._first_bucket = min(self._by_bucket, default=math.inf)
        if self._first_bucket == math.inf:
            await self._changed.wait()
        else:
            due_at = self._first_bucket / BUCKETS_A_SECOND
            await self._changed.wait_at_most(max(due_at - trio.current_time(), 0))

    async def _run_arrived(self, run_again: Callable[[HeldPull], Command]) -> None:
        """Answer the pulls of queues in which something has arrived."""
        while self._arrived:
            pulls = [pull for key in self._arrived for pull in self._by_queue.get(key, ())]
            self._arrived.clear()
            for chunk in _chunks(pulls):
                answers = [
                    (pull, _answer(pull, run_again)) for pull in chunk if self._is_held(pull)
                ]
                self._finish(
                    (pull, answer)
                    for pull, answer in answers
                    if answer.code not in _NOTHING_YET or pull.has_more
                )
                await trio.lowlevel.checkpoint()

    async def _run_due(self, run_again: Callable[[HeldPull], Command]) -> None:
        """Answer the pulls whose time is up; what arrives meanwhile does not wait for them all."""
        now = trio.current_time()
        due = sorted(bucket for bucket in self._by_bucket if bucket / BUCKETS_A_SECOND <= now)
        for chunk in _chunks([pull for bucket in due for pull in self._by_bucket[bucket]]):
            self._finish(
                (pull, pull.answer if pull.answer is not None else _answer(pull, run_again))
                for pull in chunk
                if self._is_held(pull)
            )
            await trio.lowlevel.checkpoint()
            await self._run_arrived(run_again)

    def _is_held(self, pull: HeldPull) -> bool:
        return pull in self._by_session.get(pull.session, ())

    def _finish(self, answers: Iterable[tuple[HeldPull, Command]]) -> None:
        """Answer some pulls; those of one connection go with one write."""
        answered: dict[Session, None] = {}
        for pull, answer in answers:
            self._forget(pull)
            pull.session.queue(answer)
            answered[pull.session] = None
        for session in answered:
            session.flush()

    def _forget(self, pull: HeldPull) -> None:
        _discard(self._by_queue, (pull.topic, pull.queue_id), pull)
        _discard(self._by_bucket, pull.bucket, pull)
        _discard(self._by_session, pull.session, pull)
        pull.session.held_pulls -= 1
        self.held -= 1


_NOTHING_YET = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY})


def _answer(pull: HeldPull, run_again: Callable[[HeldPull], Command]) -> Command:
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


def _chunks(pulls: Sequence[HeldPull]) -> Iterator[Sequence[HeldPull]]:
    return (pulls[at : at + RUN_COUNT] for at in range(0, len(pulls), RUN_COUNT))


def _discard(table: dict[_Key, dict[HeldPull, None]], key: _Key, pull: HeldPull) -> None:
    pulls = table.get(key)
    if pulls is not None:
        pulls.pop(pull, None)
        if not pulls:
            del table[key]
