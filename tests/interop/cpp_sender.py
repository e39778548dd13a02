"""The C++ RocketMQ client (PyPI ``rocketmq``) sends in every way that it has, and pulls.

What it prints is as of ``go/sending/main.go``: ``SENT body msgId -``, ``GOT body msgId received
stored tag queue offset``, ``DONE``. It has a process of its own, because it ends with threads
running.

Arguments: name server, topic, group, count of messages to pull.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from rocketmq.client import Message, Producer, PullConsumer, SendResult

GIVEN_UP_S = 40.0


def emit(*words: object) -> None:
    """One line, whole, whichever thread it comes from."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def message(topic: str, body: str) -> Message:
    """A message with a tag."""
    made = Message(topic)
    made.set_tags("cpp")
    made.set_body(body)
    return made


def send(producer: Producer, topic: str) -> None:
    """One by one, by callback, without an answer, and in order by a number."""
    emit("SENT", "sync", producer.send_sync(message(topic, "sync")).msg_id, "-")
    answered = threading.Event()

    def stored(result: SendResult) -> None:
        emit("SENT", "async", result.msg_id, "-")
        answered.set()

    producer.send_async(message(topic, "async"), stored, lambda error: emit("FAILED", error))
    answered.wait(GIVEN_UP_S)
    producer.send_oneway(message(topic, "oneway"))
    for number in range(8):
        body = f"ordered{number}"
        emit("SENT", body, producer.send_orderly(message(topic, body), 3).msg_id, "-")


def main(name_server: str, topic: str, group: str, count: int) -> None:
    """Send, then pull until all are there."""
    producer = Producer(group + "-producer")
    producer.set_namesrv_addr(name_server)
    producer.start()
    send(producer, topic)
    consumer = PullConsumer(group)
    consumer.set_namesrv_addr(name_server)
    consumer.start()
    until = time.monotonic() + GIVEN_UP_S
    while count > 0 and time.monotonic() < until:
        for one in consumer.pull(topic):
            emit(
                *("GOT", one.body.decode(), one.id, time.time_ns() // 1_000_000),
                *(one.store_timestamp, one.tags.decode(), one.queue_id, one.queue_offset),
            )
            count -= 1
    emit("DONE")
    os._exit(0)  # the client's threads outlive its shutdown


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
