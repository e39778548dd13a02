"""What cannot be delivered is quarantined for good, once, whatever ends the process; nothing stops.

The service is the real one in virtual time; the poison is put into the timer topic behind the back
of admission, or bytes are changed on the disk, as a broken broker or disk would.
"""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.poison import (
    REFUSED_TOPIC,
    SLOT_MS,
    bodies,
    entries,
    javas,
    only_entry,
    poison,
    put_poison,
)
from simulation.staged_service import (
    QUIET_FILES,
    ROOT,
    SMALL_FILES,
    SMALL_WHEEL,
    arrivals,
    delete_of,
    running,
    timed,
)
from small_store import read_bodies
from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.quarantine.quarantine_release import Verdict
from timermq.pipeline.records.cancel_verdict import CancelError, Wanted
from timermq.pipeline.records.cancel_verdict import Verdict as CancelVerdict
from timermq.pipeline.records.system_topics import QUARANTINE_TOPIC, TIMER_TOPIC
from timermq.pipeline.records.undeliverable import Reason, TimerRecordError, Undeliverable
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.record_layout import BODY_AT
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.seal_reader import remove_seals

LONG_NUMBER = "9" * 5_000
"""More digits than Python makes a number of."""


POISONS = {
    "no_topic": poison(f"TIMER_OUT_MS={SLOT_MS}"),
    "no_topic at all": poison(),
    "no_topic: queue": poison(*javas(queue_id="-1")),
    "illegal_topic": poison(*javas("a/../b")),
    "illegal_topic: the timer topic": poison(*javas(TIMER_TOPIC)),
    "illegal_topic: the quarantine": poison(*javas(QUARANTINE_TOPIC)),
    "no_moment": poison("REAL_TOPIC=T", "REAL_QID=0"),
    "no_moment: text": poison(*javas(out_ms="soon")),
    "no_moment: huge": poison(*javas(out_ms="9" * 19)),
    "no_moment: long": poison(*javas(out_ms=LONG_NUMBER)),
    "no_moment: beyond all slots": poison(*javas(out_ms="9" * 18)),
    "no_moment: within a slot": poison(*javas(out_ms=SLOT_MS + 1)),
    "properties": poison("TIMER_ROLL_TIMES=x", *javas()),
    "properties: order": poison(f"TIMER_ORDER={10**17}", *javas()),
    "refused": poison(*javas("%DLQ%" + "x" * 200)),
}
"""By reason."""


@pytest.mark.parametrize("name", POISONS)
@pytest.mark.parametrize("stop", [True, False])
async def test_poison_is_quarantined_and_the_wheel_goes_on(
    autojump_clock: MockClock, name: str, stop: bool
) -> None:
    """With its reason and all its bytes; RocketMQ 5.3.3 delivers no timer any more."""
    disk, clock = MemoryDisk(), VirtualClock()
    reason = name.partition(":")[0].partition(" ")[0]
    message = POISONS[name]
    async with running(disk, clock, stop=stop) as service:
        put_poison(service, message)
        service.put([timed("good", START_MS + 2_500)])
        await trio.sleep(9)
        entry = only_entry(service)
        if name == "no_topic at all":
            reason = "no_moment"
        assert (entry.reason, entry.unique_id) == (reason, "P")
        assert message.properties in entry.record
        assert bodies(service) == ["good"]
        counts = service.statistics()
        assert (counts.set_aside, counts.quarantined, counts.missing) == (1, 1, 0)
        assert counts.last_set_aside is not None
        assert counts.last_set_aside.reason == reason
        await trio.sleep(5)
    if not stop:
        disk.process_kill()
    async with running(disk, clock) as service:
        await trio.sleep(30)
        assert entries(service) == [entry]
        assert bodies(service) == ["good"]
        assert service.statistics().set_aside == 0, "not a second time"
        assert service.quarantine.last == counts.last_set_aside


