"""A store that changes hands between RocketMQ's broker and ours, and what was sent to it."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path

import attrs

from interop.conftest import Client
from interop.java_peer import JavaBroker, JavaPeer
from interop.serving import Broker, serving
from interop.stored_records import stored_records
from timermq.timerstore.record import Record
from timermq.timerstore.store_options import StoreOptions

TOPIC, GROUP = "Handed", "Readers"
LEVELS = "1s 4s 9s 14s 35s"
LEVELS_MS = (1_000, 4_000, 9_000, 14_000, 35_000)
SETTINGS = {
    "messageDelayLevel": LEVELS,
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "1000",
    "mappedFileSizeTimerLog": "5200",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "defaultTopicQueueNums": "2",
}
FILES = StoreOptions(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=1_000,
    max_hash_slot_num=100,
    max_index_num=400,
    message_delay_level=LEVELS,
)
LATE_MS_MAX = 15_000
"""Java's wheel may take a second longer, a start some more until it delivers, and the
machine may be busy."""
QUIET_MS = 2_500
"""Before a quiet kill of ours nothing is due for so long: RocketMQ does not know what was delivered
since the last checkpoint, a second ago."""


@attrs.define
class Handed:
    """A store and what was sent to it."""

    store: Path
    peer: JavaPeer
    client: Client
    roll_window_slots: int
    settings: Mapping[str, str] = attrs.Factory(dict[str, str])
    """More lines for the settings files of both."""
    due_ms: dict[str, int] = attrs.Factory(dict[str, int])
    """Body to its moment."""
    ids: dict[str, str] = attrs.Factory(dict[str, str])
    """Body to the unique id that its producer gave it."""
    recalled: set[str] = attrs.Factory(set[str])
    consumed: list[str] = attrs.Factory(list[str])
    running_ms: list[tuple[int, int]] = attrs.Factory(list[tuple[int, int]])
    """When a broker served."""
    java_began_ms: set[int] = attrs.Factory(set[int])
    """Where RocketMQ's began."""
    javas_early_ms: int = 0
    """How much before its moment RocketMQ may deliver; our records name their origin."""

    @contextlib.contextmanager
    def by_java(self, *, kill: bool = False) -> Generator[str]:
        """RocketMQ's broker serves; gives its name server.

        A kill at the end of a story spares the ten seconds and more of its end in order.
        """
        settings = self._settings()
        with self.peer.broker(self.store, settings=settings) as broker, self._serves(broker, kill):
            yield broker.namesrv
        self.java_began_ms.add(self.running_ms[-1][0])

    @contextlib.contextmanager
    def by_us(self, *, kill: bool = False, quiet: bool = True) -> Generator[str]:
        """Our broker serves, with the settings file of RocketMQ's; before a kill it is quiet."""
        config = self.store.parent / "broker.conf"
        settings = {"brokerName": "broker-a", **self._settings()}
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with (
            serving(self.store, "--config", str(config)) as broker,
            self._serves(broker, kill),
        ):
            yield broker.namesrv
            while kill and quiet and self._is_busy():
                time.sleep(0.1)

    def _settings(self) -> Mapping[str, str]:
        return {"timerRollWindowSlot": str(self.roll_window_slots), **SETTINGS, **self.settings}

    def _is_busy(self) -> bool:
        """Is something due about now?"""
        return any(-300 < now_ms() - one < QUIET_MS for one in self.due_ms.values())

    @contextlib.contextmanager
    def _serves(self, broker: Broker | JavaBroker, kill: bool) -> Generator[None]:
        begin = now_ms()
        yield
        self.running_ms.append((begin, now_ms()))
        if kill:
            broker.kill()
        else:
            broker.stop()

    def send(self, namesrv: str, **asked: str) -> None:
        """Send with the Java client; what is asked, by body: see StoreClient.java."""
        lines = self._run("send", namesrv, TOPIC, *(f"{body}={how}" for body, how in asked.items()))
        for _, body, due_ms, unique_id in (
            line.split() for line in lines if line.startswith("SENT")
        ):
            self.ids[body] = unique_id
            how, _, number = asked[body].partition(":")
            level_ms = LEVELS_MS[int(number) - 1] if how == "level" else 0
            self.due_ms[body] = int(due_ms) + level_ms
            if how == "recall":
                self.recalled.add(body)

    def consume(self, namesrv: str, count: int) -> None:
        """Take so many messages as the group, which commits them."""
        lines = self._run("consume", namesrv, TOPIC, GROUP, str(count))
        self.consumed += [line.split()[1] for line in lines if line.startswith("GOT")]

    def _run(self, *args: str) -> list[str]:
        run = subprocess.run(
            self.client("StoreClient", *args),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        lines = run.stdout.splitlines()
        assert lines[-1:] == ["DONE"], run.stdout[-2000:] + run.stderr[-2000:]
        return lines

    def wait_for(self, *bodies: str) -> None:
        """Until these are due, and Java's wheel has had its time."""
        time.sleep(max(max(self.due_ms[body] for body in bodies) - now_ms(), 0) / 1000 + 3)

    def check(self, again: Mapping[str, int] | None = None) -> None:
        """Each message stands on its topic once and as it was sent, never early, late by an outage.

        Args:
            again: Body to how often more it may stand there.
        """
        more = again or {}
        times: dict[str, list[int]] = {}
        changed: list[object] = []
        for one in self.records():
            if one.topic == TOPIC and one.body != b"warm-up":
                early_ms = 0 if one.prepared_transaction_offset < 0 else self.javas_early_ms
                times.setdefault(one.body.decode(), []).append(one.store_ms + early_ms)
                if _as_delivered(one) != self._as_sent(one.body.decode()):
                    changed.append((_as_delivered(one), one.properties))
        expected = self.due_ms.keys() - self.recalled
        wrong = {
            body: (due_ms, times.get(body))
            for body, due_ms in self.due_ms.items()
            if body in expected
            and not (
                1 <= len(found := times.get(body, [])) <= 1 + more.get(body, 0)
                and due_ms <= found[0] <= self._served_from(due_ms) + LATE_MS_MAX
            )
        }

        consumed = set(self.consumed) - {"warm-up"}
        arrived = times.keys() - set(filter(self._may_be_overlooked, self.recalled))

        assert {} == wrong, wrong
        assert [] == changed
        assert expected == arrived, expected ^ arrived
        assert times.keys() == consumed, times.keys() ^ consumed

    def consumed_again(self) -> set[str]:
        """Bodies of messages that the group got more than once."""
        times = Counter(self.consumed)
        return {body for body, count in times.items() if count > 1} - {"warm-up"}

    def _may_be_overlooked(self, body: str) -> bool:
        """RocketMQ looks for no deletes of what is overdue when it rolls: docs/operations.md."""
        due_ms = self.due_ms[body]
        begin_ms = self._served_from(due_ms)
        return due_ms < begin_ms and begin_ms in self.java_began_ms

    def _as_sent(self, body: str) -> tuple[object, ...]:
        """What StoreClient.java says of a message with this body."""
        keys, colour = f"key-{body} too", f"grün = {body}"
        return self.ids.get(body), "a", keys, len(body), colour, body, True

    def _served_from(self, due_ms: int) -> int:
        """When a broker could deliver what is due at a moment."""
        return min(max(begin, due_ms) for begin, end in self.running_ms if due_ms < end - 1_500)

    def records(self) -> list[Record]:
        """All that stands in the commit log of the stopped store."""
        return stored_records(self.store, options=FILES)


def _as_delivered(one: Record) -> tuple[object, ...]:
    """The same of its record, and whether it stands in a queue that the topic has."""
    colour = one.properties_dict().get("colour of it")
    is_in_queue = 0 <= one.queue_id < int(SETTINGS["defaultTopicQueueNums"])
    return one.unique_id, one.tags, one.keys, one.flag, colour, one.body.decode(), is_in_queue


def now_ms() -> int:
    """The wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
