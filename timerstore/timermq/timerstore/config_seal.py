"""Checksums of configuration files, in ``NAME.sum`` beside them, which RocketMQ does not look at.

JSON has no checksum: a flipped bit may leave another offset, or a field of another name, and both
can be read. So a save notes size, CRC-32 and time of change of the file and of its ``.bak``, a line
each, and a third line with the CRC of the two::

    crc32 0a1b2c3d size 812 modified 1795574749001
    crc32 99aabbcc size 798 modified 1795574744000
    crc32 12345678

Files may be changed by others: RocketMQ replaces them, operators edit them. That gives them another
time, and they are taken as they are. What differs and has the old time has changed by itself:

=========================  ==========================================================
found                      made of it
=========================  ==========================================================
old time, one bit          the bit is turned back: the CRC says which one it is
old time, anything else    damaged: the ``.bak`` counts
other time, one bit, old   refused by place: who edits a file may change one bit, and
``.bak``                   so may a copy of a disk that fails
other time, anything else  edited
=========================  ==========================================================

A missing or damaged ``NAME.sum`` seals nothing. It needs no sync: an old one has old times. That of
a save of the same millisecond has not, so it goes before the file is replaced.
"""

from __future__ import annotations

import re
from functools import partial
from zlib import crc32

import attrs

from .config_file import backup_path, first_table, keep_second, read_bytes, save_json, save_json_now
from .disk import Disk
from .errors import StoreError, StoreFormatError
from .flipped_bit import flipped_bit, repaired

_LINE = re.compile(r"crc32 ([0-9a-f]{8}) size (\d{1,12}) modified (-?\d{1,16})")
_SUM_SIZE_MAX = 400


class UnsealedBitError(StoreError):
    """A file differs from what was saved in one bit; only the operator knows whether he did it."""


@attrs.frozen(kw_only=True)
class Seal:
    """Checksum, size and time of a file."""

    crc: int
    size: int
    modified_ms: int

    @classmethod
    def of(cls, disk: Disk, path: str, data: bytes) -> Seal:
        """The seal of a file as it is."""
        return cls(crc=crc32(data), size=len(data), modified_ms=disk.modified_ms(path))

    def fits(self, data: bytes) -> bool:
        """Whether it is the seal of some bytes."""
        return self.size == len(data) and self.crc == crc32(data)

    def line(self) -> str:
        """As it stands in the file."""
        return f"crc32 {self.crc:08x} size {self.size} modified {self.modified_ms}\n"


async def save_sealed(disk: Disk, path: str, text: str) -> None:
    """``save_json``, with seals, which are those of what stands there whenever others look.

    Raises:
        OSError: The disk refused.

    Cancellation: the file is the old or the new one, and whole.
    """
    disk.remove(f"{path}.sum")
    await save_json(disk, path, text, partial(save_seals, disk, path))


def save_sealed_now(disk: Disk, path: str, text: str) -> None:
    """``save_sealed``, blocking; OSError if the disk refuses."""
    disk.remove(f"{path}.sum")
    save_json_now(disk, path, text)
    save_seals(disk, path)


def keep_second_sealed(disk: Disk, path: str) -> None:
    """Make a ``.bak`` of a good file that has none: RocketMQ's first save leaves it so (blocking).

    Raises:
        OSError: The disk failed; the file is as it was.
    """
    data = read_bytes(disk, path)
    if data is not None and keep_second(disk, path, data.decode()):
        save_seals(disk, path)


def load_sealed(disk: Disk, path: str, *, read_only: bool) -> object | None:
    """``load_json``, seals compared: what has changed by itself is not believed.

    Args:
        disk: The disk of the file.
        path: Its path.
        read_only: A bit that has flipped is turned back in memory alone.

    Raises:
        StoreFormatError: There is a file, and neither it nor its ``.bak`` can be read.
        UnsealedBitError: One bit has changed, and so has the time.
    """
    return first_table(
        (
            (path, partial(sealed_bytes, disk, path, read_only=read_only)),
            (backup_path(path), partial(backup_bytes, disk, path)),
        )
    )


