"""The load of our own client: sends of every kind, cancels and moves, and what consumers see."""

from __future__ import annotations

import contextlib
import datetime
import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import attrs
import trio

from timermq.client import (
    BrokerRefusedError,
    ClientError,
    Consumer,
    HistoryWriter,
    OutgoingMessage,
    Producer,
    ReceivedMessage,
    SendReceipt,
)
from timermq.client.moment import now_ms

OWN_TOPICS = ("SoakA", "SoakB")
CPP_TOPIC, JAVA_TOPIC, GO_TOPIC = "SoakCpp", "SoakJava", "SoakGo"
TOPICS = (*OWN_TOPICS, CPP_TOPIC)
QUEUES = 8
"""Of a topic, as the broker makes it."""

REQUEST_TIMEOUT = 2.0
FIRST_SECONDS = 120.0
"""Within which a message to each topic has to be taken."""
FIRST_PAUSE = 0.5
BATCH_MAX = 24
SEND_PAUSE_MAX = 0.25
CANCEL_PAUSE_MAX = 0.1
RECENT_MAX = 400
"""Messages that may be cancelled or moved: the newest of each producer."""
AHEAD_MS_MAX = 16_000
"""Four roll windows."""
QUIET_SECONDS = 3.0
"""Without a message for so long a reader has read all there is."""


class Name(TypedDict, total=False):
    """A message's name, as ``cancel`` and ``reschedule`` take it."""

    recall_handle: str
    message_id: str
    key: str


@attrs.frozen
class Target:
    """A message that may be cancelled or moved."""

    topic: str
    receipt: SendReceipt | None
    key: str

    def name(self, draw: random.Random) -> Name:
        """A name of the message, drawn: its key, its id or its handle."""
        names: list[Name] = [{"key": self.key}]
        if self.receipt is not None:
            names.append({"message_id": self.receipt.message_id})
            if self.receipt.recall_handle is not None:
                names.append({"recall_handle": self.receipt.recall_handle})
        return draw.choice(names)


@attrs.define
class Load:
    """What the clients of one episode share."""

    namesrv: str
    directory: Path
    topics: Sequence[str] = TOPICS
    targets: deque[Target] = attrs.Factory(lambda: deque[Target](maxlen=RECENT_MAX))
    last_due_ms: int = 0
    acknowledged: int = 0
    _read: dict[tuple[str, int], int] = attrs.Factory(dict[tuple[str, int], int])
    """Queue to where the newest message that the consumer has of it stands in the log."""
    _count: int = 0

    @property
    def read_to(self) -> int:
        """Position in the log before which the consumer has read everything."""
        return min(self._read.values()) if len(self._read) == QUEUES * len(self.topics) else 0

    def history(self, who: str) -> HistoryWriter:
        """The file of one writer."""
        return HistoryWriter(self.directory / f"{who}.jsonl", who=who)

    async def produce(self, who: str, draw: random.Random) -> None:
        """Send batches until it is cancelled; the history tells of each."""
        with self.history(who) as history:
            async with self._producer(history) as producer:
                while True:
                    await self._send(producer, draw)
                    await trio.sleep(draw.random() * SEND_PAUSE_MAX)

    async def make_topics(self) -> None:
        """A message to each topic: consumers look for new ones only now and then.

        Replicas that have just begun may not be in sync, and refuse.
        """
        with self.history("first") as history, trio.fail_after(FIRST_SECONDS):
            async with self._producer(history) as producer:
                for topic in self.topics:
                    while True:
                        with contextlib.suppress(ClientError):
                            await producer.send(topic, b"first")
                            break
                        await trio.sleep(FIRST_PAUSE)

    async def cancel(self, who: str, draw: random.Random) -> None:
        """Cancel and move messages for ever, some of them again and again."""
        with self.history(who) as history:
            async with self._producer(history) as producer:
                while True:
                    await trio.sleep(draw.random() * CANCEL_PAUSE_MAX)
                    if self.targets:
                        await self._ask(producer, draw)

    async def consume(self, who: str, group: str) -> None:
        """Receive all topics until it is cancelled, and commit each message."""
        with self.history(who) as history:
            async with Consumer(
                self.namesrv,
                group=group,
                topics=dict.fromkeys(self.topics, "*"),
                start_from="first",
                history=history,
            ) as consumer:
                async for message in consumer:
                    self._read[message.topic, message.queue_id] = log_position(message)
                    await consumer.commit(message)

    async def audit(self, who: str) -> None:
        """Read every queue from its first message to its last, as a new group."""
        with self.history(who) as history:
            async with Consumer(
                self.namesrv,
                group=who,
                topics=dict.fromkeys(self.topics, "*"),
                start_from="first",
                history=history,
            ) as consumer:
                is_quiet = False
                while not is_quiet:
                    with trio.move_on_after(QUIET_SECONDS) as wait:
                        await anext(consumer)
                    is_quiet = wait.cancelled_caught

    def _producer(self, history: HistoryWriter) -> Producer:
        return Producer(self.namesrv, request_timeout=REQUEST_TIMEOUT, history=history)

    async def _send(self, producer: Producer, draw: random.Random) -> None:
        messages = [self._message(draw) for _ in range(draw.randint(1, BATCH_MAX))]
        outcomes: Sequence[object] = ()
        try:
            outcomes = await producer.send_batch(messages)
        except ClientError as error:
            outcomes = error.outcomes
        for message, outcome in zip(messages, outcomes, strict=False):
            if isinstance(outcome, SendReceipt):
                self.acknowledged += 1
                self.targets.append(Target(message.topic, outcome, message.keys[0]))

    def _message(self, draw: random.Random) -> OutgoingMessage:
        self._count += 1
        at = delay = level = None
        now = now_ms()
        match draw.randint(0, 9):
            case 0:
                pass  # at once
            case 1:
                level = draw.randint(1, 2)
            case 2:
                delay = datetime.timedelta(milliseconds=draw.randint(0, 3_000))
            case 3:
                at = now - draw.randint(0, 2_000)
            case 4 | 5:
                at = (now // 500 + draw.randint(1, 6)) * 500  # many share it
            case 6 | 7:
                at = now + draw.randint(1, AHEAD_MS_MAX)
            case _:
                at = now + draw.randint(1, 3_000)
        self.last_due_ms = max(self.last_due_ms, now + AHEAD_MS_MAX)
        return OutgoingMessage(
            topic=draw.choice(OWN_TOPICS),
            body=draw.randbytes(draw.choice([0, 20, 200, 2_000])),
            at=at,
            delay=delay,
            level=level,
            keys=(f"own-{self._count}",),
        )

    async def _ask(self, producer: Producer, draw: random.Random) -> None:
        target = draw.choice(self.targets)
        name = target.name(draw)
        try:
            if draw.random() < 0.5:
                await producer.cancel(target.topic, **name)
            else:
                at = now_ms() + draw.randint(-100, AHEAD_MS_MAX)
                self.last_due_ms = max(self.last_due_ms, at)
                await producer.reschedule(target.topic, **name, at=at)
        except BrokerRefusedError:
            pass  # in the history, as is what follows
        except ClientError:
            await trio.sleep(0.1)


def log_position(message: ReceivedMessage) -> int:
    """Where a message stands in the commit log: its id ends with that."""
    return int(message.offset_message_id[-16:], 16)
