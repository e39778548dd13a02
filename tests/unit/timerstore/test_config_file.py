"""Tests of how configuration files are kept."""

from __future__ import annotations

from random import Random

import pytest
import trio

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import BLOCK_SIZE
from timermq.timerstore import config_file
from timermq.timerstore.config_file import DataVersion, load_json, save_json, save_json_now
from timermq.timerstore.errors import StoreFormatError

PATH = "/store/config/x.json"


@pytest.fixture
def disk() -> MemoryDisk:
    """A disk with an empty directory of configuration."""
    disk = MemoryDisk()
    disk.make_dirs("/store/config")
    return disk


def put_file(disk: MemoryDisk, path: str, content: bytes) -> None:
    """A file with content, not durable."""
    file = disk.open(path, create=True)
    file.truncate(len(content))
    file.write(0, content)


def content(disk: MemoryDisk, path: str) -> bytes:
    """All bytes of a small file on the disk."""
    return disk.open(path).read(0, 1000)


def test_nothing_is_none(disk: MemoryDisk) -> None:
    """A table without a file is told apart from an empty one."""
    assert load_json(disk, PATH) is None


@pytest.mark.parametrize("damaged", [None, b"", b"  \n", b'{"a":', b"\xff\xfe", b"\0" * 5])
def test_the_backup_stands_in(disk: MemoryDisk, damaged: bytes | None) -> None:
    """A missing, empty or damaged file is read from its backup, and left as it is."""
    put_file(disk, f"{PATH}.bak", b"{0:7}")
    if damaged is not None:
        put_file(disk, PATH, damaged)

    assert load_json(disk, PATH) == {0: 7}
    assert damaged is None or content(disk, PATH) == damaged


def test_the_file_comes_first(disk: MemoryDisk) -> None:
    """The backup of a good file does not matter, whatever it holds."""
    put_file(disk, PATH, b'{"new":1}\n')
    put_file(disk, f"{PATH}.bak", b"damaged")

    assert load_json(disk, PATH) == {"new": 1}


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (b'{"a":}', f"{PATH}: at 5: expected a value, found '}}'"),
        (b'{"\xff"', f"{PATH}: at 2: expected UTF-8, found invalid start byte"),
    ],
)
@pytest.mark.parametrize("backup", [b"", b"[1,]"])
def test_damage_without_a_backup_is_an_error(
    disk: MemoryDisk, damaged: bytes, message: str, backup: bytes
) -> None:
    """The error names the file itself; an empty table would be worse than none."""
    put_file(disk, PATH, damaged)
    put_file(disk, f"{PATH}.bak", backup)
    with pytest.raises(StoreFormatError) as error:
        load_json(disk, PATH)

    assert str(error.value) == message


def test_a_huge_file_is_not_read(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is checked before anything is allocated."""
    monkeypatch.setattr(config_file, "FILE_SIZE_MAX", 10)
    put_file(disk, PATH, b"[1,2,3,4,5]")
    with pytest.raises(StoreFormatError) as error:
        load_json(disk, PATH)

    assert str(error.value) == f"{PATH}: at 0: expected at most 10 bytes, found 11"


async def test_save_replaces_and_keeps_the_old_file(disk: MemoryDisk) -> None:
    """The new text is the file, the old one the backup, and no temporary file stays."""
    for text in ("[1]", "[2]", "[3]"):
        await save_json(disk, PATH, text)

    assert disk.list_dir("/store/config") == ["x.json", "x.json.bak"]
    assert (content(disk, PATH), content(disk, f"{PATH}.bak")) == (b"[3]", b"[2]")


async def test_the_first_save_leaves_two_copies(disk: MemoryDisk) -> None:
    """One damage never takes both; without room for the second the first is saved all the same."""
    await save_json(disk, PATH, "[1]")
    disk.open(PATH).truncate(0)
    second = load_json(disk, PATH)
    disk.remove(PATH)
    disk.remove(f"{PATH}.bak")
    disk.total = BLOCK_SIZE
    save_json_now(disk, PATH, "[2]")

    assert second == [1]
    assert load_json(disk, PATH) == [2]
    assert not disk.exists(f"{PATH}.bak")
    assert not disk.exists(f"{PATH}.tmp")


async def test_save_is_durable(disk: MemoryDisk) -> None:
    """After ``save_json`` a power cut changes nothing; the blocking form does the same."""
    await save_json(disk, PATH, "[1]")
    save_json_now(disk, PATH, "[2]")
    disk.power_cut()

    assert load_json(disk, PATH) == [2]
    assert content(disk, f"{PATH}.bak") == b"[1]"


async def test_save_makes_the_directory() -> None:
    """The first table of a new store has no directory yet."""
    disk = MemoryDisk()
    await save_json(disk, PATH, "[1]")
    save_json_now(disk, "/other/config/y.json", "[2]")
    disk.power_cut()

    assert load_json(disk, PATH) == [1]
    assert load_json(disk, "/other/config/y.json") == [2]


async def test_what_an_unfinished_save_left_is_overwritten(disk: MemoryDisk) -> None:
    """A longer temporary file does not show through."""
    put_file(disk, f"{PATH}.tmp", b"something longer")
    await save_json(disk, PATH, "[1]")

    assert content(disk, PATH) == b"[1]"


async def test_a_cancelled_save_changes_nothing(disk: MemoryDisk) -> None:
    """The old file stays when the new one is not durable."""
    await save_json(disk, PATH, "[1]")
    with trio.CancelScope() as scope:
        scope.cancel()
        await save_json(disk, PATH, "[2]")

    assert load_json(disk, PATH) == [1]


async def test_a_full_disk_changes_nothing(disk: MemoryDisk) -> None:
    """The old file stays when there is no room for the new one; later there is."""
    await save_json(disk, PATH, "[1]")
    disk.total = BLOCK_SIZE
    with pytest.raises(OSError, match="no space left"):
        await save_json(disk, PATH, "[2]")

    assert load_json(disk, PATH) == [1]

    disk.total = 3 * BLOCK_SIZE
    await save_json(disk, PATH, "[3]")

    assert load_json(disk, PATH) == [3]


async def test_a_failed_sync_changes_nothing(disk: MemoryDisk) -> None:
    """A text that may not be on the disk does not replace one that is."""
    await save_json(disk, PATH, "[1]")
    disk.fail_syncs_of = lambda _: True
    with pytest.raises(OSError, match="sync failed"):
        await save_json(disk, PATH, "[2]")

    assert load_json(disk, PATH) == [1]


class CutBeforeNames(MemoryDisk):
    """A disk whose power fails before the names of a directory are synced."""

    async def sync_dir(self, path: str) -> None:
        """The power fails here: the names are not synced."""
        raise PowerFailure(path)


class PowerFailure(Exception):
    """The process ends here, for the power has failed."""


@pytest.mark.parametrize("seed", range(20))
async def test_a_power_cut_during_a_save(seed: int) -> None:
    """Whatever part of a save reached the disk: the old or the new table is read, and whole."""
    disk = CutBeforeNames()
    save_json_now(disk, PATH, "[1]")
    save_json_now(disk, PATH, "[2]")
    with pytest.raises(PowerFailure):
        await save_json(disk, PATH, "[3]")
    disk.power_cut(Random(seed))

    assert load_json(disk, PATH) in ([2], [3])


def test_data_version() -> None:
    """A new table has a version of zeros."""
    assert DataVersion() == DataVersion(counter=0, state_version=0, timestamp=0)