def save_seals(disk: Disk, path: str) -> None:
    """Note what a file and its ``.bak`` are now; OSError if the disk refused."""
    lines = "".join(_line(disk, one) for one in (path, backup_path(path)))
    data = f"{lines}crc32 {crc32(lines.encode()):08x}\n".encode()
    file = disk.open(f"{path}.sum.tmp", create=True)
    try:
        file.truncate(len(data))
        file.write(0, data)
    finally:
        file.close()
    disk.rename(f"{path}.sum.tmp", f"{path}.sum")


def load_seals(disk: Disk, path: str) -> tuple[Seal | None, Seal | None]:
    """The seals of a file and of its ``.bak``; None for one that is not sealed."""
    data = read_bytes(disk, f"{path}.sum")
    lines = (data or b"")[:_SUM_SIZE_MAX].decode("ascii", "replace").splitlines(keepends=True)
    if len(lines) != 3 or lines[2] != f"crc32 {crc32(''.join(lines[:2]).encode()):08x}\n":
        return None, None
    return _seal(lines[0]), _seal(lines[1])


def sealed_bytes(disk: Disk, path: str, *, read_only: bool = False) -> bytes | None:
    """The bytes of a file as they were saved, or as somebody has changed them since.

    A bit that has flipped by itself is turned back, in the file too unless it is read only.

    Returns:
        None when there is no file.

    Raises:
        StoreFormatError: It has changed by itself.
        UnsealedBitError: One bit has changed, and so has the time.
    """
    data = read_bytes(disk, path)
    seal, backup_seal = load_seals(disk, path)
    if data is None or seal is None or seal.fits(data):
        return data
    backup = read_bytes(disk, backup_path(path))
    is_as_sealed = backup_seal is None if backup is None else _fits(backup_seal, backup)
    if backup is not None and seal.fits(backup) and not is_as_sealed:
        return data  # a save of somebody's has made a .bak of what was sealed
    is_old = seal.modified_ms == disk.modified_ms(path)
    found = flipped_bit(data, seal.crc) if seal.size == len(data) else None
    if found is not None and is_old:
        before = repaired(data, *found)
        return before if read_only else _replaced(disk, path, before)
    if is_old:
        raise StoreFormatError(path, 0, f"the CRC {seal.crc:08x}", f"{crc32(data):08x}")
    if found is not None and is_as_sealed:
        offset, bit = found
        raise UnsealedBitError(
            f"{path}: at {offset}: expected byte {data[offset] ^ 1 << bit:02x}, as it was saved, "
            f"found {data[offset]:02x}: put it right, or remove {path}.sum if you changed it"
        )
    return data


def backup_bytes(disk: Disk, path: str) -> bytes | None:
    """The bytes of a file's ``.bak``; None when there is none.

    Raises:
        StoreFormatError: It has changed by itself.
    """
    backup = backup_path(path)
    data = read_bytes(disk, backup)
    newer, seal = load_seals(disk, path)
    # Between the two renames of a save the .bak is what the seal calls the file.
    if data is None or seal is None or seal.fits(data) or _fits(newer, data):
        return data
    if seal.modified_ms == disk.modified_ms(backup):
        raise StoreFormatError(backup, 0, f"the CRC {seal.crc:08x}", f"{crc32(data):08x}")
    return data


def _line(disk: Disk, path: str) -> str:
    data = read_bytes(disk, path)
    return "-\n" if data is None else Seal.of(disk, path, data).line()


def _seal(line: str) -> Seal | None:
    found = _LINE.fullmatch(line.rstrip("\n"))
    if found is None:
        return None
    return Seal(crc=int(found[1], 16), size=int(found[2]), modified_ms=int(found[3]))


def _fits(seal: Seal | None, data: bytes) -> bool:
    return seal is not None and seal.fits(data)


def _replaced(disk: Disk, path: str, data: bytes) -> bytes:
    """Replace a file in one step; its ``.bak`` stays."""
    file = disk.open(f"{path}.tmp", create=True)
    try:
        file.truncate(len(data))
        file.write(0, data)
        disk.sync_now(file)
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)
    disk.sync_dir_now(path.rpartition("/")[0])
    save_seals(disk, path)
    return data
