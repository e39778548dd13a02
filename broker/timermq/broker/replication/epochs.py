r"""Epochs: who wrote which part of a commit log, one entry for each time a replica took the lead.

A replica that is promoted appends an epoch: a number above all that it has seen, and the end of its
log, where its own records begin. Followers copy the entries with the bytes. So two logs are equal
up to the end of the newest epoch that both have, and only behind it may they differ.

``<store>/epochFileCheckpoint`` is RocketMQ's file::

    2                   number of entries
    773307083           CRC-32 of the lines below without its highest bit; 0: not checked
    7-7000              epoch and the position where it begins
    8-8000

Source: Java ``EpochFileCache``, ``CheckpointFile``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import attrs

from timermq.timerstore.config_file import backup_path, read_bytes, save_json_now
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFormatError

from .ha_frames import EPOCHS_MAX, FIRST_EPOCH, Epoch

FILE_NAME = "epochFileCheckpoint"
EPOCH_MAX = (1 << 31) - 1
"""The largest number of an epoch."""
POSITION_MAX = (1 << 63) - 1
"""The largest position of a log."""

_CRC_MASK = 0x7FFFFFFF
_LINE_ENDS = "\r\n"


@attrs.frozen
class EpochList:
    """The epochs of one log, ascending by number and by start.

    Raises:
        ValueError: They do not ascend, or one is out of range.
    """

    entries: tuple[Epoch, ...] = attrs.field(default=(), converter=tuple[Epoch, ...])

    def __attrs_post_init__(self) -> None:
        last = Epoch(-1, -1)
        for one in self.entries:
            if not (last.number < one.number <= EPOCH_MAX):
                raise ValueError(f"epoch: expected above {last.number}, found {one.number}")
            if not (last.start < one.start <= POSITION_MAX):
                raise ValueError(
                    f"epoch {one.number}: expected a start behind {last.start}, found {one.start}"
                )
            last = one

    def __iter__(self) -> Iterator[Epoch]:
        return iter(self.entries)

    @property
    def last(self) -> Epoch | None:
        """The newest entry; None without any."""
        return self.entries[-1] if self.entries else None

    @property
    def last_number(self) -> int:
        """Number of the newest epoch, -1 without any. Source: Java ``lastEpoch``."""
        return self.entries[-1].number if self.entries else -1

    def begun(self, epoch: Epoch) -> EpochList:
        """The list with one more epoch; earlier ones that have no byte before it are left out.

        Args:
            epoch: Its number is above all others.

        Raises:
            ValueError: It is not.

        Source: Java ``appendEntry``, which refuses an epoch that begins where the last one does.
        """
        if epoch.number <= self.last_number:
            raise ValueError(f"epoch: expected above {self.last_number}, found {epoch.number}")
        return EpochList((*self.cut(epoch.start).entries, epoch)[-EPOCHS_MAX:])

    def cut(self, end: int) -> EpochList:
        """The list of a log that ends at a position. Source: Java ``truncateSuffixByOffset``."""
        return EpochList(one for one in self.entries if one.start < end)

    def at(self, position: int) -> Epoch | None:
        """The epoch of the byte at a position; None before the first one."""
        return next((one for one in reversed(self.entries) if one.start <= position), None)

    def end_of(self, epoch: Epoch, log_end: int) -> int:
        """The position behind the last byte of an epoch: the next one's start, or the log's end."""
        after = (one.start for one in self.entries if one.number > epoch.number)
        return min(next(after, log_end), log_end)

    def common_end(self, end: int, other: EpochList, other_end: int) -> int | None:
        """The position up to which two logs have the same epochs; None: they have none in common.

        Args:
            end: End of the log that this list is of.
            other: The epochs of the other log.
            other_end: Its end.

        Source: Java ``findConsistentPoint``.
        """
        theirs = set(other.entries)
        for one in reversed(self.entries):
            if one in theirs:
                return min(self.end_of(one, end), other.end_of(one, other_end))
        return None


FIRST_EPOCHS = EpochList((FIRST_EPOCH,))
"""The epochs of a log that has had one master alone."""


def encode_epochs(epochs: EpochList) -> str:
    """The text of the file."""
    lines = "".join(f"{one.number}-{one.start}\n" for one in epochs)
    return f"{len(epochs.entries)}\n{_crc(lines)}\n{lines}"


def decode_epochs(text: str, path: str) -> EpochList:
    """Read the text of a file.

    Raises:
        StoreFormatError: It is no list of epochs, or not the one that was written.
    """
    lines = text.splitlines()
    if len(lines) < 2:
        raise StoreFormatError(path, 0, "a count and a checksum", f"{len(lines)} lines")
    count, crc, body = lines[0], lines[1], "".join(f"{line}\n" for line in lines[2:])
    if count != f"{len(lines) - 2}":
        raise StoreFormatError(path, 0, f"a count of {len(lines) - 2} entries", repr(count[:20]))
    if crc not in ("0", f"{_crc(body)}"):
        raise StoreFormatError(path, len(count) + 1, f"checksum {_crc(body)}", repr(crc[:20]))
    try:
        return EpochList(_entries(lines[2:]))
    except ValueError as error:
        at = len(count) + len(crc) + 2
        raise StoreFormatError(path, at, "epochs that ascend", str(error)) from error


def _entries(lines: Iterable[str]) -> Iterator[Epoch]:
    for line in lines:
        number, dash, start = line.partition("-")
        if not (dash and _is_number(number) and _is_number(start)):
            raise ValueError(f"a line {line[:40]!r}")
        yield Epoch(int(number), int(start))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(POSITION_MAX))


def _crc(lines: str) -> int:
    return zlib.crc32(lines.encode()) & _CRC_MASK


class EpochFile:
    """The file of one store; ``epochs`` is what it holds.

    Args:
        disk: The disk of the store.
        root: Its directory.

    Raises:
        StoreFormatError: There is a file, and neither it nor its ``.bak`` can be read.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self.path = f"{root}/{FILE_NAME}"
        self._disk = disk
        self.epochs = _load(disk, self.path)

    def begin(self, epoch: Epoch) -> None:
        """Note durably that an epoch begins (blocking).

        Raises:
            ValueError: Its number is not above all others.
            OSError: The disk refused; nothing has changed.
        """
        self.save(self.epochs.begun(epoch))

    def copy(self, epoch: Epoch) -> None:
        """Note durably the epoch of bytes that are about to be copied (blocking).

        Raises:
            ValueError: It is not the newest one, nor above it.
            OSError: The disk refused; nothing has changed.
        """
        if epoch != self.epochs.last:
            self.begin(epoch)

    def cut(self, end: int) -> None:
        """Note durably that the log ends at a position (blocking).

        Raises:
            OSError: The disk refused; nothing has changed.
        """
        self.save(self.epochs.cut(end))

    def save(self, epochs: EpochList) -> None:
        """Replace the list, durably (blocking); the same one is not written again.

        Raises:
            OSError: The disk refused; nothing has changed.
        """
        if epochs != self.epochs:
            save_json_now(self._disk, self.path, encode_epochs(epochs))
            self.epochs = epochs


def _load(disk: Disk, path: str) -> EpochList:
    """The list of the file or its ``.bak``; an empty one where there is neither."""
    failures: list[StoreFormatError] = []
    for place in (path, backup_path(path)):
        data = read_bytes(disk, place)
        if data is None or not data.strip():
            continue
        try:
            return decode_epochs(data.decode("ascii", "replace").rstrip(_LINE_ENDS), place)
        except StoreFormatError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return EpochList()
