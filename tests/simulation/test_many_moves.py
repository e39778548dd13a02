"""A message that is moved again and again, as who debounces does: it stays within reach."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import ROOT, SMALL_FILES, arrivals, delete_of, running, timed
from timermq.pipeline.cancel.cancellation import CancelResult
from timermq.pipeline.records import key_records
from timermq.pipeline.records.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message

MOVES = 100
BY_UNIQUE_KEY = Wanted("T", "a")
BY_KEY = Wanted("T", "order", is_unique_key=False)


@pytest.fixture
def few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request looks at fewer records than the moves of a message make."""
    monkeypatch.setattr(key_records, "RECORDS_MAX", 16)


def sent(service: TimerMessageStore, deliver_ms: int, *, body: str = "a", more: str = "") -> None:
    """One message on its way, with the key that it shares."""
    message = timed(body, deliver_ms)
    message.properties += b"KEYS\x01order\x02" + more.encode()
    (result,) = service.put([message])
    assert result.result.status.is_stored


def moved(service: TimerMessageStore, wanted: Wanted, deliver_ms: int) -> CancelResult:
    """Move a message; the verdict has to be that it is moved."""
    result = service.cancellation.reschedule(wanted, deliver_ms)
    assert (result.verdict, result.deliver_ms) == (Verdict.CANCELLED, deliver_ms)
    return result


def bodies(service: TimerMessageStore) -> list[str]:
    """Bodies of what has arrived, in order."""
    return [one.body for one in arrivals(service.store)]


@pytest.mark.usefixtures("few_records")
@pytest.mark.parametrize("wanted", [BY_UNIQUE_KEY, BY_KEY])
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_message_moved_a_hundred_times(
    autojump_clock: MockClock, wanted: Wanted, is_cancelled: bool
) -> None:
    """Within a slot and to others: cancelled, or it arrives at its last moment."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, START_MS + 10_000)
        for number in range(MOVES):
            moved(service, wanted, START_MS + 10_000 + number % 7 * 400 + number % 2 * 5_000)
            if number % 10 == 0:
                await trio.sleep(0.5)
        last_ms = START_MS + 12_000
        moved(service, wanted, last_ms)
        if is_cancelled:
            assert service.cancellation.cancel(wanted).verdict is Verdict.CANCELLED
            assert service.cancellation.cancel(wanted).verdict is Verdict.CANCELLED
        await trio.sleep(300)
        assert [one.stored_ms for one in arrivals(service.store)] == [last_ms][is_cancelled:]
        expected = Verdict.CANCELLED if is_cancelled else Verdict.TOO_LATE
        assert service.cancellation.cancel(wanted).verdict is expected


@pytest.mark.usefixtures("few_records")
@pytest.mark.parametrize("wanted", [BY_UNIQUE_KEY, BY_KEY])
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_many_moves_and_kills(
    autojump_clock: MockClock, wanted: Wanted, is_cancelled: bool
) -> None:
    """Each moment is put off before it comes, and the process is killed in between."""
    disk, clock = MemoryDisk(), VirtualClock()
    for _ in range(12):
        async with running(disk, clock, stop=False) as service:
            if not service.store.commit_log.max_offset:
                sent(service, clock.now_ms() + 5_001)
            for _ in range(9):
                moved(service, wanted, clock.now_ms() + 5_001)
                await trio.sleep(0.6)
        disk.process_kill()
    async with running(disk, clock) as service:
        last_ms = clock.now_ms() + 5_001
        moved(service, wanted, last_ms)
        if is_cancelled:
            assert service.cancellation.cancel(wanted).verdict is Verdict.CANCELLED
        await trio.sleep(30)
        assert [one.stored_ms for one in arrivals(service.store)] == [last_ms][is_cancelled:]


@pytest.mark.parametrize("wanted", [BY_UNIQUE_KEY, BY_KEY])
async def test_many_moves_and_rolls(autojump_clock: MockClock, wanted: Wanted) -> None:
    """Messages and the deletes that make way for them roll between the moves."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, START_MS + 90_000)
        for _ in range(40):
            moved(service, wanted, clock.now_ms() + 90_000)
            await trio.sleep(12)
        rolled = service.statistics().rolled
        assert service.cancellation.cancel(wanted).verdict is Verdict.CANCELLED
        await trio.sleep(300)
        assert bodies(service) == []
        assert rolled > 40


