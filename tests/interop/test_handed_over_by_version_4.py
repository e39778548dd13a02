"""A store that RocketMQ 4.9 has just written is served on: it has levels and no wheel.

Its broker is a real one, stopped or killed; the clients are those of 5.3, which talk to both.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from interop.conftest import Client
from interop.handed import FILES, Handed
from interop.java_peer import JavaPeer, fetch_jars
from interop.stored_records import stored_records
from interop.talking import talking

pytestmark = [pytest.mark.slow, pytest.mark.interop]

VERSION_4 = "4.9.7"
"""The last of 4.9 on Maven Central."""
TRADE, TRADERS = "Trade", "Traders"
FAST = {
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "1000",
}


@pytest.fixture(scope="session")
def peer_of_version_4(java_peer: JavaPeer) -> JavaPeer:
    """Brokers and name servers of 4.9; what listens for replicas cannot be told where."""
    return JavaPeer(java_peer.classes.parent / "none", fetch_jars(VERSION_4))


def plan_of(store: Path, config: Path) -> str:
    """What ``store plan`` prints."""
    ran = subprocess.run(
        ["timermq", "store", "plan", str(store), "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_to_us(
    tmp_path: Path, peer_of_version_4: JavaPeer, java_client: Client, kill: bool
) -> None:
    """Levels, offsets of a group, transactions that are open: their producer ends them when asked.

    What was delivered shortly before a kill is not in ``delayOffset.json``, and comes no more.
    """
    handed = Handed(tmp_path / "store", peer_of_version_4, java_client, 3_600, settings=FAST)
    with handed.by_java(kill=kill) as namesrv:
        levels = {f"javas-{n}-{one}": f"level:{n}" for n in range(1, 5) for one in range(3)}
        handed.send(namesrv, **{f"javas-{n}": "plain" for n in range(4)}, **levels)
        handed.consume(namesrv, 3)
        with talking(java_client("TransactionClient", namesrv, TRADE, TRADERS)) as client:
            decisions = {"committed": "COMMIT_MESSAGE", "undone": "ROLLBACK_MESSAGE"}
            for name in ("committed", "undone", "open0", "open1", "open2"):
                client.say(f"send {name} {decisions.get(name, 'UNKNOW')}")
                client.hear(f"SENT {name} ")
            client.hear("GOT committed")
        handed.wait_for("javas-2-2")
    with handed.by_us() as namesrv:
        handed.send(namesrv, our="plain", **{"our-level-2": "level:2"})
        with talking(java_client("TransactionClient", namesrv, TRADE, TRADERS)) as client:
            for name, decision in (("open0", "COMMIT"), ("open1", "ROLLBACK")):
                client.say(f"decide {name} {decision}_MESSAGE")
            # A producer says who it is where it sends.
            client.say("send ours COMMIT_MESSAGE")
            client.hear("GOT open0")
            client.hear("CHECKED open1 ROLLBACK_MESSAGE")
            client.hear("CHECKED open2 UNKNOW")
        handed.wait_for(*handed.due_ms)
        handed.consume(namesrv, 1_000)
    plan = plan_of(handed.store, tmp_path / "broker.conf")
    handed.check()

    traded = stored_records(handed.store, TRADE, options=FILES)
    assert Counter(one.body.decode() for one in traded) == Counter(["committed", "open0", "ours"])
    assert "transactions" in plan
    # Behind a kill a group reads again what it committed in the last five seconds.
    assert kill or len(handed.due_ms) == len(handed.consumed) - 2
