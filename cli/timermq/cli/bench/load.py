"""Load from outside: raw senders and pullers that cost next to nothing themselves.

They speak the protocol through prepared frames and blocking sockets, in processes of their own, so
that what is measured is the broker. Nothing here is a client to learn from: see ``timermq.client``.
"""

from __future__ import annotations

import json
import random
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import attrs

PIPELINE = 64
"""Requests on the way on one connection."""

RECEIVE_SIZE = 1 << 16
PACE_SECONDS = 0.001
"""How long a paced sender rests."""
_BODY_AT = 88
"""Where the body stands in a record with IPv4 hosts; its length before it."""
_DUE_SIZE = 13
"""Digits of a moment."""
_LENGTH = struct.Struct(">i")


@attrs.frozen(kw_only=True)
class Shot:
    """One load: what is sent where, and for when."""

    address: tuple[str, int]
    topic: str
    count: int
    body_size: int
    deliver_ms: int = 0
    """One moment for all; 0: each ``delay_ms`` after it was sent."""
    delay_ms: int = 0
    connections: int = 4
    queue_count: int = 4
    skip: int = 0
    """Messages of each queue that were there before."""


def send(shot: Shot) -> float:
    """Send ``count`` messages, pipelined, reading every answer; returns the seconds it took.

    Raises:
        RuntimeError: An answer was not code 0.
    """
    sockets = [_connect(shot.address) for _ in range(shot.connections)]
    buffers = [b"" for _ in sockets]
    awaited = [0] * len(sockets)
    frames = send_frames(shot)
    started = time.perf_counter()
    sent, turn = 0, 0
    while sent < shot.count:
        index = turn % len(sockets)
        buffers[index] = _read_answers(sockets[index], buffers[index], awaited[index])
        chunk = [next(frames) for _ in range(min(PIPELINE, shot.count - sent))]
        sockets[index].sendall(b"".join(chunk))
        awaited[index] = len(chunk)
        sent += len(chunk)
        turn += 1
    for index, one in enumerate(sockets):
        _read_answers(one, buffers[index], awaited[index])
        one.close()
    return time.perf_counter() - started


def send_paced(shot: Shot, rate: int, delay_ms: tuple[int, int]) -> None:
    """Send ``count`` messages at an even rate, each due after a random delay in milliseconds.

    The body begins with the moment it is due, so that whoever gets it knows.

    Raises:
        RuntimeError: An answer was not code 0.
    """
    link = _connect(shot.address)
    draw = random.Random(7)  # noqa: S311 - a load, not a secret
    started, sent, buffer = time.perf_counter(), 0, b""
    while sent < shot.count:
        count = min(int((time.perf_counter() - started) * rate) - sent, shot.count - sent)
        if count <= 0:
            time.sleep(PACE_SECONDS)
            continue
        for number in range(sent, sent + count):
            due_ms = time.time_ns() // 1_000_000 + draw.randint(*delay_ms)
            one = attrs.evolve(shot, count=1, deliver_ms=due_ms)
            link.sendall(next(send_frames(one, number, b"%d " % due_ms)))
        buffer = _read_answers(link, buffer, count)
        sent += count
    link.close()


def ping_pong(shot: Shot) -> float:
    """Send ``count`` messages over all connections, each waiting for its answer before the next.

    Returns:
        Seconds from the first message to the last answer.

    Raises:
        RuntimeError: An answer was not code 0.
    """
    links = {
        link.fileno(): link for link in (_connect(shot.address) for _ in range(shot.connections))
    }
    frames = send_frames(shot)
    poll = select.epoll()
    for number, link in links.items():
        poll.register(number, select.EPOLLIN)
        link.sendall(next(frames))
    started, sent, answered = time.perf_counter(), len(links), 0
    while answered < shot.count:
        for number, _ in poll.poll():
            # An answer is far smaller than a segment: it comes whole.
            _read_answers(links[number], links[number].recv(RECEIVE_SIZE), 1)
            answered += 1
            if sent < shot.count:
                links[number].sendall(next(frames))
                sent += 1
    seconds = time.perf_counter() - started
    poll.close()
    for link in links.values():
        link.close()
    return seconds


def pull(shot: Shot, group: str, timeout: float) -> list[float]:
    """Pull until ``count`` messages are there; returns [first, last] arrival, epoch seconds.

    Raises:
        RuntimeError: They were not there after ``timeout`` seconds without progress.
    """
    found, first, last = 0, 0.0, 0.0
    for body in _bodies(shot, group, timeout):
        last = time.time()
        first = first or last
        found += sum(1 for _ in _records(body))
        if found >= shot.count:
            break
    return [first, last]


def arrivals(shot: Shot, group: str, timeout: float) -> list[tuple[int, float]]:
    """Pull what ``send_paced`` sent: for each message when it was due and when it came, epoch ms.

    Raises:
        RuntimeError: They were not there after ``timeout`` seconds without progress.
    """
    rows: list[tuple[int, float]] = []
    for body in _bodies(shot, group, timeout):
        arrived = time.time() * 1000
        rows += [(int(one[:_DUE_SIZE]), arrived) for one in _records(body)]
        if len(rows) >= shot.count:
            break
    return rows


def _bodies(shot: Shot, group: str, timeout: float) -> Iterator[bytes]:
    """The bodies of pulls that found something, for ever; where nothing is, the broker holds."""
    link = _connect(shot.address)
    link.settimeout(timeout)
    with link:
        for queue_id in range(shot.queue_count):
            # The first message of each queue made the topic and is not counted.
            link.sendall(_pull_frame(shot.topic, group, queue_id, shot.skip))
        buffer = b""
        while data := link.recv(RECEIVE_SIZE):
            buffer += data
            while (size := _whole(buffer)) is not None:
                header, body = _split(buffer[:size])
                buffer = buffer[size:]
                next_offset = int(header["extFields"]["nextBeginOffset"])
                link.sendall(_pull_frame(shot.topic, group, header["opaque"], next_offset))
                if body:
                    yield body
    raise RuntimeError("bench: the broker closed the connection")


def _connect(address: tuple[str, int]) -> socket.socket:
    made = socket.create_connection(address, timeout=60)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def send_frames(shot: Shot, first: int = 0, body_start: bytes = b"") -> Iterator[bytes]:
    """Frames of code 310, each with a key of its own, numbered from ``first`` on."""
    asked = (
        f"TIMER_DELIVER_MS\x01{shot.deliver_ms}\x02"
        if shot.deliver_ms
        else f"TIMER_DELAY_MS\x01{shot.delay_ms}\x02"
    )
    fields = {
        "a": "bench",
        "b": shot.topic,
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
    body = body_start.ljust(shot.body_size, b"x")
    unique = time.time_ns() << 32
    for number in range(first, first + shot.count):
        header = (head % (number % shot.queue_count, unique + number, number)).encode()
        yield _frame(header, body)


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
    """What the records of a pull hold as message bodies."""
    at = 0
    while at < len(body):
        start = at + _BODY_AT
        (body_size,) = _LENGTH.unpack_from(body, start - 4)
        yield body[start : start + body_size]
        at += int(_LENGTH.unpack_from(body, at)[0])


def _read_answers(link: socket.socket, buffer: bytes, count: int) -> bytes:
    """Read ``count`` answers; returns what came behind them."""
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
            data = link.recv(RECEIVE_SIZE)
            if not data:
                raise RuntimeError("bench: the broker closed the connection")
            buffer, at = buffer[at:] + data, 0
    return buffer[at:]
