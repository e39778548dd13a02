"""What of a directory may be read: of a live broker what it has published, else what is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import delete_of, running, timed
from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.store_view import LogView, StoreView
from timermq.pipeline.spark.tables.commit_log_table import CommitLogReader
from timermq.pipeline.spark.tables.consume_queue_table import ConsumeQueueReader
from timermq.pipeline.spark.tables.delivered_table import DeliveredReader
from timermq.pipeline.spark.tables.pending_table import PendingReader
from timermq.pipeline.spark.tables.timer_log_table import TimerLogReader
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.errors import StoreError
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_lock import StoreLock
from unit.pipeline.recovery.crashed_store import OPTIONS
from unit.pipeline.spark.store_directories import crashed_directory, rows_of


def test_segments() -> None:
    """A range is cut where segments begin, and at the log's end."""
    log = LogView(directory="d", segment_size=100, starts=(200, 300, 400), end=450)

    assert 200 == log.start
    assert [(200, 250, 300), (300, 300, 400), (400, 400, 450)] == log.segments(250, 999)
    assert [(300, 310, 320)] == log.segments(310, 320)
    assert [] == log.segments(450, 500)
    assert "d/00000000000000000300" == log.path(300)


def test_an_empty_log() -> None:
    """It begins where it ends."""
    log = LogView(directory="d", segment_size=100, starts=(), end=0)

    assert (0, []) == (log.start, log.segments(0, 100))


def test_nothing_there(tmp_path: Path) -> None:
    """A directory without a store is refused."""
    with pytest.raises(StoreError, match=str(tmp_path)):
        StoreView.of(str(tmp_path))


def test_a_segment_that_was_just_made(tmp_path: Path) -> None:
    """A process that ended before it gave the file its length has lost nothing."""
    _, root = crashed_directory(tmp_path)
    before = rows_of(ConsumeQueueReader, root)
    view = StoreView.of(root)
    queues = view.queues()
    for _, _, queue in queues:
        made = queue.starts[-1] + queue.segment_size
        Path(queue.path(made)).touch()

    after = rows_of(ConsumeQueueReader, root)

    assert before == after
    assert len(queues) == len({(row["topic"], row["queue_id"]) for row in after})
    ends = [queue.end for _, _, queue in StoreView.of(root).queues()]
    assert [queue.starts[-1] + queue.segment_size for _, _, queue in queues] == ends


def test_rocketmq_serves_it(tmp_path: Path) -> None:
    """It publishes no positions: nothing says what is whole."""
    _, root = crashed_directory(tmp_path)
    checkpoint = tmp_path / "config" / "timercheck"
    data = bytearray(checkpoint.read_bytes())
    data[64:] = bytes(len(data) - 64)
    checkpoint.write_bytes(data)
    lock = StoreLock(OsDisk(), root)
    lock.take()
    try:
        with pytest.raises(SparkJobError, match="RocketMQ serves it, or it was started a moment"):
            StoreView.of(root)
    finally:
        lock.release()


def test_a_live_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing behind what is published is read; of that each message has arrived, or waits."""
    root = str(tmp_path)
    monkeypatch.setattr("simulation.staged_service.ROOT", root)
    names = [*(f"m{number}" for number in range(40)), "far", "gone"]
    moments = [START_MS + 300 + 400 * number for number in range(40)]
    moments += [START_MS + 60_000, START_MS + 12_500]

    async def life() -> None:
        async with running(OsDisk(), VirtualClock(), timer_options=OPTIONS, stop=False) as service:
            service.put(list(map(timed, names, moments)))
            service.put([delete_of("gone", moments[-1])])
            for _ in range(1000):
                await trio.sleep(0.05)
                if has_published(root) and rows_of(DeliveredReader, root):
                    break
            service.put([timed("new", START_MS + 90_000)])
            check(service)

    def check(service: TimerMessageStore) -> None:
        view = StoreView.of(root)
        records = rows_of(CommitLogReader, root)
        arrived = [row["unique_id"] for row in rows_of(DeliveredReader, root)]
        waits = [row["unique_id"] for row in rows_of(PendingReader, root)]
        assert view.is_live
        assert view.log.end < service.store.commit_log.max_offset
        assert view.log.end == records[-1]["phy_offset"] + records[-1]["total_size"]
        assert arrived
        assert sorted({*names} - {"gone"}) == sorted(arrived + waits)
        assert view.timer_log.end >= max(row["pos"] for row in rows_of(TimerLogReader, root)) + 52

    # The disk takes real time: the clock waits a little for it before it jumps.
    trio.run(life, clock=MockClock(autojump_threshold=0.01))


def test_a_live_broker_without_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store is empty, and no message is needed to say so."""
    root = str(tmp_path)
    monkeypatch.setattr("simulation.staged_service.ROOT", root)

    async def life() -> None:
        async with running(OsDisk(), VirtualClock(), timer_options=OPTIONS, stop=False):
            for _ in range(1000):
                await trio.sleep(0.05)
                if has_published(root):
                    break
            assert (StoreView.of(root).log.end, rows_of(PendingReader, root)) == (0, [])
            assert rows_of(DeliveredReader, root) == []

    trio.run(life, clock=MockClock(autojump_threshold=0.01))


def has_published(root: str) -> bool:
    """Whether a broker that began a moment ago has said how far its files are whole."""
    try:
        return StoreView.of(root).is_live
    except SparkJobError:
        return False
