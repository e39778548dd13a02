"""How long does a follower need to lead, with a million pending messages?

A master with so many is followed until the follower has them on its wheel, and messages are sent
for a while. It is killed with SIGKILL, and the follower promoted. Counted are the milliseconds that
the broker takes to lead, and the seconds from the start of the command to its end, and to the first
message that the new master stores.

Run: ``python perf/bench_promotion.py [--pending N] [--seconds S] [--keep]``. A million takes two
minutes and 3 GB of disk.
"""

from __future__ import annotations

import argparse
import datetime
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trio
from result_files import report

from timermq.bench.idle_cost import fill
from timermq.broker.namesrv.name_server_link import open_tcp
from timermq.broker.replication.replica_calls import NoReplicaError, ReplicaCalls
from timermq.client import ClientError, Producer

PENDING = 1_000_000
SECONDS = 10.0
"""Seconds for which messages are sent while the follower has all."""
IDLE_SECONDS = 30.0
"""Seconds for which nothing is sent then."""
WAIT_SECONDS = 900.0
SEND_PAUSE = 0.02
DELAY = datetime.timedelta(seconds=1)
PROGRAM = (sys.executable, "-m", "timermq.cli")


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """A broker in a process of its own."""

    def __init__(self, store: Path, *flags: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.namesrv = f"127.0.0.1:{free_port()}"
        self.log = store.with_suffix(".log")
        command = [*PROGRAM, "serve", "--store", str(store), "--listen", self.address]
        command += ["--namesrv-listen", self.namesrv, "--set", "vip_listen_enable=false"]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen([*command, *flags], stdout=output, stderr=output)
        wait(lambda: b"broker ready" in self.log.read_bytes())


def wait(is_so: Callable[[], bool]) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: It never was.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.1)


def took_ms(broker: Served) -> int | None:
    """How long the broker itself took to lead, by its log."""
    lines = broker.log.read_text().splitlines()
    took = [json.loads(line) for line in lines if '"took_ms"' in line]
    return took[-1]["took_ms"] if took else None


def pending_of(broker: Served) -> int:
    """Number of messages on the wheel of a broker, by its metrics."""
    ran = subprocess.run(
        [*PROGRAM, "cluster", "status", "--json", "--namesrv", broker.namesrv],
        capture_output=True,
        text=True,
        check=False,
    )
    return sum(line.count('"pending"') and _number(line) for line in ran.stdout.splitlines())


def _number(line: str) -> int:
    return int(line.partition('"pending":')[2].partition(",")[0])


async def send_on(broker: Served, seconds: float) -> int:
    """Send a message after the other for some time; how many were stored."""
    stored, end = 0, trio.current_time() + seconds
    async with Producer(broker.namesrv) as producer:
        while trio.current_time() < end:
            await producer.send("BenchPromotion", b"x" * 128, delay=DELAY)
            stored += 1
            await trio.sleep(SEND_PAUSE)
    return stored


async def first_stored(broker: Served) -> None:
    """Send until a message is stored."""
    async with Producer(broker.namesrv) as producer:
        while True:
            try:
                await producer.send("BenchPromotion", b"x" * 128)
            except ClientError:
                await trio.sleep(0.01)
            else:
                return


async def is_level(master: Served, follower: Served) -> bool:
    """Whether the follower has all of the master's log."""
    calls = ReplicaCalls(open_tcp)
    try:
        end = (await calls.epochs(master.address)).max_offset
        return (await calls.epochs(follower.address)).max_offset >= end > 0
    except NoReplicaError:
        return False


def measure(pending: int, seconds: float) -> dict[str, object]:
    """One promotion of a follower that has all."""
    with tempfile.TemporaryDirectory(prefix="timermq-bench-") as folder:
        root = Path(folder)
        trio.run(fill, root / "a", range(pending))
        master = Served(root / "a", "--set", "ha_listen_port=0")
        follower = Served(root / "b", "--follow", master.address)
        try:
            wait(lambda: trio.run(is_level, master, follower))
            wait(lambda: pending_of(follower) >= pending)
            sent = trio.run(send_on, master, seconds)
            time.sleep(IDLE_SECONDS)
            wait(lambda: trio.run(is_level, master, follower))
            master.process.kill()
            master.process.wait()
            begun = time.monotonic()
            done = subprocess.run(
                [*PROGRAM, "promote", follower.address],
                capture_output=True,
                text=True,
                check=False,
            )
            promoted = time.monotonic() - begun
            trio.run(first_stored, follower)
            return {
                "pending": pending,
                "sent_meanwhile": sent,
                "said": done.stdout.strip() or done.stderr.strip(),
                "broker_ms": took_ms(follower),
                "promoted_seconds": round(promoted, 2),
                "first_stored_seconds": round(time.monotonic() - begun, 2),
            }
        finally:
            for one in (master, follower):
                one.process.kill()
                one.process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=PENDING)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--keep", action="store_true", help="keep this result in results/")
    args = parser.parse_args()
    found = measure(args.pending, args.seconds)
    print(found, file=sys.stderr)
    report("promotion", found, keep=args.keep)
