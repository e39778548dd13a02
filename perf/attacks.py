"""Peers that try to take everything: each takes what it gets of one pool, or of the event loop.

They come from an address of their own, 127.0.0.2, in a process of their own. With access control
they sign as an account that may use one topic, where an unsigned request would be refused at once.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event

import attrs
import lz4.frame
from served import answered

from timermq.broker.options import BrokerOptions
from timermq.remoting import Command, LanguageCode, RequestCode
from timermq.remoting.connection import encode_frame
from timermq.remoting.signature import ACCESS_KEY, SIGNATURE, SigningKey, signed_content

ATTACKER = "127.0.0.2"
TOPIC = "Evil"
BATCH_COUNT = BrokerOptions().batch_count_max
ACCOUNT, SECRET = "attacker", "attackers-secret"
CPP = LanguageCode.CPP


@attrs.frozen
class Target:
    """A broker to attack: its ports, and whether requests are signed."""

    port: int
    metrics_port: int
    signs: bool

    def connect(self, port: int = 0) -> socket.socket:
        """A connection from the attacker's address."""
        made = socket.create_connection(
            ("127.0.0.1", port or self.port), timeout=10, source_address=(ATTACKER, 0)
        )
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        return made

    def frame(
        self,
        code: int,
        ext: dict[str, str],
        body: bytes = b"",
        language: LanguageCode = LanguageCode.JAVA,
    ) -> bytes:
        """A request, signed where the broker asks for that."""
        command = Command(code, opaque=1, ext=ext, body=body, language=language)
        if self.signs:
            ext = ext | {ACCESS_KEY: ACCOUNT}
            content = signed_content(ext, body, command.version)
            command.ext = ext | {SIGNATURE: SigningKey(SECRET).sign(content)}
        return encode_frame(command)

    def send(self, topic: str, body: bytes, sys_flag: int = 0, properties: str = "") -> bytes:
        """The frame of a send to a topic."""
        ext = {
            "producerGroup": "P", "topic": topic, "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": str(sys_flag),
            "bornTimestamp": "0", "flag": "0", "properties": properties,
        }  # fmt: skip
        return self.frame(RequestCode.SEND_MESSAGE, ext, body)

    def pull(
        self,
        offset: int = 0,
        *,
        suspend_ms: int = 0,
        filter_text: str = "*",
        kind: str = "TAG",
        language: LanguageCode = LanguageCode.JAVA,
    ) -> bytes:
        """The frame of a pull of at most 32 messages from the attacker's topic."""
        ext = {
            "consumerGroup": "Evil", "topic": TOPIC, "queueId": "0", "queueOffset": str(offset),
            "maxMsgNums": "32", "sysFlag": "6" if suspend_ms else "4", "commitOffset": "0",
            "suspendTimeoutMillis": str(suspend_ms), "subVersion": "0",
            "subscription": filter_text, "expressionType": kind,
        }  # fmt: skip
        return self.frame(RequestCode.PULL_MESSAGE, ext, language=language)

    def fill(self, *sends: bytes) -> None:
        """Messages in the attacker's topic; each is to be taken."""
        with self.connect() as connection:
            for send in sends:
                answer = answered(connection, send)
                assert answer.code == 0, answer.remark


Attack = Callable[[Target, Event], None]


def slow_readers(target: Target, stop: Event) -> None:
    """Forty connections ask for large answers without end, and read none."""
    target.fill(*[target.send(TOPIC, os.urandom(60_000)) for _ in range(64)])
    _blast([target.connect() for _ in range(40)], target.pull() * 200, stop, reads=False)


def held_answers(target: Target, stop: Event) -> None:
    """Thousands of held pulls are woken by large messages, and not read."""
    connections = [target.connect() for _ in range(8)]
    target.fill(target.send(TOPIC, b"x"))
    for connection in connections:
        with contextlib.suppress(TimeoutError):
            connection.sendall(target.pull(1, suspend_ms=20_000) * 2_000)
    while not stop.is_set():
        target.fill(target.send(TOPIC, os.urandom(60_000)))
        time.sleep(0.05)


def filters(target: Target, stop: Event) -> None:
    """Pulls with the longest filters, all of them different, tried on large properties."""
    properties = "".join(f"k{at}\x01v\x02" for at in range(2_000))
    target.fill(*[target.send(TOPIC, b"x", properties=properties) for _ in range(64)])
    pulls = [
        target.pull(filter_text=" OR ".join(f"a{at}{n}=1" for n in range(350)), kind="SQL92")
        for at in range(60)
    ]
    _blast([target.connect() for _ in range(4)], b"".join(pulls), stop, reads=True)


def bombs(target: Target, stop: Event) -> None:
    """Bodies of a few kilobytes that unpack to megabytes, pulled by a client that knows zlib."""
    plain = bytes(15 << 20)
    packed = [
        target.send(TOPIC, zlib.compress(plain), 0x301),
        target.send(TOPIC, lz4.frame.compress(plain[: 4 << 20]), 0x101),
        target.send(TOPIC, zlib.compress(os.urandom(65_536) * 60), 0x301),
    ]
    target.fill(*packed * 10)
    _blast([target.connect() for _ in range(8)], target.pull(language=CPP) * 30, stop, reads=True)


