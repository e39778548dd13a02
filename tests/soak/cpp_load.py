"""The C++ RocketMQ client under load, in a process of its own that writes its own history.

It does not tell which unique key it gave to a message whose answer is lost, so messages are named
by their key. Each key that is acknowledged is printed, for the task that cancels it.

Arguments: name server, topic, history file, name of the writer, seed. It runs until it is killed.
"""

from __future__ import annotations

import os
import random
import sys
import time

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage

from timermq.client.history import Ack, Deliver, HistoryWriter, Send, Unknown

GROUP = "soak-cpp"
TIMEOUT_MS = 2_000
LEVEL_DELAYS_MS = {1: 1_000, 2: 5_000}
AHEAD_MS_MAX = 9_000
PAUSE_SECONDS_MAX = 0.04


def now_ms() -> int:
    """The clock of this machine."""
    return time.time_ns() // 1_000_000


class Load:
    """One producer and one consumer."""

    def __init__(self, namesrv: str, topic: str, history: HistoryWriter, seed: int) -> None:
        self._topic = topic
        self._history = history
        self._draw = random.Random(seed)
        self._count = 0
        self._producer = Producer(f"{GROUP}-producer", timeout=TIMEOUT_MS)
        self._producer.set_namesrv_addr(namesrv)
        self._consumer = PushConsumer(GROUP)
        self._consumer.set_namesrv_addr(namesrv)

    def run(self) -> None:
        """Send and receive for as long as the process lives."""
        self._producer.start()
        self._consumer.subscribe(self._topic, self._received)
        self._consumer.start()
        while True:
            self._send()
            time.sleep(self._draw.random() * PAUSE_SECONDS_MAX)

    def _send(self) -> None:
        draw, who = self._draw, self._history.who
        self._count += 1
        key = f"{who}-{self._count}"
        message = Message(self._topic)
        message.set_keys(key)
        message.set_body(key)
        deliver_ms = delay_ms = level = None
        match draw.randint(0, 5):
            case 0:
                level = draw.choice(list(LEVEL_DELAYS_MS))
                delay_ms = LEVEL_DELAYS_MS[level]
                message.set_delay_time_level(level)
            case 1:
                delay_ms = draw.randint(1, AHEAD_MS_MAX)
                message.set_property("TIMER_DELAY_MS", str(delay_ms))
            case 2:
                pass  # at once
            case _:
                deliver_ms = now_ms() + draw.randint(-100, AHEAD_MS_MAX)
                message.set_property("TIMER_DELIVER_MS", str(deliver_ms))
        send = Send(
            at_ms=now_ms(),
            who=who,
            message_id=key,
            topic=self._topic,
            deliver_ms=deliver_ms,
            delay_ms=delay_ms,
            level=level,
            keys=(key,),
        )
        self._history.write(send)
        queue = draw.randrange(1024)
        chosen: list[int] = []

        def select(queue_count: int, _message: RecvMessage, _arg: int) -> int:
            chosen.append(queue % queue_count)
            return chosen[-1]

        try:
            # The other ways to send try again by themselves, under a new unique key.
            sent = self._producer.send_orderly(message, 0, retry_times=0, queue_selector=select)
        except Exception as error:  # the client's own classes say nothing more
            self._history.write(
                Unknown(at_ms=now_ms(), who=who, message_id=key, reason=str(error)[:200])
            )
            time.sleep(0.2)
            return
        self._history.write(
            Ack(at_ms=now_ms(), who=who, message_id=key, queue=chosen[-1], offset=sent.offset)
        )
        os.write(1, f"{key}\n".encode())

    def _received(self, one: RecvMessage) -> int:
        now = now_ms()
        asked = one.get_property("TIMER_DELIVER_MS")
        self._history.write(
            Deliver(
                at_ms=now,
                who=self._history.who,
                message_id=text(one.get_property("UNIQ_KEY")),
                topic=one.topic,
                queue=one.queue_id,
                offset=one.queue_offset,
                stored_ms=one.store_timestamp,
                deliver_ms=int(asked) if asked else None,
                broker="broker-a",
                keys=(text(one.keys),),
                received_ms=now,
                group=GROUP,
            )
        )
        return 0


def text(value: bytes | None) -> str:
    """A property as text; empty when it is not there."""
    return (value or b"").decode()


def main(namesrv: str, topic: str, path: str, who: str, seed: str) -> None:
    """Run until somebody kills the process."""
    with HistoryWriter(path, who=who) as history:
        Load(namesrv, topic, history, int(seed)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
