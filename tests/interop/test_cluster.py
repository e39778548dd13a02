"""Two brokers of ours and one of RocketMQ's in one cluster, behind either's name server."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import attrs
import pytest

from interop.java_peer import JavaBroker, JavaPeer
from interop.serving import Broker, serving
from interop.talking import Talking, talking
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TOPIC = "ClusterTopic"
GROUP = "ClusterGroup"
COUNT = 24
"""Messages of one round: a Java producer takes the queues of all brokers in turns."""
WAIT_SECONDS = 30.0


@attrs.frozen
class Cluster:
    """The brokers and the name server of a cluster, with an admin tool."""

    namesrv: str
    ours: tuple[Broker, Broker]
    java: JavaBroker
    admin: Talking

    def brokers(self) -> dict[str, str]:
        """Name to address of those that the name server knows."""
        rows = [line.split() for line in self.admin.ask("clusterList").splitlines()]
        return {row[1]: row[3] for row in rows if row and row[0] == "DefaultCluster"}

    def wait_brokers(self, *names: str) -> None:
        """Wait until exactly these are known."""
        wait_until(lambda: sorted(self.brokers()) == sorted(names), WAIT_SECONDS, told=self.brokers)


@contextlib.contextmanager
def cluster(
    folder: Path, peer: JavaPeer, client: Callable[..., list[str]], *, java_ns: bool
) -> Generator[Cluster]:
    """Everything, started one after the other."""
    with contextlib.ExitStack() as stack:
        name = ("--set", "broker_name=ours-a")
        if java_ns:
            namesrv = stack.enter_context(peer.namesrv(folder / "namesrv")).listen
            first = stack.enter_context(serving(folder / "a", *name, "--namesrv", namesrv))
        else:
            first = stack.enter_context(serving(folder / "a", *name))
            namesrv = first.namesrv
        second = stack.enter_context(
            serving(folder / "b", "--set", "broker_name=ours-b", "--namesrv", namesrv)
        )
        settings = {"brokerName": "java"}
        java = stack.enter_context(peer.broker(folder / "java", namesrv=namesrv, settings=settings))
        admin = stack.enter_context(talking(client("MqAdmin", namesrv)))
        yield Cluster(namesrv, (first, second), java, admin)


@pytest.mark.parametrize("java_ns", [True, False], ids=["rocketmq's", "ours"])
def test_one_cluster(
    tmp_path: Path, java_peer: JavaPeer, java_client: Callable[..., list[str]], java_ns: bool
) -> None:
    """Producers and consumers use all three (103); who stops (104) or is killed is left out."""
    with cluster(tmp_path, java_peer, java_client, java_ns=java_ns) as all_of_it:
        all_of_it.wait_brokers("ours-a", "ours-b", "java")
        addresses = all_of_it.brokers()
        first, second = all_of_it.ours
        assert addresses == {
            "ours-a": first.listen,
            "ours-b": second.listen,
            "java": all_of_it.java.listen,
        }
        made = all_of_it.admin.ask(f"updateTopic -c DefaultCluster -t {TOPIC} -r 2 -w 2")
        assert made.count("success") == 3
        route = "".join(all_of_it.admin.ask(f"topicRoute -t {TOPIC}").split())
        assert route.count('"readQueueNums":2') == 3

        with talking(java_client("Member", all_of_it.namesrv, TOPIC, GROUP)) as member:
            check_round(member, "now", 0, {"ours-a", "ours-b", "java"})
            check_round(member, "later", 3_000, {"ours-a", "ours-b", "java"})

            assert second.stop() == 0
            all_of_it.wait_brokers("ours-a", "java")
            check_round(member, "two", 0, {"ours-a", "java"})
            if java_ns:
                first.kill()
                all_of_it.wait_brokers("java")
            else:
                all_of_it.java.kill()
                all_of_it.wait_brokers("ours-a")


def check_round(member: Talking, prefix: str, delay_ms: int, brokers: set[str]) -> None:
    """Send some messages: all of these brokers get some, all messages arrive once, none early."""
    begun_ms = time.time() * 1000
    member.say(f"{COUNT} {delay_ms} {prefix}")
    sent = [line.split() for line in member.hear(f"SENT {prefix}", COUNT)]
    got = [line.split() for line in member.hear(f"GOT {prefix}", COUNT)]

    assert {words[1] for words in sent} == brokers
    assert set(Counter(words[0] for words in got).values()) == {1}
    assert {words[1] for words in got} == brokers
    for words in got:
        assert int(words[2]) - begun_ms >= delay_ms - 1_000  # RocketMQ rounds down to the second
