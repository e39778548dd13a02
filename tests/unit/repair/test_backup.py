"""The backup of files that a repair changes: whole, durable, and made once."""

from __future__ import annotations

import pytest

from small_store import ROOT
from timermq.repair import backup as backup_module
from timermq.repair.backup import SPARE_SIZE, Backup, NoRoomError
from timermq.simulator.disks.memory_disk import MemoryDisk
from unit.repair.small_checks import content, put

FILE = "commitlog/00000000000000000000"
NOW_MS = 1_700_000_000_007


def disk_with(data: bytes = b"before") -> MemoryDisk:
    """A disk with one file, durable."""
    disk = MemoryDisk()
    put(disk, FILE, data)
    disk.sync_now(disk.open(f"{ROOT}/{FILE}"))
    for directory in (ROOT, f"{ROOT}/commitlog"):
        disk.sync_dir_now(directory)
    return disk


def made(disk: MemoryDisk) -> Backup:
    """The backup of a repair."""
    return Backup(disk, ROOT, NOW_MS)


def test_the_directory_names_the_moment_of_the_repair() -> None:
    """To the millisecond, so that two repairs have two; it is made with the first file."""
    disk = disk_with()

    assert made(disk).directory == "aside/20231114T221320007Z"
    assert disk.list_dir(ROOT) == ["commitlog"]


def test_a_moved_file_outlasts_a_power_cut() -> None:
    """Under its old path in the backup; one that is missing is passed over."""
    disk = disk_with()
    backup = made(disk)
    backup.move(FILE)
    backup.move("config/missing")
    disk.power_cut()

    assert backup.kept == [FILE]
    assert content(disk, f"{backup.directory}/{FILE}") == b"before"
    assert disk.list_dir(f"{ROOT}/commitlog") == []


def test_a_copy_leaves_the_file_where_it_is() -> None:
    """The copy is whole and durable before the file is changed."""
    disk = disk_with()
    backup = made(disk)
    backup.copy(FILE)
    put(disk, FILE, b"AFTER!")
    disk.power_cut()

    assert content(disk, f"{backup.directory}/{FILE}") == b"before"


@pytest.mark.parametrize("is_moved", [False, True])
def test_the_first_state_of_a_file_is_what_is_kept(*, is_moved: bool) -> None:
    """What a later step of the repair changes or moves is the repair's own work."""
    disk = disk_with()
    backup = made(disk)
    backup.copy(FILE)
    put(disk, FILE, b"AFTER!")
    if is_moved:
        backup.move(FILE)
    else:
        backup.copy(FILE)

    assert content(disk, f"{backup.directory}/{FILE}") == b"before"
    assert backup.kept == [FILE]
    assert disk.exists(f"{ROOT}/{FILE}") != is_moved


def test_a_copy_without_room_is_refused_before_anything_is_changed() -> None:
    """A repair that fills the disk would leave no room for the next start."""
    disk = disk_with()
    disk.total = disk.usage(ROOT).used + SPARE_SIZE + 5
    backup = made(disk)
    with pytest.raises(NoRoomError, match=f"expected {SPARE_SIZE + 6} bytes of room"):
        backup.copy(FILE)
    disk.total += 1 << 20
    backup.copy(FILE)

    assert backup.kept == [FILE]


def test_a_copy_is_made_in_pieces_and_zeros_stay_holes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of gigabytes is never in memory; its length is that of the file."""
    monkeypatch.setattr(backup_module, "COPY_SIZE", 4)
    monkeypatch.setattr(backup_module, "_ZEROS", bytes(4))
    disk = disk_with(b"aa" + bytes(9) + b"bb" + bytes(7))
    backup = made(disk)
    backup.copy(FILE)

    assert content(disk, f"{backup.directory}/{FILE}") == content(disk, FILE)
    assert disk.list_dir(f"{ROOT}/{backup.directory}/commitlog") == [FILE.rpartition("/")[2]]
