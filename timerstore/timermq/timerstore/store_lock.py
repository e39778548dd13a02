"""``lock`` and ``abort``: one process a store, and how the last one ended.

``lock`` holds an exclusive lock while a broker runs. ``abort`` exists while it runs and holds the
process id as text; a clean stop removes it, so its presence at the next start says that the last
run was cut off.

Source: Java ``DefaultMessageStore.start``, ``createTempFile``, ``shutdown``.
"""

from __future__ import annotations

from contextlib import closing

from .boot_note import remove_boot_note
from .disk import Disk, File, Lock, is_full

LOCK_TEXT = b"lock"
"""The content of the lock file, as in Java."""


class StoreLock:
    """The two files of one store.

    Args:
        disk: The disk of the store.
        root: Its directory.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self._lock: Lock | None = None

    @property
    def last_exit_ok(self) -> bool:
        """Whether the last run ended cleanly; also true for a store that never ran."""
        return not self._disk.exists(f"{self._root}/abort")

    def take(self) -> None:
        """Take the lock.

        Raises:
            StoreLockedError: Another process serves this store.
            OSError: The file cannot be had; the lock is not held.
        """
        path = f"{self._root}/lock"
        self._lock = self._disk.lock(path)
        try:
            with closing(self._disk.open(path)) as file:
                if file.size() == 0:
                    _write_if_room(file, LOCK_TEXT)
        except OSError:
            self.release()
            raise

    def mark_running(self, process_id: int) -> None:
        """Create ``abort``; durable at once, so that a power cut right after is seen (blocking).

        Its name says what has to be known. On a full disk the process id is missing in it.

        Raises:
            OSError: The file cannot be made.
        """
        text = str(process_id).encode()
        with closing(self._disk.open(f"{self._root}/abort", create=True)) as file:
            file.truncate(len(text))  # what a longer process id left behind
            _write_if_room(file, text)
            self._disk.sync_now(file)
        self._disk.sync_dir_now(self._root)

    def mark_clean(self) -> None:
        """Remove ``abort``; the caller has flushed and dispatched everything (blocking)."""
        remove_boot_note(self._disk, self._root)
        self._disk.remove(f"{self._root}/abort")
        self._disk.sync_dir_now(self._root)

    def release(self) -> None:
        """Give the lock up; nothing happens where it is not held."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _write_if_room(file: File, text: bytes) -> None:
    """Write what only people read: no start fails for want of the few bytes."""
    try:
        file.write(0, text)
    except OSError as error:
        if not is_full(error):
            raise
