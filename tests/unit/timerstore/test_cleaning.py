"""Tests of cleaning: when segments go, what has to stay, and when sends are refused."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from fakes import ManualClock
from small_store import SEGMENT_SIZE, message, open_store, put_bodies, read_bodies, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.cleaning import HOUR_MS
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.consume_queue_table import CLEANED_COUNT
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutStatus

BODY = "x" * 400
"""Two of them fill a segment."""

HOUR = time.localtime(ManualClock().now_ms() // 1000).tm_hour
OTHER_HOUR = (HOUR + 12) % 24


class Rig:
    """A store of five segments."""

    def __init__(self, *, body: str = BODY, **options: Any) -> None:  # noqa: ANN401 - passed on
        self.clock = ManualClock()
        self.disk = MemoryDisk(now_ms=self.clock.now_ms)
        settings = {"delete_when": str(HOUR), "message_index_enable": False}
        self.store: MessageStore = open_store(
            self.disk, self.clock, small_options(**settings | options)
        )
        put_bodies(self.store, *[body] * 9)
        self.settle()

    def settle(self, seconds: float = 3) -> None:
        """Serve the store, usually until its checkpoint speaks of everything."""
        trio.run(_serve, self.store, seconds, clock=MockClock(autojump_threshold=0))

    def fill_disk(self, used_percent: int) -> None:
        """Let the disk be as full as this."""
        used = self.disk.usage("/").used
        self.disk.total = used * 100 // used_percent

    def clean(self) -> int:
        """Clean as the background does."""
        return trio.run(self.store.clean)


async def _serve(store: MessageStore, seconds: float) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(_run, store)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


async def _run(
    store: MessageStore, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    await store.run(task_status=task_status)


def test_queues_are_cleaned_with_checkpoints_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them would hold everybody's timers up."""
    rig = Rig()
    for number in range(2 * CLEANED_COUNT):
        rig.store.put([message("x", f"T{number}")])
    put_bodies(rig.store, *[BODY] * 9)
    rig.settle()
    rig.clock.time_ms += 72 * HOUR_MS
    counts = [0]
    delete_before, checkpoint = ConsumeQueue.delete_before, trio.lowlevel.checkpoint

    def note(queue: ConsumeQueue, min_phy_offset: int) -> int:
        counts[-1] += 1
        return delete_before(queue, min_phy_offset)

    async def note_checkpoint() -> None:
        counts.append(0)
        await checkpoint()

    monkeypatch.setattr(ConsumeQueue, "delete_before", note)
    monkeypatch.setattr(trio.lowlevel, "checkpoint", note_checkpoint)

    assert rig.clean() > 0
    assert sum(counts) == 2 * CLEANED_COUNT + 1
    assert max(counts) <= CLEANED_COUNT


def test_expired_segments_go_in_their_hour() -> None:
    """All but the newest; queues begin later then."""
    rig = Rig()
    rig.clock.time_ms += 72 * HOUR_MS

    assert rig.clean() == 4
    assert rig.store.commit_log.min_offset == 4 * SEGMENT_SIZE
    assert [BODY] == read_bodies(rig.store)

    queue = rig.store.queue("T", 0)
    assert queue is not None
    assert (8, 9) == (queue.min_offset, queue.max_offset)


@pytest.mark.parametrize(
    ("options", "passed_ms", "removed"),
    [
        ({}, 72 * HOUR_MS - 1, 0),
        ({"delete_when": str(OTHER_HOUR)}, 72 * HOUR_MS, 0),
        ({"delete_when": f"{OTHER_HOUR};{HOUR}"}, 72 * HOUR_MS, 4),
        ({"file_reserved_time_hours": 24}, 24 * HOUR_MS, 4),
        ({"delete_file_batch_max": 3}, 72 * HOUR_MS, 3),
    ],
)
def test_age_and_hour(options: dict[str, Any], passed_ms: int, removed: int) -> None:
    """A segment goes when it is old enough and the hour has come."""
    rig = Rig(**options)
    rig.clock.time_ms += passed_ms

    assert removed == rig.clean()


