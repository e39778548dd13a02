"""A master with a follower, each a process of its own, and how far the follower is."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import attrs

from timermq.remoting.codes import RequestCode
from timermq.remoting.command import Command
from timermq.remoting.connection import FrameConnection

from .broker_process import BrokerProcess, broker_process
from .server import free_port

ANSWER_SECONDS = 30.0
MOVE_SECONDS = 60.0
"""How long a follower may get nothing more."""
LOOK_SECONDS = 0.01
RECEIVE_SIZE = 65_536


@attrs.frozen
class Progress:
    """The place of the one follower, as its master says it."""

    behind: int | None
    """Bytes that it lacks; None before it is linked."""
    size: int
    """End of the master's log."""


@contextmanager
def followed_broker(settings: Sequence[str] = ()) -> Generator[BrokerProcess]:
    """A master that a follower follows; both are gone afterwards."""
    listening = (*settings, f"ha_listen_port={free_port()}")
    with broker_process(settings=listening) as master, follower_of(master):
        yield master


@contextmanager
def follower_of(master: BrokerProcess) -> Generator[BrokerProcess]:
    """A follower that is linked and has everything."""
    host, port = master.address
    with broker_process(follow=f"{host}:{port}") as follower:
        wait_level(master)
        yield follower


def progress_of(master: BrokerProcess) -> Progress:
    """How far the follower is now."""
    return _wait(master, lambda _: True)


def wait_linked(master: BrokerProcess) -> Progress:
    """Wait until a follower is linked; how far it is then.

    Raises:
        TimeoutError: None links for too long.
    """
    return _wait(master, lambda found: found.behind is not None)


def wait_level(master: BrokerProcess) -> Progress:
    """Wait until the one follower has the whole log.

    Raises:
        TimeoutError: It has not linked, or has got nothing more, for too long.
    """
    return _wait(master, lambda found: found.behind == 0)


def wait_timers(follower: BrokerProcess) -> None:
    """Wait until all timers of a follower's log are on its wheel.

    Raises:
        TimeoutError: That takes too long.
    """
    until, frames = time.monotonic() + MOVE_SECONDS, FrameConnection()
    with socket.create_connection(follower.address, timeout=ANSWER_SECONDS) as stream:
        while time.monotonic() < until:
            body = _ask(stream, frames, RequestCode.GET_BROKER_RUNTIME_INFO)
            if json.loads(body)["table"]["timerOffsetBehind"] == "0":
                return
            time.sleep(LOOK_SECONDS)
    raise TimeoutError("bench: the follower does not link the timers of its log")


def _wait(master: BrokerProcess, is_reached: Callable[[Progress], bool]) -> Progress:
    frames, before, moved_at = FrameConnection(), None, time.monotonic()
    with socket.create_connection(master.address, timeout=ANSWER_SECONDS) as stream:
        while True:
            status = json.loads(_ask(stream, frames, RequestCode.GET_BROKER_HA_STATUS))
            rows = status["haConnectionInfo"]
            found = Progress(
                int(rows[0]["diff"]) if rows else None, int(status["masterCommitLogMaxOffset"])
            )
            if is_reached(found):
                return found
            now = time.monotonic()
            if found != before:
                before, moved_at = found, now
            if now - moved_at > MOVE_SECONDS:
                raise TimeoutError(f"bench: the follower lacks {found.behind} bytes, gets no more")
            time.sleep(LOOK_SECONDS)


def _ask(stream: socket.socket, frames: FrameConnection, code: RequestCode) -> bytes:
    """The body of an answer."""
    stream.sendall(frames.encode(Command(code)))
    while True:
        frames.receive_data(stream.recv(RECEIVE_SIZE))
        for answer in frames.events():
            return answer.body
