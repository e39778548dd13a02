"""How the files that the process may have open are shared out: connections, queues, the rest.

Every connection is one, and so is every segment of a queue; one of a log is two, itself and its
map. Without a share of their own, queues that producers make by sending would take the last one,
and the store could not even start again.
"""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path

import attrs
import structlog

from .options import BrokerOptions

log = structlog.get_logger("timermq.broker.open_files")

OTHER_FILES = 1_536
"""Kept for the segments of the logs (1,024 take a commit log of half a terabyte), further ones of
queues, index files, tables and the interpreter."""


@attrs.frozen
class FileShares:
    """How many files connections and queues may have open, each."""

    connections: int
    queues: int


def raise_file_limit(connections: int, queues: int = 0) -> FileShares:
    """Raise the process's limit of open files as far as needed and allowed.

    Args:
        connections: How many there are to be, each an open file.
        queues: How many of all topics, each an open file too.

    Returns:
        How many fit beside each other and `OTHER_FILES`, at most as many as there are to be. Where
        files are few, connections get at most half of them, and the rest is halved again.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + queues + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return FileShares(connections, queues)
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        soft = needed
    taken = min(connections, soft // 2)
    rest = soft - taken
    return FileShares(taken, min(queues, max(rest - OTHER_FILES, rest // 2)))


def room_for_connections(wanted: int) -> int:
    """How many connections the process can take, at most ``wanted``; said when it is fewer."""
    return _said("connections", wanted, raise_file_limit(wanted).connections)


def within_open_files(options: BrokerOptions) -> BrokerOptions:
    """As many connections and queues as the process may have files for; said when they are fewer.

    Before the store is opened: each of its segments is an open file.
    """
    shares = raise_file_limit(options.connections_max, options.queues_max)
    _grow_file_table(shares.connections + OTHER_FILES)
    return attrs.evolve(
        options,
        connections_max=_said("connections", options.connections_max, shares.connections),
        queues_max=_said("queues", options.queues_max, shares.queues),
    )


def _grow_file_table(count: int) -> None:
    """Have the kernel make its table of open files as large as it may become by clients.

    Else it grows when they come, and the accepting thread stands still for that: each time it
    doubles, a process with threads waits until all processors have passed a certain point, 10 to
    100 ms on a busy machine. A place in it takes 8 bytes.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = count - 1 if soft == resource.RLIM_INFINITY else min(count, soft) - 1
    with Path(os.devnull).open("rb") as one:
        os.close(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, last))


def _said(what: str, wanted: int, room: int) -> int:
    if room < wanted:
        log.warning(f"fewer {what} than configured", wanted=wanted, room=room)
    return room
