"""Stores of RocketMQ 5.5.1's other engines of timers change hands, message by message.

What the wheel leaves is in ``test_takeover``; rolls of RocksDB timers, which take hours, are in
``test_golden_engines``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from interop.conftest import Client
from interop.handed import Handed
from interop.java_peer import JavaPeer

pytestmark = [pytest.mark.slow, pytest.mark.interop]

SNAPSHOTS = {"timerWheelSnapshotFlush": "true", "timerWheelSnapshotIntervalMs": "1000"}
ROCKSDB_TIMERS = {"timerRocksDBEnable": "true"}
ENGINES = {"snapshots": SNAPSHOTS, "rocksdb": ROCKSDB_TIMERS}
JAVAS_EARLY_MS = 2_000
"""RocksDB timers are delivered from the beginning of their second on; what is read within a second
before that, at once."""


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_to_us_and_back(
    tmp_path: Path,
    java_peer: JavaPeer,
    java_client: Client,
    engine: Mapping[str, str],
    kill: bool,
) -> None:
    """RocketMQ, then ours, and where that was not killed RocketMQ with the same engine.

    RocksDB keeps what it had, delivered or not, so its directory goes before that.
    """
    handed = Handed(tmp_path / "store", java_peer, java_client, 3_600, settings=engine)
    handed.javas_early_ms = JAVAS_EARLY_MS if engine is ROCKSDB_TIMERS else 0
    with handed.by_java(kill=kill) as namesrv:
        timers = {f"javas-{n}": f"delay:{n * 1_300}" for n in range(1, 31)}
        # What is recalled soon goes first: on a busy machine the sending takes seconds.
        handed.send(namesrv, **{"soon-gone": "recall:5000", "late-gone": "recall:39000"}, **timers)
        handed.wait_for("soon-gone")
    with handed.by_us() as namesrv:
        timers = {f"our-{n}": f"delay:{n * 1_900}" for n in range(1, 11)}
        handed.send(namesrv, **{"our-gone": "recall:3000"}, **timers)
        if kill:
            handed.wait_for(*handed.due_ms)
            handed.consume(namesrv, 1_000)
        else:
            handed.wait_for("our-2")
    if not kill:
        shutil.rmtree(handed.store / "rocksdbstore")
        with handed.by_java(kill=True) as namesrv:
            handed.send(namesrv, back="delay:3000")
            handed.wait_for(*handed.due_ms)
            handed.consume(namesrv, 1_000)

    handed.check()
