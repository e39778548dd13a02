"""A store in which the body of a message holds whole records of another topic, and is damaged."""

from __future__ import annotations

import attrs
import trio

from fakes import ManualClock
from small_store import HOST, ROOT, open_store, put_bodies, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_layout import BODY_AT
from timermq.timerstore.store_checkpoint import StoreCheckpoint

SEGMENT_SIZE = 8192
FORGERY_OPTIONS = small_options(mapped_file_size_commit_log=SEGMENT_SIZE)
HEAD_SIZE = 40
"""Bytes of a head that are damaged: more than a seal can put right."""


def forged(position: int, *, topic: str = "T", queue_id: int = 0, queue_offset: int = 2) -> bytes:
    """A whole record of another topic, for a place in the log."""
    return encode_record(
        Message(topic, queue_id, b"forged"),
        queue_offset=queue_offset,
        phy_offset=position,
        store_ms=5,
        store_host=HOST,
    )


@attrs.define(eq=False)
class Forgery:
    """Two messages of T; one of P that holds a record of T's next message; two of T, one of Q."""

    topic: str = "T"
    queue_id: int = 0
    holder_count: int = 1
    """Messages of P, side by side."""
    is_last: bool = False
    """Nothing stands behind the message of P."""
    disk: MemoryDisk = attrs.field(init=False)
    clock: ManualClock = attrs.field(factory=ManualClock, init=False)
    holders: list[int] = attrs.field(factory=list[int], init=False)
    """Positions of the messages of P."""
    store: MessageStore = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        self.store = store = self.open()
        put_bodies(store, "a", "b")
        for _ in range(self.holder_count):
            at, pieces = store.commit_log.max_offset + BODY_AT, b"hello "
            for _ in range(5):
                place = at + len(pieces)
                pieces += forged(place, topic=self.topic, queue_id=self.queue_id) + b"gap"
            self.put(pieces + b"." * 600)
        if not self.is_last:
            put_bodies(store, "c", "d")
            put_bodies(store, "q", topic="Q")

    def put(self, body: bytes) -> None:
        """Store a message of P."""
        self.holders.append(self.store.commit_log.max_offset)
        (result,) = self.store.put([Message("P", 0, body)])
        assert result.status.is_stored

    def open(self) -> MessageStore:
        """Open a store on the disk, as a new process does."""
        return open_store(self.disk, self.clock, FORGERY_OPTIONS)

    def stop(self) -> None:
        """Stop the store in order, so that the next start trusts its files."""
        trio.run(self.store.aclose)

    def kill(self) -> None:
        """A kill; the checkpoint knows of the first two messages."""
        trio.run(self.store.flush)
        self.disk.process_kill()
        checkpoint = StoreCheckpoint.open(self.disk, f"{ROOT}/checkpoint")
        checkpoint.durable_py = self.holders[0]
        checkpoint.write()
        self.disk.sync_now(checkpoint.file)
        checkpoint.close()

    def write(self, at: int, data: bytes) -> None:
        """Let bytes of the log be others, durably."""
        file = self.disk.open(f"{ROOT}/commitlog/{0:020}")
        file.write(at, data)
        self.disk.sync_now(file)
        file.close()

    def damage(self) -> None:
        """Damage the heads of all messages of P."""
        for at in self.holders:
            self.write(at, bytes(HEAD_SIZE))

    def write_unit(self, topic: str, offset: int, unit: bytes) -> None:
        """Let a unit of a queue be another, durably."""
        file = self.disk.open(f"{ROOT}/consumequeue/{topic}/0/{0:020}")
        file.write(offset * UNIT.size, unit)
        self.disk.sync_now(file)
        file.close()

    def remove(self, topic: str) -> None:
        """Remove the queue of a topic, durably."""
        directory = f"{ROOT}/consumequeue/{topic}/0"
        for name in self.disk.list_dir(directory):
            self.disk.remove(f"{directory}/{name}")
        self.disk.sync_dir_now(directory)