async def test_a_message_that_rolled_a_hundred_times(autojump_clock: MockClock) -> None:
    """Its rolls are all of one message, and none stands before them."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, START_MS + 2_500_000)
        await trio.sleep(2_000)
        assert service.statistics().rolled > 64
        assert service.cancellation.cancel(BY_KEY).verdict is Verdict.CANCELLED
        await trio.sleep(1_000)
        assert bodies(service) == []


@pytest.mark.usefixtures("few_records")
async def test_another_message_under_the_unique_key_of_a_moved_one(
    autojump_clock: MockClock,
) -> None:
    """It is seen: neither is moved, and both are cancelled."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, START_MS + 30_000)
        for number in range(MOVES):
            moved(service, BY_UNIQUE_KEY, START_MS + 30_000 + number)
        sent(service, START_MS + 31_000)
        with pytest.raises(CancelError, match="CANCEL_KEY_NOT_UNIQUE: 2 messages wait"):
            service.cancellation.reschedule(BY_UNIQUE_KEY, START_MS + 40_000)
        assert service.cancellation.cancel(BY_UNIQUE_KEY).verdict is Verdict.CANCELLED
        await trio.sleep(60)
        assert bodies(service) == []


async def test_an_old_message_behind_many_moves_of_another(autojump_clock: MockClock) -> None:
    """Moves by unique key say nothing of the messages that share another key."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, START_MS + 30_000, body="old")
        sent(service, START_MS + 30_000)
        for number in range(MOVES):
            moved(service, BY_UNIQUE_KEY, START_MS + 30_000 + number)
        with pytest.raises(CancelError, match="CANCEL_KEY_NOT_UNIQUE: 2 pending messages"):
            service.cancellation.cancel(BY_KEY)
        assert service.cancellation.cancel(BY_UNIQUE_KEY).verdict is Verdict.CANCELLED
        moved(service, BY_KEY, START_MS + 50_000)
        await trio.sleep(60)
        assert [(one.body, one.stored_ms) for one in arrivals(service.store)] == [
            ("old", START_MS + 50_000)
        ]


async def test_a_moved_message_hides_no_producers_delete(autojump_clock: MockClock) -> None:
    """One without an order takes what is moved into its slot, however many moves stand behind."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, START_MS + 30_000)
        delete = delete_of("a", START_MS + 10_500)
        delete.properties += b"UNIQ_KEY\x01a\x02"
        service.put([delete])
        for number in range(MOVES):
            moved(service, BY_UNIQUE_KEY, START_MS + 30_000 + number)
        moved(service, BY_UNIQUE_KEY, START_MS + 10_500)
        await trio.sleep(15)
        result = service.cancellation.reschedule(BY_UNIQUE_KEY, START_MS + 50_000)
        assert (result.verdict, result.deliver_ms) == (Verdict.CANCELLED, None)
        await trio.sleep(60)
        assert bodies(service) == []


@pytest.mark.usefixtures("few_records")
async def test_the_last_of_many_moves_is_torn(autojump_clock: MockClock) -> None:
    """Its delete stands alone: the message waits at the moment before, and is moved on."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, stop=False) as service:
        sent(service, START_MS + 30_000)
        for number in range(MOVES):
            moved(service, BY_UNIQUE_KEY, START_MS + 30_000 + number)
        last_py, size = max(service.store.commit_log.scan(0, check_crc=False))
        base = last_py // (1 << 16) * (1 << 16)
    disk.process_kill()
    file = disk.open(f"{ROOT}/commitlog/{base:020}")
    file.write(last_py - base, bytes(size))
    file.close()
    async with running(disk, clock) as service:
        for number in range(MOVES):
            moved(service, BY_UNIQUE_KEY, START_MS + 31_000 + number)
        await trio.sleep(60)
        assert [one.stored_ms for one in arrivals(service.store)] == [START_MS + 30_999 + MOVES]


async def test_many_arrivals_hide_none(autojump_clock: MockClock) -> None:
    """A message has arrived, however much came to its topic under its unique key since."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, START_MS + 90_000)
        moved(service, BY_UNIQUE_KEY, START_MS + 2_000)
        await trio.sleep(5)
        for _ in range(MOVES):
            sent(service, START_MS + 1)
        assert service.cancellation.cancel(BY_UNIQUE_KEY).verdict is Verdict.TOO_LATE


