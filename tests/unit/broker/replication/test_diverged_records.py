"""What was cut off a log: its copy, and the rows that an operator reads."""

from __future__ import annotations

import pytest

from small_store import ROOT, message, open_store, put_bodies
from timermq.broker.replication.diverged_records import DivergedRecords
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore

DUE_MS = 1_700_000_060_500


def timer(body: str, *, before: str = "", rolls: int = 0) -> Message:
    """A pending message, as it stands in the timer topic."""
    slot_ms = DUE_MS // 1000 * 1000
    tail = timer_tail(
        deliver_ms=DUE_MS, out_ms=slot_ms, topic="T", queue_id=3, rolls=rolls, order_py=0
    )
    return Message(TIMER_TOPIC, 0, body.encode(), f"UNIQ_KEY\x01{body}\x02{before}".encode() + tail)


def stored() -> tuple[MemoryDisk, MessageStore]:
    """A store of six records in segments of a few."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "plain")
    deletes = "TIMER_DEL_UNIQKEY\x01T+a\x02"
    for one in (timer("a"), timer("b", rolls=2), timer("c", before=deletes)):
        assert store.put([one])[0].status.is_stored
    delivered = message("a", prepared_offset=-1 - store.commit_log.min_offset)
    assert store.put([delivered, message("q", "rmq_sys_TIMERMQ_QUARANTINE")])[0].status.is_stored
    return disk, store


def test_each_record_is_a_row() -> None:
    """With what it is, where it goes, and when; blanks between segments are none."""
    disk, store = stored()
    found = DivergedRecords(disk, ROOT)
    path = found.save(store.commit_log, 0, store.commit_log.max_offset)
    rows = list(found.rows(1000))

    assert path == f"{ROOT}/diverged/{found.names()[0]}"
    assert [row.kind for row in rows] == [
        *("message", "timer", "roll", "cancel", "delivery", "quarantine"),
    ]
    pending = rows[1]
    assert (pending.topic, pending.queue_id, pending.unique_id) == ("T", 3, "a")
    assert pending.deliver_ms == DUE_MS
    assert rows[4].origin_py == 0
    assert rows[0].deliver_ms is None


def test_the_same_bytes_have_one_copy() -> None:
    """A cut that is done once more finds it; other bytes of the same place get another one."""
    disk, store = stored()
    log, found = store.commit_log, DivergedRecords(disk, ROOT)
    end = log.max_offset
    first = found.save(log, 0, end)
    assert found.save(log, 0, end) == first
    assert found.save(log, 0, 80) == first
    disk.rot(first, 0, b"\xff")
    second = found.save(log, 0, end)

    assert second == f"{first}-2"
    assert len(found.names()) == 2


def test_a_damaged_copy_is_told() -> None:
    """Bytes that are no record are one row; a copy that was cut short is refused."""
    disk, store = stored()
    found = DivergedRecords(disk, ROOT)
    path = found.save(store.commit_log, 0, store.commit_log.max_offset)
    disk.rot(path, 0, b"\x7f\xff\xff\xff")
    (row,) = found.rows(1000)
    assert (row.kind, row.phy_offset) == ("damaged", 0)
    file = disk.open(path)
    file.truncate(10)
    with pytest.raises(StoreFormatError, match=path):
        list(found.rows(1000))
