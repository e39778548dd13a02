"""beanstalkd, a work queue in memory with delays of whole seconds, and its text protocol.

A topic is a tube. A message is put with the seconds of its delay, reserved when it is due, and
deleted by the client that took it. With ``-b`` every put and delete is also written to a log.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
from peer_process import PeerServer, peer_process

from timermq.bench.dialect import Workload, connect, receive
from timermq.bench.server import free_port

EXECUTABLE = "beanstalkd"
STEP_MS = 1_000
"""Delays are whole seconds."""
RUN_SECONDS = 3_600
"""Time to run of a job: no job comes back while it is measured."""
DEPTH = 512
"""Jobs reserved at once, at most."""
END = b"\r\n"


def put_request(delay_seconds: int, body: bytes) -> bytes:
    """The command that stores one job."""
    return b"put 0 %d %d %d\r\n%b\r\n" % (delay_seconds, RUN_SECONDS, len(body), body)


def reserve_requests(depth: int, timeout: float) -> bytes:
    """Commands for ``depth`` jobs: the first may be waited for, the others are there or not."""
    return b"reserve-with-timeout %d\r\n" % timeout + b"reserve-with-timeout 0\r\n" * (depth - 1)


def split_answer(buffer: bytes, at: int) -> tuple[bytes, bytes, int] | None:
    """The answer that begins at ``at``: its line, its body, and where the next begins.

    None while it is not whole; the body is empty unless the line is ``RESERVED``.
    """
    end = buffer.find(END, at)
    if end < 0:
        return None
    line, after = buffer[at:end], end + 2
    if not line.startswith(b"RESERVED "):
        return line, b"", after
    size = int(line.rpartition(b" ")[2])
    if len(buffer) < after + size + 2:
        return None
    return line, buffer[after : after + size], after + size + 2


@attrs.frozen
class Beanstalk:
    """The dialect: put; reserve and delete."""

    delay_step_ms: int = STEP_MS

    def connect(self, workload: Workload) -> socket.socket:
        """A connection that puts into the tube."""
        return _greet(workload, b"use %b\r\n", b"USING", 1)

    def puts(self, workload: Workload, first: int = 0, body_start: bytes = b"") -> Iterator[bytes]:
        """Put commands. A moment becomes the whole seconds until it, rounded down."""
        body = body_start.ljust(workload.body_size, b"x")
        for _ in range(first, first + workload.count):
            if workload.delay_ms:
                seconds = workload.delay_ms // STEP_MS
            else:
                seconds = max(workload.deliver_ms - time.time_ns() // 1_000_000, 0) // STEP_MS
            yield put_request(seconds, body)

    def read_answers(self, link: socket.socket, buffer: bytes, count: int) -> bytes:
        """Read the answers to ``count`` puts; returns what came behind them.

        Raises:
            RuntimeError: A job was not inserted, or the connection ended.
        """
        at = 0
        while count:
            while count and (end := buffer.find(END, at)) >= 0:
                if not buffer.startswith(b"INSERTED ", at):
                    raise RuntimeError(f"bench: expected INSERTED, found {buffer[at:end]!r}")
                at = end + 2
                count -= 1
            if count:
                buffer, at = buffer[at:] + receive(link), 0
        return buffer[at:]

    def arriving(self, workload: Workload, group: str, timeout: float) -> Iterator[list[bytes]]:  # noqa: ARG002 - a tube has one group
        """Jobs as they become due, as many at a time as there are; each is deleted.

        A burst becomes due within the second before its moment, as delays are whole seconds; so
        its taker begins at that moment, where others release theirs.

        Raises:
            TimeoutError: Nothing came for ``timeout`` seconds.
            RuntimeError: The connection ended.
        """
        time.sleep(max(workload.deliver_ms / 1000 - time.time(), 0))
        depth, taken, buffer = 1, list[bytes](), b""
        with _greet(workload, b"watch %b\r\nignore default\r\n", b"WATCHING", 2) as link:
            while True:
                deletes = b"".join([b"delete %b\r\n" % job for job in taken])
                link.sendall(deletes + reserve_requests(depth, timeout))
                lines, bodies, buffer = _take(link, buffer, len(taken) + depth)
                taken = [line.split(b" ")[1] for line in lines if line.startswith(b"RESERVED")]
                if bodies:
                    yield bodies
                elif depth == 1:
                    raise TimeoutError(f"bench: expected a job, found {lines!r}")
                depth = min(max(2 * len(bodies), 1), DEPTH)


@contextmanager
def beanstalkd(flush_ms: int | None = None) -> Generator[PeerServer]:
    """A beanstalkd of its own.

    Args:
        flush_ms: Its log is flushed to the disk at most so often, 0: before each answer; None: it
            has no log.
    """
    with peer_process(partial(_command, flush_ms), free_port()) as peer:
        yield PeerServer(peer, Beanstalk())


def _command(flush_ms: int | None, port: int, folder: Path) -> list[str]:
    command = [EXECUTABLE, "-l", "127.0.0.1", "-p", str(port)]
    return command if flush_ms is None else [*command, "-b", str(folder), "-f", str(flush_ms)]


def _greet(workload: Workload, words: bytes, expected: bytes, count: int) -> socket.socket:
    link = connect(workload.address)
    link.sendall(words % workload.topic.encode())
    lines, _, _ = _take(link, b"", count)
    if not all(line.startswith(expected) for line in lines):
        raise RuntimeError(f"bench: expected {expected!r}, found {lines!r}")
    return link


def _take(link: socket.socket, buffer: bytes, count: int) -> tuple[list[bytes], list[bytes], bytes]:
    """Read ``count`` answers: their lines, the bodies among them, what came behind."""
    lines, bodies, at = list[bytes](), list[bytes](), 0
    while len(lines) < count:
        answer = split_answer(buffer, at)
        if answer is None:
            buffer, at = buffer[at:] + receive(link), 0
            continue
        line, body, at = answer
        lines.append(line)
        if line.startswith(b"RESERVED "):
            bodies.append(body)
    return lines, bodies, buffer[at:]
