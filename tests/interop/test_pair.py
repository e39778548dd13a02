"""A pair of brokers, as processes: the lead changes over by a kill, by a planned switch, and back.

With SYNC_MASTER, two replicas that must have a send, and ``confirm=replicated`` nothing that was
answered is lost, and nothing comes to its topic twice, whichever of them leads.
"""

from __future__ import annotations

import datetime
import json
import random
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from interop.serving import Broker, StartBroker, free_port
from timermq.broker.replication.epochs import EpochFile
from timermq.client import ClientError, Consumer, Producer
from timermq.timerstore.os_disk import OsDisk
from waiting import wait_until

TOPIC = "Pair"
SEGMENT_SIZE = 4 << 20
FLAGS = (
    *("--set", f"mapped_file_size_commit_log={SEGMENT_SIZE}"),
    *("--set", "in_sync_replicas=2", "--set", "confirm=replicated"),
    *("--set", "ha_listen_port=0"),
)
LONG = 120.0
"""Seconds within which anything happens, on a machine with much to do."""
MORE = 100
"""Messages that are sent before and behind each change."""


@attrs.define
class Load:
    """Sends without a pause, each message with a body of its own, and what became of them."""

    namesrv: str
    acknowledged: set[str] = attrs.Factory(set[str])
    unknown: set[str] = attrs.Factory(set[str])
    """Bodies of sends that were not answered, or refused."""
    gap: float = 0.0
    """The longest time between two answers that say "stored"."""
    is_over: bool = False

    async def goes_on(self) -> None:
        """Wait until some more messages are acknowledged."""
        wanted = len(self.acknowledged) + MORE
        with trio.fail_after(LONG):
            while len(self.acknowledged) < wanted:  # noqa: ASYNC110 - only tests wait for it
                await trio.sleep(0.05)

    async def run(self, name: str) -> None:
        """Send until it is over, one after another."""
        draw = random.Random(name)
        number, stored_at = 0, trio.current_time()
        async with Producer(self.namesrv, request_timeout=4.0) as producer:
            while not self.is_over:
                number += 1
                body = f"{name}-{number}"
                delay = datetime.timedelta(milliseconds=draw.choice([0, 50, 800, 2_500]))
                try:
                    receipt = await producer.send(TOPIC, body.encode(), delay=delay or None)
                except ClientError:
                    self.unknown.add(body)
                    await trio.sleep(0.02)
                    continue
                if not receipt.is_durable:
                    # An old master that is back, and not fenced yet, stores it alone and says so.
                    self.unknown.add(body)
                    continue
                self.acknowledged.add(body)
                self.gap = max(self.gap, trio.current_time() - stored_at)
                stored_at = trio.current_time()
                await trio.sleep(0.005)


async def read_all(namesrv: str, wanted: set[str]) -> Counter[str]:
    """How often each body stands on the topic, read from its first message by a new group."""
    found: Counter[str] = Counter()
    group = f"G{random.getrandbits(32):x}"
    async with Consumer(namesrv, group=group, topics={TOPIC: "*"}, start_from="first") as consumer:
        with trio.move_on_after(LONG):
            while wanted - found.keys():
                message = await anext(aiter(consumer))
                found[message.body.decode()] += 1
        with trio.move_on_after(1.0):
            # What would come twice has come by now, or comes with the next pulls.
            async for message in consumer:
                found[message.body.decode()] += 1
    return found


def check_once(found: Counter[str], load: Load) -> None:
    """What was acknowledged came once; what was not may have come, once."""
    assert load.acknowledged - found.keys() == set()
    assert {body: count for body, count in found.items() if count != 1} == {}
    assert found.keys() <= load.acknowledged | load.unknown


