"""Tests of recovery: queues that are missing, behind, ahead, or of a topic that is deleted."""

from __future__ import annotations

import pytest
import trio

from fakes import START_MS
from small_store import (
    ROOT,
    SEGMENT_SIZE,
    message,
    put_bodies,
    read_bodies,
)
from timermq.timerstore.queue_unit import UNIT
from unit.timerstore.stopped_store import BODIES, POSITIONS, RECORD_SIZE, Rig, remove


def test_units_without_a_record_are_dropped() -> None:
    """RocketMQ leaves stale units behind the end of a queue and takes them for good later."""
    rig = Rig(3)
    rig.stop()
    rig.write_unit(3, UNIT.pack(POSITIONS[2] + RECORD_SIZE, 50, 0))
    rig.write_unit(4, UNIT.pack(POSITIONS[2] + RECORD_SIZE + 50, 50, 0))

    store = rig.open()

    assert BODIES[:3] == read_bodies(store)
    assert store.put([message()])[0].queue_offset == 3


def test_units_that_point_to_another_queues_record_are_dropped() -> None:
    """Also when the size fits."""
    rig = Rig(3)
    put_bodies(rig.store, BODIES[3], queue_id=1)
    rig.stop()
    rig.write_unit(3, UNIT.pack(POSITIONS[3], RECORD_SIZE, 0))

    assert BODIES[:3] == read_bodies(rig.open())


@pytest.mark.parametrize("path", ["consumequeue", "consumequeue/T/0"])
@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_missing_queues_are_made_again(path: str, is_clean: bool, read_only: bool) -> None:
    """All of them, or one that the last clean stop has noted."""
    rig = Rig()
    put_bodies(rig.store, "other", topic="U")
    if is_clean:
        rig.stop()
    else:
        rig.kill()
    remove(rig, f"{ROOT}/{path}")

    store = rig.open(read_only=read_only)

    assert (BODIES[:12], ["other"]) == (read_bodies(store), read_bodies(store, "U"))


def test_a_queue_that_misses_units_is_made_from_the_start_of_the_log() -> None:
    """The walk after a kill may begin behind them."""
    rig = Rig()
    rig.kill()
    rig.set_checkpoint(START_MS + 99_000, START_MS + 99_000)
    rig.write_unit(7, bytes(20))

    store = rig.open()

    assert store.recovery.scan_from == 2048
    assert store.recovery.notes == ("queues made again from the start of the log: [('T', 0)]",)
    assert BODIES[:12] == read_bodies(store)


def test_without_a_log_queues_are_emptied() -> None:
    """A power cut may have kept the units of records that it took."""
    rig = Rig(3)
    rig.kill()
    remove(rig, f"{ROOT}/commitlog")

    store = rig.open()

    assert ([], 0) == (read_bodies(store), store.commit_log.max_offset)


def test_a_deleted_topic_does_not_come_back() -> None:
    """Its records are still in the log when queues are made again; a new beginning is kept."""
    rig = Rig(3)
    put_bodies(rig.store, "other", topic="U")
    trio.run(rig.store.delete_topic, "T")
    trio.run(rig.store.delete_topic, "U")
    put_bodies(rig.store, "new")
    rig.kill()
    remove(rig, f"{ROOT}/consumequeue")

    store = rig.open()

    assert (["new"], []) == (read_bodies(store), read_bodies(store, "U"))


def test_a_deletion_that_was_cut_off_is_finished() -> None:
    """The process died after noting it and before the files were gone."""
    rig = Rig(3)
    trio.run(rig.store.flush)
    noted = rig.contents()
    trio.run(rig.store.delete_topic, "T")
    rig.disk.process_kill()
    path = f"{ROOT}/consumequeue/T/0"
    rig.disk.make_dirs(path)
    rig.disk.open(f"{path}/{0:020d}", create=True).write(0, noted[f"{path}/{0:020d}"])

    store = rig.open()

    assert store.queue("T", 0) is None
    assert store.put([message()])[0].queue_offset == 0


def test_queues_begin_later_than_the_log_was_cleaned() -> None:
    """Also when they are made again."""
    rig = Rig()
    rig.store.commit_log.delete_before(2 * SEGMENT_SIZE)
    rig.kill()
    remove(rig, f"{ROOT}/consumequeue")

    store = rig.open()
    queue = store.queue("T", 0)

    assert queue is not None
    assert (10, 12) == (queue.min_offset, queue.max_offset)
    assert BODIES[10:12] == read_bodies(store)
