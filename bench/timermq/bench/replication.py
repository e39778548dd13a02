"""What a follower costs its master, and how fast one that is empty catches up.

Master, follower and load share this machine: the follower takes as much of it as the master. So the
rates are those of the master's CPU, as in the other questions.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial

from timermq.remoting.codes import RequestCode
from timermq.remoting.command import Command
from timermq.remoting.connection import FrameConnection

from .broker_process import BrokerProcess, broker_process
from .load import send
from .question import Figure, Load
from .rates import FAR_DELAY_MS, SYNC_MESSAGES, metered, steady, sync_rate
from .server import free_port

CATCH_UP_MESSAGES = 400_000
CATCH_UP_BODY = 1_024
ANSWER_SECONDS = 30.0
LINK_SECONDS = 60.0
LOOK_SECONDS = 0.01
SYNC_SETTINGS = ("broker_role=SYNC_MASTER", "in_sync_replicas=2", "slave_timeout_ms=30000")


def replication(load: Load) -> list[Figure]:
    """Steady sends with a follower, answers that wait for it, and an empty one that catches up."""
    followed = steady(load, start=followed_broker)
    awaited = sync_rate(
        load.messages(SYNC_MESSAGES // 3),
        partial(followed_broker, SYNC_SETTINGS),
        "sync replicated",
        None,
    )
    return [
        *(_renamed(figure, "steady followed") for figure in followed),
        *awaited,
        _catch_up(load),
    ]


def _renamed(figure: Figure, question: str) -> Figure:
    """The figure under another name, with no floor."""
    return Figure(
        question=question, value=figure.value, unit=figure.unit, floor=None, facts=figure.facts
    )


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
        wait_caught_up(master)
        yield follower


def wait_caught_up(master: BrokerProcess) -> tuple[float, int]:
    """Wait until the one follower has the whole log; seconds from its link on, and its bytes.

    Raises:
        TimeoutError: It has not linked, or has got nothing more, for too long.
    """
    frames, linked_at, left, size = FrameConnection(), 0.0, -1, 0
    moved_at = time.perf_counter()
    with socket.create_connection(master.address, timeout=ANSWER_SECONDS) as stream:
        while left:
            now = time.perf_counter()
            found, size = _progress(stream, frames)
            if found is not None and not linked_at:
                linked_at = now
            if found != left:
                left, moved_at = -1 if found is None else found, now
            if now - moved_at > LINK_SECONDS:
                raise TimeoutError(f"bench: the follower lacks {left} bytes, and gets no more")
            time.sleep(LOOK_SECONDS)
    return max(time.perf_counter() - linked_at, LOOK_SECONDS), size


def _progress(stream: socket.socket, frames: FrameConnection) -> tuple[int | None, int]:
    """Bytes that the follower lacks, None before it is linked; and the end of the log."""
    stream.sendall(frames.encode(Command(RequestCode.GET_BROKER_HA_STATUS)))
    while True:
        frames.receive_data(stream.recv(65_536))
        for answer in frames.events():
            status = json.loads(answer.body)
            rows = status["haConnectionInfo"]
            size = int(status["masterCommitLogMaxOffset"])
            return (int(rows[0]["diff"]) if rows else None), size


def _catch_up(load: Load) -> Figure:
    """The rate at which an empty follower gets the log, from its link on."""
    with broker_process(settings=(f"ha_listen_port={free_port()}",)) as master:
        workload = master.workload(
            "BenchCatchUp",
            load.messages(CATCH_UP_MESSAGES),
            body_size=CATCH_UP_BODY,
            delay_ms=FAR_DELAY_MS,
        )
        send(workload)
        host, port = master.address
        with metered(master) as meter, broker_process(follow=f"{host}:{port}"):
            seconds, size = wait_caught_up(master)
        return Figure(
            question="catch-up",
            value=size / 1e6 / seconds,
            unit="MB/s",
            more_is_better=True,
            facts={
                "size_mb": round(size / 1e6),
                "seconds": round(seconds, 3),
                "master_cpu_ms_per_mb": round(meter.cpu_seconds * 1e9 / size, 3),
                "calibration_ms": round(meter.calibration_ms, 2),
            },
        )