@pytest.mark.parametrize(
    "more",
    [
        (f"TIMER_DELAY_SEC={LONG_NUMBER}",),
        (f"TIMER_DELAY_MS={LONG_NUMBER}",),
        (f"TIMER_DELIVER_MS={LONG_NUMBER}",),
        ("TIMER_DEL_UNIQKEY=T+x", "TIMER_DEL_FOR=now"),
    ],
)
async def test_numbers_that_are_none_stop_nothing(
    autojump_clock: MockClock, more: tuple[str, ...]
) -> None:
    """Where the slot tells the moment as well, or a delete names nothing, the rest is read."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        put_poison(service, poison(*more, *javas()))
        service.put([timed("good", START_MS + 2_500)])
        await trio.sleep(9)
        assert "good" in bodies(service)
        assert entries(service) == []


# -- damage on the disk ---------------------------------------------------------------------------


def change(disk: MemoryDisk, old: bytes, new: bytes) -> None:
    """Change the first bytes of the log that are ``old``."""
    file = disk.open(f"{ROOT}/commitlog/{0:020}")
    data = file.read(0, file.size())
    file.write(data.index(old), new)


BIG = attrs.evolve(QUIET_FILES, scrub_bytes_per_second=0)


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"body of a", b"bodX", "checksum"),
        (b"\x13rmq_sys_wheel_timer", b"\x12", "damaged"),
        (b"REAL_TOPIC\x01T\x02", b"REAL_TOPIC\x01/", "illegal_topic"),
    ],
)
async def test_a_record_that_is_damaged_at_rest(
    autojump_clock: MockClock, old: bytes, new: bytes, reason: str, restart: bool
) -> None:
    """What waited long, or was there before the start, is checked before it leaves.

    As in a store of an earlier version, which has no seals.
    """
    disk, clock = MemoryDisk(), VirtualClock()
    wheel = attrs.evolve(SMALL_WHEEL, timer_roll_window_slot=110)
    deliver_ms = START_MS + 90_000
    async with running(disk, clock, store_options=BIG, timer_options=wheel) as service:
        service.put([timed("body of a", deliver_ms), timed("b", deliver_ms)])
        await trio.sleep(5)
        if not restart:
            change(disk, old, new)
            await trio.sleep(120)
            assert (read_bodies(service.store), only_entry(service).reason) == (["b"], reason)
            assert service.statistics().pending_by_topic["T"] == 0
    if restart:
        change(disk, old, new)
        remove_seals(disk, f"{ROOT}/commitlog")
    async with running(disk, clock, store_options=BIG, timer_options=wheel) as service:
        await trio.sleep(120)
        assert (read_bodies(service.store), only_entry(service).reason) == (["b"], reason)
        assert service.statistics().set_aside == (1 if restart else 0)


async def test_a_delete_that_is_damaged_at_rest_is_no_message(autojump_clock: MockClock) -> None:
    """What it cancels is not to be read: what it may be is quarantined beside it."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock) as service:
        service.put([timed("a", START_MS + 8_000), delete_of("a", START_MS + 8_000)])
        await trio.sleep(3)
        file = disk.open(f"{ROOT}/commitlog/{0:020}")
        properties_at = file.read(0, file.size()).index(b"TIMER_DEL_UNIQKEY")
        file.write(properties_at - 2, b"\x7f\xff")
        await trio.sleep(9)

        assert read_bodies(service.store) == []
        assert sorted(one.reason for one in entries(service)) == ["damaged", "in_doubt"]


