"""Files are for their owner alone: those that are made, and old ones on request."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cli.program import RunProgram
from golden_stores import GoldenStores
from timermq.timerstore.os_disk import OsDisk


def open_to_others(root: str) -> list[str]:
    """Files and directories that have a right for others than their owner."""
    paths = (Path(root), *Path(root).rglob("*"))
    return [str(path) for path in paths if path.stat().st_mode & 0o77]


def test_what_is_made_is_for_its_owner(tmp_path: Path) -> None:
    """Also the directories above, whatever the umask."""
    before = os.umask(0)
    try:
        disk, root = OsDisk(), str(tmp_path / "a")
        disk.make_dirs(f"{root}/b/c")
        disk.open(f"{root}/b/c/file", create=True).close()
        disk.lock(f"{root}/lock").release()
    finally:
        os.umask(before)

    assert len(list(Path(root).rglob("*"))) == 4
    assert [] == open_to_others(root)


def test_an_old_store(timermq: RunProgram, golden_stores: GoldenStores, tmp_path: Path) -> None:
    """One of RocketMQ's, which anybody can read; the second time there is nothing to do."""
    root = str(tmp_path / "store")
    shutil.copytree(golden_stores["g1"].root, root)
    Path(root).chmod(0o755)
    first = timermq("store", "protect", root)
    second = timermq("store", "protect", root)

    assert (first.code, second.code) == (0, 0)
    assert "0 files" not in first.out
    assert [] == open_to_others(root)
    assert "0 files and directories were open to others" in second.out


def test_no_store(timermq: RunProgram, tmp_path: Path) -> None:
    """Nothing is changed in a directory that is something else."""
    tmp_path.chmod(0o755)
    (tmp_path / "file").touch()
    refused = timermq("store", "protect", str(tmp_path))

    assert refused.code != 0
    assert tmp_path.stat().st_mode & 0o77 == 0o55
