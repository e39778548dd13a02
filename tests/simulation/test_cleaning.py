"""Cleaning in virtual time: what is old goes, what a waiting timer needs stays, full disks end."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import running_broker, send_ext, split_records
from fakes import START_MS, VirtualClock
from simulation.staged_service import QUIET_FILES, ROOT, SMALL_WHEEL, arrivals, running, timed
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.put_status import PutStatus
from timermq.timerstore.record import decode_record

HOUR = 3_600
SEGMENT_SIZE = 8_192
KEPT_A_DAY = attrs.evolve(
    QUIET_FILES,
    mapped_file_size_commit_log=SEGMENT_SIZE,
    file_reserved_time_hours=24,
    clean_resource_interval_ms=600_000,
)
SYNCED_SOON = attrs.evolve(
    KEPT_A_DAY, flush_interval_commit_log_ms=500, flush_interval_consume_queue_ms=1_000
)
LONG_WINDOW = TimerOptions(
    timer_roll_window_slot=70 * HOUR,
    clock_check_interval_ms=HOUR * 1000,
    timer_flush_interval_ms=60_000,
)
"""A timer of less than 70 hours stays where it was stored until it is due."""


def plain(number: int) -> Message:
    """A message of no timer; seven fill a segment."""
    return Message(topic="P", queue_id=0, body=b"%d" % number + b"x" * 1_000)


def put(service: TimerMessageStore, message: Message) -> PutStatus:
    """What becomes of one message."""
    return service.put([message])[0].result.status


def fill(service: TimerMessageStore, count: int) -> None:
    """Store messages of no timer."""
    for number in range(count):
        assert put(service, plain(number)) is PutStatus.PUT_OK


def bodies(store: MessageStore) -> list[str]:
    """What came to the topic of the timers, as far as the log still has it."""
    return [one.body for one in arrivals(store)]


@pytest.mark.slow
@pytest.mark.parametrize("used_percent", [10, 80])
async def test_the_body_of_a_pending_timer_stays(
    autojump_clock: MockClock, used_percent: int
) -> None:
    """Older segments go in their hour; those from its body on go when it was delivered."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=KEPT_A_DAY, timer_options=LONG_WINDOW) as service:
        store = service.store
        fill(service, 20)
        pinned = store.commit_log.max_offset
        put(service, timed("waiting", START_MS + 60 * HOUR * 1000))
        fill(service, 20)
        end = store.commit_log.max_offset
        await trio.sleep(HOUR)
        disk.total = disk.usage(ROOT).used * 100 // used_percent

        await trio.sleep(22 * HOUR)
        assert store.commit_log.min_offset == 0

        # By now the hour of delete_when has come once since the day was over.
        await trio.sleep(27 * HOUR)
        assert store.commit_log.min_offset == pinned - pinned % SEGMENT_SIZE > 0

        await trio.sleep(11 * HOUR)
        assert bodies(store) == ["waiting"]
        fill(service, 8)
        await trio.sleep(25 * HOUR)

        assert end - end % SEGMENT_SIZE <= store.commit_log.min_offset
        assert service.statistics().missing == 0