async def test_a_record_that_is_gone(autojump_clock: MockClock) -> None:
    """Its place is all that is known; it cannot be retried, only dropped."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock) as service:
        service.put([timed("a", START_MS + 5_000), timed("b", START_MS + 5_000)])
        await trio.sleep(1)
        log = service.store.commit_log
        first = next(iter(log.scan(0, check_crc=False)))
        records_at = log.records_at
        log.records_at = lambda places: (  # type: ignore[method-assign]
            None if place == first else record
            for place, record in [(one, next(iter(records_at([one])))) for one in places]
        )
        log.block_at = lambda *_: None  # type: ignore[method-assign]
        await trio.sleep(9)
        entry = only_entry(service)
        assert (entry.origin_py, entry.size, entry.record) == (*first, b"")
        assert entry.reason == "gone"
        assert bodies(service) == ["b"]
        assert service.statistics().missing == 1
        assert service.release.retry(first[0], by="me").verdict is Verdict.KEPT
        assert service.release.drop(first[0], by="me").verdict is Verdict.DROPPED
        assert entries(service) == []


# -- retry and drop -------------------------------------------------------------------------------


async def test_a_retry_elsewhere(autojump_clock: MockClock) -> None:
    """A message without a topic goes to the one that is given, once, also when asked again."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock) as service:
        put_poison(service, poison("A=1", "REAL_QID=7"))
        await trio.sleep(3)
        origin_py = only_entry(service).origin_py
        kept = service.release.retry(origin_py, by="me")
        assert kept.verdict is Verdict.KEPT
        assert "expected REAL_TOPIC, found none" in kept.text
        kept = service.release.retry(origin_py, by="me", topic="no topic")
        assert "has other characters" in kept.text
        for _ in range(2):
            assert service.release.retry(origin_py, by="me", topic="T").verdict is Verdict.RETRIED
        assert service.release.drop(origin_py, by="me").verdict is Verdict.RETRIED
        assert service.release.drop(origin_py + 1, by="me").verdict is Verdict.NOT_FOUND
    async with running(disk, clock) as service:
        await trio.sleep(9)
        assert bodies(service) == ["poison"]
        assert arrivals(service.store)[0].queue_id == 7
        assert entries(service) == []
        assert service.release.retry(origin_py, by="me", topic="T").verdict is Verdict.RETRIED
        assert bodies(service) == ["poison"]


async def test_a_retry_is_not_early(autojump_clock: MockClock) -> None:
    """A message that was quarantined before its moment waits for it again (NOT_BEFORE)."""
    clock = VirtualClock()
    out_ms = SLOT_MS + 60_000
    async with running(MemoryDisk(), clock) as service:
        put_poison(service, poison("TIMER_ROLL_TIMES=x", *javas(out_ms=out_ms)))
        await trio.sleep(3)
        released = service.release.retry(only_entry(service).origin_py, by="me")
        assert (released.verdict, released.deliver_ms) == (Verdict.RETRIED, out_ms + 1_000)
        assert service.cancellation.cancel(Wanted("T", "none")).verdict is CancelVerdict.NOT_FOUND
        await trio.sleep(100)
        assert [one.stored_ms for one in arrivals(service.store)] == [out_ms + 1_000]
        assert service.cancellation.cancel(Wanted("T", "P")).verdict is CancelVerdict.TOO_LATE


async def test_a_retry_that_waits_is_cancelled_like_any_other(autojump_clock: MockClock) -> None:
    """The message is one that waits again."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        put_poison(service, poison("TIMER_ROLL_TIMES=x", *javas(out_ms=SLOT_MS + 60_000)))
        await trio.sleep(3)
        service.release.retry(only_entry(service).origin_py, by="me")
        assert service.cancellation.cancel(Wanted("T", "P")).verdict is CancelVerdict.CANCELLED
        await trio.sleep(100)
        assert bodies(service) == []


@pytest.mark.parametrize("is_mark_beside", [False, True])
async def test_a_retry_whose_message_is_damaged_later_counts(
    autojump_clock: MockClock, is_mark_beside: bool
) -> None:
    """The message that waits again is quarantined itself; its first entry is over."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock) as service:
        properties = ("TIMER_ROLL_TIMES=x", *javas(out_ms=SLOT_MS + 60_000))
        put_poison(service, poison(*properties, body=b"x" * 2_000))
        await trio.sleep(3)
        origin_py = only_entry(service).origin_py
        begin_a_sector(service)
        service.release.retry(origin_py, by="me")
        again_py = arrivals(service.store, TIMER_TOPIC)[-1].phy_offset
        service.store.put([Message("other", 0, b"behind")])
    file = disk.open(f"{ROOT}/commitlog/{0:020}")
    file.write(again_py + (BODY_AT if is_mark_beside else 1_000), b"y" * 40)
    async with running(disk, clock) as service:
        await trio.sleep(100)

        assert service.quarantine.state(origin_py) is State.RETRIED
        assert only_entry(service).origin_py == again_py
        assert bodies(service) == []


