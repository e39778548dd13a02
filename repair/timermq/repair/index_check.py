"""Whether the index holds the keys of the log: the same ones, in the same order, in whole chains.

Keys come into the index in the order of the log, so both are read side by side: the walk over the
log hands over the keys of each record, and the next entries must be theirs. Slots and links follow
from the entries alone. One deviation has the whole index made again, so the first of a file is told
and what is shifted behind it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs
import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.disk import Disk, File
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.index_keys import index_text, keys_in
from timermq.timerstore.index_layout import (
    ENTRY,
    ENTRY_DTYPE,
    HEADER,
    SLOT_SIZE,
    IndexHeader,
    key_hashes,
    read_header,
)
from timermq.timerstore.index_slots import SlotTable
from timermq.timerstore.log_record import LogRecord
from timermq.timerstore.store_options import StoreOptions

from .finding import Finding, Findings, Step
from .segment_row import size_of
from .store_rule import Severity, StoreRule

CHUNK_COUNT = 4096
"""Entries and keys compared at a time."""

_NAME = re.compile(r"[0-9]{17}")


@attrs.frozen
class _Chunk:
    """Neighbouring entries of one file."""

    file: str
    first: int
    """Byte of the first one."""
    entries: NDArray[np.void]


@attrs.define(eq=False)
class IndexCheck:
    """Fed with records in the order of the log; ``finish`` tells what is left over."""

    disk: Disk
    root: str
    options: StoreOptions
    log_start: int
    last_exit_ok: bool
    _texts: list[bytes] = attrs.field(factory=list[bytes], init=False)
    _positions: list[int] = attrs.field(factory=list[int], init=False)
    _found: list[Finding] = attrs.field(factory=list[Finding], init=False)
    _chunks: Iterator[_Chunk] = attrs.field(init=False)
    _chunk: _Chunk | None = attrs.field(default=None, init=False)
    _at: int = attrs.field(default=0, init=False)
    """Entries of the chunk that are compared."""
    _is_off: bool = attrs.field(default=False, init=False)
    """Log and index are out of step: nothing more is compared."""

    def __attrs_post_init__(self) -> None:
        self._chunks = self._read()

    def take(self, record: LogRecord, position: int) -> None:
        """Take the keys of a record."""
        if self._is_off or record.is_rollback:
            return
        for key in keys_in(record.properties):
            self._texts.append(index_text(record.topic, key))
            self._positions.append(position)
        if len(self._texts) >= CHUNK_COUNT:
            self._compare()

    def finish(self) -> Findings:
        """The findings, once the whole log was taken."""
        if not self._is_off:
            self._compare()
        if not self._is_off and self._next_chunk() is not None:
            chunk = self._chunk
            assert chunk is not None
            self._add(chunk.file, chunk.first + self._at * ENTRY.size, "no more entries", "one")
        for _ in self._chunks:
            pass  # the rest of the files is looked at for its own sake
        yield from self._found

    # -- log and entries side by side -------------------------------------------------------------

    def _compare(self) -> None:
        """Compare the gathered keys with the next entries."""
        hashes = key_hashes(self._texts) if self._texts else np.empty(0, np.int64)
        positions = np.array(self._positions, np.int64)
        self._texts.clear()
        self._positions.clear()
        done = 0
        while done < len(hashes):
            chunk = self._next_chunk()
            if chunk is None:
                self._missing_from(int(positions[done]))
                return
            count = min(len(hashes) - done, len(chunk.entries) - self._at)
            part = chunk.entries[self._at : self._at + count]
            same = part["phy_offset"] == positions[done : done + count]
            same &= part["key_hash"] == hashes[done : done + count]
            if not same.all():
                row = int(same.argmin())
                self._add(
                    chunk.file,
                    chunk.first + (self._at + row) * ENTRY.size,
                    f"hash {hashes[done + row]} of the record at {positions[done + row]}",
                    f"hash {part['key_hash'][row]} of {part['phy_offset'][row]}",
                )
                self._is_off = True
                return
            done += count
            self._at += count

    def _next_chunk(self) -> _Chunk | None:
        while self._chunk is None or self._at >= len(self._chunk.entries):
            self._chunk, self._at = next(self._chunks, None), 0
            if self._chunk is None:
                return None
        return self._chunk

    def _missing_from(self, position: int) -> None:
        """The index ends before the log: the next start goes on from there."""
        self._is_off = True
        expected = f"entries of the record at {position} and later ones"
        self._add("index", 0, expected, "none yet: the next start adds them", is_note=True)

    # -- files ------------------------------------------------------------------------------------

    def _read(self) -> Iterator[_Chunk]:
        """Entries of records that the log holds, file after file; looks at the files on the way."""
        names = self.disk.list_dir(f"{self.root}/index")
        good = [name for name in names if _NAME.fullmatch(name)]
        for name in names:
            if name not in good:
                self._add(f"index/{name}", 0, "names of 17 digits", name, is_note=True)
        for name in good:
            path = f"{self.root}/index/{name}"
            is_newest = name == good[-1]
            if is_newest and not size_of(self.disk, path):
                self._add(f"index/{name}", 0, "an index", "0 bytes", is_note=True)
                continue
            file = self.disk.open(path, read_only=True)
            try:
                yield from self._read_file(file, f"index/{name}", is_newest=is_newest)
            except StoreFormatError as error:
                self._add(f"index/{name}", error.offset, error.expected, error.found)
                self._is_off = True
            finally:
                file.close()

    def _read_file(self, file: File, name: str, *, is_newest: bool) -> Iterator[_Chunk]:
        slot_count = self.options.max_hash_slot_num
        header = read_header(file, slot_count, self.options.max_index_num)
        table = SlotTable(slot_count)
        entries_at = HEADER.size + slot_count * SLOT_SIZE
        first_py = last_py = -1
        for number in range(1, header.index_count, CHUNK_COUNT):
            count = min(CHUNK_COUNT, header.index_count - number)
            at = entries_at + number * ENTRY.size
            entries = np.frombuffer(file.read(at, count * ENTRY.size), ENTRY_DTYPE)
            self._check_links(entries, number, table, name, at)
            offsets = entries["phy_offset"].astype(np.int64)
            first_py = int(offsets[0]) if first_py < 0 else first_py
            last_py = int(offsets[-1])
            kept = int((offsets < self.log_start).sum())
            if kept < count:
                yield _Chunk(name, at + kept * ENTRY.size, entries[kept:])
        self._check_slots(file, header, table, name, is_note=is_newest and not self.last_exit_ok)
        stated = (header.begin_phy_offset, header.end_phy_offset)
        if header.index_count > 1 and stated != (first_py, last_py):
            self._add(name, 16, f"records {first_py} to {last_py}", f"{stated[0]} to {stated[1]}")
        if header.index_count > 1 and last_py < self.log_start and not is_newest:
            self._add(
                name,
                32,
                f"records from {self.log_start} on, where the log begins",
                f"records up to {last_py}: the log has lost its first segments",
            )

    def _check_links(
        self, entries: NDArray[np.void], number: int, table: SlotTable, name: str, at: int
    ) -> None:
        numbers = np.arange(number, number + len(entries), dtype=np.int32)
        slots = np.abs(entries["key_hash"].astype(np.int64)) % len(table.numbers)
        previous, _ = table.link(slots, numbers)
        table.put(slots, numbers)
        wrong = np.flatnonzero(previous != entries["previous"])
        if len(wrong):
            row = int(wrong[0])
            self._add(
                name,
                at + row * ENTRY.size + ENTRY.offset_of("previous"),
                f"entry {previous[row]} before entry {number + row}",
                f"entry {entries['previous'][row]}",
                count=len(wrong),
            )

    def _check_slots(
        self, file: File, header: IndexHeader, table: SlotTable, name: str, *, is_note: bool
    ) -> None:
        stored = SlotTable.load(file, HEADER.size, len(table.numbers))
        wrong = np.flatnonzero(stored.numbers != table.numbers)
        if len(wrong):
            slot = int(wrong[0])
            self._add(
                name,
                HEADER.size + slot * SLOT_SIZE,
                f"entry {table.numbers[slot]} as the newest of slot {slot}",
                f"entry {stored.numbers[slot]}",
                is_note,
                count=len(wrong),
            )
        elif header.hash_slot_count not in (table.used_count(), table.used_count() + 1):
            expected = f"{table.used_count()} slots in use"
            self._add(name, 32, expected, f"{header.hash_slot_count}", is_note)

    def _add(
        self,
        file: str,
        offset: int,
        expected: str,
        found: str,
        is_note: bool = False,
        *,
        count: int = 1,
    ) -> None:
        self._found.append(
            Finding(
                rule=StoreRule.INDEX_DIFFERS,
                file=file,
                offset=offset,
                expected=expected,
                found=found,
                severity=Severity.NOTE if is_note else Severity.DERIVED,
                step=Step.NOTHING if is_note else Step.REBUILD_INDEX,
                count=count,
            )
        )
