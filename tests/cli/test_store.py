"""`timermq store stats|dump|check|repair`: RocketMQ's stores seen from outside."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from cli.program import RunProgram
from golden_stores import NAMES, GoldenStores, LogRecord
from timermq.repair.finding import Step
from timermq.timerstore.log_record import SECTOR_SIZE
from timermq.timerstore.os_disk import OsDisk

pytestmark = pytest.mark.slow

COMPRESSED = 1
"""The flag that Java takes away when it decompresses, and so does the manifest."""


@pytest.mark.parametrize("name", NAMES)
def test_dump(timermq: RunProgram, golden_stores: GoldenStores, name: str) -> None:
    """A dump has one line a record, with every field as Java read it."""
    golden = golden_stores[name]
    ran = timermq("store", "dump", golden.root, "--json")
    expected = [dump_row(one) for one in golden.manifest.state.records if not one.blank]

    assert (0, "") == (ran.code, ran.err)
    assert expected == [
        {**row, "sys_flag": int(str(row["sys_flag"])) & ~COMPRESSED} for row in ran.rows
    ]


def dump_row(record: LogRecord) -> dict[str, object]:
    """A record of the manifest under the names of a dump, in their order."""
    properties = record.properties
    return {
        "phy_offset": record.phy_offset,
        "size": record.size,
        "magic": record.magic,
        "body_crc": record.body_crc,
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "born_ms": record.born_ms,
        "born_host": record.born_host,
        "store_ms": record.store_ms,
        "store_host": record.store_host,
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "unique_id": record.uniq_key,
        "keys": properties.get("KEYS", ""),
        "tags": properties.get("TAGS", ""),
        "properties": properties,
        "body_size": record.body_size,
        "body_sha256": record.body_sha256,
    }


def test_dump_for_people(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """The table shows where each message is and whose it is."""
    golden = golden_stores["g5"]
    lines = timermq("store", "dump", golden.root).out.splitlines()

    assert lines[0].split()[:4] == ["phy_offset", "size", "topic", "queue_id"]
    assert len(golden.manifest.state.records) == len(lines) - 1


@pytest.mark.parametrize("name", NAMES)
def test_stats(timermq: RunProgram, golden_stores: GoldenStores, name: str) -> None:
    """The sizes of the files are found out, and every part has its row."""
    golden = golden_stores[name]
    state = golden.manifest.state
    ran = timermq("store", "stats", golden.root, "--json")
    log, *others = ran.rows
    queues = {row["name"]: (row["min"], row["max"]) for row in others if row["part"] == "queue"}

    assert (0, "") == (ran.code, ran.err)
    assert ("commit log", 0, state.max_phy_offset, 1_048_576) == (
        log["part"],
        log["min"],
        log["max"],
        log["segment_size"],
    )
    assert sum(not one.blank for one in state.records) == log["count"]
    assert {
        f"{one.topic}/{one.queue_id}": (one.min_offset, one.max_offset) for one in state.queues
    } == queues
    assert ["index", "quarantine", "timer log", "timers"] == list(
        dict.fromkeys(row["part"] for row in others if row["part"] != "queue")
    )


@pytest.mark.parametrize("name", NAMES)
def test_check(timermq: RunProgram, golden_stores: GoldenStores, name: str) -> None:
    """RocketMQ's stores are sound, that of the killed broker too."""
    golden = golden_stores[name]
    ran = timermq("store", "check", golden.root)

    assert (0, f"{golden.root}: nothing found\n", "") == (ran.code, ran.out, ran.err)


@pytest.mark.parametrize("verb", ["check", "repair"])
def test_a_store_that_is_served(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path, verb: str
) -> None:
    """What a broker has begun to write would look like damage."""
    root = golden_stores.unpack_copy(NAMES[0], tmp_path)
    lock = OsDisk().lock(f"{root}/lock")
    ran = timermq("store", verb, root)
    lock.release()

    text = f"timermq: {root}: expected a stopped store, found that a broker serves it\n"
    assert (1, "", text) == (ran.code, ran.out, ran.err)


