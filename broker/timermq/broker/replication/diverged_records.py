"""Diverged records: what was cut off a log because the new master does not have it.

``<store>/diverged/<start>-<end>`` holds the bytes of the log between these two positions as they
stood there, 20 digits each. None of it is served. ``timermq store diverged`` lists it, so that an
operator can send again what is missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import attrs

from timermq.pipeline.records.deduplication import origin_in
from timermq.pipeline.records.system_topics import CANCEL_MARK_TOPIC, QUARANTINE_TOPIC
from timermq.pipeline.records.timer_record import TIMER_TOPIC, TimerRecordError, decode_timer
from timermq.timerstore.commit_log import CommitLog
from timermq.timerstore.disk import Disk, File
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.record import BLANK_MAGIC, BLANK_SIZE, FIXED_SIZE_V1, Record, decode_record
from timermq.timerstore.record_layout import BLANK
from timermq.timerstore.record_spans import RecordError

DIRECTORY = "diverged"
COPY_SIZE = 1 << 20
"""Bytes that are copied or compared in one step."""

_NAME = re.compile(r"([0-9]{20})-([0-9]{20})(-[0-9]+)?")


@attrs.frozen(kw_only=True)
class DivergedRecord:
    """One record that was cut off, as far as an operator needs it."""

    file: str
    """Under the store's directory."""
    phy_offset: int
    size: int
    kind: str
    """``message``, ``timer``, ``roll``, ``cancel``, ``delivery``, ``cancel mark``, ``quarantine``;
    ``damaged`` of what is no record."""
    topic: str
    """Where the message goes, or went."""
    queue_id: int
    unique_id: str | None
    keys: str
    deliver_ms: int | None
    """The moment asked for, epoch milliseconds; None of what is no timer."""
    store_ms: int
    origin_py: int | None
    """Position of the record that was delivered, rolled, cancelled or quarantined."""


class DivergedRecords:
    """The directory of one store.

    Args:
        disk: The disk of the store.
        root: Its directory.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self.directory = f"{root}/{DIRECTORY}"
        self._disk = disk

    def save(self, log: CommitLog, start: int, end: int) -> str:
        """Copy a part of the log, durably (blocking); where it has a copy already, that counts.

        Args:
            log: The log.
            start: Position of a record.
            end: End of the log.

        Returns:
            Path of the copy.

        Raises:
            OSError: No room; nothing has changed.
        """
        for directory in self._disk.make_dirs(self.directory):
            self._disk.sync_dir_now(directory)
        names = self.names()
        for name in names:
            path = f"{self.directory}/{name}"
            if name.startswith(f"{start:020d}-") and self._has(path, log, start, end):
                return path
        name, number = f"{start:020d}-{end:020d}", 1
        while name in names:
            number += 1
            name = f"{start:020d}-{end:020d}-{number}"
        path = f"{self.directory}/{name}"
        part = f"{self.directory}/part"
        self._disk.remove(part)
        with closing(self._disk.open(part, create=True)) as file:
            for at, data in _pieces(log, start, end):
                file.write(at - start, data)
            self._disk.sync_now(file)
        self._disk.rename(part, path)
        self._disk.sync_dir_now(self.directory)
        return path

    def _has(self, path: str, log: CommitLog, start: int, end: int) -> bool:
        """Whether a copy begins with the bytes of the log between two positions."""
        with closing(self._disk.open(path, read_only=True)) as file:
            return file.size() >= end - start and all(
                file.read(at - start, len(data)) == data for at, data in _pieces(log, start, end)
            )

    def names(self) -> list[str]:
        """The names of the copies, in the order of where they begin."""
        return [name for name in self._disk.list_dir(self.directory) if _NAME.fullmatch(name)]

    def rows(self, precision_ms: int) -> Iterator[DivergedRecord]:
        """Every record of every copy.

        Args:
            precision_ms: Width of a slot.

        Raises:
            StoreFormatError: A copy is shorter than its name says.
        """
        for name in self.names():
            with closing(self._disk.open(f"{self.directory}/{name}", read_only=True)) as file:
                yield from _rows(file, name, precision_ms)


def _pieces(log: CommitLog, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    while start < end:
        data = log.read(start, min(COPY_SIZE, end - start))
        assert data
        yield start, data
        start += len(data)


def _rows(file: File, name: str, precision_ms: int) -> Iterator[DivergedRecord]:
    found = _NAME.fullmatch(name)
    assert found is not None
    first, end = int(found[1]), int(found[2])
    if file.size() != end - first:
        raise StoreFormatError(file.path, 0, f"{end - first} bytes", f"{file.size()}")
    at, place = 0, f"{DIRECTORY}/{name}"
    while at < end - first:
        size, magic = BLANK.struct.unpack(file.read(at, BLANK_SIZE).ljust(BLANK_SIZE, b"\0"))
        if magic != BLANK_MAGIC:
            size = size if FIXED_SIZE_V1 <= size <= end - first - at else end - first - at
            yield _row(file.read(at, size), place, first + at, precision_ms)
        at += max(size, BLANK_SIZE)


def _row(data: bytes, place: str, phy_offset: int, precision_ms: int) -> DivergedRecord:
    try:
        record = decode_record(data)
    except RecordError:
        return DivergedRecord(
            file=place,
            phy_offset=phy_offset,
            size=len(data),
            kind="damaged",
            topic="",
            queue_id=-1,
            unique_id=None,
            keys="",
            deliver_ms=None,
            store_ms=0,
            origin_py=None,
        )
    origin = origin_in(data)
    topic, queue_id, deliver_ms = record.topic, record.queue_id, None
    kind = _kind_elsewhere(record, origin)
    if record.topic == TIMER_TOPIC:
        try:
            facts = decode_timer(data, phy_offset, precision_ms)
        except TimerRecordError:
            kind = "timer"
        else:
            kind = "cancel" if facts.is_delete else "roll" if facts.rolls else "timer"
            topic, queue_id = facts.destination.topic, facts.destination.queue_id
            deliver_ms = facts.deliver_ms
    return DivergedRecord(
        file=place,
        phy_offset=phy_offset,
        size=len(data),
        kind=kind,
        topic=topic,
        queue_id=queue_id,
        unique_id=record.unique_id,
        keys=record.keys,
        deliver_ms=deliver_ms,
        store_ms=record.store_ms,
        origin_py=origin,
    )


def _kind_elsewhere(record: Record, origin: int | None) -> str:
    """The kind of a record that is in no timer topic."""
    if record.topic == CANCEL_MARK_TOPIC:
        return "cancel mark"
    if record.topic == QUARANTINE_TOPIC:
        return "quarantine"
    return "message" if origin is None else "delivery"
