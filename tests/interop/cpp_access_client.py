"""The C++ RocketMQ client (PyPI ``rocketmq``) with an account; runs in a process of its own.

Prints ``SENT topic``, ``REFUSED topic``, ``GOT body``, ``DONE``. Arguments: name server, topic,
another topic, group, seconds to wait for the message; the account stands in the environment.
"""

from __future__ import annotations

import os
import sys
import threading

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage
from rocketmq.exceptions import RocketMQException


def emit(line: str) -> None:
    """One line, whole, whichever thread it comes from."""
    os.write(1, line.encode() + b"\n")


def main(name_server: str, topic: str, another: str, group: str, seconds: float) -> None:
    """Send to both topics, consume the first."""
    account = (os.environ["ACCESS_KEY"], os.environ["SECRET_KEY"], "ALIYUN")
    producer = Producer(group + "-producer")
    producer.set_namesrv_addr(name_server)
    producer.set_session_credentials(*account)
    producer.start()
    for to in (topic, another):
        message = Message(to)
        message.set_body("hello")
        try:
            producer.send_sync(message)
        except RocketMQException:
            emit(f"REFUSED {to}")
            if to == topic:
                emit("DONE")
                os._exit(0)
        else:
            emit(f"SENT {to}")

    done = threading.Event()

    def received(one: RecvMessage) -> int:
        emit(f"GOT {one.body.decode()}")
        done.set()
        return 0

    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(name_server)
    consumer.set_session_credentials(*account)
    consumer.subscribe(topic, received, "*")
    consumer.start()
    done.wait(seconds)
    consumer.shutdown()
    producer.shutdown()
    emit("DONE")
    os._exit(0)  # the client's threads outlive its shutdown


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]))
