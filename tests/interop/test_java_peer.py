"""RocketMQ's own broker and name server start, serve and end as the tests here need it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interop.conftest import Client
from interop.java_peer import JavaPeer
from interop.serving import Transcript

pytestmark = [pytest.mark.slow, pytest.mark.interop]


def test_serves(tmp_path: Path, java_peer: JavaPeer, java_client: Client) -> None:
    """The Java client speaks with the Java broker; ``abort`` is left by a kill, not by a stop."""
    store = tmp_path / "store"
    with java_peer.namesrv(tmp_path / "namesrv") as namesrv:
        with java_peer.broker(store, namesrv=namesrv.listen) as broker:
            run = subprocess.run(
                java_client("TimerClient", broker.namesrv, "JavaTopic", "JavaGroup", "8"),
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            was_serving = (store / "abort").exists()
        after_stop = (store / "abort").exists()
        with java_peer.broker(store, namesrv=namesrv.listen) as broker:
            broker.kill()
        after_kill = (store / "abort").exists()
    transcript = Transcript.of(run.stdout)

    assert transcript.done, run.stdout[-2000:] + run.stderr[-2000:]
    assert transcript.times_got("first") == 1
    assert (True, False, True) == (was_serving, after_stop, after_kill)
