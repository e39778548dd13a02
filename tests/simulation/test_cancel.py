"""Cancelling and moving in virtual time: the verdict is true, whenever it is asked for."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.staged_service import (
    ROOT,
    SMALL_FILES,
    SYNC_FILES,
    arrivals,
    delete_of,
    running,
    timed,
)
from timermq.pipeline.cancel.cancellation import CancelResult
from timermq.pipeline.records.cancel_verdict import CancelError, Verdict, Wanted
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore import index_file
from timermq.timerstore.message import Message, pack_host

FAR_MS = START_MS + 90_000
"""Beyond the roll window of 20 s."""


def sent(service: TimerMessageStore, body: str, deliver_ms: int) -> None:
    """One message on its way."""
    (result,) = service.put([timed(body, deliver_ms)])
    assert result.result.status.is_stored


def cancel(service: TimerMessageStore, key: str) -> Verdict:
    """Cancel the message with a unique key; the verdict on it."""
    return service.cancellation.cancel(Wanted("T", key)).verdict


def bodies(service: TimerMessageStore) -> list[str]:
    """Bodies of what has arrived, in order."""
    return [one.body for one in arrivals(service.store)]


@pytest.mark.parametrize("slept_ms", [0, 1, 4_000, 4_999, 5_000])
@pytest.mark.parametrize("files", [SMALL_FILES, SYNC_FILES])
async def test_a_cancelled_message_never_arrives(
    autojump_clock: MockClock, files: object, slept_ms: int
) -> None:
    """At once, when its slot is open, and in its very millisecond, before the gate."""
    clock = VirtualClock()
    assert isinstance(files, type(SMALL_FILES))
    async with running(MemoryDisk(), clock, store_options=files) as service:
        sent(service, "a", START_MS + 5_001)
        sent(service, "b", START_MS + 5_001)
        await trio.sleep(slept_ms / 1000)
        assert cancel(service, "a") is Verdict.CANCELLED
        assert cancel(service, "a") is Verdict.CANCELLED
        await trio.sleep(30)
        assert bodies(service) == ["b"]
        assert cancel(service, "a") is Verdict.CANCELLED
        assert cancel(service, "b") is Verdict.TOO_LATE
        assert cancel(service, "c") is Verdict.NOT_FOUND
        assert service.statistics().cancelled == 1


async def test_a_cancel_between_any_two_turns(autojump_clock: MockClock) -> None:
    """From the release of a message to its topic, turn by turn of the event loop."""
    clock = VirtualClock()
    verdicts: list[Verdict] = []
    async with running(MemoryDisk(), clock) as service:
        for turns in range(40):
            due_ms = clock.now_ms() + 2_000
            sent(service, f"a{turns}", due_ms)
            sent(service, f"b{turns}", due_ms)
            await trio.sleep((due_ms - clock.now_ms()) / 1000)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            verdicts.append(cancel(service, f"a{turns}"))
            await trio.sleep(1)
            expected = [f"a{turns}", f"b{turns}"][verdicts[-1] is Verdict.CANCELLED :]
            assert expected == bodies(service)[-len(expected) :], turns
            assert (f"a{turns}" in bodies(service)) == (verdicts[-1] is Verdict.TOO_LATE)

    assert {Verdict.CANCELLED, Verdict.TOO_LATE} == set(verdicts)
    assert verdicts.count(Verdict.CANCELLED) > 1


async def test_a_message_that_rolls_is_cancelled(autojump_clock: MockClock) -> None:
    """On its way, and on any leg."""
    clock = VirtualClock()
    for slept in (0, 19, 45, 89):
        async with running(MemoryDisk(), clock) as service:
            deliver_ms = clock.now_ms() + 90_000
            sent(service, "a", deliver_ms)
            sent(service, "b", deliver_ms)
            await trio.sleep(slept)
            assert cancel(service, "a") is Verdict.CANCELLED
            await trio.sleep(100 - slept)
            assert bodies(service) == ["b"]


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("slept_ms", [0, 4_500, 5_000, 60_000])
async def test_a_cancel_survives_the_process(
    autojump_clock: MockClock, stop: bool, slept_ms: int
) -> None:
    """Stopped or killed right behind the verdict, with the slot open or not."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, stop=stop) as service:
        for deliver_ms in (START_MS + 5_001, FAR_MS):
            sent(service, f"a{deliver_ms}", deliver_ms)
            sent(service, f"b{deliver_ms}", deliver_ms)
        await trio.sleep(slept_ms / 1000)
        verdicts = [cancel(service, f"a{at}") for at in (START_MS + 5_001, FAR_MS)]
    if not stop:
        disk.process_kill()
    async with running(disk, clock) as service:
        await trio.sleep(120)
        late = [f"a{START_MS + 5_001}"] if verdicts[0] is Verdict.TOO_LATE else []
        expected = [*late, f"b{START_MS + 5_001}", f"b{FAR_MS}"]
        assert sorted(bodies(service)) == sorted(expected)
        assert cancel(service, f"a{FAR_MS}") is Verdict.CANCELLED


