"""What does each step of a message's way cost, without sockets and without waiting?

CPU time of the best of several rounds, microseconds a message, beside the calibration loop: the
same figure on two machines, or at two moments of one, is compared only through it.

Run: ``python perf/bench_steps.py [--count N]``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial

from timermq.cli.bench.load import Shot, send_frames
from timermq.cli.bench.measure import REFERENCE_MS, calibrate
from timermq.pipeline import TimerOptions
from timermq.pipeline.admission import Admitted, TimerAdmission
from timermq.pipeline.delivered_message import due_message
from timermq.pipeline.timer_record import decode_timer
from timermq.remoting import Command, FrameConnection, SendHeader, encode_frame
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.record import encode_record
from timermq.timerstore.store_options import StoreOptions

NOW_MS = 1_700_000_000_000
CHUNK = 65_536
ROUNDS = 5


def measure(name: str, count: int, work: Callable[[], object]) -> None:
    """Print the CPU that ``work`` takes for each of ``count`` messages."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    print(f"{name:28} {best / count * 1e6:8.2f} µs")


def decode(data: bytes) -> list[Command]:
    """All commands of a stream of frames, received in chunks."""
    connection = FrameConnection()
    commands: list[Command] = []
    for start in range(0, len(data), CHUNK):
        connection.receive_data(data[start : start + CHUNK])
        commands += connection.events()
    return commands


def admit(messages: list[Message]) -> list[Message]:
    """The messages as the timer topic gets them."""
    admission = TimerAdmission(TimerOptions(), lambda _: False)
    decisions = [admission.admit(message, NOW_MS) for message in messages]
    return [decision.message for decision in decisions if isinstance(decision, Admitted)]


def put(messages: list[Message], batch: int) -> None:
    """Store the messages on a real disk, ``batch`` at a time."""
    with tempfile.TemporaryDirectory(prefix="timermq-bench-") as root:
        options = StoreOptions(mapped_file_size_commit_log=64 << 20, message_index_enable=False)
        store = MessageStore.open(
            OsDisk(), root, options, now_ms=lambda: NOW_MS, store_host=bytes(8)
        )
        for start in range(0, len(messages), batch):
            store.put(messages[start : start + batch])


def answer(command: Command) -> bytes:
    """A send's answer, as a frame."""
    fields = {"msgId": "7F00000100002A9F0000000000000000", "queueId": "0", "queueOffset": "0"}
    return encode_frame(command.answer(0, ext=fields))


def run(count: int) -> None:
    """Measure every step."""
    before = calibrate()
    shot = Shot(address=("", 0), topic="Bench", count=count, body_size=128, delay_ms=1000)
    data = b"".join(send_frames(shot))
    commands = decode(data)
    headers = [SendHeader.from_v2(command) for command in commands]
    messages = [
        Message(topic=one.topic, queue_id=one.queue_id, body=bytes(128), properties=one.properties)
        for one in headers
    ]
    admitted = admit(messages)
    records = [
        encode_record(one, queue_offset=0, phy_offset=0, store_ms=NOW_MS, store_host=bytes(8))
        for one in admitted
    ]
    measure("frame and header", count, lambda: decode(data))
    measure("send header", count, lambda: [SendHeader.from_v2(one) for one in commands])
    measure("admission", count, lambda: admit(messages))
    for batch in (1, 16, 256):
        measure(f"append, batches of {batch}", count, partial(put, admitted, batch))
    measure("enqueue: read a record", count, lambda: [decode_timer(r, 0, 1000) for r in records])
    measure(
        "deliver: make the message",
        count,
        lambda: [
            due_message(one, 0, is_roll=False, origin=-1, precision_ms=1000) for one in records
        ],
    )
    measure("answer", count, lambda: [answer(one) for one in commands])
    print(f"calibration {(before + calibrate()) / 2:.2f} ms (reference {REFERENCE_MS} ms)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    run(parser.parse_args().count)
