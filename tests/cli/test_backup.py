"""`timermq backup|restore` and `store repair --from`, beside a broker in a process of its own."""

from __future__ import annotations

import datetime
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from cli.program import SMALL_FILES, RunProgram
from interop.serving import Broker, starting
from timermq.backup.directory_target import DirectoryTarget
from timermq.backup.manifest import MANIFEST, Manifest
from timermq.client import Consumer, Producer
from timermq.pipeline.offline_store import open_offline
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions
from waiting import wait_until

pytestmark = pytest.mark.slow

TOPIC = "Backed"
WAIT_SECONDS = 120
SEGMENT_SIZE = 16_777_216
FILES = StoreOptions(
    mapped_file_size_commit_log=SEGMENT_SIZE, max_hash_slot_num=1000, max_index_num=4000
)
WHEEL = TimerOptions(mapped_file_size_timer_log=1_048_576)


@attrs.frozen
class Killed:
    """A store whose broker was killed, and its backup."""

    store: Path
    backup: Path
    shipped: frozenset[str]
    """Bodies that were acknowledged before the last round: at once, delayed, pending."""
    unshipped: frozenset[str]
    """Bodies that were sent after it."""


def shipping(store: Path, backup: Path) -> subprocess.Popen[bytes]:
    """A shipper in a process of its own."""
    command = [sys.executable, "-m", "timermq.cli", "backup", str(backup), "--store", str(store)]
    with backup.with_suffix(".log").open("ab") as output:
        return subprocess.Popen([*command, "--every", "100ms"], stdout=output, stderr=output)


def log_end(backup: Path) -> int:
    """End of the log in a backup; -1 before there is one."""
    data = trio.run(DirectoryTarget(OsDisk(), str(backup)).get, MANIFEST)
    return -1 if data is None else Manifest.decode(data, str(backup)).end


def wait_for_backup(store: Path, backup: Path) -> None:
    """Wait until all that the log holds now is shipped."""
    with open_offline(OsDisk(), str(store), FILES, WHEEL) as offline:
        end = offline.store.commit_log.max_offset
    log = backup.with_suffix(".log")
    wait_until(lambda: log_end(backup) >= end, WAIT_SECONDS, told=log.read_text)


def sent(broker: Broker, kind: str, count: int, delay_s: float | None = None) -> frozenset[str]:
    """Send messages, and return the bodies of the acknowledged ones."""
    bodies = frozenset(f"{kind}-{number}" for number in range(count))
    delay = None if delay_s is None else datetime.timedelta(seconds=delay_s)

    async def send() -> None:
        async with Producer(broker.namesrv) as producer:
            for body in sorted(bodies):
                await producer.send(TOPIC, body.encode(), delay=delay)

    trio.run(send)
    return bodies


def received(broker: Broker, group: str, wanted: frozenset[str]) -> Counter[str]:
    """How often each body arrives, until all that are wanted have, and a last one behind them."""
    found: Counter[str] = Counter()
    last = f"last of {group}"

    async def consume() -> None:
        async with Consumer(
            broker.namesrv, group=group, topics={TOPIC: "*"}, start_from="first"
        ) as consumer:
            async for message in consumer:
                found[message.body.decode()] += 1
                if wanted <= found.keys() and found[last] == 0:
                    async with Producer(broker.namesrv) as producer:
                        await producer.send(TOPIC, last.encode(), queue_id=message.queue_id)
                if found[last]:
                    return

    async def limited() -> None:
        with trio.fail_after(WAIT_SECONDS):
            await consume()

    trio.run(limited)
    del found[last]
    return found


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """A broker is killed beside a shipper that was killed before it, and another one."""
    place = tmp_path_factory.mktemp("backup")
    store, backup = place / "store", place / "backup"
    with starting() as start_one:
        broker = start_one(store, *SMALL_FILES)
        shipper = shipping(store, backup)
        try:
            shipped = sent(broker, "at-once", 20) | sent(broker, "soon", 20, delay_s=1)
            wait_for_backup(store, backup)
            shipper.kill()
            shipper.wait()
            shipper = shipping(store, backup)
            assert shipped == set(received(broker, "before", shipped))
            shipped |= sent(broker, "later", 20, delay_s=15)
            wait_for_backup(store, backup)
            shipper.send_signal(signal.SIGTERM)
            assert 0 == shipper.wait(timeout=WAIT_SECONDS)
        finally:
            shipper.kill()
            shipper.wait()
        unshipped = sent(broker, "unshipped", 3, delay_s=1)
        broker.kill()
    yield Killed(store, backup, shipped, unshipped)
    shutil.rmtree(place)


