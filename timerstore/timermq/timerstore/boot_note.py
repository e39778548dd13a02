"""``timermq-boot``: in which boot of the machine the store was served last.

A killed process leaves everything that it wrote, for the kernel keeps it; a power cut takes what
was not synced. Both leave ``abort``, and what is behind the last checkpoint looks much the same.
The boot tells them apart: while it is the one in which the last process began, nothing that it
wrote has been lost, and what cannot be read was damaged.

Three lines of text: the boot (``Disk.boot_id``), the position up to which the start made the log
durable, and the CRC-32 of these two lines. The file is there while a broker runs and after one was
cut off. It is not synced, but behind damage in the log: an old one, one that is damaged or missing,
one of another machine, and one that was copied name no boot or another one, which says that the
power may have been cut.
"""

from __future__ import annotations

import zlib
from contextlib import closing

import attrs

from .disk import Disk, is_full

NAME = "timermq-boot"
SIZE_MAX = 512
"""Bytes that the file has at most."""


@attrs.frozen
class BootNote:
    """The values in ``timermq-boot``; the defaults where it has none."""

    boot_id: str = ""
    """Empty: not known."""
    log_end: int = 0
    """The log was whole and durable up to here when the process began."""

    @classmethod
    def read(cls, disk: Disk, root: str) -> BootNote:
        """The note of a store; an empty one where it says nothing.

        Raises:
            OSError: The disk failed.
        """
        path = f"{root}/{NAME}"
        if not disk.exists(path):
            return cls()
        with closing(disk.open(path, read_only=True)) as file:
            return cls.decode(file.read(0, SIZE_MAX))

    @classmethod
    def decode(cls, text: bytes) -> BootNote:
        """Read the lines; an empty note when they are not those of one."""
        boot_id, _, rest = text.partition(b"\n")
        log_end, _, _ = rest.partition(b"\n")
        is_number = log_end.isdigit() and len(log_end) < len(str(1 << 63))
        note = cls(boot_id.decode("utf-8", "replace"), int(log_end)) if is_number else cls()
        return note if note.encode() == text else cls()

    def encode(self) -> bytes:
        """The three lines of the file."""
        lines = f"{self.boot_id}\n{self.log_end}\n".encode()
        return b"%b%08x\n" % (lines, zlib.crc32(lines))

    def is_of_this_boot(self, disk: Disk, root: str) -> bool:
        """Whether nothing that was written since has been lost: the power was not cut.

        Raises:
            OSError: The disk failed.
        """
        return bool(self.boot_id) and self.boot_id == disk.boot_id(f"{root}/{NAME}")


def write_boot_note(disk: Disk, root: str, log_end: int, *, durably: bool) -> None:
    """Note this boot, when recovery is done (blocking).

    Without room for it the next start takes a kill for a power cut.

    Args:
        disk: The disk of the store.
        root: Its directory.
        log_end: End of the log, which is durable.
        durably: The note must outlast a power cut: the log has damage before its end.

    Raises:
        OSError: The disk failed.
    """
    path = f"{root}/{NAME}"
    with closing(disk.open(path, create=True)) as file:
        text = BootNote(disk.boot_id(path), log_end).encode()
        try:
            file.write(0, text)
            file.truncate(len(text))
        except OSError as error:
            if not is_full(error):
                raise
        if durably:
            disk.sync_now(file)
            disk.sync_dir_now(root)


def remove_boot_note(disk: Disk, root: str) -> None:
    """Forget the boot: the store is closed, or was changed by something else than a broker.

    Raises:
        OSError: The disk failed.
    """
    disk.remove(f"{root}/{NAME}")