def damage(path: Path, at: int, data: bytes) -> None:
    """Write over some bytes of a file."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[at : at + len(data)] = data


def test_check_finds_damage(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """Each damaged part is named with its place, what was expected and what was found."""
    root = Path(golden_stores.unpack_copy("g5", tmp_path))
    queue = root / "consumequeue" / "Six_b8b8" / "1" / ("0" * 20)
    index = next((root / "index").iterdir())
    damage(queue, 16, b"\xff")  # the tags code of the first unit
    damage(index, 40 + 400 + 20, b"\x00\x00\x00\x07")  # the hash of the first entry
    damage(root / "timerlog" / ("0" * 20), 676 + 16, b"\x00" * 8)  # the write time of the last unit
    (root / "config" / "topics.json").write_text("{")
    (root / "config" / "topics.json.bak").write_text("")
    ran = timermq("store", "check", str(root), "--json")
    places = {(row["file"], row["offset"]) for row in ran.rows if row["severity"] != "note"}

    assert 1 == ran.code
    assert {
        ("consumequeue/Six_b8b8/1", 0),
        (f"index/{index.name}", 40 + 400 + 20),
        ("timerlog/00000000000000000000", 676),
        ("config/topics.json", 0),
    } <= places
    assert all(row["expected"] != row["found"] for row in ran.rows)


def test_check_finds_a_damaged_record(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """A body that does not fit its checksum is found where it stands, and hides nothing behind."""
    root = Path(golden_stores.unpack_copy("g1", tmp_path))
    damage(root / "commitlog" / ("0" * 20), 419 + 100, b"\xff\xff")
    ran = timermq("store", "check", str(root), "--json")

    assert 1 == ran.code
    assert {
        "rule": "RECORD_DAMAGED",
        "promise": "NOT_LOST",
        "file": "commitlog/00000000000000000000",
        "offset": 419,
        "severity": "lost",
    } == {key: ran.rows[0][key] for key in ("rule", "promise", "file", "offset", "severity")}
    assert "that are none: body checksum: expected " in str(ran.rows[0]["found"])
    assert all("commitlog" not in str(row["file"]) for row in ran.rows[1:])


def test_a_dump_goes_on_behind_damage(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """The rows behind it are there, and the place is named."""
    golden = golden_stores["g5"]
    root = Path(golden_stores.unpack_copy("g5", tmp_path))
    before = timermq("store", "dump", golden.root, "--json").rows
    lost = before[3]
    start, end = (int(str(lost[name])) for name in ("phy_offset", "size"))
    damage(root / "commitlog" / ("0" * 20), start, bytes(8))
    ran = timermq("store", "dump", str(root), "--json")

    assert 1 == ran.code
    assert [one for one in before if one is not lost] == ran.rows
    assert (
        f"timermq: commit log: expected records from {start} to {start + end}, found magic: "
    ) in ran.err
    assert ran.err.endswith("what stood there is left out\n")


def test_check_finds_a_lost_sector(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """A record whose properties lost a sector is found, although its body fits its checksum."""
    root = Path(golden_stores.unpack_copy("g1", tmp_path))
    rows = timermq("store", "dump", str(root), "--json").rows
    row = max(rows, key=lambda one: int(str(one["size"])) - int(str(one["body_size"])))
    torn_at, size = int(str(row["phy_offset"])), int(str(row["size"]))
    sector_at = (torn_at + size - 2 * SECTOR_SIZE) // SECTOR_SIZE * SECTOR_SIZE
    segment, at = divmod(sector_at, 1 << 20)
    damage(root / "commitlog" / f"{segment << 20:020}", at, bytes(SECTOR_SIZE))
    ran = timermq("store", "check", str(root), "--json")

    assert 1 == ran.code
    (found,) = [row for row in ran.rows if row["repair"] == Step.FILL_HOLE.value]
    assert (f"commitlog/{torn_at >> 20 << 20:020}", torn_at % (1 << 20)) == (
        found["file"],
        found["offset"],
    )
    assert f"{size} bytes that are none: a record that lacks a sector" == found["found"]


@pytest.mark.parametrize("verb", ["stats", "dump", "check", "repair"])
def test_no_store(timermq: RunProgram, tmp_path: Path, verb: str) -> None:
    """A directory without a commit log is no store, and none is made there."""
    ran = timermq("store", verb, str(tmp_path))

    assert 1 == ran.code
    assert f"timermq: {tmp_path}: expected a store, found no folder commitlog\n" == ran.err
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "verb",
    [
        ("store", "stats"),
        ("store", "dump"),
        ("store", "check"),
        ("store", "repair"),
        ("store", "plan"),
        ("pending", "--store"),
        ("quarantine", "list", "--store"),
        ("explain", "7F000001000000000000000000000001", "--store"),
        ("serve", "--listen", "127.0.0.1:0", "--namesrv-listen", "127.0.0.1:0", "--store"),
    ],
    ids=" ".join,
)
def test_a_store_that_may_not_be_entered(
    timermq: RunProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    """It is not called missing: one line says which place is closed, and to whom."""
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    keep_out(monkeypatch, root)

    ran = timermq(*verb, str(root))

    refusal = ran.err.splitlines()[-1]
    assert 1 == ran.code
    assert "" == ran.out
    assert refusal.startswith(f"timermq: {root}")
    assert refusal.endswith(f": expected access for user {os.geteuid()}, found permission denied")


def keep_out(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Answer as the system does of a directory that only another user may enter; tests are root."""

    def closed(real: Callable[..., object]) -> Callable[..., object]:
        def act(path: object, *args: object, **named: object) -> object:
            if isinstance(path, str) and path.startswith(f"{root}/"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return real(path, *args, **named)

        return act

    for name in ("stat", "open", "listdir"):
        monkeypatch.setattr(os, name, closed(getattr(os, name)))


def test_sizes_that_do_not_fit(timermq: RunProgram, golden_stores: GoldenStores) -> None:
    """A size that somebody has set counts more than the files, and the mismatch is told."""
    golden = golden_stores["g5"]
    ran = timermq("store", "dump", golden.root, "--set", "mapped_file_size_commit_log=1000000")

    assert 1 == ran.code
    assert "1000000" in ran.err
    assert 1 == len(ran.err.splitlines())


def digests(root: Path) -> dict[str, bytes]:
    """Every file of a store but the lock, which taking it makes."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def test_repair(timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path) -> None:
    """A dry run writes nothing, a repair keeps the originals, a second has nothing to do."""
    root = Path(golden_stores.unpack_copy("g5", tmp_path))
    damage(root / "commitlog" / ("0" * 20), 419 + 100, b"\xff\xff")
    damage(root / "consumequeue" / "Six_b8b8" / "1" / ("0" * 20), 16, b"\xff")
    before = digests(root)
    dry = timermq("store", "repair", str(root), "--dry-run", "--json")
    after_dry = digests(root)
    ran = timermq("store", "repair", str(root), "--json")
    summary = ran.rows[-1]
    kept = [str(path) for path in cast("list[object]", summary["kept"])]
    backup = root / str(summary["backup"])

    assert (1, before) == (dry.code, after_dry)
    assert 0 == ran.code
    assert [] == summary["left"]
    assert f"commitlog/{'0' * 20}" in kept
    assert {path: before[path] for path in kept} == digests(backup)
    assert 0 == timermq("store", "check", str(root)).code
    assert f"{root}: nothing to repair\n" == timermq("store", "repair", str(root)).out
