"""A store changes hands between RocketMQ's broker and ours: each message arrives once, on time."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.conftest import Client
from interop.handed import Handed
from interop.java_peer import JavaPeer

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.mark.parametrize(
    ("either_peer", "kill"),
    [("java_peer", False), ("java_peer", True), ("java_peer_5_3", False)],
    ids=["stopped", "killed", "stopped 5.3"],
    indirect=["either_peer"],
)
def test_to_us_and_back(
    tmp_path: Path, either_peer: JavaPeer, java_client: Client, kill: bool
) -> None:
    """RocketMQ, then ours, then RocketMQ: levels, timers, rolled ones, recalled ones, offsets.

    A kill of ours comes when nothing has rolled for some seconds, see above: there nothing rolls.
    """
    handed = Handed(tmp_path / "store", either_peer, java_client, 3_600 if kill else 20)
    with handed.by_java(kill=kill) as namesrv:
        levels = {f"javas-level-{n}": f"level:{n}" for n in range(1, 6)}
        plain = {f"javas-{n}": "plain" for n in range(4)}
        timers = {f"javas-timer-{n}": f"delay:{n * 1_700}" for n in range(1, 20)}
        handed.send(namesrv, **plain, **levels, **timers, **{"javas-gone": "recall:21000"})
        handed.consume(namesrv, 3)
        handed.wait_for("javas-level-2")
    with handed.by_us(kill=kill) as namesrv:
        levels = {f"our-level-{n}": f"level:{n}" for n in range(1, 6)}
        timers = {f"our-timer-{n}": f"delay:{n * 3_100}" for n in range(1, 13)}
        handed.send(namesrv, our="plain", **levels, **timers, **{"our-gone": "recall:19000"})
        handed.consume(namesrv, 3)
        handed.wait_for("javas-gone")
    with handed.by_java(kill=True) as namesrv:
        handed.wait_for(*handed.due_ms)
        handed.consume(namesrv, 1_000)
    handed.check()

    # Behind a kill a group reads again what it committed in the last five seconds.
    assert kill or handed.consumed_again() == set()


def test_begun_by_us(tmp_path: Path, java_peer: JavaPeer, java_client: Client) -> None:
    """A store that RocketMQ never saw: all that waits in it, rolled and cancelled too."""
    handed = Handed(tmp_path / "store", java_peer, java_client, 20)
    with handed.by_us() as namesrv:
        levels = {f"our-level-{n}": f"level:{n}" for n in range(1, 6)}
        timers = {f"our-timer-{n}": f"delay:{n * 4_300}" for n in range(1, 9)}
        plain = {f"our-{n}": "plain" for n in range(3)}
        handed.send(namesrv, **plain, **levels, **timers, **{"our-gone": "recall:18000"})
        handed.consume(namesrv, 2)
        handed.wait_for("our-level-1")
    with handed.by_java(kill=True) as namesrv:
        handed.wait_for(*handed.due_ms)
        handed.consume(namesrv, 1_000)
    handed.check()

    assert handed.consumed_again() == set()
