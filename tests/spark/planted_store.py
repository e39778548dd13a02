"""A store that was stopped in order, to be changed behind its back."""

from __future__ import annotations

from simulation.staged_service import QUIET_FILES, ROOT, SMALL_WHEEL
from timermq.pipeline.records.timer_properties import DELETE
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import UNIT
from timermq.timerlog.segment import units_in
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT as QUEUE_UNIT
from timermq.timerstore.record import decode_record, record_properties
from timermq.timerstore.record_layout import HEAD

LOG = f"commitlog/{0:020d}"
"""The first segment of the commit log."""
SEGMENT_UNITS = units_in(SMALL_WHEEL.mapped_file_size_timer_log)
"""Units of a segment of the timer log."""


class Plant:
    """Its files, and where in them everything stands.

    Args:
        disk: Where it is, under ``ROOT``; it had ``QUIET_FILES`` and ``SMALL_WHEEL``.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.waiting: dict[str, list[int]] = {}
        """The records of a message in the timer topic: more than one of what was rolled."""
        self.deletes: dict[str, int] = {}
        self.arrived: dict[str, int] = {}
        self.store = store = MessageStore.open(
            disk, ROOT, QUIET_FILES, now_ms=disk.now_ms, store_host=bytes(8)
        )
        for phy_offset, size in store.commit_log.scan(0, check_crc=True):
            data = store.commit_log.read(phy_offset, size)
            record = decode_record(data)
            name = record.unique_id or ""
            if record.topic == "T":
                self.arrived[name] = phy_offset
            elif DELETE in record_properties(data):
                self.deletes.setdefault(name, phy_offset)
            else:
                self.waiting.setdefault(name, []).append(phy_offset)

    def write(self, path: str, offset: int, data: bytes) -> None:
        """Change bytes of a file."""
        file = self.disk.open(f"{ROOT}/{path}")
        file.write(offset, data)
        file.close()

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Bytes of a file of the store, from an offset on."""
        return self.disk.open(f"{ROOT}/{path}").read(offset, size)

    def set_head(self, phy_offset: int, field: str, data: bytes) -> None:
        """Change a field in the head of a record."""
        at = phy_offset % QUIET_FILES.mapped_file_size_commit_log
        self.write(f"commitlog/{phy_offset - at:020d}", at + HEAD.offset_of(field), data)

    def set_queue_unit(self, topic: str, number: int, data: bytes) -> None:
        """Change a unit of queue 0 of a topic."""
        self.write(f"consumequeue/{topic}/0/{0:020d}", number * QUEUE_UNIT.size, data)

    def queue_unit(self, topic: str, number: int) -> bytes:
        """A unit of queue 0 of a topic."""
        place = f"consumequeue/{topic}/0/{0:020d}"
        return self.read(place, number * QUEUE_UNIT.size, QUEUE_UNIT.size)

    def unit_of(self, offset_py: int) -> int:
        """Position of the unit that names a record."""
        size = SMALL_WHEEL.mapped_file_size_timer_log
        for pos in range(0, 40 * size, size):
            path = f"timerlog/{pos:020d}"
            if self.disk.exists(f"{ROOT}/{path}"):
                data = self.read(path, 0, SEGMENT_UNITS * UNIT.size)
                for at in range(0, len(data), UNIT.size):
                    unit = dict(
                        zip(UNIT.names, UNIT.unpack(data[at : at + UNIT.size]), strict=True)
                    )
                    if unit["size"] == UNIT.size and unit["offset_py"] == offset_py:
                        return pos + at
        raise AssertionError(f"no unit of {offset_py}")

    def set_unit(self, pos: int, field: str, data: bytes) -> None:
        """Change a field of a unit."""
        size = SMALL_WHEEL.mapped_file_size_timer_log
        self.write(f"timerlog/{pos - pos % size:020d}", pos % size + UNIT.offset_of(field), data)
