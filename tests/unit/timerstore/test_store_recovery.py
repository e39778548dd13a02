"""Tests of recovery: ways in which a process may end, and in which files may be wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from fakes import START_MS, ManualClock
from small_store import (
    ROOT,
    SEGMENT_SIZE,
    message,
    open_store,
    put_bodies,
    read_bodies,
    small_options,
)
from timermq.timerstore.consume_queue import UNIT
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_checkpoint import StoreCheckpoint

BODIES = [letter * 100 for letter in "abcdefghijklmnop"]
"""Five of their records of 192 bytes fill a segment."""

RECORD_SIZE = 192


class Rig:
    """A store on a disk, stopped in some way."""

    def __init__(self, count: int = 12) -> None:
        self.clock = ManualClock()
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        store = self.open()
        for body in BODIES[:count]:
            put_bodies(store, body)
            self.clock.time_ms += 1000
        self.store = store

    def open(self, *, read_only: bool = False) -> MessageStore:
        """Open the store."""
        return open_store(self.disk, self.clock, read_only=read_only)

    def stop(self) -> None:
        """Stop cleanly."""
        trio.run(self.store.aclose)

    def kill(self) -> None:
        """Make everything durable, then kill."""
        trio.run(self.store.flush)
        self.disk.process_kill()

    def write(self, offset: int, data: bytes) -> None:
        """Write over the log."""
        path = f"{ROOT}/commitlog/{offset // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
        self.disk.open(path).write(offset % SEGMENT_SIZE, data)

    def write_unit(self, number: int, unit: bytes) -> None:
        """Write over the queue."""
        path = f"{ROOT}/consumequeue/T/0/{number // 5 * 100:020d}"
        self.disk.open(path).write(number % 5 * 20, unit)

    def set_checkpoint(self, physic_ms: int, logics_ms: int) -> None:
        """Write the checkpoint."""
        checkpoint = StoreCheckpoint.open(self.disk, f"{ROOT}/checkpoint")
        checkpoint.physic_msg_timestamp = physic_ms
        checkpoint.logics_msg_timestamp = logics_ms
        checkpoint.write()

    def contents(self, path: str = ROOT) -> dict[str, bytes]:
        """All files of the store but the lock."""
        found: dict[str, bytes] = {}
        for name in self.disk.list_dir(path):
            if self.disk.is_dir(f"{path}/{name}"):
                found |= self.contents(f"{path}/{name}")
            elif name != "lock":
                file = self.disk.open(f"{path}/{name}", read_only=True)
                found[f"{path}/{name}"] = file.read(0, file.size())
                file.close()
        return found


POSITIONS = [number // 5 * SEGMENT_SIZE + number % 5 * RECORD_SIZE for number in range(16)]


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
    """Cleanly stopped or not."""
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
    """Whoever removes them wants that: the checkpoint's position does not count then."""
    rig = Rig()
    await checkpointed_and_killed(rig, 0)
    for name in rig.disk.list_dir(f"{ROOT}/consumequeue/T/0"):
        rig.disk.remove(f"{ROOT}/consumequeue/T/0/{name}")

    assert BODIES[:12] == read_bodies(rig.open())


def test_a_torn_tail_is_cut() -> None:
    """What was never acknowledged as durable may be lost, and its units with it."""
    rig = Rig()
    trio.run(rig.store.flush)
    put_bodies(rig.store, BODIES[12])
    rig.disk.process_kill()
    rig.write(POSITIONS[12] + 100, b"torn")

    store = rig.open()

    assert POSITIONS[12] == store.recovery.end
    assert len(store.recovery.notes) == 1
    assert store.recovery.notes[0].startswith(f"commit log ends at {POSITIONS[12]}: body checksum")
    assert BODIES[:12] == read_bodies(store)


def test_nothing_stale_is_left_behind_a_cut_log() -> None:
    """A record of the same size must not be followed by old ones at their right places."""
    rig = Rig(4)
    rig.kill()
    rig.write(POSITIONS[1] + 100, b"torn")

    store = rig.open()
    put_bodies(store, "B" * 100)
    rig.disk.process_kill()

    assert [BODIES[0], "B" * 100] == read_bodies(rig.open())


