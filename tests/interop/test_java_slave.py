"""A slave of RocketMQ's behind our master: its log is ours, and it leads when we are lost.

It learns of the name server where to link, and asks for the tables (21, 43, 45, 201, 402, 61) and
the timer checkpoint (60), some of them at the port of the VIP channel.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator
from pathlib import Path

import pytest

from interop.conftest import Client
from interop.handed import SETTINGS, Handed, now_ms
from interop.java_peer import JavaPeer, free_ports
from interop.runtime_info import Link
from interop.serving import Broker, starting
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.interop]

SECONDS = 120.0
"""Until a slave has linked: it looks for its master every five seconds, and learns of it in ten."""
SLAVE = {**SETTINGS, "brokerRole": "SLAVE", "brokerId": "1"}
DUE_MS = 20_000
"""The moment of what the slave delivers once it leads, from when it was sent."""


def log_of(store: Path) -> bytes:
    """The commit log of a store: all segments, without the zeros behind the end."""
    segments = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    return b"".join(path.read_bytes() for path in segments).rstrip(b"\0")


def wait_copied(master: Broker, slave: Path) -> None:
    """Until the slave's log is the master's, byte for byte, and the master knows it."""
    link = Link.to(master.listen)

    def is_copied() -> bool:
        rows = json.loads(link.call(907).body)["haConnectionInfo"]
        return [one["diff"] for one in rows] == [0] and log_of(slave) == log_of(master.store)

    with link.stream:
        wait_until(is_copied, SECONDS, told=lambda: link.call(907).body, pause=0.2)


@contextlib.contextmanager
def followed(handed: Handed, directory: Path) -> Generator[Broker]:
    """Our master, known to a name server of RocketMQ's, which slaves ask where to link."""
    port, _, ha_port = free_ports(0, -2, 1)
    config = directory / "broker.conf"
    with handed.peer.namesrv(directory / "namesrv") as namesrv, starting() as start:
        lines = {
            **SETTINGS,
            "brokerName": "broker-a",
            "brokerRole": "SYNC_MASTER",
            "inSyncReplicas": "2",
            "haListenPort": str(ha_port),
            "namesrvAddr": namesrv.listen,
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        flags = ("--config", str(config), "--set", "vip_listen_enable=true")
        began_ms = now_ms()
        master = start(directory / "master", *flags, listen=f"127.0.0.1:{port}")
        master.namesrv = namesrv.listen
        yield master
        master.kill()
        handed.running_ms.append((began_ms, now_ms()))


def test_a_killed_slave_comes_back(
    tmp_path: Path, java_peer_5_3: JavaPeer, java_client: Client
) -> None:
    """Sends go on without it, and it gets what it missed."""
    handed = Handed(tmp_path / "slave", java_peer_5_3, java_client, 3_600)
    with followed(handed, tmp_path) as master:
        peer, store, namesrv = handed.peer, handed.store, master.namesrv
        with peer.broker(store, namesrv=namesrv, settings=SLAVE) as slave:
            handed.send(namesrv, **{f"plain-{n}": "plain" for n in range(4)})
            wait_copied(master, store)
            slave.kill()
        handed.send(namesrv, missed="plain")
        with peer.broker(store, namesrv=namesrv, settings=SLAVE) as slave:
            wait_copied(master, store)
            slave.kill()


def test_a_slave_leads(tmp_path: Path, java_peer: JavaPeer, java_client: Client) -> None:
    """Started as master when we were killed, it delivers what waits, each message once."""
    handed = Handed(tmp_path / "slave", java_peer, java_client, 3_600)
    with followed(handed, tmp_path) as master:
        namesrv = master.namesrv
        timers = {f"timer-{n}": f"delay:{DUE_MS + 500 * n}" for n in range(8)}
        with handed.peer.broker(handed.store, namesrv=namesrv, settings=SLAVE):
            # It links first, which may take longer than what waits.
            handed.send(namesrv, plain="plain")
            wait_copied(master, handed.store)
            handed.send(namesrv, **timers)
            wait_copied(master, handed.store)
    with handed.by_java(kill=True) as namesrv:
        handed.send(namesrv, led="plain")
        handed.wait_for(*handed.due_ms)
        handed.consume(namesrv, 1_000)

    handed.check()
