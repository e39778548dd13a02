"""The index: message positions by key, over a row of index files.

The index follows the log: its driver reads records from ``covered_to`` on and hands over
their keys in batches. When a file is full the next one begins; only files that are not yet durable
have their slots in memory, which is the newest one and rarely another. What the newest header says
is covered, so a crash costs the reading of what came after the last flush.

What is hashed is ``topic#key``. File names are local times, ``yyyyMMddHHmmssSSS``.

Source: Java ``IndexService``.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from itertools import islice

import attrs
import numpy as np

from .disk import Disk
from .errors import StoreFormatError
from .index_file import CutWalkError, IndexFile
from .index_keys import STEP_KEYS_MAX, KeyHashes
from .index_layout import IndexHeader, key_hash

FOREVER_MS = (1 << 63) - 1
"""After every store time."""
TIME_STEP_MS = 1000
"""Entries know their time to the second, cut off."""

_NAME = re.compile(r"[0-9]{17}")


@attrs.frozen(kw_only=True)
class IndexStatistics:
    """The size of the key index, and how far it is durable, at one moment."""

    file_count: int
    entry_count: int
    """Keys in all files."""
    covered_to: int
    flushed_ms: int
    """Store time up to which keys are durable; 0 without any."""


class IndexService:
    """All index files of a store.

    Args:
        disk: Their disk.
        directory: Their directory.
        hash_slots: Slots of a file.
        entries_max: Entries of a file, entry 0 included.
        now_ms: The wall clock, for names.
        read_only: Nothing is created, written or removed, and nothing can be added.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        hash_slots: int,
        entries_max: int,
        now_ms: Callable[[], int],
        read_only: bool = False,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._hash_slots = hash_slots
        self._entries_max = entries_max
        self._now_ms = now_ms
        self._read_only = read_only
        self._files: list[IndexFile] = []
        """Oldest first; those that are not durable are the last ones."""
        self._unsynced_directories: set[str] = set()
        """Directories with names that are not durable."""
        self._last_name = ""
        self._flushed_ms = 0

    def load(self) -> None:
        """Open the files that are there.

        A newest file without entries goes: it was begun shortly before a crash, and the one before
        it is filled on. Files with other names are not looked at.

        Raises:
            StoreFormatError: A file is not an index of these settings.
            OSError: A file cannot be opened or read.
        """
        names = [name for name in self._disk.list_dir(self._directory) if _NAME.fullmatch(name)]
        newest = None
        while names and newest is None:
            newest = self._open_newest(names[-1])
            if newest is None:
                names.pop()
        if newest is not None:
            self._files = [newest]
            try:
                for at, name in enumerate(names[:-1]):
                    self._files.insert(at, self._open(name, filling=False))
            except (OSError, StoreFormatError):
                self.close()
                self._files.clear()
                raise
            self._last_name = names[-1]
            # The process before may have been killed before it had synced these names.
            self._unsynced_directories.add(self._directory)
        self._flushed_ms = self.last_update_ms

    @property
    def covered_to(self) -> int:
        """Position of the last message whose keys are in; -1 when the index is empty.

        After a crash that message may lack some keys: begin with it again, ``add_batch`` leaves
        out those that are in.
        """
        return self._files[-1].end_py if self._files else -1

    @property
    def last_update_ms(self) -> int:
        """Store time of the last message whose keys are in; 0 when the index is empty."""
        return self._files[-1].end_ms if self._files else 0

    @property
    def flushed_ms(self) -> int:
        """Store time up to which the index is durable: the checkpoint's ``indexMsgTimestamp``."""
        return self._flushed_ms

    def statistics(self) -> IndexStatistics:
        """Number of files and entries, and how far the index has come."""
        return IndexStatistics(
            file_count=len(self._files),
            entry_count=sum(file.header.index_count - 1 for file in self._files),
            covered_to=self.covered_to,
            flushed_ms=self._flushed_ms,
        )

    def add(self, keys: KeyHashes) -> None:
        """Add the keys of messages, in the order of the log; those that are in are left out.

        Args:
            keys: All keys of each message, because a message is covered as a whole. Some hundreds
                at a time are ten times faster than one.

        Raises:
            OSError: The disk did not take all; adding the same again adds the rest.

        Source: Java ``IndexService.buildIndex``.
        """
        assert not self._read_only
        keys = self._uncovered(keys)
        start = 0
        while start < len(keys):
            file = self._newest()
            part = keys[start : start + min(file.room(), STEP_KEYS_MAX)]
            file.append(part.hashes, part.offsets_py, part.stores_ms)
            start += len(part)

    def query(
        self, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int
    ) -> list[int]:
        """The first ``count_max`` of ``positions``.

        Of a file in which too many share the key's slot only the newest ones are looked at.

        Source: Java ``IndexService.queryOffset``.
        """
        found = self.positions(topic, key, begin_ms=begin_ms, end_ms=end_ms, may_be_cut=True)
        return list(islice(found, count_max))

    def positions(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int, may_be_cut: bool = False
    ) -> Iterator[int]:
        """Positions of messages that may have this key, newest first, each once.

        They are looked up as they are asked for; nothing may be added meanwhile.

        The beginning is widened by a second, because that is how much later than its entry's time
        a message may be. The caller compares the real key and the real time.

        Args:
            topic: The topic.
            key: A key, or a unique key.
            begin_ms: Earliest store time.
            end_ms: Latest store time.
            may_be_cut: A file that has too many entries in the key's slot gives some of them.

        Raises:
            CutWalkError: A file has too many entries in the key's slot; ``may_be_cut`` is false.
        """
        yield from self._positions(
            key_hash(f"{topic}#{key}"), begin_ms, end_ms, may_be_cut=may_be_cut
        )

    def kin(self, phy_offset: int) -> Iterator[int]:
        """Positions of messages that may have the unique key of the one at a position.

        Newest first, that one among them; none if it is not indexed. Only its hash is known, so the
        caller compares what the messages say.

        Raises:
            CutWalkError: A file has too many entries in the key's slot.
        """
        for file in self._files:
            wanted_hash = file.first_hash(phy_offset)
            if wanted_hash is not None:
                yield from self._positions(wanted_hash, 0, FOREVER_MS, may_be_cut=False)
                return

    def _positions(
        self, wanted_hash: int, begin_ms: int, end_ms: int, *, may_be_cut: bool
    ) -> Iterator[int]:
        found: set[int] = set()
        for file in reversed(self._files):
            try:
                for offset_py in file.find(
                    wanted_hash, begin_ms=begin_ms - TIME_STEP_MS, end_ms=end_ms
                ):
                    if offset_py not in found:
                        found.add(offset_py)
                        yield offset_py
            except CutWalkError:
                if not may_be_cut:
                    raise

    async def flush(self) -> bool:
        """Make everything added before the call durable, file after file.

        Returns:
            Whether it is durable; not when the disk is full. Then the next flush tries again.

        Raises:
            OSError: A sync failed; it must not be retried.

        Cancellation: The headers on the disk count only what is durable.
        """
        if self._read_only:
            return True
        for file in tuple(self._files):
            end_ms = file.end_ms
            if not file.is_written:
                # A later file's header must not be durable before this one's.
                if not await file.flush(self._disk):
                    return False
                self._flushed_ms = max(self._flushed_ms, end_ms)
            if file.is_written and file is not self._files[-1]:
                file.release_slots()
        directories, self._unsynced_directories = self._unsynced_directories, set()
        try:
            for directory in sorted(directories):
                await self._disk.sync_dir(directory)
        except BaseException:
            self._unsynced_directories |= directories
            raise
        return True

    def delete_before(self, phy_offset: int) -> int:
        """Remove files that end before ``phy_offset``, never the last; returns how many.

        Source: Java ``IndexService.deleteExpiredFile``.
        """
        count = 0
        while len(self._files) > 1 and self._files[0].end_py < phy_offset:
            file = self._files.pop(0)
            file.file.close()
            self._disk.remove(file.file.path)
            count += 1
        return count

    def close(self) -> None:
        """Close the files; nothing is written."""
        for file in self._files:
            file.file.close()

    def _uncovered(self, keys: KeyHashes) -> KeyHashes:
        """The keys that are not in; nearly always all of them."""
        covered_to = self.covered_to
        if not len(keys) or keys.offsets_py[0] > covered_to:
            return keys
        is_newest = keys.offsets_py == covered_to
        present = np.isin(keys.hashes, list(self._newest_hashes()))
        return keys[(keys.offsets_py > covered_to) | (is_newest & ~present)]

    def _newest_hashes(self) -> set[int]:
        """Key hashes of the last message that is covered."""
        present: set[int] = set()
        for file in reversed(self._files):
            hashes = file.newest_hashes(self.covered_to)
            present |= set(hashes)
            if len(hashes) < file.header.index_count - 1:
                break
        return present

    def _newest(self) -> IndexFile:
        """The file that takes the next entry."""
        if self._files and self._files[-1].room() > 0:
            return self._files[-1]
        after = self._files[-1].header if self._files else IndexHeader()
        self._unsynced_directories |= {*self._disk.make_dirs(self._directory), self._directory}
        name = self._next_name()
        made = IndexFile.create(
            self._disk,
            f"{self._directory}/{name}",
            slot_count=self._hash_slots,
            entry_count_max=self._entries_max,
            after=after,
        )
        self._files.append(made)
        self._last_name = name
        return made

    def _open(self, name: str, *, filling: bool) -> IndexFile:
        return IndexFile.open(
            self._disk,
            f"{self._directory}/{name}",
            slot_count=self._hash_slots,
            entry_count_max=self._entries_max,
            filling=filling,
            read_only=self._read_only,
        )

    def _open_newest(self, name: str) -> IndexFile | None:
        """Open a file to be filled on; one without entries, or without a length, is removed."""
        path = f"{self._directory}/{name}"
        file = self._disk.open(path, read_only=True)
        size = file.size()
        file.close()
        if size:
            index = self._open(name, filling=True)
            if not index.is_empty:
                return index
            index.file.close()
        if not self._read_only:
            self._disk.remove(path)
        return None

    def _next_name(self) -> str:
        """Local time to the millisecond, or one more than the last name where that is later."""
        now_ms = self._now_ms()
        local = datetime.datetime.fromtimestamp(now_ms // 1000)
        name = f"{local:%Y%m%d%H%M%S}{now_ms % 1000:03d}"
        return name if name > self._last_name else str(int(self._last_name) + 1)
