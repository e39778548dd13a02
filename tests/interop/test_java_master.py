"""A follower of ours behind RocketMQ's master: it has the same log, and leads when that is gone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from broker_rig import Peer, pull_ext, send_ext, split_records
from interop.java_peer import JavaPeer
from interop.serving import Broker, starting
from timermq.timerstore.record import decode_record
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.interop]

SEGMENT_SIZE = 1 << 20
JAVA = {
    "mappedFileSizeCommitLog": str(SEGMENT_SIZE),
    "maxMessageSize": "65536",
    "brokerRole": "ASYNC_MASTER",
}
OURS = (
    f"--set=mapped_file_size_commit_log={SEGMENT_SIZE}",
    "--set=max_message_size=65536",
    "--set=follow_interval_ms=500",
    "--set=follow_tables_interval_ms=1000",
)
SECONDS = 120.0
PLAIN = [f"plain-{number}" for number in range(1_300)]
TIMERS = [f"timer-{number}" for number in range(13)]
LEVELS = ["level-1", "level-2", "level-3"]
LAST = "last"
"""A timer that is sent when the follower has all else."""


async def connected(address: str) -> trio.SocketStream:
    """A connection to a broker."""
    host, _, port = address.partition(":")
    return await trio.open_tcp_stream(host, int(port))


async def send(address: str) -> None:
    """Send plain messages for two segments, timers due in 1 to 13 s, some by a level of 10 s."""
    wanted = [(body, "") for body in PLAIN]
    wanted += [
        (body, f"TIMER_DELAY_MS\x01{number}000\x02") for number, body in enumerate(TIMERS, 1)
    ]
    wanted += [(body, "DELAY\x013\x02") for body in LEVELS]
    async with await connected(address) as stream:
        peer = Peer(stream)
        for body, more in wanted:
            data = (body.ljust(1_000) if body in PLAIN else body).encode()
            answer = await peer.call(10, send_ext("T", f"UNIQ_KEY\x01{body}\x02{more}"), data)
            assert answer.code == 0, answer.remark


async def send_timer(address: str, body: str) -> None:
    """Send a timer due in 5 s."""
    async with await connected(address) as stream:
        more = f"UNIQ_KEY\x01{body}\x02TIMER_DELAY_MS\x015000\x02"
        answer = await Peer(stream).call(10, send_ext("T", more), body.encode())
        assert answer.code == 0, answer.remark


def bodies(address: str) -> Counter[str]:
    """What consumers find in the queue, from its start on."""

    async def read() -> Counter[str]:
        found: Counter[str] = Counter()
        async with await connected(address) as stream:
            peer = Peer(stream)
            while True:
                offset = str(found.total())
                answer = await peer.call(11, pull_ext("T", queueOffset=offset))
                if answer.code:
                    return found
                records = split_records(answer.body)
                found.update(decode_record(data).body.decode().strip() for data in records)

    return trio.run(read)


def log_bytes(store: Path) -> bytes:
    """The commit log of a store, without the zeros behind it."""
    files = sorted((store / "commitlog").glob("[0-9]*"))
    return b"".join(file.read_bytes() for file in files).rstrip(b"\0")


@pytest.mark.parametrize("either_peer", ["java_peer", "java_peer_5_3"], indirect=True)
def test_the_log_of_rocketmqs_master(tmp_path: Path, either_peer: JavaPeer) -> None:
    """From its oldest byte on; killed, its messages come once from the store of the follower.

    What a copy of the follower's store has lost is put back from the master.
    """
    master, follower = tmp_path / "master", tmp_path / "follower"
    with starting() as start:
        with either_peer.broker(master, settings=JAVA) as java:
            trio.run(send, java.listen)
            flags = (*OURS, "--follow", java.listen, "--namesrv", java.namesrv)
            one = start(follower, *flags)
            _wait_level(master, one)
            assert one.stop() == 0
            _lose_and_repair(follower, tmp_path / "damaged", java.listen)
            one = start(follower, *flags)
            wait_until(lambda: TIMERS[4] in bodies(java.listen), SECONDS)
            # Of a new follower the slots of its first seconds have to be passed: RocketMQ's
            # deliveries name no origin (docs/replication.md, "Follow").
            trio.run(send_timer, java.listen, LAST)
            wait_until(lambda: LAST in bodies(java.listen), SECONDS)
            _wait_level(master, one)
            topics = (follower / "config" / "topics.json").read_text()
            java.kill()
        assert log_bytes(follower) == log_bytes(master)
        assert len(log_bytes(follower)) > SEGMENT_SIZE
        assert '"T"' in topics
        assert one.stop() == 0
        leads = start(follower, *OURS)
        expected = Counter([*PLAIN, *TIMERS, *LEVELS, LAST])
        wait_until(lambda: bodies(leads.listen) >= expected, SECONDS)
        assert bodies(leads.listen) == expected


def _lose_and_repair(store: Path, copy: Path, address: str) -> None:
    """Damage the first record of a copy of a store, and others, and repair it from a broker."""
    shutil.copytree(store, copy)
    with (copy / "commitlog" / f"{0:020d}").open("r+b") as file:
        for at in (0, 600, 300_000):
            file.seek(at)
            file.write(b"\xff" * 200)
    assert log_bytes(copy) != log_bytes(store)
    words = ("store", "repair", str(copy), "--from", address)
    subprocess.run([sys.executable, "-m", "timermq.cli", *words], check=True, timeout=SECONDS)
    assert log_bytes(copy) == log_bytes(store)


def _wait_level(master: Path, follower: Broker) -> None:
    """Until the follower has all that the master has written, for the moment."""
    wait_until(
        lambda: log_bytes(follower.store) == log_bytes(master) != b"",
        SECONDS,
        told=lambda: follower.log.read_text()[-3_000:],
    )