async def test_a_kill_and_a_clock_set_back_lose_no_cancel(autojump_clock: MockClock) -> None:
    """The slot is read again, earlier than its delete was linked."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, stop=False) as service:
        sent(service, "a", START_MS + 5_900)
        await trio.sleep(5.5)
        assert cancel(service, "a") is Verdict.CANCELLED
        await trio.sleep(0.1)
    disk.process_kill()
    clock.step(-5_000)
    async with running(disk, clock) as service:
        await trio.sleep(30)
        assert bodies(service) == []


async def test_by_a_key_that_one_message_has(autojump_clock: MockClock) -> None:
    """A key of both is one of a single message when the other is cancelled."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        for body in "ab":
            message = timed(body, START_MS + 5_000)
            keys = "order shared" if body == "a" else "shared"
            service.put([with_properties(message, f"KEYS\x01{keys}\x02")])
        by_key = service.cancellation.cancel(Wanted("T", "order", is_unique_key=False))
        assert (by_key.verdict, by_key.unique_key) == (Verdict.CANCELLED, "a")
        assert (
            service.cancellation.cancel(Wanted("T", "shared", is_unique_key=False)).verdict
            is Verdict.CANCELLED
        )
        await trio.sleep(10)
        assert bodies(service) == []


async def test_a_key_of_several_is_refused(autojump_clock: MockClock) -> None:
    """The rule has a name, and nothing is cancelled."""
    async with running(MemoryDisk(), VirtualClock()) as service:
        for body in "ab":
            service.put([with_properties(timed(body, START_MS + 5_000), "KEYS\x01shared\x02")])
        with pytest.raises(CancelError, match="CANCEL_KEY_NOT_UNIQUE: 2 pending messages"):
            service.cancellation.cancel(Wanted("T", "shared", is_unique_key=False))
        await trio.sleep(10)
        assert bodies(service) == ["a", "b"]


def with_properties(message: Message, more: str) -> Message:
    """The message with more properties."""
    message.properties += more.encode()
    return message


@pytest.mark.parametrize("moved_to_ms", [-5, 100, 5_400, 60_000, 3_000_000])
@pytest.mark.parametrize("sent_for_ms", [5_001, 5_900, 90_000])
@pytest.mark.parametrize("slept_ms", [0, 4_500])
async def test_a_moved_message_arrives_at_its_new_moment_only(
    autojump_clock: MockClock, moved_to_ms: int, sent_for_ms: int, slept_ms: int
) -> None:
    """Earlier, later, in the same slot, now, beyond the window; and once more."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, "a", START_MS + sent_for_ms)
        await trio.sleep(slept_ms / 1000)
        asked_ms = clock.now_ms() + moved_to_ms
        result = moved(service, "a", asked_ms)
        assert result.verdict is Verdict.CANCELLED
        expected_ms = max(asked_ms, clock.now_ms() + 1)
        assert result.out_ms == (expected_ms - 1) // 1000 * 1000
        await trio.sleep(4_000)
        (one,) = arrivals(service.store)
        assert (one.body, one.unique_id, one.stored_ms) == ("a", "a", expected_ms)
        assert cancel(service, "a") is Verdict.TOO_LATE
        assert moved(service, "a", clock.now_ms() + 5).verdict is Verdict.TOO_LATE


async def test_a_moved_message_is_cancelled_like_any_other(autojump_clock: MockClock) -> None:
    """And moved again; what is cancelled is not moved."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, "a", START_MS + 5_500)
        for ms in (5_600, 5_400, 50_000, 5_501):
            assert moved(service, "a", START_MS + ms).verdict is Verdict.CANCELLED
        assert cancel(service, "a") is Verdict.CANCELLED
        assert moved(service, "a", START_MS + 9_000).out_ms is None
        await trio.sleep(100)
        assert bodies(service) == []


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("slept_ms", [0, 4_500])
async def test_a_move_survives_the_process(
    autojump_clock: MockClock, stop: bool, slept_ms: int
) -> None:
    """In all slots: near, the same, far."""
    disk, clock = MemoryDisk(), VirtualClock()
    targets = {"near": 6_700, "same": 5_600, "far": 100_000}
    async with running(disk, clock, stop=stop) as service:
        for body in targets:
            sent(service, body, START_MS + 5_500)
        await trio.sleep(slept_ms / 1000)
        for body, to_ms in targets.items():
            assert moved(service, body, START_MS + to_ms).verdict is Verdict.CANCELLED
    if not stop:
        disk.process_kill()
    async with running(disk, clock) as service:
        await trio.sleep(200)
        found = {one.body: one.stored_ms - START_MS for one in arrivals(service.store)}
        assert found == targets
        assert len(arrivals(service.store)) == len(targets)


