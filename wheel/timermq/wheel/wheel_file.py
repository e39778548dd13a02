"""The file ``timerwheel``: the ring's bytes, read once, written slot by slot.

A wheel that fits the timer log is kept up to date in place: each write repairs the slots that
changed, and a crash between two of them leaves slots that recovery repairs from the log's tail. A
ring that was rebuilt has nothing in common with the file. Repairing the file piece by piece
would, after a crash in the middle, leave a wheel that looks whole and lacks chains; so the whole
ring goes to a new file, which replaces the old one in one step.

Source: Java ``TimerWheel.flush``, which compares all bytes each second.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from timermq.timerstore.array_types import Int64s
from timermq.timerstore.disk import Disk, File, is_for_a_while
from timermq.timerstore.errors import StoreFormatError

from .slot import SLOT, SLOT_DTYPE, Slots

GAP_SIZE = 4096
"""Bytes: dirty slots that lie closer together are written with one write, the gap included."""


@attrs.frozen(eq=False, kw_only=True)
class DirtySlots:
    """Copies of the slots that had changed at one moment."""

    runs: tuple[tuple[int, bytes], ...]
    """(byte offset in the file, bytes), ascending, not overlapping."""
    is_whole: bool
    """They are all there is of a ring that was rebuilt: the file is to be replaced."""

    @property
    def size(self) -> int:
        """Bytes to be written, gaps included."""
        return sum(len(data) for _, data in self.runs)


def copy_runs(slots: Slots, indexes: Int64s) -> tuple[tuple[int, bytes], ...]:
    """Copy the slots at ascending ``indexes`` and the gaps between near ones.

    The gaps come from the same moment: what changes there later must not reach the file before the
    units that it points at are durable.
    """
    return tuple(
        (first * SLOT.size, slots[first : last + 1].tobytes()) for first, last in _runs(indexes)
    )


def _runs(indexes: Int64s) -> Iterator[tuple[int, int]]:
    if len(indexes):
        cuts = np.flatnonzero(np.diff(indexes) > GAP_SIZE // SLOT.size) + 1
        firsts = indexes[np.append(0, cuts)].tolist()
        lasts = indexes[np.append(cuts, len(indexes)) - 1].tolist()
        yield from zip(firsts, lasts, strict=True)


PART_SIZE = 16_384
"""Bytes of the ring that are looked at together: 512 slots."""


class WheelFile:
    """The file at ``path``, which need not be there yet.

    Args:
        disk: Its disk.
        path: Its path; the directory exists.
        size: Bytes of the ring.
        read_only: It is never written.

    Raises:
        StoreFormatError: The file is longer.
        OSError: The disk failed; that it is full is no error before something is written.
    """

    def __init__(self, disk: Disk, path: str, size: int, *, read_only: bool) -> None:
        self._disk = disk
        self._path = path
        self._size = size
        self._read_only = read_only
        self._file = disk.open(path, read_only=read_only) if disk.exists(path) else None
        found = 0 if self._file is None else self._file.size()
        if found > size:
            self.close()
            raise StoreFormatError(path, found, f"a wheel of {size} bytes", f"{found}")
        self.is_empty = found < size
        """Without a file, or with one that was cut short or of a smaller ring: no slot is taken of
        it, and the first write puts a whole ring in its place."""
        if self._file is not None and not self.is_empty and not read_only:
            self._take_blocks(self._file)

    def _take_blocks(self, file: File) -> None:
        """RocketMQ makes the file sparse. Without room each write takes what it needs."""
        try:
            file.allocate(self._size)
        except OSError as error:
            if not is_for_a_while(error):
                file.close()
                raise

    @property
    def file(self) -> File:
        """The open file, for the disk's sync; there is one after the first ``write``."""
        assert self._file is not None, "a wheel that was never written has no file"
        return self._file

    def read(self) -> Slots:
        """The ring, all zero when the file is missing or short.

        Memory is taken only for the parts that are used: most rings are nearly empty.
        """
        slots = np.zeros(self._size // SLOT.size, SLOT_DTYPE)
        if not self.is_empty:
            ring = slots.view(np.uint8)
            for offset in range(0, self._size, PART_SIZE):
                part = np.frombuffer(
                    self.file.read(offset, min(PART_SIZE, self._size - offset)), np.uint8
                )
                if part.any():
                    ring[offset : offset + len(part)] = part
        return slots

    def write(self, dirty: DirtySlots) -> None:
        """Write slots; the caller syncs ``file``.

        A whole ring is synced here and put in place of the old file: rare, and before anything
        relies on it.

        Raises:
            OSError: The disk refused. Nothing stays open or behind, however often it is tried; a
                whole ring is to be written again.
        """
        if not dirty.is_whole:
            _write_runs(self.file, dirty)
            return
        path = f"{self._path}.tmp"
        self._disk.remove(path)
        file = self._disk.open(path, create=True)
        try:
            file.allocate(self._size)
            _write_runs(file, dirty)
            self._disk.sync_now(file)
        except OSError:
            file.close()
            self._disk.remove(path)
            raise
        file.close()
        self._disk.rename(path, self._path)
        self._disk.sync_dir_now(self._path.rpartition("/")[0])
        opened = self._disk.open(self._path)
        # Not before: while it cannot be opened, a sync must find one that is open.
        self.close()
        self._file = opened

    def remove(self) -> None:
        """Remove the file, if there is one, durably (blocking); read only nothing is removed."""
        if self._file is not None and not self._read_only:
            self._file.close()
            self._file = None
            self._disk.remove(self._path)
            self._disk.sync_dir_now(self._path.rpartition("/")[0])

    def close(self) -> None:
        """Close the file, if there is one; nothing is written."""
        if self._file is not None:
            self._file.close()


def _write_runs(file: File, dirty: DirtySlots) -> None:
    for offset, data in dirty.runs:
        file.write(offset, data)
