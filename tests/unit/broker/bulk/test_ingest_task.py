"""Ingestion when something is in its way: a full disk, a full slot, lost parts, missing rights."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio
from trio.testing import MockClock

from broker_rig import BROKER, ROOT, STORE, TIMER, running_broker
from bulk_driver import Driver, SignedDriver, refusal_in, small_block
from signed import write_rules
from timermq.remoting.bulk import JobState, JobStatus
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.store_options import FlushDiskType


async def done(driver: Driver) -> JobStatus:
    """The status of a job when it is done."""
    for _ in range(2_000):
        status = await driver.status()
        if status.state is JobState.DONE:
            return status
        await trio.sleep(0.1)
    raise AssertionError("the job is not done")


async def retry_error(driver: Driver) -> str:
    """What a job waits for."""
    for _ in range(100):
        text = (await driver.status()).held_up
        if text is not None:
            return text
        await trio.sleep(0.1)
    raise AssertionError("the job is not held up")


def fill(disk: MemoryDisk) -> int:
    """Leave room for a few small files; the size before."""
    total, disk.total = disk.total, disk.usage("/").used + (64 << 10)
    return total


async def test_a_full_disk_holds_a_job_up(autojump_clock: MockClock) -> None:
    """It goes on by itself when there is room, and says meanwhile what it waits for."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block("abc"))
        total = fill(disk)
        await driver.commit(("p", 3))
        assert "commit log" in await retry_error(driver)
        await trio.sleep(60)
        assert (await driver.status()).state is JobState.COMMITTED
        disk.total = total
        status = await done(driver)

        assert (status.adopted, status.refused, status.held_up) == (3, 0, None)
        assert running.broker.statistics().bulk_ingested == 3


async def test_a_part_that_the_disk_loses_is_refused_by_name(autojump_clock: MockClock) -> None:
    """Behind the commit: from the damaged block on, row by row; other parts are ingested."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block("ab"), small_block("cd"))
        await driver.stage("q", small_block("e"))
        await driver.stage("r", small_block("fg"))
        total = fill(disk)
        await driver.commit(("p", 4), ("q", 1), ("r", 2))
        await retry_error(driver)
        file = disk.open(f"{ROOT}/timermq-bulk/J/p.part")
        file.write(file.size() - 1, b"!")
        disk.remove(f"{ROOT}/timermq-bulk/J/q.part")
        disk.total = total
        status = await done(driver)

        assert (status.rows, status.adopted, status.refused) == (7, 4, 3)
        assert [row[:3] for row in status.refused_rows] == [
            ("p", 2, "BULK_PART_DAMAGED"),
            ("p", 3, "BULK_PART_DAMAGED"),
            ("q", 0, "BULK_PART_DAMAGED"),
        ]


async def test_a_full_slot_holds_a_job_up(autojump_clock: MockClock) -> None:
    """Flow control refuses no row: what finds no room waits, at last until its moment."""
    options = attrs.evolve(TIMER, timer_congest_num_each_slot=2)
    async with running_broker(timer_options=options) as running:
        driver = Driver(running.connect())
        moment_ms = (await driver.open()).job_ms + 10_500
        await driver.stage("p", small_block([f"{row}" for row in range(40)], deliver_ms=moment_ms))
        await driver.commit(("p", 40))
        assert (await retry_error(driver)).startswith("TIMER_FLOW_CONTROL")
        status = await done(driver)
        await trio.sleep(5)

        assert (status.adopted, status.refused) == (40, 0)
        queue = running.broker.store.queue("T", 0)
        assert queue is not None
        assert queue.max_offset == 40


async def test_cleaning_leaves_what_a_job_may_have_ingested(autojump_clock: MockClock) -> None:
    """Until it is done: a start looks for its rows in the log, from where it was committed."""
    options = attrs.evolve(BROKER, start_accept_send_request_time_stamp=1 << 60)
    files = attrs.evolve(STORE, mapped_file_size_commit_log=8_192)
    disk = MemoryDisk()
    async with running_broker(disk=disk, options=options, store_options=files) as running:
        store = running.broker.store
        others = [Message("P", 0, b"x" * 3_000) for _ in range(4)]
        store.put(others)
        handed_over = store.commit_log.max_offset
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block("a"))
        await driver.commit(("p", 1))
        await retry_error(driver)
        store.put(others + others)
        await trio.sleep(10)
        disk.total = disk.usage(ROOT).used * 100 // 90
        await store.clean()

        assert 0 < store.commit_log.min_offset <= handed_over


async def test_a_broker_that_does_not_accept_yet_holds_a_job_up(
    autojump_clock: MockClock,
) -> None:
    """As it refuses sends until then."""
    options = attrs.evolve(BROKER, start_accept_send_request_time_stamp=1 << 60)
    async with running_broker(options=options) as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block("a"))
        await driver.commit(("p", 1))

        assert (await retry_error(driver)).startswith("NOT_ACCEPTING_YET")


async def test_with_sync_flush_rows_come_to_their_queues(autojump_clock: MockClock) -> None:
    """The ingest task asks for the syncs that show them."""
    options = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with running_broker(store_options=options) as running:
        driver = Driver(running.connect())
        await driver.open()
        await driver.stage("p", small_block("abc"))
        await driver.commit(("p", 3))

        assert (await done(driver)).adopted == 3


async def test_rights_to_send_are_asked_for(tmp_path: Path, autojump_clock: MockClock) -> None:
    """By each block, and by the driver that commits or looks at the job."""
    options = attrs.evolve(BROKER, acl_enable=True, acl_file=write_rules(tmp_path))
    async with running_broker(options=options) as running:
        producer, consumer, powerless = (
            SignedDriver(running.connect(), account)
            for account in ("producer", "consumer", "powerless")
        )
        await producer.open("T")
        assert (await consumer.stage_block("p", 0, small_block("a"))).code == 16
        other = small_block("a", topic="Other")
        assert (await producer.stage_block("p", 0, other)).code == 16
        await producer.stage("p", small_block("a"))
        assert refusal_in(await powerless.commit(("p", 1))) == "BULK_JOB"
        assert (await producer.commit(("p", 1))).code == 0
        assert (await done(producer)).adopted == 1
        assert (await producer.open()).state is JobState.DONE
