"""The C++ RocketMQ client (PyPI ``rocketmq``) as consumers that come and go on command.

It speaks the lines that ``java/ConsumeClient.java`` describes; the kinds are concurrent, orderly,
broadcasting, and pull, which takes all queues for itself, once in a process: the binding keeps the
offsets, of all consumers in one table. There are no options: the client has none. A ``send`` goes
on in a thread of its own. It aborts its process on what it does not like and ends with threads
running, so it has a process of its own.

Argument: name server.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from rocketmq.client import (
    Message,
    MessageModel,
    Producer,
    PullConsumer,
    PushConsumer,
    RecvMessage,
)
from rocketmq.exceptions import RocketMQException


class HandlingError(Exception):
    """The message is to come again.

    The client's binding raises what is true out of its callback, and then its answer is whatever
    was in memory; of what is false it answers RECONSUME_LATER, as it means to.
    """

    def __bool__(self) -> bool:
        return False


def emit(*words: object) -> None:
    """One line, whole, whichever thread it comes from."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def emit_got(name: str, one: RecvMessage) -> str:
    """Say that a message has come; its body."""
    body = one.body.decode()
    received_ms = time.time_ns() // 1_000_000
    emit(
        *("GOT", name, body, one.topic, one.queue_id, one.queue_offset, one.reconsume_times),
        *(received_ms, one.store_timestamp),
    )
    return body


def start_pull(namesrv: str, name: str, group: str, topic: str, tags: str) -> PullConsumer:
    """A consumer that pulls all queues, one after the other, until the process ends."""
    consumer = PullConsumer(group)
    consumer.set_namesrv_addr(namesrv)
    consumer.start()

    def pull() -> None:
        while True:
            try:
                for one in consumer.pull(topic, tags):
                    emit_got(name, one)
            except RocketMQException:
                time.sleep(0.1)

    threading.Thread(target=pull, daemon=True).start()
    return consumer


def start(namesrv: str, name: str, kind: str, group: str, topic: str, tags: str) -> PushConsumer:
    """A consumer that has begun."""

    def received(one: RecvMessage) -> int:
        body = emit_got(name, one)
        if body.startswith("bad") or (body.startswith("once") and one.reconsume_times == 0):
            raise HandlingError(body)
        return 0

    model = MessageModel.BROADCASTING if kind == "broadcasting" else MessageModel.CLUSTERING
    consumer = PushConsumer(group, orderly=kind == "orderly", message_model=model)
    consumer.set_namesrv_addr(namesrv)
    consumer.set_instance_name(f"{name}-{time.time_ns()}")
    consumer.subscribe(topic, received, tags)
    consumer.start()
    return consumer


def make_producer(namesrv: str, group: str) -> Producer:
    """The one producer of this process: with one that begins while one ends the client may hang."""
    producer = Producer(group)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    return producer


def send(producer: Producer, topic: str, prefix: str, count: int, pause_ms: int) -> None:
    """Send one after the other, each as often as it takes."""
    for number in range(count):
        message = Message(topic)
        message.set_body(f"{prefix}-{number}")
        while True:
            try:
                producer.send_sync(message)
            except RocketMQException:
                time.sleep(0.1)
            else:
                break
        emit("SENT", prefix, number)
        time.sleep(pause_ms / 1000)


def main(namesrv: str) -> None:
    """Obey until the input ends."""
    running: dict[str, PushConsumer] = {}
    producer: Producer | None = None
    for line in sys.stdin:
        command, name, *words = line.rstrip("\n").split("\t")
        if command == "start":
            kind, group, topic, tags = words
            if kind == "pull":
                start_pull(namesrv, name, group, topic, tags)
            else:
                running[name] = start(namesrv, name, kind, group, topic, tags)
            emit("READY", name)
        elif command == "send":
            topic, prefix, count, pause_ms = words
            producer = producer or make_producer(namesrv, name)
            args = (producer, topic, prefix, int(count), int(pause_ms))
            threading.Thread(target=send, args=args, daemon=True).start()
        else:
            running.pop(name).shutdown()
            emit("STOPPED", name)
    for consumer in running.values():
        consumer.shutdown()
    emit("DONE")
    os._exit(0)  # the client's threads outlive its shutdown


if __name__ == "__main__":
    main(sys.argv[1])
