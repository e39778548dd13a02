"""``store plan``: what it says of RocketMQ's stores is what serving does; nothing is written."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from cli.program import Ran, RunProgram
from fakes import START_MS, VirtualClock
from golden_stores import GoldenStores
from simulation.staged_service import ROOT, running, stored_delete, timed
from timermq.pipeline.records.cancel_verdict import Wanted
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.os_disk import OsDisk
from unit.pipeline.spark.store_directories import written

SMALL = (
    "mapped_file_size_commit_log=1048576",
    "mapped_file_size_consume_queue=1000",
    "max_hash_slot_num=100",
    "max_index_num=400",
)
TIMER_LOG = "mapped_file_size_timer_log=5200"


def flags(*settings: str) -> Iterator[str]:
    """Settings on the command line."""
    for one in settings:
        yield from ("--set", one)


def rows_of(ran: Ran, part: str) -> dict[str, dict[str, object]]:
    """The rows of one part, by name."""
    return {str(row["name"]): row for row in ran.rows if row["part"] == part}


def digest(root: str) -> str:
    """Of every file below a directory."""
    found = hashlib.blake2b()
    for path in sorted(Path(root).rglob("*")):
        found.update(str(path).encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def test_levels(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """Each level with what waits, from when to when; the file of their offsets will follow."""
    golden = golden_stores["g2"]
    before = digest(golden.root)
    ran = timermq("store", "plan", golden.root, "--json", *flags(*SMALL))
    waiting = Counter(
        str(one.held[-1].queue_id + 1)
        for one in golden.manifest.messages
        if one.state == "pending" and one.held[-1].topic == SCHEDULE_TOPIC
    )
    levels = rows_of(ran, "level")

    assert (0, "") == (ran.code, ran.err)
    assert waiting == {name: row["count"] for name, row in levels.items()}
    assert {"move to the wheel, each at its moment"} == {row["what"] for row in levels.values()}
    assert {"stopped", "written by", "timer engine"} == rows_of(ran, "store").keys()
    assert "config/delayOffset.json" in rows_of(ran, "file")
    assert before == digest(golden.root)


def test_other_levels(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """A table of levels that is not the broker's is told."""
    store = golden_stores["g2"].root
    table = "message_delay_level=1s 5s 11s 30s"
    ran = timermq("store", "plan", store, "--json", *flags(*SMALL, table))
    levels = rows_of(ran, "level")

    assert ", 10000 ms after it was stored: set message_delay_level as the broker had it" in str(
        levels["3"]["what"]
    )
    assert "set message_delay_level" not in str(levels["4"]["what"])


def test_timers(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """Of a killed broker: what is pending, how much of it rolled, and what is made again."""
    golden = golden_stores["g3"]
    ran = timermq("store", "plan", golden.root, "--json", *flags(*SMALL, TIMER_LOG))
    timers = rows_of(ran, "timers")
    pending = [one for one in golden.manifest.messages if one.state.startswith("pending")]
    moments = [one.deliver_ms for one in pending if one.deliver_ms]

    assert 0 == ran.code
    assert len(pending) == timers["pending"]["count"]
    assert (min(moments), max(moments)) == (
        timers["pending"]["first_ms"],
        timers["pending"]["last_ms"],
    )
    assert sum(one.state == "pending, rolled" for one in pending) == timers["rolled"]["count"]
    assert "not stopped" in rows_of(ran, "store")
    assert "consumequeue, index" in rows_of(ran, "file")


def test_transactions_and_groups(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """Open half messages and consumer groups are counted."""
    golden = golden_stores["g4"]
    ran = timermq("store", "plan", golden.root, "--json", *flags(*SMALL))

    assert 1 == rows_of(ran, "transactions")["open"]["count"]
    assert 1 == rows_of(ran, "groups")["consumer groups"]["count"]


def test_of_version_4(timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path) -> None:
    """A store without a wheel: it is made; what waits for levels moves, the rest is there."""
    store = golden_stores.unpack_copy("g6", tmp_path)
    ran = timermq("store", "plan", store, "--json", *flags(*SMALL))
    writer = rows_of(ran, "store")["written by"]["what"]

    assert 0 == ran.code
    assert str(writer).startswith("RocketMQ 4")
    # RocketMQ had delivered all of level 1, the last after it had written its offsets.
    left = {str(level): 3 for level in range(2, 19)} | {"2": 1, "3": 1, "4": 4}
    assert left | {"done": 1} == {name: row["count"] for name, row in rows_of(ran, "level").items()}
    assert 1 == rows_of(ran, "transactions")["open"]["count"]
    assert 1 == rows_of(ran, "groups")["consumer groups"]["count"]
    assert "timerwheel" in rows_of(ran, "file")


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("mapped_file_size_commit_log=2097152", "mapped_file_size_commit_log"),
        ("timer_precision_ms=500", None),
        ("slots_total=3600", "slots_total"),
    ],
)
def test_settings_that_block(
    timermq: RunProgram, golden_stores: GoldenStores, setting: str, name: str | None
) -> None:
    """A size that the files do not have; finer slots than RocketMQ's do fit."""
    store = golden_stores["g3"].root
    ran = timermq("store", "plan", store, "--json", *flags(*SMALL, TIMER_LOG, setting))
    blocking = [row["name"] for row in ran.rows if row["blocks"]]

    assert ([] if name is None else [name]) == blocking
    assert (name is not None) == ran.code
    assert rows_of(ran, "timers")


