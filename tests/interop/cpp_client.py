"""The C++ RocketMQ client (PyPI ``rocketmq``) against one broker; runs in a process of its own.

The client aborts its process on what it does not like, keeps files in the home directory and ends
with threads running: none of that belongs into the test's process. Prints a line for each thing
that happened, like ``java/TimerClient.java``::

    SENT body msgId deliverMs|-      GOT body msgId receivedMs storedMs tag

Arguments: name server, topic, group, seconds to consume.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage

LEVEL_DELAYS_MS = (1_000, 5_000, 10_000, 30_000, 60_000, 120_000)


def now_ms() -> int:
    """The wall clock of the producer, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def emit(line: str) -> None:
    """One line, whole, whichever thread it comes from."""
    os.write(1, line.encode() + b"\n")


def message(topic: str, body: str, tag: str = "timed") -> Message:
    """A message with a key and a tag."""
    made = Message(topic)
    made.set_keys("key-" + body)
    made.set_tags(tag)
    made.set_body(body)
    return made


def main(name_server: str, topic: str, group: str, seconds: float, level_max: int) -> None:
    """Send in every way that asks for a delay, consume, print."""
    producer = Producer(group + "-producer")
    producer.set_namesrv_addr(name_server)
    producer.start()
    emit(f"SENT first {producer.send_sync(message(topic, 'first', 'plain')).msg_id} -")

    done = threading.Event()

    def received(one: RecvMessage) -> int:
        emit(
            f"GOT {one.body.decode()} {one.id} {now_ms()} {one.store_timestamp} {one.tags.decode()}"
        )
        return 0

    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(name_server)
    consumer.subscribe(topic, received, "timed || plain")
    consumer.start()

    at = message(topic, "at")
    moment = now_ms() + 3_217
    at.set_property("TIMER_DELIVER_MS", str(moment))
    emit(f"SENT at {producer.send_sync(at).msg_id} {moment}")
    delay = message(topic, "delay")
    delay.set_property("TIMER_DELAY_MS", "2345")
    before = now_ms()
    emit(f"SENT delay {producer.send_sync(delay).msg_id} {before + 2_345}")
    for level in range(1, level_max + 1):
        classic = message(topic, f"level{level}")
        classic.set_delay_time_level(level)
        before = now_ms()
        sent = producer.send_sync(classic)
        emit(f"SENT level{level} {sent.msg_id} {before + LEVEL_DELAYS_MS[level - 1]}")
    parts = [message(topic, f"batch{part}", "plain") for part in range(3)]
    parts[2].set_property("TIMER_DELAY_MS", "1500")
    before = now_ms()
    producer.send_batch(parts)
    emit(f"SENT batch {before + 1_500} -")
    done.wait(seconds)
    consumer.shutdown()
    producer.shutdown()
    emit("DONE")
    os._exit(0)  # the client's threads outlive its shutdown


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]))
