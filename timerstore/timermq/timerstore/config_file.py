"""JSON configuration files in RocketMQ's shape.

RocketMQ prints with fastjson, and so do we, byte for byte: tabs; keys that are integers without
quotes and on one line, keys that are objects printed in place::

    "offsetTable":{
        "T@G":{0:7,1:9
        }
    }

A file is replaced, never overwritten: the new text goes to a temporary file and is synced, the old
file becomes ``.bak``, the temporary one takes its name. Between the two renames there is no file of
that name: readers take the ``.bak`` then. RocketMQ's first save leaves no ``.bak``; ours makes a
second copy of the text (with a blank line, which tells it from a file that a save has moved there),
so that one damage never takes both.

Source: Java ``ConfigManager``, ``MixAll.string2File``, ``RemotingSerializable.toJson``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import attrs

from .disk import Disk, File, is_for_a_while
from .errors import StoreFormatError
from .fastjson import fastjson as fastjson
from .fastjson import fastjson_pieces as fastjson_pieces
from .fastjson import parse_json as parse_json

FILE_SIZE_MAX = 256 << 20
"""Bytes; 100,000 topics make about 30 MB."""


def backup_path(path: str) -> str:
    """The ``.bak`` beside a configuration file."""
    return f"{path}.bak"


@attrs.frozen(kw_only=True)
class DataVersion:
    """RocketMQ's version of a configuration table. Source: Java ``DataVersion``."""

    counter: int = 0
    """Changes of the table."""
    state_version: int = 0
    """Number of the broker's reign over its replicas; kept as it was read."""
    timestamp: int = 0
    """When the table changed last, epoch milliseconds."""


def load_json(disk: Disk, path: str) -> object | None:
    """Read a configuration file, or its ``.bak`` when it is missing, empty or damaged.

    Returns:
        The parsed file (see ``parse_json``); None when there is neither.

    Raises:
        StoreFormatError: There is a file, and neither it nor its ``.bak`` can be read; it says
            what is wrong with the first.
    """
    places = (path, backup_path(path))
    return first_table((place, partial(read_bytes, disk, place)) for place in places)


def first_table(copies: Iterable[tuple[str, Callable[[], bytes | None]]]) -> object | None:
    """The content of the first copy of a table that has any; None when none does.

    Args:
        copies: The path of each, and what reads its bytes.

    Raises:
        StoreFormatError: A copy cannot be read, and the others say nothing; of the first such one.
    """
    failure: StoreFormatError | None = None
    for path, read in copies:
        try:
            found = parse_table(path, read() or b"")
            if found is not None:
                return found
        except StoreFormatError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return None


def read_bytes(disk: Disk, path: str) -> bytes | None:
    """All of a file; None when it is missing.

    Raises:
        StoreFormatError: It is larger than ``FILE_SIZE_MAX``.
    """
    if not disk.exists(path):
        return None
    file = disk.open(path, read_only=True)
    try:
        size = file.size()
        if size > FILE_SIZE_MAX:
            raise StoreFormatError(path, 0, f"at most {FILE_SIZE_MAX} bytes", f"{size}")
        return file.read(0, size)
    finally:
        file.close()


def parse_table(path: str, data: bytes) -> object | None:
    """The value in the bytes of a file (``parse_json``); None for blanks alone.

    Raises:
        StoreFormatError: They cannot be read; ``path`` names them.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise StoreFormatError(path, error.start, "UTF-8", error.reason) from error
    return parse_json(text, path) if text.strip() else None


async def save_json(
    disk: Disk, path: str, text: str, at_change: Callable[[], None] = lambda: None
) -> None:
    """Replace a configuration file, keeping the old one as ``.bak``. One at a time for a path.

    Args:
        disk: The disk of the file.
        path: Its path.
        text: What it says from now on.
        at_change: Called as soon as the file, or its ``.bak``, is another one.

    Raises:
        OSError: The disk refused.

    Cancellation: the file is the old or the new one, and whole.
    """
    directory = path.rpartition("/")[0]
    changed = disk.make_dirs(directory)
    file = _write_temporary(disk, path, text)
    try:
        await disk.sync(file)
    finally:
        file.close()
    _swap(disk, path)
    at_change()
    for one in (*changed, directory):
        await disk.sync_dir(one)
    second = _write_second(disk, path, text)
    if second is not None:
        try:
            await disk.sync(second)
        finally:
            second.close()
        disk.rename(f"{path}.tmp", backup_path(path))
        at_change()
        await disk.sync_dir(directory)


def save_json_now(disk: Disk, path: str, text: str) -> None:
    """``save_json``, blocking: for start-up, shutdown and tools."""
    directory = path.rpartition("/")[0]
    changed = disk.make_dirs(directory)
    file = _write_temporary(disk, path, text)
    try:
        disk.sync_now(file)
    finally:
        file.close()
    _swap(disk, path)
    for one in (*changed, directory):
        disk.sync_dir_now(one)
    keep_second(disk, path, text)


def keep_second(disk: Disk, path: str, text: str) -> bool:
    """Make a ``.bak`` of a good file that has none, durably (blocking); whether one was made.

    Raises:
        OSError: The disk failed; the file is as it was.
    """
    second = _write_second(disk, path, text)
    if second is None:
        return False
    try:
        disk.sync_now(second)
    finally:
        second.close()
    disk.rename(f"{path}.tmp", backup_path(path))
    disk.sync_dir_now(path.rpartition("/")[0])
    return True


def _write_second(disk: Disk, path: str, text: str) -> File | None:
    """The temporary file of a ``.bak``; None where there is one, or no room.

    Without room it is left to the next save, which makes one of what it replaces.
    """
    if disk.exists(backup_path(path)):
        return None
    try:
        return _write_temporary(disk, path, f"{text}\n")
    except OSError as error:
        if not is_for_a_while(error):
            raise
        disk.remove(f"{path}.tmp")
        return None


def _write_temporary(disk: Disk, path: str, text: str) -> File:
    data = text.encode()
    file = disk.open(f"{path}.tmp", create=True)
    try:
        file.truncate(len(data))  # what a longer text that was not finished left behind
        file.write(0, data)
    except BaseException:
        file.close()
        raise
    return file


def _swap(disk: Disk, path: str) -> None:
    if disk.exists(path):
        disk.rename(path, backup_path(path))
    disk.rename(f"{path}.tmp", path)
