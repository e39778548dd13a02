"""Small files that are replaced in one step, and say so if a byte of them has changed."""

from __future__ import annotations

import errno
import zlib

import attrs
import cbor2
import pytest

from timermq.broker.bulk.durable_note import load_note, save_note
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError

PATH = "/bulk/note"


@attrs.frozen(kw_only=True)
class Note:
    """A note with bytes, which JSON would not have."""

    row: int
    host: bytes = b""


def disk_with_directory() -> MemoryDisk:
    """A disk with the directory of the note."""
    disk = MemoryDisk()
    for directory in disk.make_dirs("/bulk"):
        disk.sync_dir_now(directory)
    disk.sync_dir_now("/bulk")
    return disk


async def test_a_saved_note_outlasts_a_power_cut() -> None:
    """The last one counts; the file has its temporary name at no other time."""
    disk = disk_with_directory()
    await save_note(disk, PATH, Note(row=1))
    await save_note(disk, PATH, Note(row=2, host=b"\xff\x00"))
    disk.power_cut()

    assert load_note(disk, PATH, Note) == Note(row=2, host=b"\xff\x00")
    assert disk.list_dir("/bulk") == ["note"]


async def test_a_missing_note_is_none() -> None:
    """It is no damage: the step that would have written it has not happened."""
    assert load_note(disk_with_directory(), PATH, Note) is None


async def test_a_failed_sync_leaves_the_old_note() -> None:
    """And no temporary file, which a later start would have to remove."""
    disk = disk_with_directory()
    await save_note(disk, PATH, Note(row=1))
    disk.fail_syncs_of = lambda path: path.endswith(".tmp")
    with pytest.raises(OSError, match="sync failed") as failure:
        await save_note(disk, PATH, Note(row=2))

    assert failure.value.errno == errno.EIO
    assert load_note(disk, PATH, Note) == Note(row=1)
    assert disk.list_dir("/bulk") == ["note"]


@pytest.mark.parametrize("at", [0, 3, 4, 8])
async def test_a_changed_byte_is_refused_by_its_place(at: int) -> None:
    """Of the checksum or of what it covers: the error names the file and both sums."""
    disk = disk_with_directory()
    await save_note(disk, PATH, Note(row=1))
    file = disk.open(PATH)
    file.write(at, bytes([file.read(at, 1)[0] ^ 1]))

    with pytest.raises(StoreFormatError, match="the CRC") as found:
        load_note(disk, PATH, Note)
    assert (found.value.path, found.value.offset) == (PATH, 0)


@pytest.mark.parametrize("item", [cbor2.dumps({"row": "x"}), cbor2.dumps({}), b"\xff"])
async def test_what_says_something_else_is_refused(item: bytes) -> None:
    """Bytes with a right checksum that are no note of this kind, or no CBOR."""
    disk = disk_with_directory()
    await save_note(disk, PATH, Note(row=1))
    file = disk.open(PATH)
    file.truncate(0)
    file.write(0, zlib.crc32(item).to_bytes(4, "little") + item)

    with pytest.raises(StoreFormatError, match="a note of bulk scheduling"):
        load_note(disk, PATH, Note)