def moved(service: TimerMessageStore, key: str, deliver_ms: int) -> CancelResult:
    """Move the message with a unique key to another moment."""
    return service.cancellation.reschedule(Wanted("T", key), deliver_ms)


async def test_memory_of_cancels_is_given_back(autojump_clock: MockClock) -> None:
    """Near ones when their slot has reached its topic, far ones when their delete is linked."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        for number in range(20):
            sent(service, f"n{number}", START_MS + 3_000 + number * 100)
            sent(service, f"f{number}", FAR_MS + number)
        await trio.sleep(2.9)
        for number in range(20):
            cancel(service, f"n{number}")
            cancel(service, f"f{number}")
        assert len(service.state.fresh_cancels) == 40
        await trio.sleep(0.01)
        assert len(service.state.fresh_cancels) == 20
        await trio.sleep(10)
        assert len(service.state.fresh_cancels) == 0
        assert bodies(service) == []


async def test_a_message_from_an_ipv6_address_is_moved(autojump_clock: MockClock) -> None:
    """Its record has the origin twelve bytes further on."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        message = timed("a", START_MS + 15_001)
        message.born_host = pack_host("2001:db8::1", 4711)
        service.put([message])
        assert moved(service, "a", START_MS + 18_000).verdict is Verdict.CANCELLED
        await trio.sleep(30)
        assert [one.stored_ms for one in arrivals(service.store)] == [START_MS + 18_000]


async def test_a_delete_without_its_message_is_no_cancel(autojump_clock: MockClock) -> None:
    """A power cut has left the first of two records: the message waits as before."""
    disk, clock, _ = await move_cut_short(None)
    async with running(disk, clock) as service:
        assert cancel(service, "b") is Verdict.NOT_FOUND
        assert moved(service, "a", START_MS + 20_000).out_ms == START_MS + 19_000
        await trio.sleep(30)
        assert [one.stored_ms for one in arrivals(service.store)] == [START_MS + 20_000]


@pytest.mark.parametrize("lost", [1, 2, 9, 20, 40, 60, 90])
async def test_a_move_that_was_not_written_to_its_end_is_no_move(
    autojump_clock: MockClock, lost: int
) -> None:
    """The process was killed in the middle of the second record: the message waits as before."""
    disk, clock, sent_ms = await move_cut_short(lost)
    async with running(disk, clock) as service:
        await trio.sleep(30)
        assert [one.stored_ms for one in arrivals(service.store)] == [sent_ms]
        assert service.counts.set_aside == 0


async def move_cut_short(lost: int | None) -> tuple[MemoryDisk, VirtualClock, int]:
    """A kill in a move of message "a"; so many bytes of its second record are missing (None: all).

    Returns:
        Disk, clock, and the moment that the message had before.
    """
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, stop=False) as service:
        sent(service, "a", START_MS + 15_001)
        moved(service, "a", START_MS + 18_000)
        _, _, (message_py, size), _ = service.store.commit_log.scan(0, check_crc=False)
    disk.process_kill()
    lost = size if lost is None else lost
    file = disk.open(f"{ROOT}/commitlog/{0:020}")
    end = message_py + size
    file.write(end - lost, bytes(file.size() - end + lost))
    file.close()
    return disk, clock, START_MS + 15_001


async def test_a_key_that_an_earlier_message_had(autojump_clock: MockClock) -> None:
    """The newest message counts, and asking again says the same."""
    clock = VirtualClock()
    wanted = Wanted("T", "order", is_unique_key=False)
    async with running(MemoryDisk(), clock) as service:
        for body, deliver_ms in (("a", START_MS + 1_000), ("b", START_MS + 9_000)):
            message = timed(body, deliver_ms)
            service.put([with_properties(message, "KEYS\x01order\x02")])
        await trio.sleep(2)
        verdicts = [service.cancellation.cancel(wanted).verdict for _ in range(2)]
        assert verdicts == [Verdict.CANCELLED, Verdict.CANCELLED]
        await trio.sleep(10)
        assert bodies(service) == ["a"]


