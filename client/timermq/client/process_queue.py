"""A queue that is ours at the moment: pulled, given out, committed.

::

    committed      done           given_end        next_offset
    -----|-----------|----------------|----------------|------>
    broker knows     commit() says    given out        pulled next

What the tag filter leaves out is never given out; while nothing is outstanding (``done`` has
reached ``given_end``), ``done`` follows ``next_offset``, so that such messages are not looked at
again after a restart, and the place where a new group begins is written down.

Source: Java ``ProcessQueue``, ``DefaultMQPushConsumerImpl.pullMessage``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import attrs
import trio

from timermq.remoting import Command, RequestCode, ResponseCode
from timermq.remoting.field import integer
from timermq.remoting.offset_header import CommitOffsetHeader
from timermq.remoting.pull_header import PullFlag, PullHeader
from timermq.remoting.stored_message import decode_messages

from .errors import (
    BrokerRefusedError,
    ClientError,
    MalformedAnswerError,
    check_answer,
    reading_answer,
)
from .link import Links
from .log import warn
from .message import ReceivedMessage
from .route import Routes, TopicQueue

ERROR_PAUSE_MIN = 1.0
ERROR_PAUSE_MAX = 8.0
"""Seconds before a queue whose pull failed is pulled again; twice as many each time."""
SUSPEND_MS = 15_000
"""How long the broker holds a pull for which there is no message."""
PULL_TIMEOUT = SUSPEND_MS / 1000 + 15
"""Seconds for the answer: brokers look through their held pulls in turns of up to five."""
PULL_COUNT = 256
"""Messages asked for by one pull."""


_PULL_ANSWERS = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


@attrs.frozen(kw_only=True)
class Subscribed:
    """The subscription of a group to one topic."""

    group: str
    topic: str
    expression: str
    """``*``, or tags separated by ``||``."""
    version: int
    start_from: Literal["first", "last"]
    """The start of a group that has committed nothing."""

    def wants(self, message: ReceivedMessage) -> bool:
        """Whether the tag is one of those asked for; brokers compare hashes only."""
        tags = [tag.strip() for tag in self.expression.split("||")]
        return tags in (["*"], [""]) or message.tags in tags


@attrs.frozen(eq=False)
class Pulled:
    """Messages of one pull, on their way to the program."""

    source: ProcessQueue
    generation: int
    messages: Sequence[ReceivedMessage]

    @property
    def is_current(self) -> bool:
        """Whether the queue is still ours and still stands where these were pulled."""
        return self.generation == self.source.generation


class ProcessQueue:
    """One queue of ours.

    Args:
        queue: Which.
        subscribed: What is wanted of it.
        links: The client's connections.
        routes: The client's routes.
        give: Takes what was pulled; waits while there is too much.
        clock_ms: The wall clock.
    """

    def __init__(
        self,
        queue: TopicQueue,
        subscribed: Subscribed,
        *,
        links: Links,
        routes: Routes,
        give: trio.MemorySendChannel[Pulled],
        clock_ms: Callable[[], int],
    ) -> None:
        self.queue = queue
        self.generation = 0
        """Raised when what was pulled before must not be given out any more."""
        self._subscribed = subscribed
        self._links = links
        self._routes = routes
        self._give = give
        self._clock_ms = clock_ms
        self._scope = trio.CancelScope()
        self._next_offset = -1
        """The offset of the next pull; -1 while that is not known."""
        self._given_end = -1
        self._done = -1
        self._committed = -1

    async def run(self) -> None:
        """Pull until ``drop``; failures are logged and retried."""
        failures = 0
        with self._scope:
            while True:
                try:
                    if self._next_offset < 0:
                        await self._begin()
                    await self._pull()
                except ClientError as error:
                    warn("pull failed", queue=str(self.queue), reason=str(error))
                    self._routes.doubt(self.queue.topic)
                    await trio.sleep(min(ERROR_PAUSE_MIN * 2 ** min(failures, 10), ERROR_PAUSE_MAX))
                    failures += 1
                else:
                    failures = 0

    def drop(self) -> None:
        """The queue is not ours any more: stop pulling, give nothing more out."""
        self._scope.cancel()
        self.generation += 1

    def done_up_to(self, queue_offset: int) -> None:
        """Everything up to and with this offset is done."""
        # Behind a reset of the group's offset the program may still hold messages from before it.
        if queue_offset < self._next_offset:
            self._done = max(self._done, queue_offset + 1)

    async def is_drained(self) -> bool:
        """Whether everything that the queue has now has been pulled.

        Raises:
            ClientError: The broker does not say.
        """
        answer = await self._call(RequestCode.GET_MAX_OFFSET)
        return _offset(check_answer(answer), "offset") == self._next_offset

    async def commit(self) -> None:
        """Tell the broker what is done, if it does not know.

        Raises:
            ClientError: It may not know it now.

        Cancellation: the same.
        """
        done = self._done
        if done == self._committed:
            return
        header = CommitOffsetHeader(
            consumer_group=self._subscribed.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            commit_offset=done,
        )
        command = Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=header.to_ext())
        check_answer(await self._links.call(self.queue.address, command))
        self._committed = done

    async def _begin(self) -> None:
        """Ask where the group stands, or where the queue begins or ends."""
        # Otherwise brokers say 0 for a new group as long as message 0 is there: that is the first.
        answer = await self._call(RequestCode.QUERY_CONSUMER_OFFSET, setZeroIfNotFound="false")
        is_new = answer.code == ResponseCode.QUERY_NOT_FOUND
        if is_new:
            is_first = self._subscribed.start_from == "first"
            answer = await self._call(
                RequestCode.GET_MIN_OFFSET if is_first else RequestCode.GET_MAX_OFFSET
            )
        offset = _offset(check_answer(answer), "offset")
        self._stand_at(offset)
        if is_new:
            self._committed = -1

    async def _pull(self) -> None:
        """One pull; gives its messages out."""
        offset = self._next_offset
        header = PullHeader(
            consumer_group=self._subscribed.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=offset,
            max_msg_nums=PULL_COUNT,
            sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_ms=SUSPEND_MS,
            subscription=self._subscribed.expression,
            sub_version=self._subscribed.version,
        )
        command = Command(RequestCode.PULL_MESSAGE, ext=header.to_ext())
        answer = await self._links.call(self.queue.address, command, PULL_TIMEOUT)
        if answer.code not in _PULL_ANSWERS:
            raise BrokerRefusedError(answer.code, answer.remark or "")
        next_offset = _offset(answer, "nextBeginOffset")
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self.generation += 1
            self._stand_at(next_offset)
            return
        messages = self._decode(answer) if answer.code == ResponseCode.SUCCESS else []
        if next_offset < offset or (answer.code == ResponseCode.SUCCESS and next_offset == offset):
            raise MalformedAnswerError(f"pull from {offset}: found next offset {next_offset}")
        self._next_offset = next_offset
        if messages:
            self._given_end = messages[-1].queue_offset + 1
            await self._give.send(Pulled(self, self.generation, messages))
        elif self._done >= self._given_end:
            self._done = next_offset

    def _decode(self, answer: Command) -> list[ReceivedMessage]:
        received_ms = self._clock_ms()
        with reading_answer(f"pull of {self.queue.topic}/{self.queue.queue_id}"):
            stored = decode_messages(answer.body)
        broker_name = self.queue.broker_name
        messages = [ReceivedMessage.of(one, received_ms, broker_name=broker_name) for one in stored]
        return [one for one in messages if self._subscribed.wants(one)]

    def _stand_at(self, offset: int) -> None:
        """Nothing before ``offset`` concerns us any more, and the broker knows it."""
        self._next_offset = self._given_end = self._done = self._committed = offset

    async def _call(self, code: RequestCode, **more: str) -> Command:
        command = Command(code, ext={**self._place(), **more})
        return await self._links.call(self.queue.address, command)

    def _place(self) -> dict[str, str]:
        return {
            "consumerGroup": self._subscribed.group,
            "topic": self.queue.topic,
            "queueId": str(self.queue.queue_id),
        }


def _offset(answer: Command, name: str) -> int:
    with reading_answer("answer"):
        offset = integer(answer, name)
    if offset < 0:
        raise MalformedAnswerError(f"answer: {name}: expected 0 or more, found {offset}")
    return offset
