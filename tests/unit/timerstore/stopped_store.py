"""A store on a disk, stopped in some way: its files can be made wrong before it is opened again."""

from __future__ import annotations

import trio

from fakes import ManualClock
from small_store import (
    ROOT,
    SEGMENT_SIZE,
    open_store,
    put_bodies,
)
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_checkpoint import StoreCheckpoint

BODIES = [letter * 100 for letter in "abcdefghijklmnop"]
"""Five of their records of 192 bytes fill a segment."""

RECORD_SIZE = 192

POSITIONS = [number // 5 * SEGMENT_SIZE + number % 5 * RECORD_SIZE for number in range(16)]


class Rig:
    """A store on a disk, stopped in some way."""

    def __init__(self, count: int = 12) -> None:
        self.clock = ManualClock()
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        store = self.open()
        for body in BODIES[:count]:
            put_bodies(store, body)
            self.clock.time_ms += 1000
        self.store = store

    def open(self, *, read_only: bool = False) -> MessageStore:
        """Open the store on the disk, as a new process does."""
        return open_store(self.disk, self.clock, read_only=read_only)

    def stop(self) -> None:
        """Stop the store in order, as a clean exit does."""
        trio.run(self.store.aclose)

    def kill(self) -> None:
        """Make everything durable, then kill."""
        trio.run(self.store.flush)
        self.disk.process_kill()

    def write(self, offset: int, data: bytes) -> None:
        """Write bytes over those of the log at a position."""
        path = f"{ROOT}/commitlog/{offset // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
        self.disk.open(path).write(offset % SEGMENT_SIZE, data)

    def write_unit(self, number: int, unit: bytes) -> None:
        """Write over a unit of queue 0 of topic T."""
        path = f"{ROOT}/consumequeue/T/0/{number // 5 * 100:020d}"
        self.disk.open(path).write(number % 5 * 20, unit)

    def set_checkpoint(self, physic_ms: int, logics_ms: int) -> None:
        """Set two times of the store's checkpoint, in milliseconds since the epoch."""
        checkpoint = StoreCheckpoint.open(self.disk, f"{ROOT}/checkpoint")
        checkpoint.physic_msg_timestamp = physic_ms
        checkpoint.logics_msg_timestamp = logics_ms
        checkpoint.write()

    def contents(self, path: str = ROOT) -> dict[str, bytes]:
        """All files of the store but the lock."""
        found: dict[str, bytes] = {}
        for name in self.disk.list_dir(path):
            if self.disk.is_dir(f"{path}/{name}"):
                found |= self.contents(f"{path}/{name}")
            elif name != "lock":
                file = self.disk.open(f"{path}/{name}", read_only=True)
                found[f"{path}/{name}"] = file.read(0, file.size())
                file.close()
        return found


def remove(rig: Rig, path: str) -> None:
    """Remove a directory's files durably, as an operator does while the store is closed."""
    for name in rig.disk.list_dir(path):
        if rig.disk.is_dir(f"{path}/{name}"):
            remove(rig, f"{path}/{name}")
        else:
            rig.disk.remove(f"{path}/{name}")
    rig.disk.sync_dir_now(path)