async def test_a_key_of_very_many_is_refused(autojump_clock: MockClock) -> None:
    """No verdict is given on what cannot be looked at."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        for number in range(70):
            message = timed(f"n{number}", START_MS + 9_000)
            service.put([with_properties(message, "KEYS\x01many\x02")])
        with pytest.raises(CancelError, match="CANCEL_KEY_TOO_COMMON: 64 messages"):
            service.cancellation.cancel(Wanted("T", "many", is_unique_key=False))


@pytest.mark.parametrize("wanted", [Wanted("T", "a"), Wanted("T", "k", is_unique_key=False)])
async def test_a_message_behind_a_cut_walk_of_the_index_is_not_denied(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, wanted: Wanted
) -> None:
    """Where so many share a slot of the index that it cannot tell, it is refused, not not found."""
    monkeypatch.setattr(index_file, "WALK_COUNT_MAX", 50)
    files = attrs.evolve(SMALL_FILES, max_hash_slot_num=1, max_index_num=1_000)
    async with running(MemoryDisk(), VirtualClock(), store_options=files) as service:
        service.put([with_properties(timed("a", START_MS + 9_000), "KEYS\x01k\x02")])
        assert cancel(service, "none") is Verdict.NOT_FOUND
        for number in range(100):
            sent(service, f"n{number}", START_MS + 15_000)
        text = "CANCEL_KEY_TOO_COMMON: more than 50 entries of the index may have the key"
        with pytest.raises(CancelError, match=text):
            service.cancellation.cancel(wanted)
        with pytest.raises(CancelError, match=text):
            service.cancellation.reschedule(wanted, START_MS + 18_000)
        await trio.sleep(30)
        assert bodies(service) == ["a", *(f"n{number}" for number in range(100))]


async def test_a_key_too_long_for_a_delete_is_refused(autojump_clock: MockClock) -> None:
    """Both records are looked at before either is stored."""
    clock = VirtualClock()
    key = "k" * 17_000
    async with running(MemoryDisk(), clock) as service:
        sent(service, key, START_MS + 15_001)
        with pytest.raises(CancelError, match="PROPERTIES_SIZE: expected at most 32767"):
            moved(service, key, START_MS + 18_000)
        await trio.sleep(30)
        assert len(bodies(service)) == 1


async def test_what_a_producers_own_delete_took_is_not_moved(autojump_clock: MockClock) -> None:
    """It has had its effect when its slot is through."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        sent(service, "a", START_MS + 5_001)
        service.put([with_properties(delete_of("a", START_MS + 5_001), "UNIQ_KEY\x01a\x02")])
        await trio.sleep(10)
        assert moved(service, "a", START_MS + 30_000).out_ms is None
        await trio.sleep(40)
        assert bodies(service) == []
        assert len(service.state.fresh_cancels) == 0


async def test_a_kill_behind_a_far_cancel_is_soon_forgotten(autojump_clock: MockClock) -> None:
    """What recovery remembers of it does not last until the far slot."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, stop=False) as service:
        sent(service, "a", START_MS + 19_000)
        assert cancel(service, "a") is Verdict.CANCELLED
        await trio.sleep(0.1)
    disk.process_kill()
    async with running(disk, clock) as service:
        sent(service, "b", START_MS + 3_000)
        await trio.sleep(5)
        assert not service.state.already_done
        sent(service, "c", START_MS + 18_000)
        cancel(service, "c")
        await trio.sleep(0.1)
        assert len(service.state.fresh_cancels) == 0
        await trio.sleep(30)
        assert bodies(service) == ["b"]


async def test_a_cancel_whose_message_is_cleaned_is_known_by_its_delete(
    autojump_clock: MockClock,
) -> None:
    """The message stands in an older segment, which goes before that of the delete."""
    clock = VirtualClock()
    async with running(MemoryDisk(), clock) as service:
        log = service.store.commit_log
        sent(service, "a", START_MS + 5_000)
        while log.max_offset <= log.segment_size:
            service.put([Message("P", 0, b"x" * 3_000)])
        assert cancel(service, "a") is Verdict.CANCELLED
        await trio.sleep(9)
        log.delete_before(log.segment_size)
        assert log.min_offset == log.segment_size
        assert cancel(service, "a") is Verdict.CANCELLED
        assert cancel(service, "b") is Verdict.NOT_FOUND
