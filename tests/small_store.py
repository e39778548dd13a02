"""A message store with tiny files: segments of a few records, queue files of five units."""

from __future__ import annotations

from typing import Any

from fakes import ManualClock
from timermq.timerstore.disk import Disk
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

ROOT = "/store"
SEGMENT_SIZE = 1024
HOST = pack_host("127.0.0.1", 10911)
EVERYTHING = 1 << 20


def small_options(**changes: Any) -> StoreOptions:  # noqa: ANN401 - passed on
    """Settings of a store with tiny files, with these changes."""
    settings: dict[str, Any] = {
        "mapped_file_size_commit_log": SEGMENT_SIZE,
        "mapped_file_size_consume_queue": 100,
        "max_hash_slot_num": 5,
        "max_index_num": 20,
    }
    return StoreOptions(**settings | changes)


SYNC_OPTIONS = small_options(flush_disk_type=FlushDiskType.SYNC_FLUSH)


def open_store(
    disk: Disk,
    clock: ManualClock | None = None,
    options: StoreOptions | None = None,
    *,
    read_only: bool = False,
) -> MessageStore:
    """Open the store of a disk, making it if there is none."""
    return MessageStore.open(
        disk,
        ROOT,
        options or small_options(),
        now_ms=(clock or ManualClock()).now_ms,
        store_host=HOST,
        read_only=read_only,
    )


def message(
    body: str = "x",
    topic: str = "T",
    queue_id: int = 0,
    properties: bytes = b"",
    **fields: Any,  # noqa: ANN401 - passed on
) -> Message:
    """A message to be stored."""
    return Message(
        topic=topic, queue_id=queue_id, body=body.encode(), properties=properties, **fields
    )


def put_bodies(store: MessageStore, *bodies: str, topic: str = "T", queue_id: int = 0) -> None:
    """Store messages one by one; each has to be taken."""
    for body in bodies:
        (result,) = store.put([message(body, topic, queue_id)])
        assert result.status.is_stored, result.remark


def read_bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[str]:
    """Bodies of a queue, in its order."""
    queue = store.queue(topic, queue_id)
    bodies: list[str] = []
    offset = 0 if queue is None else queue.min_offset
    while True:
        got = store.get(topic, queue_id, offset, count_max=32, bytes_max=EVERYTHING)
        data = b"".join(got.records)
        while data:
            size = int.from_bytes(data[:4])
            bodies.append(decode_record(data[:size]).body.decode())
            data = data[size:]
        if not got.count:
            return bodies
        offset = got.next_offset