@pytest.mark.parametrize("ended", ["in order", "killed"])
async def test_the_body_of_what_waits_for_room_stays(autojump_clock: MockClock, ended: str) -> None:
    """A slot that is overdue is closed as soon as its last message has left it.

    On a full disk these wait where no slot shows them, and cleaning takes files of any age.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    options = attrs.evolve(LONG_WINDOW, clock_check_interval_ms=1_000, deliver_batch_size_max=1_500)
    files = attrs.evolve(KEPT_A_DAY, clean_resource_interval_ms=600_000_000)
    names = [str(number) for number in range(6)]
    async with running(disk, clock, store_options=files, timer_options=options) as service:
        for name in names:
            put(service, timed(name, START_MS + 10_000))
        fill(service, 20)
        await trio.sleep(5)
    await trio.sleep(60)
    disk.total = disk.usage(ROOT).used
    async with running(
        disk, clock, store_options=files, timer_options=options, stop=ended == "in order"
    ) as service:
        await trio.sleep(8)
        waiting = service.statistics()
        await service.store.clean()
        begins_at = service.store.commit_log.min_offset
        disk.total = 1 << 40
        if ended == "in order":
            await trio.sleep(30)
    disk.process_kill()
    async with running(disk, clock, store_options=files, timer_options=options) as service:
        await trio.sleep(30)
        arrived = bodies(service.store)

    assert waiting.retried > 0
    assert waiting.read_ms > waiting.commit_read_ms
    assert begins_at == 0
    assert sorted(arrived) == names


async def test_a_log_that_lost_a_file_says_of_each_timer_that_it_is_gone(
    autojump_clock: MockClock,
) -> None:
    """RocketMQ cleans a full disk without a look at timers; the units of these are kept till then.

    The broker serves on, and the others are on time.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    options = attrs.evolve(LONG_WINDOW, mapped_file_size_timer_log=10 * 52 + 16)
    moments = [START_MS + HOUR * 1_000 + number % 5 * 1_000 for number in range(60)]
    async with running(disk, clock, store_options=KEPT_A_DAY, timer_options=options) as service:
        for number, moment in enumerate(moments):
            put(service, timed(str(number), moment))
        await trio.sleep(5)
    disk.remove(f"{ROOT}/commitlog/{0:020}")
    async with running(disk, clock, store_options=KEPT_A_DAY, timer_options=options) as service:
        first = service.store.commit_log.min_offset
        await trio.sleep(HOUR + 1_300)
        statistics = service.statistics()
        found = arrivals(service.store)

    assert first == SEGMENT_SIZE
    assert 0 < statistics.missing == len(moments) - len(found)
    assert statistics.missing == statistics.quarantined
    assert [moments[int(one.body)] for one in found] == [one.stored_ms for one in found]


async def test_a_full_disk_takes_no_sends_but_delivers(autojump_clock: MockClock) -> None:
    """Nothing may be removed for it; with room again sends are taken again."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    moments = [START_MS + minutes * 60_000 for minutes in (30, 60, 90)]
    async with running(disk, clock, store_options=KEPT_A_DAY, timer_options=LONG_WINDOW) as service:
        for moment in moments:
            put(service, timed(str(moment), moment))
        fill(service, 30)
        await trio.sleep(120)
        disk.total = disk.usage(ROOT).used * 100 // 93
        await trio.sleep(15 * 60)
        refused = [plain(0), timed("refused", START_MS + 45 * 60_000)]
        results = [one.result for one in service.put(refused)]
        await trio.sleep(50 * 60)
        delivered_when_full = bodies(service.store)
        disk.total *= 2
        await trio.sleep(15 * 60)
        accepted = put(service, timed("accepted", START_MS + 100 * 60_000))
        await trio.sleep(30 * 60)
        found = arrivals(service.store)

        assert service.store.commit_log.min_offset == 0

    assert [PutStatus.SERVICE_NOT_AVAILABLE] * 2 == [one.status for one in results]
    assert all((one.remark or "").startswith("disk of /store is full: ") for one in results)
    assert [str(moment) for moment in moments[:2]] == delivered_when_full
    assert accepted is PutStatus.PUT_OK
    assert [*map(str, moments), "accepted"] == [one.body for one in found]
    assert moments == [one.stored_ms for one in found[:3]]


async def test_without_a_single_block_timers_wait_for_room(autojump_clock: MockClock) -> None:
    """What is due when the log cannot grow comes as soon as it can, in order and once."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    count = 60
    async with running(disk, clock, store_options=KEPT_A_DAY, timer_options=LONG_WINDOW) as service:
        for number in range(count):
            put(service, timed(str(number), START_MS + 120_000 + number * 1_000))
        await trio.sleep(90)
        disk.total = disk.usage(ROOT).used
        await trio.sleep(240)
        before = bodies(service.store)
        lags = service.store.dispatch() < service.store.commit_log.max_offset
        disk.total = 1 << 40
        await trio.sleep(10)
        after = bodies(service.store)
        counts = service.statistics()

    assert len(before) < count
    assert [str(number) for number in range(count)] == after
    assert (0, count) == (counts.set_aside, counts.delivered)
    assert lags


