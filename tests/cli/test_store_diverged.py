"""What is cut off a store is listed by the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from cli.program import RunProgram
from damaged_stores import GOLDEN_FILES
from golden_stores import GoldenStores
from timermq.broker.replication.truncation import stopped_log, truncate_store
from timermq.timerstore.os_disk import OsDisk


def test_what_was_cut_off_is_listed(
    timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path
) -> None:
    """Each record is a row, as `store dump` had it before; the store is served without them."""
    root = str(tmp_path / "store")
    shutil.copytree(golden_stores["g3"].root, root)
    before = [
        json.loads(line) for line in timermq("store", "dump", root, "--json").out.splitlines()
    ]
    position = before[len(before) // 8]["phy_offset"]
    assert timermq("store", "diverged", root, "--json").out == ""
    done = truncate_store(OsDisk(), root, GOLDEN_FILES, position)
    listed = timermq("store", "diverged", root, "--json")
    rows = [json.loads(line) for line in listed.out.splitlines()]
    after = [json.loads(line) for line in timermq("store", "dump", root, "--json").out.splitlines()]

    assert done.start == position
    assert before == after + before[len(after) :]
    assert [(row["phy_offset"], row["size"], row["unique_id"]) for row in rows] == [
        (one["phy_offset"], one["size"], one["unique_id"]) for one in before[len(after) :]
    ]
    assert {row["kind"] for row in rows} >= {"message", "timer"}
    assert all(row["deliver_ms"] for row in rows if row["kind"] == "timer")
    assert timermq("store", "diverged", root).code == 0
    with stopped_log(OsDisk(), root, GOLDEN_FILES) as stopped:
        assert stopped.end == position