def test_a_restored_store_serves(timermq: RunProgram, killed: Killed, tmp_path: Path) -> None:
    """All that was acknowledged before the last round arrives once, and nothing else."""
    root = tmp_path / "restored"
    ran = timermq("restore", str(killed.backup), str(root))
    assert (0, "") == (ran.code, ran.err)
    with starting() as start_one:
        broker = start_one(root, *SMALL_FILES)
        found = received(broker, "after", killed.shipped)

    del found["last of before"]
    assert dict.fromkeys(killed.shipped, 1) == dict(found)


def test_a_verified_restore(timermq: RunProgram, killed: Killed, tmp_path: Path) -> None:
    """The check finds nothing, neither then nor later; a second restore is refused."""
    root = str(tmp_path / "restored")
    verified = timermq("restore", str(killed.backup), root, "--verify")
    check = timermq("store", "check", root)
    again = timermq("restore", str(killed.backup), root)

    assert (0, f"{root}: nothing found") == (verified.code, verified.out.splitlines()[-1])
    assert (0, f"{root}: nothing found\n") == (check.code, check.out)
    assert (1, "") == (again.code, again.out)
    assert f"timermq: {root}: expected an empty directory, found " in again.err


def test_a_damaged_record_from_a_backup(
    timermq: RunProgram, killed: Killed, tmp_path: Path
) -> None:
    """The record is in the log again as it was; without a backup it would be marked as lost."""
    root = tmp_path / "store"
    shutil.copytree(killed.store, root)
    segment = root / "commitlog" / ("0" * 20)
    before = segment.read_bytes()
    with segment.open("r+b") as file:
        file.seek(90)
        file.write(b"\xff\xff\xff\xff")
    damaged = timermq("store", "check", str(root), "--json")
    ran = timermq("store", "repair", str(root), "--from", str(killed.backup))

    assert "RECORD_DAMAGED" in {row["rule"] for row in damaged.rows}
    assert (0, True) == (ran.code, "commit log: " in ran.err and " put back from " in ran.err)
    assert before == segment.read_bytes()
    assert 0 == timermq("store", "check", str(root)).code


def test_the_check_of_a_backup(timermq: RunProgram, killed: Killed, tmp_path: Path) -> None:
    """As of a store: nothing, and 0; a lost object is a finding, and 1. Notes are few."""
    backup = tmp_path / "backup"
    shutil.copytree(killed.backup, backup)
    sound = timermq("store", "check", str(backup))
    notes = timermq("store", "check", str(backup), "--json")
    piece = next(one for one in (backup / "log").iterdir() if one.stat().st_size)
    piece.unlink()
    damaged = timermq("store", "check", str(backup), "--json")
    lost = {(row["rule"], row["severity"]) for row in damaged.rows if row["severity"] != "note"}

    assert (0, f"{backup}: nothing found\n") == (sound.code, sound.out)
    assert [] == notes.rows
    assert (1, True) == (damaged.code, ("RECORD_DAMAGED", "lost") in lost)
    assert f"log/{piece.name}" in {row["file"] for row in damaged.rows}


def test_once(timermq: RunProgram, killed: Killed, tmp_path: Path) -> None:
    """A stopped store is shipped to its end, also what no shipper had seen."""
    root = str(tmp_path / "restored")
    ran = timermq("backup", str(tmp_path / "backup"), "--store", str(killed.store), "--once")
    timermq("restore", str(tmp_path / "backup"), root)
    pending = timermq("pending", "--store", root, "--json")

    assert (0, True) == (ran.code, " bytes shipped, the log up to " in ran.out)
    assert len(pending.rows) >= len(killed.unshipped)


def test_what_cannot_be_done(timermq: RunProgram, killed: Killed, tmp_path: Path) -> None:
    """No store, no backup, no time and no object store of this name: one line each says so."""
    nothing = str(tmp_path / "nothing")
    store = str(killed.store)

    def said(*words: str) -> tuple[int, str]:
        ran = timermq(*words)
        return ran.code, ran.err

    assert (1, f"timermq: {nothing}: expected a store, found no folder commitlog\n") == said(
        "backup", str(tmp_path / "backup"), "--store", nothing, "--once"
    )
    assert (1, f"timermq: {nothing}: expected a backup, found no object manifest\n") == said(
        "restore", nothing, str(tmp_path / "restored")
    )
    assert (
        2,
        "timermq: backup: argument --every: expected more than 0s, found 0s\n",
    ) == said("backup", nothing, "--store", store, "--every", "0s")
    code, text = said("backup", "nosuch://bucket", "--store", store, "--once")
    assert (1, True) == (code, "nosuch://bucket: expected an object store" in text)