async def test_the_broker_says_that_its_disk_is_full(autojump_clock: MockClock) -> None:
    """Senders get SERVICE_NOT_AVAILABLE (14) until there is room; a waiting timer is delivered."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running_one:
        broker = running_one.broker
        peer = running_one.connect()
        moment = START_MS + 60_000
        waiting = f"UNIQ_KEY\x01K1\x02WAIT\x01true\x02TIMER_DELIVER_MS\x01{moment}\x02"
        codes = [(await peer.call(10, send_ext("T", waiting), b"timer")).code]
        await trio.sleep(5)
        disk.total = disk.usage(ROOT).used * 100 // 95
        await trio.sleep(15)
        refusal = await peer.call(10, send_ext("T"), b"refused")
        await trio.sleep(60)
        result = broker.store.get("T", 0, 0, count_max=32, bytes_max=1 << 20)
        shown = [decode_record(one).body for run in result.records for one in split_records(run)]
        disk.total *= 2
        await trio.sleep(15)
        codes.append((await peer.call(10, send_ext("T"), b"accepted")).code)

    assert codes == [0, 0]
    assert refusal.code == 14
    assert (refusal.remark or "").startswith("SERVICE_NOT_AVAILABLE: disk of /store is full: ")
    assert shown == [b"timer"]


async def test_cleaning_behind_the_stop_of_the_timers(autojump_clock: MockClock) -> None:
    """The store is closed after the timers, and may clean meanwhile: what they needed stays."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, store_options=SYNCED_SOON, timer_options=SMALL_WHEEL
    ) as service:
        store = service.store
        fill(service, 20)
        needed = store.commit_log.max_offset
        put(service, timed("waiting", START_MS + 19_000))
        fill(service, 20)
        await trio.sleep(5)
        service.request_stop()
        await trio.sleep(5)
        disk.total = disk.usage(ROOT).used * 100 // 88

        assert await store.clean() > 0
        assert store.commit_log.min_offset == needed - needed % SEGMENT_SIZE


async def test_nothing_that_a_unit_names_goes_before_the_first_checkpoint(
    autojump_clock: MockClock,
) -> None:
    """A start without a checkpoint links all units, and has to see which of them are done."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    options = attrs.evolve(SMALL_WHEEL, timer_flush_interval_ms=60_000)
    async with running(
        disk, clock, store_options=SYNCED_SOON, timer_options=options, stop=False
    ) as service:
        put(service, timed("arrived", START_MS + 25_000))
        await trio.sleep(22)
        assert service.statistics().rolled == 1
        fill(service, 20)
        await trio.sleep(5)
        assert bodies(service.store) == ["arrived"]
        disk.total = disk.usage(ROOT).used * 100 // 88
        await service.store.clean()
    disk.process_kill()
    disk.total = 1 << 50
    async with running(disk, clock, store_options=SYNCED_SOON, timer_options=options) as service:
        await trio.sleep(5)

        assert service.statistics().missing == 0


async def test_what_was_cleaned_stays_done_when_a_start_without_a_checkpoint_is_cut_short(
    autojump_clock: MockClock,
) -> None:
    """The checkpoint that such a start writes is behind slots whose messages are cleaned."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(
        disk, clock, store_options=SYNCED_SOON, timer_options=SMALL_WHEEL
    ) as service:
        for number in range(12):
            put(service, timed(str(number), START_MS + 1_500 + number * 1_000))
        await trio.sleep(15)
        fill(service, 20)
        await trio.sleep(5)
        disk.total = disk.usage(ROOT).used * 100 // 88
        assert await service.store.clean() > 0
    disk.total = 1 << 50
    disk.remove(f"{ROOT}/config/timercheck")
    async with running(disk, clock, store_options=SYNCED_SOON, timer_options=SMALL_WHEEL):
        pass
    async with running(
        disk, clock, store_options=SYNCED_SOON, timer_options=SMALL_WHEEL
    ) as service:
        await trio.sleep(5)

        assert (0, 0) == (service.statistics().missing, service.statistics().quarantined)
