"""Load from outside: senders and takers that cost next to nothing themselves.

They use prepared requests and blocking sockets, in processes of their own, so that what is measured
is the server. The same five shapes ask every server, each in its own dialect.
"""

from __future__ import annotations

import random
import select
import time

import attrs

from .dialect import RECEIVE_SIZE, Workload

PIPELINE = 256
"""Requests on the way on one connection."""
PACE_SECONDS = 0.001
"""How long a paced sender rests."""
_DUE_SIZE = 13
"""Digits of a moment."""


def send(workload: Workload) -> float:
    """Send ``count`` messages, pipelined, reading every answer; returns the seconds it took.

    Raises:
        RuntimeError: A message was not taken.
    """
    read_answers = workload.dialect.read_answers
    sockets = [workload.dialect.connect(workload) for _ in range(workload.connections)]
    buffers = [b"" for _ in sockets]
    awaited = [0] * len(sockets)
    requests = workload.dialect.puts(workload)
    started = time.perf_counter()
    sent, turn = 0, 0
    while sent < workload.count:
        index = turn % len(sockets)
        buffers[index] = read_answers(sockets[index], buffers[index], awaited[index])
        chunk = [next(requests) for _ in range(min(PIPELINE, workload.count - sent))]
        sockets[index].sendall(b"".join(chunk))
        awaited[index] = len(chunk)
        sent += len(chunk)
        turn += 1
    for index, one in enumerate(sockets):
        read_answers(one, buffers[index], awaited[index])
        one.close()
    return time.perf_counter() - started


def send_paced(workload: Workload, rate: int, delay_ms: tuple[int, int]) -> None:
    """Send ``count`` messages at an even rate, each due after a random delay in milliseconds.

    The body begins with the moment it is due, so that the receiver knows. Where delays have a
    coarser step, they are rounded up to it.

    Raises:
        RuntimeError: A message was not taken.
    """
    dialect, step = workload.dialect, workload.dialect.delay_step_ms
    link = dialect.connect(workload)
    draw = random.Random(7)  # noqa: S311 - a load, not a secret
    started, sent, buffer = time.perf_counter(), 0, b""
    while sent < workload.count:
        count = min(int((time.perf_counter() - started) * rate) - sent, workload.count - sent)
        if count <= 0:
            time.sleep(PACE_SECONDS)
            continue
        for number in range(sent, sent + count):
            delay = -(-draw.randint(*delay_ms) // step) * step
            due_ms = time.time_ns() // 1_000_000 + delay
            one = attrs.evolve(workload, count=1, deliver_ms=due_ms, delay_ms=delay)
            link.sendall(next(dialect.puts(one, number, b"%d " % due_ms)))
        buffer = dialect.read_answers(link, buffer, count)
        sent += count
    link.close()


def ping_pong(workload: Workload) -> float:
    """Send ``count`` messages over all connections, each waiting for its answer before the next.

    Returns:
        Seconds from the first message to the last answer.

    Raises:
        RuntimeError: A message was not taken.
    """
    made = [workload.dialect.connect(workload) for _ in range(workload.connections)]
    links = {link.fileno(): link for link in made}
    requests = workload.dialect.puts(workload)
    poll = select.epoll()
    for number, link in links.items():
        poll.register(number, select.EPOLLIN)
        link.sendall(next(requests))
    started, sent, answered = time.perf_counter(), len(links), 0
    while answered < workload.count:
        for number, _ in poll.poll():
            # An answer is far smaller than a segment: it comes whole.
            workload.dialect.read_answers(links[number], links[number].recv(RECEIVE_SIZE), 1)
            answered += 1
            if sent < workload.count:
                links[number].sendall(next(requests))
                sent += 1
    seconds = time.perf_counter() - started
    poll.close()
    for link in links.values():
        link.close()
    return seconds


def pull(workload: Workload, group: str, timeout: float) -> list[float]:
    """Take until ``count`` messages are there; returns [first, last] arrival, epoch seconds.

    Raises:
        TimeoutError: Nothing came for ``timeout`` seconds.
    """
    rows = arrival_counts(workload, group, timeout)
    return [rows[0][0], rows[-1][0]]


def arrival_counts(workload: Workload, group: str, timeout: float) -> list[tuple[float, int]]:
    """Take until ``count`` messages are there; returns (epoch seconds, how many) as they came.

    Raises:
        TimeoutError: Nothing came for ``timeout`` seconds.
    """
    found = 0
    rows: list[tuple[float, int]] = []
    for bodies in workload.dialect.arriving(workload, group, timeout):
        rows.append((time.time(), len(bodies)))
        found += len(bodies)
        if found >= workload.count:
            break
    return rows


def arrivals(workload: Workload, group: str, timeout: float) -> list[tuple[int, float]]:
    """Take what ``send_paced`` sent: for each message when it was due and when it came, epoch ms.

    Raises:
        TimeoutError: Nothing came for ``timeout`` seconds.
    """
    rows: list[tuple[int, float]] = []
    for bodies in workload.dialect.arriving(workload, group, timeout):
        arrived = time.time() * 1000
        rows += [(int(body[:_DUE_SIZE]), arrived) for body in bodies]
        if len(rows) >= workload.count:
            break
    return rows
