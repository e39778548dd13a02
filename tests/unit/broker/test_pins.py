"""Who pins the log of a broker: no order in which its parts are made loses what one needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import ADDRESS, BROKER, ROOT, STORE, TIMER, running_broker
from bulk_driver import Driver, small_block
from fakes import ManualClock
from simulation.transaction_workloads import half
from timermq.broker.broker_parts import BrokerParts
from timermq.broker.bulk.bulk_scheduling import BulkScheduling
from timermq.broker.config_table import ConfigSaver
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.transactions.transactions import Transactions
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_id import UniqueIdGenerator
from timermq.timerstore.message_store import MessageStore
from unit.broker.bulk.test_ingest_task import retry_error

HOST = bytes(8)
DAY = b"TIMER_DELAY_SEC\x0186400\x02"
NOT_YET = attrs.evolve(BROKER, start_accept_send_request_time_stamp=1 << 60)
"""Such a broker has jobs that are committed, and ingests no row of them."""


async def filled() -> tuple[MemoryDisk, int, dict[str, int]]:
    """A disk that a broker was stopped on, its time, and what its owners needed at last."""
    disk = MemoryDisk()
    async with running_broker(disk=disk, options=NOT_YET) as running:
        broker = running.broker
        broker.transactions.put_halves([half(1)], [""])
        broker.timer_store.put([Message("T", 0, b"later", properties=DAY)])
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block("a"))
        await driver.commit(("p", 1))
        await retry_error(driver)
        needed = broker.store.pins.needed()
    return disk, running.clock.now_ms(), needed


def make_transactions(service: TimerMessageStore, _clock: ManualClock) -> None:
    """As the broker makes them."""
    offsets = ConsumerOffsetTable(now_ms=service.clock.now_ms, version_step=1)
    ConfigSaver(service.store.disk, ROOT, prompt=(), periodic=(offsets,), interval_ms=1).load()
    Transactions(service, offsets, BROKER)


def make_bulk(service: TimerMessageStore, clock: ManualClock) -> None:
    """As the broker makes it."""
    unique_ids = UniqueIdGenerator(HOST, 1, instance=1, now_ms=clock.now_ms)
    BulkScheduling.build(
        BrokerParts.of(BROKER, service, clock.now_ms, address=ADDRESS, unique_ids=unique_ids)
    )


Makers = Sequence[Callable[[TimerMessageStore, ManualClock], None]]


@pytest.mark.parametrize("makers", list(itertools.permutations((make_transactions, make_bulk))))
async def test_no_order_of_construction_loses_a_pin(
    autojump_clock: MockClock, makers: Makers
) -> None:
    """What a running broker needed of the log, its store needs when it is opened again.

    But for the timers: until it moves, their checkpoint has a recovery read from the start.
    """
    disk, now_ms, needed = await filled()
    clock = ManualClock(now_ms)
    store = MessageStore.open(disk, ROOT, STORE, now_ms=clock.now_ms, store_host=HOST)
    service = TimerMessageStore(store, TIMER, clock)
    for make in makers:
        make(service, clock)
    found, timers = store.pins.needed(), service.needed_from()
    service.files.close()
    store.abandon()

    assert set(needed) == {"timers", "transactions", "bulk jobs"}
    assert len(set(needed.values())) == 3
    assert found == needed | {"timers": timers}


async def test_timers_that_have_ended_keep_their_pin(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files are closed before the store, which may clean until then."""
    closed: list[TimerFiles] = []
    close = TimerFiles.close

    def note(files: TimerFiles) -> None:
        closed.append(files)
        close(files)

    monkeypatch.setattr(TimerFiles, "close", note)
    async with running_broker() as running:
        broker = running.broker
        broker.timer_store.put([Message("T", 0, b"later", properties=DAY)])
        broker.timer_store.request_stop()
        await trio.sleep(1)

        assert closed == [broker.timer_store.files]
        assert broker.store.pins.needed() == {"timers": 0}