def unfinished(target: Target, stop: Event) -> None:
    """Two hundred frames of sixteen megabytes that lack their last byte, without a signature."""
    part = struct.pack(">iI", 15 << 20, 21) + bytes(4 << 20)
    connections = [target.connect() for _ in range(200)]
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.sendall(part)
    known = target.frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
    connections += [target.connect() for _ in range(60)]
    for connection in connections[-60:]:
        with contextlib.suppress(OSError):
            connection.sendall(known + part)
    stop.wait()


def silent(target: Target, stop: Event) -> None:
    """As many connections as there are, which say nothing, and are opened again."""
    connections: list[socket.socket] = []
    while not stop.is_set():
        with contextlib.suppress(OSError):
            connections.append(target.connect())
        if len(connections) > 6_000:
            connections.pop(0).close()


def handshakes(target: Target, stop: Event) -> None:
    """Handshakes of TLS that begin and do not go on, begun again as they are given up."""
    connections: list[socket.socket] = []
    while not stop.is_set():
        with contextlib.suppress(OSError):
            connections.append(target.connect())
            connections[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        if len(connections) > 1_000:
            connections.pop(0).close()
        time.sleep(0.002)


def pulls(target: Target, stop: Event) -> None:
    """All the held pulls that there are."""
    target.fill(target.send(TOPIC, b"x"))
    held = target.pull(1, suspend_ms=20_000)
    _blast([target.connect() for _ in range(16)], held * 2_000, stop, reads=True, times=4)


def transactions(target: Target, stop: Event) -> None:
    """Half messages without end, whose producer never decides."""
    half = target.send(TOPIC, b"x", 4, "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01K\x02")
    _blast([target.connect() for _ in range(4)], half * 500, stop, reads=True)


def topics(target: Target, stop: Event) -> None:
    """Sends to ever new topics of four queues."""
    sends = (
        b"".join(target.send(f"{TOPIC}{chunk}_{at}", b"x") for at in range(100))
        for chunk in range(10_000)
    )
    with target.connect() as connection:
        connection.setblocking(False)
        for chunk in sends:
            if stop.is_set():
                return
            _exchange([connection], chunk, stop, reads=True)


def health(target: Target, stop: Event) -> None:
    """All connections of the page of metrics, with requests that do not end."""
    connections: list[socket.socket] = []
    while not stop.is_set():
        with contextlib.suppress(OSError):
            connections.append(target.connect(target.metrics_port))
            connections[-1].sendall(b"GET /met")
        if len(connections) > 100:
            connections.pop(0).close()
        time.sleep(0.01)


def batches(target: Target, stop: Event) -> None:
    """Batches of as many messages as one request may have."""
    one = struct.pack(">iiiii", 23, 0, 0, 0, 1) + b"x" + struct.pack(">h", 0)
    ext = {"a": "P", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0",
           "i": "", "j": "0", "k": "false", "m": "true"}  # fmt: skip
    frame = target.frame(RequestCode.SEND_BATCH_MESSAGE, ext, one * BATCH_COUNT)
    _blast([target.connect() for _ in range(4)], frame * 4, stop, reads=True)


def _blast(
    connections: list[socket.socket],
    data: bytes,
    stop: Event,
    *,
    reads: bool,
    times: int = 1_000_000,
) -> None:
    """Send the same on all connections again and again, as fast as they take it."""
    for connection in connections:
        connection.setblocking(False)
    for _ in range(times):
        if stop.is_set():
            return
        _exchange(connections, data, stop, reads=reads)
    while not stop.wait(0.01):
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.recv(1 << 20)


def _exchange(connections: list[socket.socket], data: bytes, stop: Event, *, reads: bool) -> None:
    left = {connection: memoryview(data) for connection in connections}
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            with contextlib.suppress(ValueError):
                selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while any(left.values()) and not stop.is_set():
            for connection, events in _ready(selector):
                try:
                    if reads and events & selectors.EVENT_READ and not connection.recv(1 << 20):
                        raise ConnectionResetError
                    if events & selectors.EVENT_WRITE and left[connection]:
                        left[connection] = left[connection][connection.send(left[connection]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    selector.unregister(connection)
                    left[connection] = memoryview(b"")


def _ready(selector: selectors.BaseSelector) -> Iterator[tuple[socket.socket, int]]:
    for key, events in selector.select(0.1):
        if isinstance(key.fileobj, socket.socket):
            yield key.fileobj, events


HANDSHAKES = "handshakes"
"""Needs a broker with a certificate."""
ATTACKS: dict[str, Attack] = {
    "slow readers": slow_readers,
    "held answers": held_answers,
    "filters": filters,
    "bombs": bombs,
    "unfinished frames": unfinished,
    "silent connections": silent,
    HANDSHAKES: handshakes,
    "held pulls": pulls,
    "open transactions": transactions,
    "topics": topics,
    "page of metrics": health,
    "batches": batches,
}
"""What is tried, by name."""
