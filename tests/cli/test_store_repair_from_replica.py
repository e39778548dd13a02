"""`timermq store repair --from HOST:PORT`: what one replica has lost, another one has."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from cli.program import RunProgram
from interop.serving import Broker, StartBroker, free_port, starting
from timermq.client import OutgoingMessage, Producer
from waiting import wait_until

pytestmark = pytest.mark.slow

SEGMENT_SIZE = 1 << 20
FILES = (f"--set=mapped_file_size_commit_log={SEGMENT_SIZE}", "--set=max_message_size=65536")
SECRET = "a secret of sixteen bytes or more"
SECONDS = 120.0


@attrs.define
class Replicas:
    """A master and its follower: one of them is stopped at a time."""

    start: StartBroker
    root: Path
    ports: list[int]

    @property
    def flags(self) -> tuple[str, ...]:
        """Settings of both, and of the repair."""
        return (*FILES, f"--set=ha_secret_file={self.root / 'secret'}")

    def address(self, number: int) -> str:
        """Where clients reach one of them."""
        return f"127.0.0.1:{self.ports[number]}"

    def start_master(self) -> Broker:
        """The first one, which leads."""
        flags = (*self.flags, f"--set=ha_listen_port={self.ports[4]}")
        return self.start(
            self.root / "master", *flags, listen=self.address(0), namesrv=self.address(1)
        )

    def start_follower(self) -> Broker:
        """The second one, which follows it."""
        flags = (
            *self.flags,
            f"--set=ha_listen_port={self.ports[5]}",
            f"--follow={self.address(0)}",
        )
        return self.start(
            self.root / "follower", *flags, listen=self.address(2), namesrv=self.address(3)
        )

    def log(self, name: str) -> bytes:
        """The commit log of a store, without the zeros behind it."""
        files = sorted((self.root / name / "commitlog").glob("[0-9]*"))
        return b"".join(file.read_bytes() for file in files).rstrip(b"\0")


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Generator[Replicas]:
    """Both have the same log of several segments; the follower was stopped last."""
    root = tmp_path_factory.mktemp("replicas")
    (root / "secret").write_text(SECRET)
    with starting() as start:
        two = Replicas(start, root, [free_port() for _ in range(6)])
        master, follower = two.start_master(), two.start_follower()
        trio.run(_send, two.address(1))
        wait_until(
            lambda: two.log("follower") == two.log("master"),
            SECONDS,
            told=lambda: follower.log.read_text()[-3000:],
        )
        assert len(two.log("master")) > 2 * SEGMENT_SIZE
        assert follower.stop() == 0
        assert master.stop() == 0
        yield two


async def _send(namesrv: str) -> None:
    async with Producer(namesrv) as producer:
        for first in range(0, 400, 20):
            messages = [
                OutgoingMessage(topic="T", body=b"%d" % number * 2_000)
                for number in range(first, first + 20)
            ]
            await producer.send_batch(messages)


def damage(store: Path) -> None:
    """Several sectors of the first segment, and the whole of the second."""
    segment = store / "commitlog" / f"{0:020d}"
    with segment.open("r+b") as file:
        for at in (600, 100_000, 100_600, 500_000):
            file.seek(at)
            file.write(b"\xff" * 100)
    (store / "commitlog" / f"{SEGMENT_SIZE:020d}").unlink()


@pytest.mark.parametrize("damaged", ["follower", "master"])
def test_what_the_other_replica_has(timermq: RunProgram, replicas: Replicas, damaged: str) -> None:
    """Byte for byte, from a master and from a follower alike; the check finds nothing then."""
    start: Callable[[], Broker] = replicas.start_master
    other, number, store = "master", 0, replicas.root / damaged
    if damaged == "master":
        start, other, number = replicas.start_follower, "follower", 2
    before = replicas.log(damaged)
    damage(store)
    assert before != replicas.log(damaged)
    served = start()
    ran = timermq(
        "store", "repair", str(store), "--json", *replicas.flags,
        "--from", replicas.address(number),
    )  # fmt: skip
    summary = ran.rows[-1]

    assert (0, []) == (ran.code, summary["left"])
    assert f"put back from {replicas.address(number)}" in ran.err
    put_back = cast("list[dict[str, int]]", summary["put_back"])
    assert SEGMENT_SIZE in {one["position"] for one in put_back}
    assert before == replicas.log(damaged) == replicas.log(other)
    assert 0 == timermq("store", "check", str(store)).code
    assert served.stop() == 0


def test_a_replica_that_cannot_be_read(timermq: RunProgram, replicas: Replicas) -> None:
    """No broker there, and one of another secret: one line says which rule, nothing is changed."""
    store, other = str(replicas.root / "follower"), replicas.root / "other-secret"
    other.write_text("another secret of sixteen bytes")
    damage(replicas.root / "follower")
    before = replicas.log("follower")
    away = timermq("store", "repair", store, "--from", f"127.0.0.1:{free_port()}")
    master = replicas.start_master()
    strange = timermq(
        "store", "repair", store, *FILES, f"--set=ha_secret_file={other}",
        "--from", replicas.address(0),
    )  # fmt: skip

    assert (1, True) == (away.code, ": LINK: no connection to 127.0.0.1:" in away.err)
    assert (1, True) == (strange.code, ": SECRET: " in strange.err or "HA_SECRET" in strange.err)
    assert before == replicas.log("follower")
    assert master.stop() == 0