def begin_a_sector(service: TimerMessageStore) -> None:
    """Let the next record stand at the beginning of a sector of the log."""
    log = service.store.commit_log
    (one,) = service.store.put([Message("other", 0, b"")])
    service.store.put([Message("other", 0, b"x" * (-(log.max_offset + one.size) % SECTOR_SIZE))])
    assert log.max_offset % SECTOR_SIZE == 0


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("topic", [REFUSED_TOPIC, "a b"])
async def test_a_cancel_of_what_is_in_quarantine(
    autojump_clock: MockClock, topic: str, stop: bool
) -> None:
    """It is cancelled, and out of the quarantine; nothing is remembered in vain."""
    disk, clock = MemoryDisk(), VirtualClock()
    wanted = Wanted(topic, "P")
    async with running(disk, clock, stop=stop) as service:
        put_poison(service, poison(*javas(topic)))
        await trio.sleep(5)
        origin_py = only_entry(service).origin_py
        with pytest.raises(CancelError, match="CANCEL_QUARANTINED"):
            service.cancellation.reschedule(wanted, clock.now_ms() + 5_000)
        for _ in range(2):
            assert service.cancellation.cancel(wanted).verdict is CancelVerdict.CANCELLED
        assert entries(service) == []
        assert len(service.state.fresh_cancels) == 0
    if not stop:
        disk.process_kill()
    async with running(disk, clock) as service:
        await trio.sleep(20)
        assert service.cancellation.cancel(wanted).verdict is CancelVerdict.CANCELLED
        retried = service.release.retry(origin_py, by="me", topic="T")
        assert retried.verdict is Verdict.CANCELLED
        assert bodies(service) == []


async def test_what_was_dropped_never_arrives_and_what_was_retried_has(
    autojump_clock: MockClock,
) -> None:
    """Cancels of both say so."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        put_poison(service, *(poison(*javas(REFUSED_TOPIC), key=key) for key in "PQ"))
        await trio.sleep(5)
        first, second = (entry.origin_py for entry in entries(service))
        assert service.release.drop(first, by="me").verdict is Verdict.DROPPED
        assert service.release.retry(second, by="me", topic="T").verdict is Verdict.RETRIED
        cancel = service.cancellation.cancel
        assert cancel(Wanted(REFUSED_TOPIC, "P")).verdict is CancelVerdict.CANCELLED
        assert cancel(Wanted(REFUSED_TOPIC, "Q")).verdict is CancelVerdict.TOO_LATE


async def test_what_is_in_quarantine_outlives_the_log(autojump_clock: MockClock) -> None:
    """The log goes, its entry moves on, for weeks; and a retry gives it back as it was."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    rare = attrs.evolve(SMALL_WHEEL, timer_flush_interval_ms=3_600_000)
    files = attrs.evolve(
        QUIET_FILES,
        mapped_file_size_commit_log=8_192,
        file_reserved_time_hours=24,
        clean_resource_interval_ms=3_600_000,
    )
    async with running(disk, clock, store_options=files, timer_options=rare) as service:
        put_poison(service, poison("A=1", body=b"precious"))
        await trio.sleep(3)
        entry = only_entry(service)
        for _ in range(8):
            service.store.put([Message("P", 0, b"x" * 3_000) for _ in range(4)])
            await trio.sleep(86_400)
        assert service.store.commit_log.min_offset > 60_000
        assert entries(service) == [entry]
    async with running(disk, clock, store_options=files) as service:
        assert entries(service) == [entry]
        released = service.release.retry(entry.origin_py, by="me", topic="T")
        assert released.verdict is Verdict.RETRIED
        assert bodies(service) == ["precious"]


