"""One process over a small store: the timer service, transactions and bulk jobs above it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import trio

from broker_rig import ADDRESS, BROKER
from fakes import VirtualClock
from simulation.bulk_workloads import Desk as BulkDesk
from simulation.staged_service import HOST, ROOT, running
from timermq.broker.broker_parts import BrokerParts
from timermq.broker.bulk.bulk_scheduling import BulkScheduling
from timermq.broker.config_table import ConfigSaver
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.options import BrokerOptions
from timermq.broker.transactions.transactions import Transactions
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_id import UniqueIdGenerator
from timermq.timerstore.store_options import FlushDiskType, StoreOptions

FILES = StoreOptions(
    mapped_file_size_commit_log=8_192,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=16,
    max_index_num=64,
    file_reserved_time_hours=8_760,
    clean_resource_interval_ms=3_600_000,
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
    message_delay_level="1s 5s 10s 20s",
)
WHEEL = TimerOptions(
    slots_total=60,
    timer_roll_window_slot=20,
    mapped_file_size_timer_log=52 * 3 + 16,
    clock_check_interval_ms=3_600_000,
    message_delay_level="1s 5s 10s 20s",
)
OPTIONS = BrokerOptions(transaction_time_out_ms=600_000)


@attrs.frozen
class Parts:
    """What stands above the timer service; every part makes each opening dearer."""

    transactions: bool = False
    bulk: bool = False


@attrs.define(eq=False)
class Process:
    """What can be done at a process that runs."""

    service: TimerMessageStore
    clock: VirtualClock
    transactions: Transactions | None = None
    saver: ConfigSaver | None = None
    bulk: BulkDesk | None = None


@asynccontextmanager
async def serving(
    disk: MemoryDisk, clock: VirtualClock, parts: Parts, *, stop: bool
) -> AsyncGenerator[Process]:
    """A process for the length of a block; then stopped in order, or left as a kill leaves it."""
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL, stop=stop) as service:
        process = Process(service, clock)
        if parts.transactions:
            offsets = ConsumerOffsetTable(now_ms=clock.now_ms, version_step=500)
            process.saver = ConfigSaver(disk, ROOT, prompt=(), periodic=(offsets,), interval_ms=1)
            process.saver.load()
            process.transactions = Transactions(service, offsets, OPTIONS)
        if not parts.bulk:
            yield process
            return
        scheduling = _bulk(service, clock)
        process.bulk = BulkDesk(scheduling, scheduling.processor.jobs, service, None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scheduling.ingest_task.run)
            yield process
            nursery.cancel_scope.cancel()


def _bulk(service: TimerMessageStore, clock: VirtualClock) -> BulkScheduling:
    unique_ids = UniqueIdGenerator(HOST, 1, instance=1, now_ms=clock.now_ms)
    return BulkScheduling.build(
        BrokerParts.of(BROKER, service, clock.now_ms, address=ADDRESS, unique_ids=unique_ids)
    )
