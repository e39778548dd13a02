"""Tests of recovery: ways in which a process may end, and where the next one begins to read."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from fakes import START_MS
from small_store import (
    ROOT,
    SEGMENT_SIZE,
    message,
    put_bodies,
    read_bodies,
)
from unit.timerstore.stopped_store import BODIES, POSITIONS, Rig


def test_a_clean_stop_needs_no_recovery() -> None:
    """The walk begins at the newest record, and nothing is dispatched."""
    rig = Rig()
    rig.stop()

    store = rig.open()
    report = store.recovery

    assert (True, POSITIONS[11], 1, 0) == (
        report.last_exit_ok,
        report.scan_from,
        report.record_count,
        report.dispatched_count,
    )
    assert BODIES[:12] == read_bodies(store)
    assert (START_MS + 11_000, ()) == (store.last_store_ms, report.notes)


def test_a_store_without_messages_is_opened_again() -> None:
    """An empty store is opened again, stopped in order or killed."""
    rig = Rig(0)
    rig.stop()
    store = rig.open()

    assert (0, 0) == (store.recovery.record_count, store.commit_log.max_offset)

    rig.disk.process_kill()

    store = rig.open()
    put_bodies(store, "a")

    assert ["a"] == read_bodies(store)


@pytest.mark.parametrize(
    ("min_ms", "scan_from"),
    [(-1, 0), (0, 0), (4999, 0), (5000, 1024), (9999, 1024), (10_000, 2048), (99_000, 2048)],
)
def test_after_a_kill_the_walk_begins_where_the_checkpoint_says(
    min_ms: int, scan_from: int
) -> None:
    """At the newest segment whose first record is old enough; queues are made again from there."""
    rig = Rig()
    rig.kill()
    rig.set_checkpoint(START_MS + min_ms + 3000, START_MS + 99_000)

    store = rig.open()
    report = store.recovery

    assert (False, scan_from) == (report.last_exit_ok, report.scan_from)
    assert 12 - scan_from // SEGMENT_SIZE * 5 == report.dispatched_count
    assert BODIES[:12] == read_bodies(store)


async def checkpointed_and_killed(rig: Rig, more: int) -> None:
    """Let the store write a checkpoint, put more messages, kill it."""
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.store.run)
        await trio.sleep(2)
        for body in BODIES[12 : 12 + more]:
            put_bodies(rig.store, body)
        nursery.cancel_scope.cancel()
    rig.disk.process_kill()


@pytest.mark.parametrize("more", [0, 2])
async def test_after_a_kill_only_what_came_after_the_checkpoint_is_walked_over(
    autojump_clock: trio.testing.MockClock, more: int
) -> None:
    """However long the log is; store times go on behind those before."""
    rig = Rig()
    await checkpointed_and_killed(rig, more)
    store = rig.open()

    assert (POSITIONS[12], more) == (store.recovery.scan_from, store.recovery.record_count)
    assert BODIES[: 12 + more] == read_bodies(store)
    assert store.last_store_ms == START_MS + (12_000 if more else 11_000)


async def test_after_a_kill_removed_queues_are_made_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """An operator who removes them wants that: the checkpoint's position does not count then."""
    rig = Rig()
    await checkpointed_and_killed(rig, 0)
    for name in rig.disk.list_dir(f"{ROOT}/consumequeue/T/0"):
        rig.disk.remove(f"{ROOT}/consumequeue/T/0/{name}")

    assert BODIES[:12] == read_bodies(rig.open())


def test_store_times_go_on_where_they_were() -> None:
    """A clock that was set back does not make them descend."""
    rig = Rig(3)
    rig.kill()
    rig.clock.time_ms = START_MS - 5000

    assert rig.open().put([message()])[0].store_ms == START_MS + 2000


def test_what_a_killed_process_wrote_becomes_durable() -> None:
    """It was visible, so a power cut after recovery must not take it."""
    rig = Rig(8)
    rig.disk.process_kill()
    rig.open()
    rig.disk.power_cut()

    assert BODIES[:8] == read_bodies(rig.open())