@pytest.mark.parametrize(
    ("used_percent", "passed_ms", "removed"),
    [(74, 72 * HOUR_MS, 0), (80, 72 * HOUR_MS, 4), (80, 0, 0), (87, 0, 4)],
)
def test_a_full_disk_is_cleaned_at_any_hour(
    used_percent: int, passed_ms: int, removed: int
) -> None:
    """Of expired segments first, of the oldest when it is fuller."""
    rig = Rig(delete_when=str(OTHER_HOUR))
    rig.fill_disk(used_percent)
    rig.clock.time_ms += passed_ms

    assert removed == rig.clean()


@pytest.mark.parametrize(
    ("pinned_from", "removed"),
    [(0, 0), (SEGMENT_SIZE - 1, 0), (SEGMENT_SIZE, 1), (3 * SEGMENT_SIZE + 5, 3), (None, 4)],
)
def test_the_bodies_of_pending_timers_stay(pinned_from: int | None, removed: int) -> None:
    """Whatever the age and however full the disk."""
    rig = Rig()
    rig.store.pins.add("timers", lambda: pinned_from)
    rig.fill_disk(99)
    rig.clock.time_ms += 1000 * HOUR_MS

    assert removed == rig.clean()


def test_sends_are_refused_when_nothing_may_be_removed() -> None:
    """Timers are never given up; those that are due may still be delivered."""
    rig = Rig()
    rig.store.pins.add("timers", lambda: 0)
    rig.fill_disk(95)

    assert rig.clean() == 0
    refusal = rig.store.writeable()
    assert refusal is not None
    assert re.fullmatch(r"disk of /store is full: 9\d\.\d % used, expected at most 90 %", refusal)

    (refused,) = rig.store.put([message()])
    (delivered,) = rig.store.put([message()], even_when_full=True)

    assert (PutStatus.SERVICE_NOT_AVAILABLE, refusal) == (refused.status, refused.remark)
    assert delivered.status is PutStatus.PUT_OK

    rig.disk.total *= 2
    rig.clean()

    assert rig.store.writeable() is None


def test_a_disk_that_is_full_is_seen_when_the_store_is_opened() -> None:
    """Not only after the first round of cleaning."""
    rig = Rig()
    trio.run(rig.store.aclose)
    rig.fill_disk(60)

    store = open_store(rig.disk, rig.clock, small_options(disk_space_warning_level_ratio=50))

    assert (store.writeable() or "").startswith("disk of /store is full")
    assert store.statistics().disk_used_ratio == pytest.approx(0.6, abs=0.1)


def test_what_is_not_durable_stays() -> None:
    """A full disk is no reason to remove what was never synced."""
    rig = Rig()
    put_bodies(rig.store, *[BODY] * 2)
    rig.settle()
    put_bodies(rig.store, *[BODY] * 6)
    rig.fill_disk(87)

    assert rig.clean() == 5


def test_queues_are_durable_before_their_records_go() -> None:
    """Without units and records a power cut would have offsets given out again."""
    rig = Rig()
    put_bodies(rig.store, *[BODY] * 6)
    rig.store.put([message(BODY, "U") for _ in range(3)])
    rig.settle(0.7)
    assert rig.store.commit_log.flushed_where == rig.store.commit_log.max_offset
    rig.fill_disk(90)
    assert rig.clean() == 8
    # Names may get to the disk before anything else does.
    rig.disk.sync_dir_now("/store/commitlog")
    rig.disk.power_cut()
    rig.disk.total = 1 << 50

    store = open_store(rig.disk, rig.clock)
    (result,) = store.put([message(BODY)])

    assert result.queue_offset == 15


def test_the_index_goes_with_the_log() -> None:
    """Index files of removed records are removed."""
    rig = Rig(message_index_enable=True, max_index_num=4)
    for number in range(12):
        rig.store.put([message(BODY, properties=b"KEYS\x01k%d\x02" % number)])
    rig.settle()
    rig.store.query("T", "k1", count_max=1)
    before = len(rig.disk.list_dir("/store/index"))
    rig.clock.time_ms += 72 * HOUR_MS
    rig.clean()

    assert before == 4
    assert len(rig.disk.list_dir("/store/index")) < before
    assert len(rig.store.query("T", "k11", count_max=1)) == 1
    assert rig.store.query("T", "k1", count_max=1) == []
