"""One episode of three replicas: load, trouble, promotions, a drained end, and the judgement."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from etcd_peer import EtcdPeer, running_etcd
from timermq.client.history import HistoryWriter

from .episode import Judgement, endure, judge
from .load import TOPICS, Load
from .real_clients import RealClient, real_clients
from .replica_trouble import ReplicaTrouble
from .replicas import TTL_SECONDS, Replicas


class LogsDifferError(Exception):
    """Replicas that had all they were to have hold different bytes."""


@attrs.frozen
class ReplicaJudgement:
    """What clients saw, and how often the lead changed."""

    clients: Judgement
    promotions: int
    gaps: Sequence[float]
    """How long no replica led, seconds, each time while there was trouble."""
    used: Sequence[str]
    """The clients of RocketMQ that took part."""


def run_replicas(directory: Path, seconds: float, seed: int, *, leased: bool) -> ReplicaJudgement:
    """Run one; histories, stores and logs stay in ``directory``.

    Args:
        directory: Empty.
        seconds: Of load and trouble.
        seed: Decides what is sent and done, though not when it meets.
        leased: Whether a lease in etcd decides who leads; else an operator does.

    Raises:
        NotDrainedError: Not everything could be read.
        NotServedError: No replica took messages.
        BrokerEndedError: A broker ended without being asked to.
        LogsDifferError: The replicas have different logs.
    """
    clients = list(real_clients(directory))
    with contextlib.ExitStack() as stack:
        etcd = None
        if leased:
            (directory / "etcd").mkdir()
            etcd = stack.enter_context(running_etcd(directory / "etcd"))
        return trio.run(_run, directory, seconds, seed, etcd, clients)


async def _run(
    directory: Path,
    seconds: float,
    seed: int,
    etcd: EtcdPeer | None,
    clients: Sequence[RealClient],
) -> ReplicaJudgement:
    draw = random.Random(seed)
    lease = None if etcd is None else etcd.url("soak", str(TTL_SECONDS))
    replicas = Replicas.of(directory, lease)
    topics = dict.fromkeys([*TOPICS, *(one.topic for one in clients)])
    load = Load(replicas.namesrv, directory, tuple(topics))
    with HistoryWriter(directory / "trouble.jsonl", who="trouble") as history:
        trouble = ReplicaTrouble(replicas, history, draw, load, etcd)
        try:
            await endure(trouble, load, seconds, draw, clients)
            await trouble.finish()
        finally:
            trouble.end_now()
    check_logs([one.store for one in replicas.all])
    return ReplicaJudgement(
        judge(directory, 0),
        promotions=len(replicas.epochs) - 1,
        gaps=replicas.gaps,
        used=[one.name for one in clients],
    )


def check_logs(stores: Sequence[Path]) -> None:
    """Compare the logs of stopped replicas byte by byte, and have ``store check`` look at each.

    Raises:
        LogsDifferError: They differ, or the check has found something.
    """
    first, *others = stores
    for other in others:
        for segment in sorted((first / "commitlog").iterdir()):
            copied = other / "commitlog" / segment.name
            if not copied.exists() or copied.read_bytes() != segment.read_bytes():
                raise LogsDifferError(f"expected the bytes of {segment}, found others in {copied}")
    for store in stores:
        command = [sys.executable, "-m", "timermq.cli", "store", "check", str(store)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise LogsDifferError(f"{store}: {done.stdout}{done.stderr}")