async def test_cleaning_leaves_what_is_in_quarantine(autojump_clock: MockClock) -> None:
    """On a full disk segments of any age go, but not the one with an entry."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(QUIET_FILES, mapped_file_size_commit_log=8_192)
    async with running(disk, clock, store_options=files) as service:
        store = service.store
        store.put([Message("P", 0, b"x" * 3_000) for _ in range(4)])
        put_poison(service, poison("A=1", body=b"precious"))
        await trio.sleep(3)
        entry = only_entry(service)
        store.put([Message("P", 0, b"x" * 3_000) for _ in range(8)])
        await trio.sleep(10)
        disk.total = disk.usage(ROOT).used * 100 // 90
        assert await store.clean() == 1
        disk.total = 1 << 50
        assert entries(service) == [entry]
    async with running(disk, clock, store_options=files) as service:
        assert entries(service) == [entry]


async def test_a_full_disk_is_seen_and_asked_less_and_less_often(autojump_clock: MockClock) -> None:
    """Poison and due messages wait for room; nothing is given up, and the pauses grow."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(QUIET_FILES, mapped_file_size_commit_log=4_096)
    async with running(disk, clock, store_options=files) as service:
        service.put([timed(f"{n}" + "x" * 400, START_MS + 20_000 + n) for n in range(5)])
        put_poison(
            service, poison("x=" + "y" * 300, *javas(REFUSED_TOPIC, out_ms=SLOT_MS + 19_000))
        )
        await trio.sleep(10)
        disk.total = disk.usage(ROOT).used
        await trio.sleep(600)
        backoff = service.statistics().deliver_backoff
        assert backoff.count > 0
        assert backoff.since_ms is not None
        assert START_MS + 10_000 <= backoff.since_ms <= START_MS + 23_000
        assert backoff.error is not None
        assert backoff.error.startswith("SERVICE_NOT_AVAILABLE: ")
        assert 100 < backoff.tries < 140
        disk.total = 1 << 40
        await trio.sleep(15)
        assert service.statistics().deliver_backoff.since_ms is None
        assert len(bodies(service)) == 5
        assert only_entry(service).reason == "refused"


@pytest.mark.parametrize("stop", [True, False])
async def test_what_cannot_be_quarantined_yet_is_not_passed(
    autojump_clock: MockClock, stop: bool
) -> None:
    """No timer can be made of it and the disk is full: it is kept as soon as there is room."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(QUIET_FILES, mapped_file_size_commit_log=4_096)
    async with running(disk, clock, store_options=files, stop=stop) as service:
        put_poison(service, poison("A=1", body=b"p" * 2_500))
        disk.total = disk.usage(ROOT).used
        await trio.sleep(60)
        assert entries(service) == []
        assert service.statistics().enqueue_backoff.count == 1
        if stop:
            disk.total = 1 << 40
            await trio.sleep(15)
            assert only_entry(service).reason == "no_moment"
    disk.total = 1 << 40
    if not stop:
        disk.process_kill()
    async with running(disk, clock, store_options=files) as service:
        await trio.sleep(15)
        assert only_entry(service).reason == "no_moment"


async def test_a_limit_that_is_lowered_holds_nothing_back(autojump_clock: MockClock) -> None:
    """What was taken is delivered, also the long way, when new messages must be smaller."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock) as service:
        service.put([timed("x" * 500, START_MS + 40_000)])
        put_poison(service, poison(*javas(out_ms=SLOT_MS + 30_000), body=b"y" * 500))
        await trio.sleep(1)
    files = attrs.evolve(SMALL_FILES, max_message_size=100)
    async with running(disk, clock, store_options=files) as service:
        await trio.sleep(60)
        assert [one[0] for one in bodies(service)] == ["y", "x"]
        assert entries(service) == []


