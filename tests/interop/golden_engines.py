"""Makes the golden stores of RocketMQ's engines: ``python -m interop.golden_engines [NAME …]``.

Run in ``tests``; it takes RocketMQ's own broker and client from Maven Central, and ten minutes.
What is due stands far from each stop, so what was delivered and what waits is known by the time
asked for, and RocketMQ's client confirms it.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import msgspec

from golden_stores import GOLDEN
from interop.handed import Handed, now_ms
from interop.java_peer import RELEASE_5_5, JavaPeer, fetch_jars

HOUR_MS = 3_600_000
WINDOW_SLOTS = 3_600 * 24
RELEASE = RELEASE_5_5.broker
SNAPSHOTS = {"timerWheelSnapshotFlush": "true", "timerWheelSnapshotIntervalMs": "1000"}
ROCKSDB_TIMERS = {"timerRocksDBEnable": "true", "timerRocksDBRollRangeHours": "1"}
ROCKSDB_TABLES = {"storeType": "defaultRocksDB"}
EXPORTED = {
    "topics": "topics.json",
    "subscriptionGroups": "subscriptionGroup.json",
    "consumerOffsets": "consumerOffset.json",
}
"""RocketMQ's tables, and the files that they are exported to."""
SETTLE_SECONDS = 3.0
"""A snapshot is written, a roll is read again."""


class SentTimer(msgspec.Struct, rename="camel", kw_only=True):
    """A message that was sent, and what had become of it when the broker stopped."""

    body: str
    msg_id: str
    due_ms: int
    state: str
    """``stored``, ``delivered``, ``pending`` or ``cancelled``."""


class EnginesManifest(msgspec.Struct, rename="camel", kw_only=True):
    """What the manifest of such a store says."""

    store: str
    release: str
    clean_shutdown: bool
    stopped_ms: int
    settings: dict[str, str]
    """Of its last life, beyond those of all."""
    messages: list[SentTimer]

    def in_state(self, state: str) -> dict[str, SentTimer]:
        """The messages of which this had become, by body."""
        return {one.body: one for one in self.messages if one.state == state}


def engines_manifest(name: str) -> EnginesManifest:
    """The manifest of one of these stores."""
    text = lzma.decompress((GOLDEN / f"{name}.manifest.json.xz").read_bytes())
    return msgspec.json.decode(text, type=EnginesManifest)


@attrs.define
class Maker:
    """Makes stores in a directory."""

    home: Path
    peer: JavaPeer
    jars: Path

    def handed(self, name: str) -> Handed:
        """A store that is not there yet."""
        classes = JavaPeer.clients(self.jars)

        def client(main_class: str, *args: str) -> list[str]:
            return [*classes.command(main_class, self.home), *args]

        return Handed(self.home / name / "store", self.peer, client, WINDOW_SLOTS)

    def export(self, store: Path) -> None:
        """Have RocketMQ's admin tool write its tables as JSON, beside the store."""
        target = store.parent / "exported"
        target.mkdir()
        for table, file in EXPORTED.items():
            tool = "org.apache.rocketmq.tools.command.MQAdminStartup"
            command = [*self.peer.command(tool, self.home), "rocksDBConfigToJson"]
            command += ["-t", table, "-p", str(store / "config"), "-e", str(target / file)]
            subprocess.run(command, check=True, timeout=100, capture_output=True)


def snapshots(maker: Maker, name: str) -> Handed:
    """A wheel, then a wheel with snapshots: its own file is as the first life left it."""
    handed = maker.handed(name)
    with handed.by_java() as namesrv:
        handed.send(namesrv, **timers("first", 30, HOUR_MS), **{"first-gone": recall(HOUR_MS)})
        handed.send(namesrv, **timers("early", 5, 1_000))
        handed.wait_for(*(f"early-{n}" for n in range(5)))
    handed.settings = SNAPSHOTS
    with handed.by_java() as namesrv:
        handed.send(namesrv, **timers("second", 300, 2 * HOUR_MS), **timers("soon", 5, 1_000))
        handed.send(namesrv, **{"second-gone": recall(2 * HOUR_MS), "first-more": at(HOUR_MS)})
        handed.wait_for(*(f"soon-{n}" for n in range(5)))
        time.sleep(SETTLE_SECONDS)
        handed.consume(namesrv, 1_000)
    return handed


