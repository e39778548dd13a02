"""What RocketMQ's broker answers to GET_BROKER_RUNTIME_INFO (28) and VIEW_BROKER_STATS_DATA (315).

Run: ``python -m interop.runtime_info``, in ``tests``, writes ``golden/runtime_info.json`` anew: the
answers of each release after eleven minutes of a small load. So long takes the third of its rates.
"""

from __future__ import annotations

import itertools
import json
import socket
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from interop.java_peer import RELEASE_5_3, RELEASE_5_5, JavaPeer, Release, fetch_jars
from timermq.remoting import Command, FrameConnection, LanguageCode

GOLDEN = Path(__file__).parents[1] / "golden" / "runtime_info.json"
MINUTES = 11
CALL_SECONDS = 60.0
STATISTICS = (
    "BROKER_GET_NUMS",
    "BROKER_PUT_NUMS",
    "GROUP_GET_NUMS",
    "GROUP_GET_SIZE",
    "SNDBCK_PUT_NUMS",
    "TOPIC_PUT_NUMS",
    "TOPIC_PUT_SIZE",
)
"""What RocketMQ's exporter and tools ask 315 for."""
CLUSTER, TOPIC, GROUP = "DefaultCluster", "LoadTopic", "LoadGroup"


@attrs.define(eq=False)
class Link:
    """A connection that asks one thing at a time."""

    stream: socket.socket
    frames: FrameConnection = attrs.Factory(FrameConnection)
    opaques: itertools.count[int] = attrs.Factory(lambda: itertools.count(1))

    @classmethod
    def to(cls, listen: str) -> Link:
        """Connect to a broker that listens on ``host:port``."""
        host, _, port = listen.partition(":")
        return cls(socket.create_connection((host, int(port)), timeout=CALL_SECONDS))

    def call(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> Command:
        """The answer to one request."""
        command = Command(
            code, opaque=next(self.opaques), language=LanguageCode.JAVA, ext=dict(ext or {})
        )
        command.body = body
        self.stream.sendall(self.frames.encode(command))
        while True:
            data = self.stream.recv(65_536)
            assert data, f"the broker has closed the connection instead of an answer to {code}"
            self.frames.receive_data(data)
            for answer in self.frames.events():
                if answer.opaque == command.opaque:
                    return answer

    def statistics(self, name: str) -> dict[str, Any]:
        """The answer to 315 about the topic, group or cluster of the load."""
        kind = name.partition("_")[0]
        key = {"BROKER": CLUSTER, "TOPIC": TOPIC}.get(kind, f"{TOPIC}@{GROUP}")
        found: dict[str, Any] = json.loads(
            self.call(315, {"statsName": name, "statsKey": key}).body
        )
        return found


def load(link: Link, turn: int) -> None:
    """A message, a timer, a batch, pulls with and without messages, and one sent back."""
    for kind, properties in (("now", ""), ("timer", "TIMER_DELAY_MS\x013000\x02")):
        unique = f"UNIQ_KEY\x01{kind}{turn:028}\x02WAIT\x01true\x02"
        while link.call(10, send_ext(unique + properties), b"x" * 100).code != 0:
            time.sleep(1)  # a loaded machine lets requests wait for too long
    if turn == 0:
        link.call(202, {"topic": TOPIC})
    offset = int(link.call(30, {"topic": TOPIC, "queueId": "0"}).ext["offset"])
    got = link.call(11, pull_ext(offset - 1))
    assert got.code == 0, got
    assert link.call(11, pull_ext(offset + 100)).code != 0
    if turn == 0:
        record = got.body
        back = {
            "offset": str(int.from_bytes(record[28:36], "big")),
            "group": GROUP,
            "delayLevel": "1",
            "originTopic": TOPIC,
            "originMsgId": "",
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        }
        answer = link.call(36, back)
        assert answer.code == 0, answer


def prepare(link: Link) -> None:
    """Make the group of the load, which no consumer registers."""
    group = {"groupName": GROUP, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
    assert link.call(200, body=json.dumps(group).encode()).code == 0


def send_ext(properties: str) -> dict[str, str]:
    """The parameters of a send to queue 0."""
    return {
        "producerGroup": "LoadProducers",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "1",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(time.time_ns() // 1_000_000),
        "flag": "0",
        "properties": properties,
    }


def pull_ext(offset: int) -> dict[str, str]:
    """The parameters of a pull from queue 0, with its subscription, without waiting."""
    return {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "1",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def record(release: Release, folder: Path) -> dict[str, Any]:
    """The answers of one release."""
    peer = JavaPeer.compiled(fetch_jars(release))
    store = folder / "store"
    with peer.broker(store) as broker:
        link = Link.to(broker.listen)
        prepare(link)
        for turn in range(MINUTES * 60):
            load(link, turn)
            time.sleep(1)
        table: dict[str, str] = json.loads(link.call(28).body)["table"]
        return {
            "runtime": {name.replace(str(store), "/store"): table[name] for name in sorted(table)},
            "statistics": {name: link.statistics(name) for name in STATISTICS},
        }


def main() -> None:
    """Record each release, and write the file."""
    found: dict[str, Any] = {}
    for release in (RELEASE_5_5, RELEASE_5_3):
        with tempfile.TemporaryDirectory(prefix="timermq-runtime-") as folder:
            found[release.broker] = record(release, Path(folder))
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
