"""The timer service on a staged disk and clock: store, stages and recovery are the real ones."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import attrs
import trio

from fakes import VirtualClock
from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.disk import Disk
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

ROOT = "/store"
HOST = pack_host("127.0.0.1", 10911)

SMALL_FILES = StoreOptions(
    mapped_file_size_commit_log=1 << 16,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=16,
    max_index_num=64,
)
SMALL_WHEEL = TimerOptions(
    timer_roll_window_slot=20,
    slots_total=120,
    mapped_file_size_timer_log=52 * 40 + 16,
    clock_check_interval_ms=3_600_000,
)


MADE_FROM_LOG = (
    FileFamily.CONSUME_QUEUE,
    FileFamily.INDEX,
    FileFamily.TIMER_LOG,
    FileFamily.TIMER_WHEEL,
    FileFamily.STORE_CHECKPOINT,
    FileFamily.TIMER_CHECKPOINT,
)
"""What can be made again from the commit log."""
SYNCED_FAMILIES = (FileFamily.COMMIT_LOG, *MADE_FROM_LOG)
"""What is synced while the store is served; JSON tables are written anew each time."""


@attrs.frozen
class Arrival:
    """A record that appeared on a topic."""

    body: str
    unique_id: str
    topic: str
    queue_id: int
    stored_ms: int
    phy_offset: int


@contextlib.asynccontextmanager
async def running(
    disk: Disk,
    clock: VirtualClock | WatchedClock,
    *,
    store_options: StoreOptions = SMALL_FILES,
    timer_options: TimerOptions = SMALL_WHEEL,
    stop: bool = True,
) -> AsyncGenerator[TimerMessageStore]:
    """The service for the length of a block; then stopped in order, or left as a kill leaves it."""
    store = MessageStore.open(disk, ROOT, store_options, now_ms=clock.now_ms, store_host=HOST)
    service = TimerMessageStore(store, timer_options, clock)
    if isinstance(clock, WatchedClock):
        clock.begin(service.persisted_ms)
    async with trio.open_nursery() as nursery:
        await nursery.start(_run, store)
        async with trio.open_nursery() as stages:
            await stages.start(_run, service)
            yield service
            if stop:
                service.request_stop()
            else:
                nursery.cancel_scope.cancel()
        if stop:
            await store.aclose()
        nursery.cancel_scope.cancel()


async def _run(
    part: MessageStore | TimerMessageStore,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    await part.run(task_status=task_status)


def timed(body: str, deliver_ms: int, *, topic: str = "T", queue_id: int = 0) -> Message:
    """A message for a moment, named by its body."""
    return Message(
        topic=topic,
        queue_id=queue_id,
        body=body.encode(),
        properties=f"UNIQ_KEY\x01{body}\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02".encode(),
        born_host=HOST,
    )


def delete_of(body: str, deliver_ms: int, *, topic: str = "T") -> Message:
    """What a recall stores: a delete for the same moment."""
    text = f"TIMER_DEL_UNIQKEY\x01{topic}+{body}\x02TIMER_DELIVER_MS\x01{deliver_ms}\x02"
    return Message(topic=topic, queue_id=0, body=b"0", properties=text.encode(), born_host=HOST)


def stored_delete(topic: str, name: str, deliver_ms: int, unique_key: str = "") -> Message:
    """A delete as it stands in the timer topic, without an order."""
    out_ms = (deliver_ms - 1) // 1000 * 1000
    text = f"TIMER_DEL_UNIQKEY\x01{name}\x02UNIQ_KEY\x01{unique_key or name}\x02".encode()
    tail = timer_tail(deliver_ms=deliver_ms, out_ms=out_ms, topic=topic, queue_id=0)
    return Message(TIMER_TOPIC, 0, b"0", text + tail)


def arrivals_everywhere(store: MessageStore) -> list[Arrival]:
    """Every record of the log, in its order."""
    log = store.commit_log
    records = (
        decode_record(log.read(phy_offset, size))
        for phy_offset, size in log.scan(log.min_offset, check_crc=True)
    )
    return [
        Arrival(
            body=record.body.decode("utf-8", "replace"),
            unique_id=record.unique_id or "",
            topic=record.topic,
            queue_id=record.queue_id,
            stored_ms=record.store_ms,
            phy_offset=record.phy_offset,
        )
        for record in records
    ]


def arrivals(store: MessageStore, topic: str = "T") -> list[Arrival]:
    """Everything on a topic, in the order of the log."""
    return [one for one in arrivals_everywhere(store) if one.topic == topic]


SYNC_FILES = attrs.evolve(SMALL_FILES, flush_disk_type=FlushDiskType.SYNC_FLUSH)
QUIET_FILES = attrs.evolve(
    SMALL_FILES,
    file_reserved_time_hours=8760,
    flush_interval_commit_log_ms=600_000,
    flush_interval_consume_queue_ms=600_000,
    clean_resource_interval_ms=3_600_000,
    index_flush_interval_ms=3_600_000,
)
"""Files that are kept for a year and looked after rarely: for long spans of virtual time."""
