"""redis as a delayed queue, the way it is usually built: a sorted set of due times and a list.

A message is a member of the sorted set ``TOPIC:timers`` with its due time as score. A promoter, a
process of its own, runs a Lua script every millisecond that moves up to 500 due members to the list
``TOPIC:ready``; while there are more it runs at once again. Consumers take from the list with
``BLMPOP``: what they took is theirs, it does not come again if they die.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import attrs
from peer_process import PeerServer, peer_process
from resp import RespError, Value, command, split_value

from timermq.bench.dialect import Workload, connect, receive
from timermq.bench.server import free_port

EXECUTABLE = "redis-server"
PROMOTED = 500
"""Members that the script moves at once, at most."""
POLL_SECONDS = 0.001
DUE_SIZE = 13
"""Digits of a moment, epoch milliseconds."""
NUMBER_SIZE = 32
"""Digits of a message's number."""
TAKEN = 1_024
"""Messages taken from the list at once, at most."""
PROMOTE = b"""
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then
  redis.call('RPUSH', KEYS[2], unpack(due))
  redis.call('ZREM', KEYS[1], unpack(due))
end
return #due
"""


def add_form(topic: str, front: bytes) -> bytes:
    """The command that stores one message, with places for its due time and its number.

    Made once for all: so preparing a command costs the load program no more than with the others.
    """
    key, size = timers_key(topic), len(front) + NUMBER_SIZE
    fixed = b"*4\r\n$4\r\nZADD\r\n$%d\r\n%b\r\n$%d\r\n" % (len(key), key, DUE_SIZE)
    return b"%b%%d\r\n$%d\r\n%b%%032X\r\n" % (fixed, size, front)


def timers_key(topic: str) -> bytes:
    """The sorted set of what is pending."""
    return topic.encode() + b":timers"


def ready_key(topic: str) -> bytes:
    """The list of what is due."""
    return topic.encode() + b":ready"


@attrs.frozen
class SortedSet:
    """The dialect: ZADD; BLMPOP from what the promoter moved."""

    delay_step_ms: int = 1

    def connect(self, workload: Workload) -> socket.socket:
        """A blocking connection to the address of the load."""
        return connect(workload.address)

    def puts(self, workload: Workload, first: int = 0, body_start: bytes = b"") -> Iterator[bytes]:
        """ZADD commands. Members must differ: each body ends with a number of its own."""
        form = add_form(workload.topic, body_start.ljust(workload.body_size - NUMBER_SIZE, b"x"))
        unique = time.time_ns() << 32
        for number in range(first, first + workload.count):
            due_ms = workload.deliver_ms or time.time_ns() // 1_000_000 + workload.delay_ms
            yield form % (due_ms, unique + number)

    def read_answers(self, link: socket.socket, buffer: bytes, count: int) -> bytes:
        """Read the answers to ``count`` commands; returns what came behind them.

        Raises:
            RuntimeError: A member was not added, or the connection ended.
        """
        at = 0
        while count:
            while count and (end := buffer.find(b"\r\n", at)) >= 0:
                if not buffer.startswith(b":1\r", at):
                    raise RuntimeError(f"bench: expected :1, found {buffer[at:end]!r}")
                at = end + 2
                count -= 1
            if count:
                buffer, at = buffer[at:] + receive(link), 0
        return buffer[at:]

    def arriving(self, workload: Workload, group: str, timeout: float) -> Iterator[list[bytes]]:  # noqa: ARG002 - a list has one group
        """What the promoter moved, up to 1,024 at a time.

        Raises:
            TimeoutError: Nothing came for ``timeout`` seconds.
            RuntimeError: The connection ended.
        """
        take = command(b"BLMPOP", timeout, 1, ready_key(workload.topic), b"LEFT", b"COUNT", TAKEN)
        with connect(workload.address) as link:
            while True:
                link.sendall(take)
                match _read_value(link):
                    case [bytes(), [*bodies]]:
                        yield [body for body in bodies if isinstance(body, bytes)]
                    case other:
                        raise TimeoutError(f"bench: expected messages, found {other!r}")


def promote(address: tuple[str, int], topic: str) -> None:
    """Move what is due, until the server is gone."""
    with connect(address) as link:
        link.sendall(command(b"SCRIPT", b"LOAD", PROMOTE))
        script = _read_value(link)
        assert isinstance(script, bytes)
        keys = (b"2", timers_key(topic), ready_key(topic))
        while True:
            now_ms = time.time_ns() // 1_000_000
            try:
                link.sendall(command(b"EVALSHA", script, *keys, now_ms, PROMOTED))
                if _read_value(link) != PROMOTED:
                    time.sleep(POLL_SECONDS)
            except (OSError, RuntimeError):
                return


@contextmanager
def redis_timer(flush: str | None = None) -> Generator[PeerServer]:
    """A redis of its own, with a promoter for each topic; its process is that of redis alone.

    Args:
        flush: ``everysec``: its append-only file is flushed to the disk each second; ``always``:
            before each answer; None: it has no file.
    """
    promoters: list[BaseProcess] = []
    with peer_process(partial(_command, flush), free_port()) as peer:

        def begin(topic: str) -> None:
            process = multiprocessing.Process(
                target=promote, args=(peer.address, topic), daemon=True
            )
            process.start()
            promoters.append(process)

        try:
            yield PeerServer(peer, SortedSet(), begin)
        finally:
            for promoter in promoters:
                promoter.kill()
                promoter.join()


def _command(flush: str | None, port: int, folder: Path) -> list[str]:
    command = [EXECUTABLE, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    command += ["--save", "", "--auto-aof-rewrite-percentage", "0"]
    return command if flush is None else [*command, "--appendonly", "yes", "--appendfsync", flush]


def _read_value(link: socket.socket) -> Value:
    buffer = receive(link)
    try:
        while (found := split_value(buffer)) is None:
            buffer += receive(link)
    except RespError as error:
        raise RuntimeError(f"bench: redis answered {error}") from error
    return found[0]