@pytest.mark.parametrize(
    ("name", "bound", "text"),
    [
        ("RECORDS_MAX", 20, "more than 20 records"),
        ("SIZE_MAX", 3_000, "records of more than 3000 bytes"),
    ],
)
async def test_what_cannot_be_looked_at_is_refused(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, name: str, bound: int, text: str
) -> None:
    """A unique key that is used again and again without a move; nothing is changed."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        for _ in range(15):
            sent(service, START_MS + 30_000)
            service.cancellation.cancel(BY_UNIQUE_KEY)
        sent(service, START_MS + 30_000)
        monkeypatch.setattr(key_records, name, bound)
        for wanted in (BY_UNIQUE_KEY, BY_KEY):
            with pytest.raises(CancelError, match=f"CANCEL_KEY_TOO_COMMON: {text} have the key"):
                service.cancellation.cancel(wanted)
        await trio.sleep(60)
        assert bodies(service) == ["a"]


async def test_very_many_messages_under_one_unique_key_are_refused(
    autojump_clock: MockClock,
) -> None:
    """No request writes more deletes than a turn has room for."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        for _ in range(70):
            sent(service, START_MS + 9_000)
        with pytest.raises(CancelError, match="CANCEL_KEY_TOO_COMMON: 64 pending messages"):
            service.cancellation.cancel(BY_UNIQUE_KEY)


SMALL_SEGMENTS = attrs.evolve(SMALL_FILES, mapped_file_size_commit_log=8_192)


async def test_a_moved_message_that_has_arrived_and_rolls_on_at_its_old_moment(
    autojump_clock: MockClock,
) -> None:
    """What made way rolls on, while cleaning takes the moved message: it has not been cancelled."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_SEGMENTS) as service:
        store = service.store
        sent(service, START_MS + 90_000)
        await trio.sleep(1)
        moved(service, Wanted("T", "a"), START_MS + 5_000)
        await trio.sleep(10)
        assert [one.body for one in arrivals(store)] == ["a"]
    async with running(disk, clock, store_options=SMALL_SEGMENTS) as service:
        store = service.store
        end = store.commit_log.max_offset + 3 * 8_192
        while store.commit_log.max_offset < end:
            service.put([Message(topic="P", queue_id=0, body=b"x" * 500)])
        await trio.sleep(25)
        disk.total = disk.usage(ROOT).used * 100 // 88
        assert await store.clean()
        assert arrivals(store) == []

        assert service.cancellation.cancel(Wanted("T", "a")).verdict is Verdict.NOT_FOUND


async def test_another_message_with_the_unique_key_has_arrived_and_is_cleaned(
    autojump_clock: MockClock,
) -> None:
    """Its arrival still tells that one of the two has come: a cancel of the other is too late."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    async with running(disk, clock, store_options=SMALL_SEGMENTS) as service:
        store = service.store
        sent(service, START_MS + 90_000)
        sent(service, START_MS + 5_000)
        while store.commit_log.max_offset < 8_192:
            service.put([Message(topic="P", queue_id=0, body=b"x" * 500)])
        await trio.sleep(45)
        disk.total = disk.usage(ROOT).used * 100 // 88
        assert await store.clean()
        disk.total = 1 << 50
        assert bodies(service) == ["a"]

        verdicts = [service.cancellation.cancel(BY_UNIQUE_KEY).verdict for _ in range(2)]
        assert verdicts == [Verdict.TOO_LATE, Verdict.TOO_LATE]
        await trio.sleep(60)
        assert bodies(service) == ["a"]
