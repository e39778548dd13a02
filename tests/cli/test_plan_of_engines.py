"""``store plan`` of stores that other engines of RocketMQ 5.5.1 left: named, counted or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.program import RunProgram
from golden_stores import GoldenStores
from interop.golden_engines import EXPORTED, engines_manifest
from interop.golden_opened import STORE_OPTIONS, TIMER_OPTIONS
from timermq.pipeline.offline_store import open_offline
from timermq.timerstore.errors import StoreKindError
from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk


@pytest.mark.parametrize(
    ("name", "engine"), [("g7", "wheel with snapshots: "), ("g8", "wheel, RocksDB timers: ")]
)
def test_plan(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path, name: str, engine: str
) -> None:
    """``store plan`` names release, engine and what waits; ``pending`` lists just that."""
    manifest, root = engines_manifest(name), golden_stores.unpack_copy(name, tmp_path)
    ran = timermq("store", "plan", root, "--json", *settings())
    rows = {(row["part"], row["name"]): row for row in ran.rows}
    listed = timermq("pending", "--store", root, "--json", *settings())

    assert 0 == ran.code, ran.err
    assert "RocketMQ 5.4 or later" == rows["store", "written by"]["what"]
    assert str(rows["store", "timer engine"]["what"]).startswith(engine)
    assert len(manifest.in_state("pending")) == rows["timers", "pending"]["count"]
    assert sorted(
        (one.msg_id, one.due_ms) for one in manifest.in_state("pending").values()
    ) == sorted((row["unique_id"], row["deliver_ms"]) for row in listed.rows)


def settings() -> list[str]:
    """Of the files, as flags."""
    sizes = {
        "mapped_file_size_commit_log": STORE_OPTIONS.mapped_file_size_commit_log,
        "mapped_file_size_consume_queue": STORE_OPTIONS.mapped_file_size_consume_queue,
        "mapped_file_size_timer_log": TIMER_OPTIONS.mapped_file_size_timer_log,
        "max_hash_slot_num": STORE_OPTIONS.max_hash_slot_num,
        "max_index_num": STORE_OPTIONS.max_index_num,
    }
    return [word for key, size in sizes.items() for word in ("--set", f"{key}={size}")]


def test_tables_in_rocksdb(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """Refused by name, and after the steps of the message served with all that waits."""
    manifest = engines_manifest("g9")
    root = Path(golden_stores.unpack_copy("g9", tmp_path))
    ran = timermq("store", "plan", str(root), "--json", *settings())
    blocking = {row["name"] for row in ran.rows if row["blocks"]}
    with pytest.raises(StoreKindError, match=r"config/topics: expected topics in config/topics"):
        MessageStore.open(OsDisk(), str(root), STORE_OPTIONS, now_ms=lambda: 0, store_host=NO_HOST)
    for table, file in EXPORTED.items():
        shutil.copy(root.parent / "exported" / file, root / "config" / file)
        shutil.rmtree(root / "config" / table)
    shutil.rmtree(root / "consumequeue")
    after = timermq("store", "plan", str(root), "--json", *settings())
    rows = {(row["part"], row["name"]): row for row in after.rows}
    with open_offline(OsDisk(), str(root), STORE_OPTIONS, TIMER_OPTIONS) as offline:
        pending = sorted((one.unique_id, one.deliver_ms) for one in offline.pending())

    assert 1 == ran.code
    assert {f"config/{one}" for one in EXPORTED} | {"consumequeue"} == blocking
    assert 0 == after.code, after.err
    assert 1 == rows["groups", "consumer groups"]["count"]
    assert len(manifest.in_state("delivered")) + 2 == rows["messages", "stored"]["count"]
    assert pending == sorted(
        (one.msg_id, one.due_ms) for one in manifest.in_state("pending").values()
    )
