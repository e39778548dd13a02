"""A follower of ours behind RocketMQ's master: it has the same log, and leads when that is gone."""

from __future__ import annotations

import json
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
from signed import SECRET, sign
from timermq.remoting import Command
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
PAUSE = 0.5
"""Seconds between two looks, each of which reads all that there is."""
PLAIN = [f"plain-{number}" for number in range(1_300)]
TIMERS = [f"timer-{number}" for number in range(13)]
LEVELS = ["level-1", "level-2", "level-3"]
AUTH = "org.apache.rocketmq.auth.authentication"


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
            _wait_level(master, one)
            topics = (follower / "config" / "topics.json").read_text()
            java.kill()
        # What the master delivered since the follower was level is delivered by that once more.
        assert log_bytes(master).startswith(log_bytes(follower))
        assert len(log_bytes(follower)) > SEGMENT_SIZE
        assert '"T"' in topics
        assert one.stop() == 0
        leads = start(follower, *OURS)
        expected = Counter([*PLAIN, *TIMERS, *LEVELS])
        wait_until(lambda: bodies(leads.listen) >= expected, SECONDS, pause=PAUSE)
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


ACCOUNT = {"username": "the-admin", "password": SECRET}
GUARDED = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{AUTH}.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{AUTH}.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": json.dumps(ACCOUNT),
}
"""An account of RocketMQ from 5.3 on. Its rights are left out: a jar of them does not fit 5.5.1."""


def test_a_master_of_rocketmq_with_accounts(tmp_path: Path, java_peer: JavaPeer) -> None:
    """It takes the follower's signature; a wrong one is refused, and put right in the file."""
    master, account = tmp_path / "master", tmp_path / "tools.yml"
    account.write_text("accessKey: the-admin\nsecretKey: another\n")

    async def send_signed(address: str) -> None:
        async with await connected(address) as stream:
            peer, ext = Peer(stream), send_ext("T", "UNIQ_KEY\x01signed\x02")
            await peer.send(sign(Command(10, ext=ext, body=b"signed", opaque=1), "the-admin"))
            answer = await peer.receive()
            assert answer is not None
            assert answer.code == 0, answer.remark

    with starting() as start, java_peer.broker(master, settings={**JAVA, **GUARDED}) as java:
        trio.run(send_signed, java.listen)
        flags = (*OURS, "--follow", java.listen, "--namesrv", java.namesrv)
        one = start(tmp_path / "follower", *flags, f"--set=credentials_file={account}")
        wait_until(lambda: '"rule": "ACCOUNT"' in one.log.read_text(), SECONDS)
        assert log_bytes(one.store) == b""
        account.write_text(f"accessKey: the-admin\nsecretKey: {SECRET}\n")
        _wait_level(master, one)
        wait_until(lambda: '"T"' in (one.store / "config" / "topics.json").read_text(), SECONDS)


def _wait_level(master: Path, follower: Broker) -> None:
    """Until the follower has all that the master has written, for the moment."""
    wait_until(
        lambda: log_bytes(follower.store) == log_bytes(master) != b"",
        SECONDS,
        told=lambda: follower.log.read_text()[-3_000:],
        pause=PAUSE,
    )