def test_later_segments_go_with_a_cut_log() -> None:
    """Their records are lost; a power cut may keep them and lose earlier ones."""
    rig = Rig()
    rig.kill()
    rig.set_checkpoint(0, 0)
    rig.write(POSITIONS[3], bytes(RECORD_SIZE))
    store = rig.open()

    assert BODIES[:3] == read_bodies(store)
    assert [f"{0:020d}"] == rig.disk.list_dir(f"{ROOT}/commitlog")


DAMAGES: dict[str, Callable[[Rig], None]] = {
    "body": lambda rig: rig.write(POSITIONS[3] + 95, b"rot"),
    "head": lambda rig: rig.write(POSITIONS[3] + 4, b"rot"),
    "zeros": lambda rig: rig.write(POSITIONS[3], bytes(RECORD_SIZE)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_that_is_damaged_in_its_middle_is_refused(damage: str) -> None:
    """Cutting it there would lose acknowledged messages; nothing is changed."""
    rig = Rig()
    rig.kill()
    rig.set_checkpoint(START_MS + 11_000, START_MS)
    DAMAGES[damage](rig)
    before = rig.contents()

    expected = (
        f"^{ROOT}/commitlog/{0:020d}: at {POSITIONS[3]}: "
        f"expected a record, for what stands at {SEGMENT_SIZE} was durable, found "
    )
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()

    assert before == rig.contents()
    with pytest.raises(StoreFormatError, match=expected):
        rig.open(read_only=True)


@pytest.mark.parametrize(("damage", "behind"), [("body", 3), ("head", 4), ("zeros", 4)])
def test_units_tell_of_records_behind_the_damage_too(damage: str, behind: int) -> None:
    """In a log of one segment; the damaged record itself may still say when it was stored."""
    rig = Rig(5)
    rig.kill()
    rig.set_checkpoint(START_MS + 4001, START_MS)
    DAMAGES[damage](rig)

    expected = f"for what stands at {POSITIONS[behind]} was durable, found"
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()


def test_a_log_that_ends_earlier_than_when_it_was_closed_is_refused() -> None:
    """A clean stop has written down where it ended."""
    rig = Rig(4)
    rig.stop()
    rig.write(POSITIONS[3] + 95, b"rot")

    expected = (
        f"at {POSITIONS[3]}: expected records up to 768, where the log ended before, found body"
    )
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_foreign_file_is_refused(is_clean: bool) -> None:
    """Something of the right name and length that is no log."""
    rig = Rig(0)
    if is_clean:
        rig.stop()
    else:
        rig.kill()
    rig.disk.make_dirs(f"{ROOT}/commitlog")
    rig.disk.open(f"{ROOT}/commitlog/{0:020d}", create=True).write(0, b"hello" * 204 + b"1234")
    before = rig.contents()

    expected = f"^{ROOT}/commitlog/{0:020d}: at 0: expected a commit log record, found magic: "
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()

    assert before == rig.contents()


def test_other_settings_are_refused() -> None:
    """The lock is given back: the next try finds the store as it was."""
    rig = Rig()
    rig.stop()
    before = rig.contents()

    with pytest.raises(StoreFormatError, match="expected a segment of 2048 bytes, found 1024"):
        open_store(rig.disk, options=small_options(mapped_file_size_commit_log=2048))

    assert before == rig.contents()
    assert BODIES[:12] == read_bodies(rig.open())


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


def remove(rig: Rig, path: str) -> None:
    """Remove a directory's files durably, as an operator does while the store is closed."""
    for name in rig.disk.list_dir(path):
        if rig.disk.is_dir(f"{path}/{name}"):
            remove(rig, f"{path}/{name}")
        else:
            rig.disk.remove(f"{path}/{name}")
    rig.disk.sync_dir_now(path)


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
