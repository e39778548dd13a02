"""SIGKILL while a job is staged, committed and ingested by a real broker: each row once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import trio

from broker_rig import Peer
from bulk_driver import Driver, read
from interop.serving import Broker, StartBroker
from interop.stored_records import stored_records
from timermq.remoting.bulk import JobOpened, JobState, JobStatus, OpenJob, bulk_request
from timermq.remoting.bulk_block import BulkBlock, BulkColumn

pytestmark = [pytest.mark.slow, pytest.mark.interop]

ROWS = 24_000
BLOCK_ROWS = 1_000
KILLS = 4
TOPIC = "BulkKill"


def blocks(job_ms: int) -> list[BulkBlock]:
    """The job: every third row for now, the others within three seconds, each with its number."""
    whole = BulkBlock.of(
        TOPIC,
        BulkColumn.of([b"%d" % row for row in range(ROWS)]),
        deliver_ms=np.array([job_ms + row % 3 * 1_500 if row % 3 else 0 for row in range(ROWS)]),
        properties={"KEYS": BulkColumn.of([b"k%d" % (row % 1_000) for row in range(ROWS)])},
    )
    return [whole.slice(first, first + BLOCK_ROWS) for first in range(0, ROWS, BLOCK_ROWS)]


@asynccontextmanager
async def connected(broker: Broker) -> AsyncGenerator[Driver]:
    """A driver of the job."""
    host, _, port = broker.listen.rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Driver(Peer(stream))


async def decide(driver: Driver, run: int) -> None:
    """What a driver does until the job is decided, however far it is."""
    opened = read(JobOpened, await driver.ask(bulk_request(driver.job, OpenJob())))
    if opened.state is not JobState.OPEN:
        return
    made = blocks(opened.job_ms)
    half = len(made) // 2
    await driver.stage(f"run{run}-0", *made[:half])
    await driver.stage(f"run{run}-1", *made[half:])
    rows = half * BLOCK_ROWS
    answer = await driver.commit((f"run{run}-0", rows), (f"run{run}-1", ROWS - rows))
    assert read(JobStatus, answer).taken


async def killed_and_started(start: StartBroker, broker: Broker, draw: random.Random) -> Broker:
    """The first broker is killed while parts are staged, the others while rows are ingested."""
    for run in range(KILLS):
        async with connected(broker) as driver:
            with trio.move_on_after(0.05 if run == 0 else 60):
                await decide(driver, run)
            await trio.sleep(0.01 + draw.random() * 0.1)
            broker.kill()
        again = partial(start, broker.store, listen=broker.listen, namesrv=broker.namesrv)
        broker = await trio.to_thread.run_sync(again)
    return broker


async def test_bulk_kill(tmp_path: Path, start: StartBroker) -> None:
    """Whenever the broker is killed, and however often the driver runs again."""
    broker = await killed_and_started(start, start(tmp_path / "store"), random.Random(20261121))
    async with connected(broker) as driver:
        await decide(driver, KILLS)
        with trio.fail_after(120):
            while (await driver.status()).state is not JobState.DONE:  # noqa: ASYNC110 - asked
                await trio.sleep(0.05)
    await trio.sleep(4)
    code = broker.stop()
    times = Counter(int(one.body) for one in stored_records(tmp_path / "store", TOPIC))

    assert code == 0
    assert broker.log.read_bytes().count(b"bulk job goes on") > 0
    assert [row for row in range(ROWS) if not times[row]] == [], "lost"
    assert [row for row in range(ROWS) if times[row] > 1] == [], "twice"
