"""A master and its follower as processes: what either has after kills in the middle of sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
import trio

from interop.serving import Broker, StartBroker, free_port, starting
from timermq.client import ClientError, Producer
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
def pair(root: Path) -> Iterator[Pair]:
    """A pair of which neither runs yet."""
    ports = [f"127.0.0.1:{free_port()}" for _ in range(4)]
    with starting() as start:
        yield Pair(start, root, (ports[0], ports[1]), (ports[2], ports[3]), free_port())


async def send(namesrv: str, first: int, count: int) -> int:
    """Send until a broker is gone; how many were answered."""
    done = 0
    async with Producer(namesrv) as producer:
        for number in range(first, first + count):
            try:
                await producer.send("T", b"%d " % number + b"x" * (number % 1_500), key=str(number))
            except ClientError:
                break
            done += 1
    return done


def test_a_kill_of_either_leaves_a_prefix_and_then_the_same(tmp_path: Path) -> None:
    """The follower's log is the master's up to its end, byte for byte, whichever was killed."""
    with pair(tmp_path) as two:
        master, follower = two.start_master(), two.start_follower()
        sent = 0
        for number in range(4):
            sent += trio.run(send, two.master_at[1], sent, 700)
            if number % 2:
                master.kill()
                assert two.log("master").startswith(two.log("follower"))
                master = two.start_master()
            else:
                follower.kill()
                assert two.log("master").startswith(two.log("follower"))
                follower = two.start_follower()
        wait_until(two.follower_is_level, SECONDS, told=lambda: follower.log.read_text()[-3000:])
        assert len(two.log("master")) > 2 * SEGMENT_SIZE
        assert master.stop() == 0
        assert follower.stop() == 0
