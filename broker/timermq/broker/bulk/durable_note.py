"""Small files that are replaced in one step: CRC-32, little-endian, and a CBOR map behind it."""

from __future__ import annotations

from typing import TypeVar
from zlib import crc32

import cbor2
import msgspec

from timermq.remoting.cbor import CborError, decode_cbor
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError

NOTE_SIZE_MAX = 4 << 20
"""Bytes; ten thousand parts with their names are a third of it."""
_CRC_SIZE = 4
_PLAIN = (bytes,)
"""Types that CBOR has and JSON has not: kept as they are."""
_Note = TypeVar("_Note")


async def save_note(disk: Disk, path: str, note: object) -> None:
    """Replace a file; what it says is durable then.

    Raises:
        OSError: The disk refused; the file is the old one, unless its directory was not synced.

    Cancellation: the file is the old or the new one, and whole.
    """
    body = cbor2.dumps(msgspec.to_builtins(note, builtin_types=_PLAIN))
    temporary = f"{path}.tmp"
    try:
        file = disk.open(temporary, create=True)
        try:
            file.truncate(0)
            file.write(0, crc32(body).to_bytes(_CRC_SIZE, "little") + body)
            await disk.sync(file)
        finally:
            file.close()
    except BaseException:
        disk.remove(temporary)
        raise
    disk.rename(temporary, path)
    await disk.sync_dir(path.rpartition("/")[0])


def load_note(disk: Disk, path: str, kind: type[_Note]) -> _Note | None:
    """The note in a file; None when the file is missing.

    Raises:
        StoreFormatError: It says something else, or bytes of it have changed.
    """
    if not disk.exists(path):
        return None
    file = disk.open(path, read_only=True)
    try:
        data = file.read(0, min(file.size(), NOTE_SIZE_MAX + 1))
    finally:
        file.close()
    body = data[_CRC_SIZE:]
    if data[:_CRC_SIZE] != crc32(body).to_bytes(_CRC_SIZE, "little"):
        raise StoreFormatError(path, 0, f"the CRC {crc32(body):08x}", data[:_CRC_SIZE][::-1].hex())
    try:
        item = decode_cbor(body, size_max=NOTE_SIZE_MAX)
        return msgspec.convert(item, kind, builtin_types=_PLAIN)
    except (CborError, msgspec.ValidationError) as error:
        raise StoreFormatError(path, _CRC_SIZE, "a note of bulk scheduling", str(error)) from error