def test_an_address_that_blocks(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """The store is looked at all the same."""
    store, address = golden_stores["g3"].root, "advertised_host=192.0.2.1"
    ran = timermq("store", "plan", store, "--json", *flags(*SMALL, TIMER_LOG, address))
    blocking = [row["name"] for row in ran.rows if row["blocks"]]

    assert (1, ["address"]) == (ran.code, blocking)
    assert rows_of(ran, "timers")


NEAR = ("--listen", "127.0.0.1:0", "--namesrv-listen", "127.0.0.1:0")


def test_a_commit_log_elsewhere(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """Plan and serve refuse the file that names it, and serve the store without one: unchanged."""
    store, conf = golden_stores.unpack_copy("g2", tmp_path), tmp_path / "broker.conf"
    Path(f"{store}/commitlog").rename(tmp_path / "elsewhere")
    conf.write_text(f"storePathRootDir={store}\nstorePathCommitLog={tmp_path}/elsewhere\n")
    before = digest(store)
    sizes = tuple(flags(*SMALL))
    planned = timermq("store", "plan", store, "--config", str(conf), *sizes)
    served = timermq("serve", "--store", store, "--config", str(conf), *NEAR, *sizes)
    without = timermq("serve", "--store", store, *NEAR, *sizes)

    said = f"store_path_commit_log: expected {store}/commitlog, found '{tmp_path}/elsewhere'"
    assert (2, 2, 1) == (planned.code, served.code, without.code)
    assert said in planned.err
    assert said in served.err
    assert f"timermq: {store}/commitlog: at 0: expected the commit log, for " in without.err
    assert before == digest(store)


def test_a_linked_commit_log(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """What the refusal advises works: the file is right, and what waits is found."""
    store, conf = golden_stores.unpack_copy("g2", tmp_path), tmp_path / "broker.conf"
    Path(f"{store}/commitlog").rename(tmp_path / "elsewhere")
    Path(f"{store}/commitlog").symlink_to(tmp_path / "elsewhere")
    conf.write_text(f"storePathRootDir={store}\nstorePathCommitLog={tmp_path}/elsewhere\n")
    ran = timermq("store", "plan", store, "--config", str(conf), "--json", *flags(*SMALL))

    assert 0 == ran.code
    assert rows_of(ran, "level")


def test_a_store_that_is_served(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """Its broker has to stop first."""
    store = golden_stores.unpack_copy("g2", tmp_path)
    lock = OsDisk().lock(f"{store}/lock")
    ran = timermq("store", "plan", store, *flags(*SMALL))
    lock.release()

    assert 1 == ran.code
    assert "BLOCKS: stop its broker first" in ran.out


def test_a_store_that_may_only_be_read(
    timermq: RunProgram, golden_stores: GoldenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is looked at, not taken."""
    store = golden_stores["g2"].root
    Path(store, "lock").touch()

    def refuse(_disk: OsDisk, path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(OsDisk, "lock", refuse)
    ran = timermq("store", "plan", store, *flags(*SMALL))

    assert (0, "") == (ran.code, ran.err)


def planned_cancels(timermq: RunProgram, tmp_path: Path, *names: str) -> dict[str, str]:
    """What is said of a cancel of ours, and of deletes that name messages in other ways."""

    async def life() -> MemoryDisk:
        disk = MemoryDisk()
        async with running(disk, VirtualClock()) as service:
            deliver_ms = START_MS + 50_000
            service.put([timed(body, deliver_ms) for body in "abc"])
            service.cancellation.cancel(Wanted("T", "a"))
            service.store.put([stored_delete("T", one, deliver_ms, one[-1]) for one in names])
            await trio.sleep(1)
        return disk

    disk = trio.run(life, clock=MockClock(autojump_threshold=0))
    store = written(disk, ROOT, tmp_path / "store")
    ran = timermq("store", "plan", store, "--json")
    return {name: f"{row['count']} {row['what']}" for name, row in rows_of(ran, "cancels").items()}


def test_cancels_in_one_form_alone(timermq: RunProgram, tmp_path: Path) -> None:
    """What timermq 0.1 cancelled, with the topic, can be made to hold in later versions."""
    found = planned_cancels(timermq, tmp_path, "T+b")

    assert found == {
        "RocketMQ 5.3.2, 5.3.3": "2 honoured there; timermq honours all",
        "RocketMQ 5.4 and later": "1 honoured there; timermq honours all; 1 more would be "
        "delivered there: set appendTopicForTimerDeleteKey=true",
    }


def test_cancels_in_either_form(timermq: RunProgram, tmp_path: Path) -> None:
    """No setting helps where some deletes name the key alone."""
    found = planned_cancels(timermq, tmp_path, "T+b", "c")

    more = "2 honoured there; timermq honours all; 1 more would be delivered there"
    assert found == {"RocketMQ 5.3.2, 5.3.3": more, "RocketMQ 5.4 and later": more}
