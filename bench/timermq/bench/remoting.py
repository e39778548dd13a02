"""RocketMQ's remoting protocol as load programs speak it: prepared frames, answers barely read.

So that what is measured is the broker. Nothing here is a client to learn from: see
``timermq.client``.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import attrs

from .dialect import Workload, connect, receive

_BODY_AT = 88
"""Offset of the body in a record with IPv4 hosts; its length stands before it."""
_LENGTH = struct.Struct(">i")


@attrs.frozen
class Remoting:
    """The dialect of timermq and of RocketMQ: send is code 310, pull is code 11."""

    delay_step_ms: int = 1

    def connect(self, workload: Workload) -> socket.socket:
        """A blocking connection to the broker."""
        return connect(workload.address)

    def puts(self, workload: Workload, first: int = 0, body_start: bytes = b"") -> Iterator[bytes]:
        """Frames of code 310, each with a key of its own, numbered from ``first`` on."""
        asked = (
            f"TIMER_DELIVER_MS\x01{workload.deliver_ms}\x02"
            if workload.deliver_ms
            else f"TIMER_DELAY_MS\x01{workload.delay_ms}\x02"
        )
        fields = {
            "a": "bench",
            "b": workload.topic,
            "c": "TBW102",
            "d": "4",
            "e": "%d",
            "f": "0",
            "g": str(time.time_ns() // 1_000_000),
            "h": "0",
            "i": f"{asked}UNIQ_KEY\x01%032X\x02WAIT\x01true\x02TAGS\x01t\x02",
            "j": "0",
            "k": "false",
            "m": "false",
            "n": "broker-a",
        }
        front = {"code": 310, "flag": 0, "language": "JAVA", "version": 479, "extFields": fields}
        # Without blanks, as all clients write it.
        head = json.dumps(front, separators=(",", ":"))[:-1] + ',"opaque":%d}'
        body = body_start.ljust(workload.body_size, b"x")
        unique = time.time_ns() << 32
        for number in range(first, first + workload.count):
            header = (head % (number % workload.queue_count, unique + number, number)).encode()
            yield _frame(header, body)

    def read_answers(self, link: socket.socket, buffer: bytes, count: int) -> bytes:
        """Read ``count`` answers; returns what came behind them.

        Raises:
            RuntimeError: An answer was not code 0, or the connection ended.
        """
        at = 0
        while count:
            while len(buffer) - at >= 4:
                size = 4 + int(_LENGTH.unpack_from(buffer, at)[0])
                if len(buffer) - at < size:
                    break
                if b'"code":0,' not in buffer[at : at + size]:
                    raise RuntimeError(f"bench: expected code 0, found {buffer[at : at + 300]!r}")
                at += size
                count -= 1
            if count:
                buffer, at = buffer[at:] + receive(link), 0
        return buffer[at:]

    def arriving(self, workload: Workload, group: str, timeout: float) -> Iterator[list[bytes]]:
        """The messages of each pull that found some; where nothing is, the broker holds.

        Raises:
            TimeoutError: Nothing came for ``timeout`` seconds.
            RuntimeError: The connection ended.
        """
        link = connect(workload.address)
        link.settimeout(timeout)
        with link:
            for queue_id in range(workload.queue_count):
                # The first message of each queue made the topic and is not counted.
                link.sendall(_pull_frame(workload.topic, group, queue_id, workload.skip))
            buffer = b""
            while True:
                buffer += receive(link)
                while (size := _whole(buffer)) is not None:
                    header, body = _split(buffer[:size])
                    buffer = buffer[size:]
                    next_offset = int(header["extFields"]["nextBeginOffset"])
                    link.sendall(_pull_frame(workload.topic, group, header["opaque"], next_offset))
                    if body:
                        yield list(_records(body))


def _pull_frame(topic: str, group: str, queue_id: int, offset: int) -> bytes:
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "1024",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    header = {"code": 11, "flag": 0, "language": "JAVA", "opaque": queue_id, "version": 479}
    return _frame(json.dumps({**header, "extFields": fields}).encode(), b"")


def _frame(header: bytes, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def _whole(buffer: bytes) -> int | None:
    """Size of the frame that ``buffer`` begins with; None while it is not whole."""
    if len(buffer) < 4:
        return None
    size = 4 + int(_LENGTH.unpack_from(buffer)[0])
    return size if len(buffer) >= size else None


def _split(frame: bytes) -> tuple[dict[str, Any], bytes]:
    header_size = int.from_bytes(frame[5:8], "big")
    return json.loads(frame[8 : 8 + header_size]), frame[8 + header_size :]


def _records(body: bytes) -> Iterator[bytes]:
    """The message bodies in the records of a pull."""
    at = 0
    while at < len(body):
        start = at + _BODY_AT
        (body_size,) = _LENGTH.unpack_from(body, start - 4)
        yield body[start : start + body_size]
        at += int(_LENGTH.unpack_from(body, at)[0])