def rocksdb_timers(maker: Maker, name: str) -> Handed:
    """A wheel, then RocksDB timers with rolls and recalls, then once more: killed at the end."""
    handed = maker.handed(name)
    with handed.by_java() as namesrv:
        handed.send(namesrv, **timers("wheel", 8, 3 * HOUR_MS), **timers("early", 4, 1_000))
        handed.wait_for(*(f"early-{n}" for n in range(4)))
    handed.settings = ROCKSDB_TIMERS
    with handed.by_java() as namesrv:
        handed.send(namesrv, **timers("rocks", 40, 3 * HOUR_MS), **timers("soon", 20, 1_500))
        handed.send(namesrv, **{"rocks-gone": recall(3 * HOUR_MS), "soon-gone": recall(6_000)})
        handed.wait_for("soon-gone", *(f"soon-{n}" for n in range(20)))
        roll(handed)
        time.sleep(SETTLE_SECONDS)
    with handed.by_java(kill=True) as namesrv:
        handed.send(namesrv, **timers("last", 10, 3 * HOUR_MS), **timers("later", 10, 1_500))
        handed.send(namesrv, **{"last-gone": recall(3 * HOUR_MS)})
        handed.wait_for(*(f"later-{n}" for n in range(10)))
        roll(handed)
        time.sleep(SETTLE_SECONDS)
        handed.consume(namesrv, 1_000)
    return handed


def rocksdb_tables(maker: Maker, name: str) -> Handed:
    """A wheel, with topics, groups, offsets and queues in RocksDB; its tables are exported."""
    handed = maker.handed(name)
    handed.settings = ROCKSDB_TABLES
    with handed.by_java() as namesrv:
        handed.send(namesrv, **timers("wheel", 20, 3 * HOUR_MS), **timers("soon", 10, 1_000))
        handed.send(namesrv, plain="plain", **{"wheel-gone": recall(3 * HOUR_MS)})
        handed.wait_for(*(f"soon-{n}" for n in range(10)))
        handed.consume(namesrv, 1_000)
    maker.export(handed.store)
    return handed


def timers(name: str, count: int, delay_ms: int) -> dict[str, str]:
    """Messages a little apart, from a delay on."""
    return {f"{name}-{n}": at(delay_ms + 100 * n) for n in range(count)}


def at(delay_ms: int) -> str:
    """A delay, as StoreClient.java is told it."""
    return f"delay:{delay_ms}"


def recall(delay_ms: int) -> str:
    """One that is recalled at once."""
    return f"recall:{delay_ms}"


def roll(handed: Handed) -> None:
    """Have RollingBroker.java roll what waits, and wait until it began."""
    told = handed.store.parent / f"{handed.store.name}-java" / "home/roll"
    told.touch()
    while told.exists():
        time.sleep(0.05)


STORES: Mapping[str, Callable[[Maker, str], Handed]] = {
    "g7": snapshots,
    "g8": rocksdb_timers,
    "g9": rocksdb_tables,
}
"""All of them; only g8 is killed at its end."""


def manifest(name: str, handed: Handed) -> EnginesManifest:
    """What the store holds, as its sender and its consumer saw it."""
    stopped_ms = handed.running_ms[-1][1]
    delivered = set(handed.consumed)
    messages: list[SentTimer] = []
    for body, due_ms in handed.due_ms.items():
        is_due = due_ms <= stopped_ms
        state = "cancelled" if body in handed.recalled else "delivered" if is_due else "pending"
        if (state == "delivered") != (body in delivered):
            raise ValueError(f"{name}: {body} is {state}, and RocketMQ's client says otherwise")
        messages.append(SentTimer(body=body, msg_id=handed.ids[body], due_ms=due_ms, state=state))
    return EnginesManifest(
        store=name,
        release=RELEASE,
        clean_shutdown=not (handed.store / "abort").exists(),
        stopped_ms=stopped_ms,
        settings=dict(handed.settings),
        messages=messages,
    )


def write(name: str, handed: Handed) -> None:
    """Archive and manifest of a store, into ``golden``."""
    found = msgspec.json.format(msgspec.json.encode(manifest(name, handed)))
    (GOLDEN / f"{name}.manifest.json.xz").write_bytes(lzma.compress(found))
    with tarfile.open(GOLDEN / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        for part in ("store", "exported"):
            if (path := handed.store.parent / part).exists():
                archive.add(path, part)


def main(names: list[str]) -> None:
    """Make these stores, or all."""
    jars = fetch_jars(RELEASE_5_5)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        peer = attrs.evolve(JavaPeer.compiled(jars), broker_class="RollingBroker")
        maker = Maker(home, peer, jars)
        for name in names or STORES:
            begin_ms = now_ms()
            write(name, STORES[name](maker, name))
            size, took_ms = (GOLDEN / f"{name}.tar.xz").stat().st_size, now_ms() - begin_ms
            sys.stdout.write(f"{name}: {size:,} bytes, {took_ms:,} ms\n")


if __name__ == "__main__":
    main(sys.argv[1:])