def run_verb(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with some words."""
    return subprocess.run(
        [sys.executable, "-m", "timermq.cli", *words],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def log_has(broker: Broker, text: str) -> bool:
    """Whether a line of the broker's log says something."""
    return text in broker.log.read_text()


def log_end(store: Path) -> int:
    """Where the log of a store ends, by its seals and heads: of a served one, too."""
    dump = run_verb("store", "dump", str(store), "--json")
    rows = [json.loads(line) for line in dump.stdout.splitlines()]
    return rows[-1]["phy_offset"] + rows[-1]["size"] if rows else 0


def log_bytes(store: Path, end: int) -> bytes:
    """The log of a store from its begin to a position."""
    segments = sorted((store / "commitlog").iterdir())
    return b"".join(one.read_bytes() for one in segments)[:end]


@attrs.frozen
class Pair:
    """A master, and the follower that is linked to it."""

    master: Broker
    follower: Broker

    @property
    def namesrv(self) -> str:
        """Both name servers, the master's first."""
        return f"{self.master.namesrv};{self.follower.namesrv}"


def start_follower(start: StartBroker, store: Path, master: Broker) -> Broker:
    """Start a follower, and wait until it is linked."""
    follower = start(store, *FLAGS, "--follow", master.listen)
    wait_until(lambda: log_has(follower, "master is followed"), LONG)
    return follower


@pytest.fixture
def pair(start: StartBroker, tmp_path: Path) -> Pair:
    """A pair of new stores."""
    master = start(tmp_path / "a", *FLAGS, "--set", "broker_role=SYNC_MASTER")
    return Pair(master, start_follower(start, tmp_path / "b", master))


@pytest.mark.slow
def test_the_master_is_killed_under_load(pair: Pair, start: StartBroker, tmp_path: Path) -> None:
    """The follower leads on, the old master comes back, is fenced, cut, and follows."""
    load = Load(pair.namesrv)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(load.run, f"p{number}")
            await load.goes_on()
            await trio.to_thread.run_sync(pair.master.kill)
            refused = run_verb("promote", pair.master.listen)
            assert refused.returncode != 0
            promoted = await trio.to_thread.run_sync(
                run_verb, "promote", pair.follower.listen, "--json"
            )
            assert promoted.returncode == 0, promoted.stderr
            assert json.loads(promoted.stdout)["epoch"] == 2
            # A pair of two loses one: sends count on the other alone until it is back.
            back = await trio.to_thread.run_sync(start_again)
            await trio.to_thread.run_sync(wait_followed, back)
            await load.goes_on()
            load.is_over = True

    def start_again() -> Broker:
        return start(
            tmp_path / "a",
            *FLAGS,
            *("--set", "broker_role=SYNC_MASTER"),
            listen=pair.master.listen,
            namesrv=pair.master.namesrv,
        )

    def wait_followed(back: Broker) -> None:
        wait_until(
            lambda: log_has(back, "master is followed"),
            LONG,
            told=lambda: back.log.read_text()[-3000:],
        )

    trio.run(run)
    check_once(trio.run(read_all, pair.follower.namesrv, load.acknowledged), load)
    assert log_has(pair.master, "fenced: another replica leads")
    end = log_end(tmp_path / "b")
    wait_until(lambda: log_end(tmp_path / "a") >= end, LONG)
    assert log_bytes(tmp_path / "a", end) == log_bytes(tmp_path / "b", end)
    assert (
        EpochFile(OsDisk(), str(tmp_path / "a")).epochs
        == EpochFile(OsDisk(), str(tmp_path / "b")).epochs
    )


@pytest.mark.slow
def test_a_planned_switch_under_load(pair: Pair) -> None:
    """DEMOTE: the lead goes over and back: nothing is lost, nothing comes twice, hardly a gap.

    The way back names no follower: the master's own port tells which one it has.
    """
    load = Load(pair.namesrv)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(load.run, f"p{number}")
            await load.goes_on()
            for one, other, named in (
                (pair.master, pair.follower, ("--to", pair.follower.listen)),
                (pair.follower, pair.master, ()),
            ):
                before = followed(one, other)
                words = ("demote", one.listen, *named, "--json")
                done = await trio.to_thread.run_sync(partial(run_verb, *words))
                assert done.returncode == 0, done.stderr
                assert json.loads(done.stdout)["address"] == other.listen
                await trio.to_thread.run_sync(wait_followed, one, other, before + 1)
                await load.goes_on()
            load.is_over = True

    def followed(one: Broker, other: Broker) -> int:
        return sum(
            '"master is followed"' in line and f'"master": "{other.listen}"' in line
            for line in one.log.read_text().splitlines()
        )

    def wait_followed(one: Broker, other: Broker, times: int) -> None:
        wait_until(
            lambda: followed(one, other) >= times,
            LONG,
            told=lambda: one.log.read_text()[-3000:],
        )

    trio.run(run)
    check_once(trio.run(read_all, pair.namesrv, load.acknowledged), load)
    assert load.gap < LONG / 2
    epochs = EpochFile(OsDisk(), str(pair.master.store)).epochs
    assert [one.number for one in epochs] == [1, 2, 3]


@pytest.mark.slow
def test_promotions_that_are_refused(pair: Pair) -> None:
    """A master leads already; a follower of a master that answers is not promoted but by force."""
    leads = run_verb("promote", pair.master.listen)
    answers = run_verb("promote", pair.follower.listen)
    follows = run_verb("demote", pair.follower.listen, "--to", pair.master.listen)
    unknown = run_verb("demote", pair.master.listen, "--to", f"127.0.0.1:{free_port()}")

    assert "NOT_A_FOLLOWER" in leads.stderr
    assert "MASTER_ANSWERS" in answers.stderr
    assert "NOT_A_MASTER" in follows.stderr
    assert "FOLLOWER" in unknown.stderr
    forced = run_verb("promote", pair.follower.listen, "--force", "--json")
    assert json.loads(forced.stdout)["epoch"] == 2
    wait_until(lambda: log_has(pair.master, "fenced: another replica leads"), LONG)
    wait_until(lambda: log_has(pair.master, "master is followed"), LONG)
