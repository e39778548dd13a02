"""The C++ RocketMQ client (PyPI ``rocketmq``) sends in several ways at once, until it is told.

It speaks the lines of ``java/StreamClient.java``, and has no transactions. It tries a send again by
itself, and its binding has no word against that. A process of its own: it ends with threads
running.

Argument: name server.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from rocketmq.client import Message, Producer
from rocketmq.exceptions import RocketMQException

BATCH = 4
DELAY_MS = 2_000
TIMEOUT_MS = 3_000
ASYNC_ANSWERED_S = 10.0

Sender = Callable[[Producer, int], None]
"""Sends the messages from a number on, at most BATCH."""


def emit(*words: object) -> None:
    """One line, whole, whichever thread it comes from."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def message(topic: str, number: int) -> Message:
    """A message with its number."""
    made = Message(topic)
    made.set_body(str(number))
    return made


def send_one(producer: Producer, number: int) -> None:
    """Send one message and wait for the broker's answer."""
    producer.send_sync(message("sync", number))
    emit("ACK", "sync", number, "-")


def send_async(producer: Producer, number: int) -> None:
    """Send one message and wait until its callback is called."""
    answered = threading.Event()

    def stored(_: object) -> None:
        emit("ACK", "async", number, "-")
        answered.set()

    producer.send_async(message("async", number), stored, lambda _: answered.set())
    answered.wait(ASYNC_ANSWERED_S)


def send_batch(producer: Producer, number: int) -> None:
    """Send a batch of messages; all of them are acknowledged together."""
    numbers = range(number, number + BATCH)
    producer.send_batch([message("batch", one) for one in numbers])
    for one in numbers:
        emit("ACK", "batch", one, "-")


def send_ordered(producer: Producer, number: int) -> None:
    """Send one message to a fixed queue, without a retry."""
    producer.send_orderly(message("ordered", number), 3, retry_times=0)
    emit("ACK", "ordered", number, "-")


def send_delayed(producer: Producer, number: int) -> None:
    """Send one message for a moment ``DELAY_MS`` ahead."""
    one = message("delayed", number)
    moment = time.time_ns() // 1_000_000 + DELAY_MS
    one.set_property("TIMER_DELIVER_MS", str(moment))
    producer.send_sync(one)
    emit("ACK", "delayed", number, moment)


def stream(producer: Producer, send: Sender, stop: threading.Event) -> None:
    """Send until told; numbers that may have been sent are not used again."""
    number = 0
    while not stop.is_set():
        try:
            send(producer, number)
        except RocketMQException:
            time.sleep(0.05)
        number += BATCH
        time.sleep(0.02)


def main(namesrv: str) -> None:
    """Send until the first line, answer until the input ends."""
    stop = threading.Event()
    producer = Producer("P", timeout=TIMEOUT_MS)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    ways = [
        threading.Thread(target=stream, args=(producer, send, stop), daemon=True)
        for send in (send_one, send_async, send_batch, send_ordered, send_delayed)
    ]
    for way in ways:
        way.start()
    sys.stdin.readline()
    stop.set()
    for way in ways:
        way.join()
    emit("STOPPED")
    sys.stdin.readline()
    emit("DONE")
    os._exit(0)  # the client's threads outlive its shutdown


if __name__ == "__main__":
    main(sys.argv[1])
