"""Bulk jobs, reopened in every state that a crash may leave the disk in.

As ``test_crash_states``, with its selection. In each state the job is run again by another driver;
then every row has arrived once, or is refused once, and what drivers were told stays true.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from fakes import VirtualClock
from simulation.bulk_workloads import ASYNC, BULK_WORKLOADS, JOB, Rows, arrived, desk
from simulation.crash_selection import different_states, selected
from simulation.crash_states import CrashState, CrashStates
from simulation.staged_service import HOST
from timermq.broker.refusal import RefusedError
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message

STATES_MIN = 200
"""States of each workload: a workload that leaves fewer does nothing any more."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BULK_WORKLOADS)
def test_every_crash_state(name: str) -> None:
    """Every row once, also with ASYNC_FLUSH and a power cut: the parts outlive the log's tail."""
    workload = BULK_WORKLOADS[name]
    recording = workload.record()
    count, states = different_states(recording, is_sync_flush=workload.files.is_sync_flush)
    faults = {
        f"{state.event_count} {state.label}": found
        for state in selected(states)
        if (found := workload.faults_in(recording, state))
    }

    assert faults == {}
    assert count >= STATES_MIN


async def test_a_log_that_a_power_cut_made_shorter(autojump_clock: MockClock) -> None:
    """Rows that are stored where the log had been further before are found after a kill."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    rows = Rows(parts=(((0, 2, 4), (6, 8)),))
    async with desk(disk, clock, ASYNC, None, ingests=False) as one:
        others = [Message("Other", 0, bytes(500), b"a\x01b\x02", born_host=HOST)] * 8
        parts = await one.stage(rows, "run")
        await one.service.store.flush()
        one.service.put(others)
        await one.commit(parts)
    disk.power_cut()
    async with desk(disk, clock, ASYNC, None) as one:
        for _ in range(10_000):
            if one.scheduling.ingest_task.ingested >= 3:
                break
            await trio.lowlevel.checkpoint()
    disk.process_kill()
    async with desk(disk, clock, ASYNC, None) as one:
        job = await one.done()

        assert arrived(one.service.store) == dict.fromkeys(rows.all, 1)
        assert (job.status().adopted, job.was_found) == (5, False)


async def test_a_kill_among_rows_that_a_kill_left(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress amid rows of the process before still leads to those behind it."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    rows = Rows(parts=(tuple((row,) for row in range(0, 80, 2)),))
    async with desk(disk, clock, ASYNC, None) as one:
        await one.run_job(rows, "run")
        while one.scheduling.ingest_task.ingested < 30:
            await trio.lowlevel.checkpoint()
    disk.process_kill()
    monkeypatch.setattr("timermq.broker.bulk.ingest_task.NOTE_INTERVAL_S", 0)
    async with desk(disk, clock, ASYNC, None) as one:
        job = one.jobs.get(JOB)
        while job.progress is None or not job.progress.row:
            await trio.lowlevel.checkpoint()
        assert job.progress.row < 30
    disk.process_kill()
    async with desk(disk, clock, ASYNC, None) as one:
        await one.done()

        assert arrived(one.service.store) == dict.fromkeys(rows.all, 1)


async def test_a_progress_that_is_lost(autojump_clock: MockClock) -> None:
    """The rows that stand in the log are looked for from the commit on: none comes twice."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    rows = Rows(parts=(tuple((row,) for row in range(0, 80, 2)),))
    async with desk(disk, clock, ASYNC, None) as one:
        one.service.put([Message("Other", 0, bytes(500), b"", born_host=HOST)])
        await one.run_job(rows, "run")
        while one.scheduling.ingest_task.ingested < 30:
            await trio.lowlevel.checkpoint()
        path = one.jobs.get(JOB).path("progress")
    disk.process_kill()
    disk.remove(path)
    async with desk(disk, clock, ASYNC, None) as one:
        await one.done()

        assert arrived(one.service.store) == dict.fromkeys(rows.all, 1)


def test_a_broker_that_does_not_sync_is_found_out() -> None:
    """With the syncs of files left out, some state breaks a promise."""
    workload = BULK_WORKLOADS["whole"]
    recording = workload.record().without_syncs()
    states = [one for one in CrashStates(recording.events, only_max=0) if one.label == "none"]

    def is_found_out(state: CrashState) -> bool:
        try:
            return bool(workload.faults_in(recording, state))
        except BaseExceptionGroup as error:  # what cannot be read is refused by name
            return error.split(RefusedError)[1] is None

    assert any(map(is_found_out, states[::10]))