async def test_a_damaged_message_is_not_moved(autojump_clock: MockClock) -> None:
    """Written again with its old checksum it would end the log, and lose what stands behind."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock) as service:
        service.put([timed("waits", START_MS + 15_000), timed("newest", START_MS + 9_000)])
    change(disk, b"waits", b"xaits")
    remove_seals(disk, f"{ROOT}/commitlog")
    async with running(disk, clock, stop=False) as service:
        with pytest.raises(CancelError, match="CANCEL_DAMAGED"):
            service.cancellation.reschedule(Wanted("T", "waits"), START_MS + 18_000)
        service.put([timed("behind", START_MS + 16_000)])
    disk.process_kill()
    async with running(disk, clock) as service:
        await trio.sleep(30)
        assert only_entry(service).reason == "checksum"
        assert list(read_bodies(service.store, "T")) == ["newest", "behind"]


def on_its_way(service: TimerMessageStore, key: str) -> Undeliverable:
    """The newest roll of a message, with a fault that its neighbour may have."""
    log = service.store.commit_log
    rolled = [
        (phy_offset, size)
        for phy_offset, size in log.scan(log.min_offset, check_crc=False)
        if b"TIMER_ROLL_TIMES" in (record := log.read(phy_offset, size))
        and b"TIMER_DEL_UNIQKEY" not in record
        and b"UNIQ_KEY\x01%b\x02" % key.encode() in record
    ]
    phy_offset, size = rolled[-1]
    error = TimerRecordError(Reason.DAMAGED, "its sector differs from its seal")
    return Undeliverable.of(error, phy_offset, size, log.read(phy_offset, size))


@pytest.mark.parametrize("left", ["all", "nothing"])
@pytest.mark.parametrize(("how", "count"), [("cancel", 0), ("move", 0), ("leave", 1)])
async def test_what_was_cancelled_is_not_quarantined(
    autojump_clock: MockClock, how: str, count: int, left: str
) -> None:
    """It rolls on to where its delete waits; what cannot be delivered on the way is left out.

    One gate asks, whatever is left of the record.
    """
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        (put,) = service.put([timed("a", START_MS + 90_000)])
        first_py = put.result.phy_offset
        await trio.sleep(1)
        if how == "cancel":
            assert service.cancellation.cancel(Wanted("T", "a")).verdict is CancelVerdict.CANCELLED
        elif how == "move":
            moved = service.cancellation.reschedule(Wanted("T", "a"), START_MS + 5_000)
            assert moved.deliver_ms == START_MS + 5_000
        await trio.sleep(30)
        fault = attrs.evolve(on_its_way(service, "a"), order_py=first_py)
        if left == "nothing":
            fault = attrs.evolve(fault, record=b"")
        assert service.quarantine.add([fault], clock.now_ms()) is None
        assert service.quarantine.active == count


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_producers_own_delete_ends_what_is_in_quarantine(
    autojump_clock: MockClock, when: str
) -> None:
    """It waits in the message's slot and meets nothing there: a retry would bring it to life."""
    disk, clock = MemoryDisk(), VirtualClock()
    due_ms = START_MS + 90_000
    async with running(disk, clock, stop=False) as service:
        service.put([timed("a", due_ms), timed("other", due_ms)])
        if when == "before":
            service.put([delete_of("a", due_ms)])
        await trio.sleep(30)
        fault = on_its_way(service, "a")
        assert service.quarantine.add([fault], clock.now_ms()) is None
        origin_py = fault.offset_py
        if when == "after":
            assert service.quarantine.active == 1
            service.put([delete_of("a", due_ms)])
        await trio.sleep(90)
        retried = service.release.retry(origin_py, by="me")
        assert retried.verdict is (Verdict.CANCELLED if when == "after" else Verdict.NOT_FOUND)
        await service.store.wait_flushed(retried.end)
    disk.process_kill()
    async with running(disk, clock) as service:
        assert service.quarantine.active == 0
        again = service.release.retry(origin_py, by="me").verdict
        assert again is retried.verdict
        await trio.sleep(30)
        assert bodies(service) == ["other"]


async def test_a_producers_own_delete_outlives_the_log(autojump_clock: MockClock) -> None:
    """Cleaning takes the delete, so the entry that would be written once more behind it ends."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(
        QUIET_FILES,
        mapped_file_size_commit_log=8_192,
        file_reserved_time_hours=24,
        clean_resource_interval_ms=3_600_000,
    )
    rare = attrs.evolve(SMALL_WHEEL, timer_flush_interval_ms=3_600_000)
    due_ms = START_MS + 90_000
    async with running(disk, clock, store_options=files, timer_options=rare) as service:
        service.put([timed("a", due_ms)])
        await trio.sleep(30)
        fault = on_its_way(service, "a")
        assert service.quarantine.add([fault], clock.now_ms()) is None
        service.put([delete_of("a", due_ms)])
        for _ in range(3):
            service.store.put([Message("P", 0, b"x" * 3_000) for _ in range(4)])
            await trio.sleep(86_400)
        assert service.store.commit_log.min_offset > fault.offset_py
        assert service.quarantine.active == 0
        assert service.release.retry(fault.offset_py, by="me").verdict is not Verdict.RETRIED
        assert bodies(service) == []
