"""A master and its follower as processes: what either has after kills in the middle of sends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import pytest
import trio

from interop.serving import Broker, StartBroker, free_port, starting
from timermq.client import ClientError, OutgoingMessage, Producer
from waiting import wait_until

pytestmark = pytest.mark.slow

SEGMENT_SIZE = 1 << 20
SETTINGS = (
    f"--set=mapped_file_size_commit_log={SEGMENT_SIZE}",
    "--set=max_message_size=65536",
    "--set=follow_interval_ms=200",
)
SECONDS = 120.0


@attrs.define
class Pair:
    """A master and a follower, started again where they were."""

    start: StartBroker
    root: Path
    master_at: tuple[str, str]
    """Addresses for clients and of the name server."""
    follower_at: tuple[str, str]
    ha_port: int

    def start_master(self) -> Broker:
        """A master that listens for followers."""
        listen, namesrv = self.master_at
        flags = (
            *SETTINGS,
            f"--set=ha_listen_port={self.ha_port}",
            "--set=broker_role=ASYNC_MASTER",
        )
        return self.start(self.root / "master", *flags, listen=listen, namesrv=namesrv)

    def start_follower(self) -> Broker:
        """A follower of that master."""
        listen, namesrv = self.follower_at
        flags = (*SETTINGS, "--follow", self.master_at[0])
        return self.start(self.root / "follower", *flags, listen=listen, namesrv=namesrv)

    def log(self, name: str) -> bytes:
        """The commit log of a store, without the zeros behind it."""
        files = sorted((self.root / name / "commitlog").glob("[0-9]*"))
        return b"".join(file.read_bytes() for file in files).rstrip(b"\0")

    def follower_is_level(self) -> bool:
        """Whether both logs are the same."""
        return self.log("follower") == self.log("master")


@contextmanager
def pair(root: Path) -> Generator[Pair]:
    """A pair of which neither runs yet."""
    ports = [f"127.0.0.1:{free_port()}" for _ in range(4)]
    with starting() as start:
        yield Pair(start, root, (ports[0], ports[1]), (ports[2], ports[3]), free_port())


async def kill_while_sending(two: Pair, sent: list[int], kill: Callable[[], None]) -> None:
    """Kill a broker in the middle of sends of several senders; answered ones are counted."""
    enough, count = trio.Event(), sent[0] + 600

    async def send(producer: Producer) -> None:
        with suppress(ClientError):
            while True:
                messages = [
                    OutgoingMessage(topic="T", body=b"%d" % number * 400)
                    for number in range(10, 30)
                ]
                await producer.send_batch(messages)
                sent[0] += len(messages)
                if sent[0] >= count:
                    enough.set()

    async with Producer(two.master_at[1]) as producer, trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(send, producer)
        with trio.fail_after(SECONDS):
            await enough.wait()
        kill()
        nursery.cancel_scope.cancel()


def test_a_kill_of_either_leaves_a_prefix_and_then_the_same(tmp_path: Path) -> None:
    """The follower's log is the master's up to its end, byte for byte, whichever was killed."""
    sent = [0]
    with pair(tmp_path) as two:
        master, follower = two.start_master(), two.start_follower()
        trio.run(kill_while_sending, two, sent, follower.kill)
        assert two.log("master").startswith(two.log("follower"))
        follower = two.start_follower()
        trio.run(kill_while_sending, two, sent, master.kill)
        assert two.log("master").startswith(two.log("follower"))
        master = two.start_master()
        trio.run(kill_while_sending, two, sent, lambda: None)
        wait_until(two.follower_is_level, SECONDS, told=lambda: follower.log.read_text()[-3000:])
        assert len(two.log("master")) > SEGMENT_SIZE
        # The name server of the new master hears of the follower when that registers next.
        wait_until(
            lambda: states(two.master_at[1]) == [("0", "serving"), ("1", "follows")], SECONDS
        )
        assert master.stop() == 0
        assert follower.stop() == 0


def states(namesrv: str) -> list[tuple[object, object]]:
    """Id and state of each broker that a name server knows."""
    return [(row["id"], row["state"]) for row in cluster_status(namesrv)]


def cluster_status(namesrv: str) -> list[dict[str, object]]:
    """The rows of ``timermq cluster status``."""
    command = [sys.executable, "-m", "timermq.cli", "cluster", "status", "--json"]
    ran = subprocess.run([*command, "--namesrv", namesrv], capture_output=True, timeout=SECONDS)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_what_the_master_has_cleaned_meanwhile(tmp_path: Path) -> None:
    """The steps of SLAVE_BEHIND: its store moved away, and started, it has all that is left."""
    with pair(tmp_path) as two:
        master, follower = two.start_master(), two.start_follower()
        trio.run(send_segments, two, 1)
        wait_until(two.follower_is_level, SECONDS, told=lambda: follower.log.read_text()[-3000:])
        assert follower.stop() == 0
        before = two.log("follower")
        trio.run(send_segments, two, 3)
        assert master.stop() == 0
        for start in range(0, 3 * SEGMENT_SIZE, SEGMENT_SIZE):  # as cleaning does
            for place in ("commitlog", "timermq-seals/commitlog"):
                (tmp_path / "master" / place / f"{start:020d}").unlink()
        master = two.start_master()
        with pytest.raises(AssertionError, match=r"SLAVE_BEHIND: .* move this store away"):
            two.start_follower()
        assert two.log("follower") == before
        (tmp_path / "follower").rename(tmp_path / "follower.old")
        follower = two.start_follower()
        wait_until(two.follower_is_level, SECONDS, told=lambda: follower.log.read_text()[-3000:])
        assert len(two.log("follower")) > len(before)
        assert follower.stop() == 0
        assert master.stop() == 0


async def send_segments(two: Pair, count: int) -> None:
    """Send more than so many segments hold."""
    async with Producer(two.master_at[1]) as producer:
        for _ in range(count * SEGMENT_SIZE // (20 * 10_000) + 1):
            messages = [OutgoingMessage(topic="T", body=b"x" * 10_000) for _ in range(20)]
            await producer.send_batch(messages)
