"""A full disk: sends are refused, what waits is delivered, and all goes on by itself."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import START_MS, VirtualClock
from simulation.crash_workloads import FILES, WHEEL, Outcome, message
from simulation.staged_service import MADE_FROM_LOG, ROOT, running
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.fault_plan import TAKING_SPACE, Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.put_status import PutResult, PutStatus

DISK_SIZE = 1 << 20
OPTIONS = attrs.evolve(FILES, clean_resource_interval_ms=1_000)
ENOSPC = 28


def put(service: TimerMessageStore, number: int, at_ms: int) -> PutResult:
    """Send the message of a number for a moment; how it was put."""
    return service.put([message(number, at_ms)])[0].result


async def test_sends_leave_room_for_deliveries(autojump_clock: MockClock) -> None:
    """However fast a producer is, all that was taken is delivered, and then sends are taken again.

    Each delivery writes a record too. Segments whose messages are delivered make room.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms, total=DISK_SIZE)
    files = attrs.evolve(
        OPTIONS,
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=40_000,
        max_hash_slot_num=1_000,
        max_index_num=8_000,
        delete_file_batch_max=100,
    )
    # As in a real store, a batch of deliveries is small beside a segment.
    wheel = attrs.evolve(
        WHEEL,
        mapped_file_size_timer_log=52 * 2_000 + 16,
        timer_roll_window_slot=20,
        deliver_batch_count_max=32,
    )
    async with running(disk, clock, store_options=files, timer_options=wheel) as service:
        assert put(service, 0, START_MS + 2_000).status.is_stored
        await trio.sleep(1)
        taken = 1
        # Without a pause: nothing measures the disk meanwhile.
        while (refused := put(service, taken, START_MS + 2_000 + 10 * taken)).status.is_stored:
            taken += 1
            assert taken < 2_000
        free = disk.usage(ROOT).free
        await trio.sleep(30)
        delivered = service.statistics()
        again = put(service, taken, clock.now_ms() + 500)
        await trio.sleep(5)
        after = service.statistics()

    assert PutStatus.SERVICE_NOT_AVAILABLE is refused.status
    assert (refused.remark or "").startswith("disk of /store is full: ")
    assert free >= DISK_SIZE // 10
    assert taken > 100
    assert (taken, 0) == (sum(delivered.lateness), delivered.missing)
    assert PutStatus.PUT_OK is again.status
    assert taken + 1 == sum(after.lateness)


@pytest.mark.parametrize("full_from_ms", [50, 350, 1_050, 3_050])
@pytest.mark.parametrize("full_for_ms", [100, 4_000])
async def test_no_room_at_all_for_a_while(
    autojump_clock: MockClock, full_from_ms: int, full_for_ms: int
) -> None:
    """While messages are linked, delivered, rolled and checkpoints are written: they come later."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(OPTIONS, clean_resource_interval_ms=600_000)  # nothing is removed
    moments = {n: START_MS + 300 + 400 * n for n in range(25)}
    async with running(disk, clock, store_options=files, timer_options=WHEEL) as service:
        for number, at_ms in moments.items():
            assert put(service, number, at_ms).status.is_stored
        await trio.sleep(full_from_ms / 1000)
        total, disk.total = disk.total, disk.usage(ROOT).used
        refused = [put(service, 100 + n, clock.now_ms()) for n in range(10)][-1]
        await trio.sleep(full_for_ms / 1000)
        disk.total = total
        await trio.sleep(30)
        rolled = service.statistics().rolled
        outcome = Outcome.of(service)
    arrived = [one for one in outcome.arrived if one[0] < 100]

    assert PutStatus.SERVICE_NOT_AVAILABLE is refused.status
    assert rolled > 0
    assert outcome.faults == []
    assert Counter(dict.fromkeys(moments, 1)) == Counter(number for number, _ in arrived)
    assert [] == [one for one in arrived if one[1] < moments[one[0]]]


async def test_no_room_and_a_clock_that_is_set_back(autojump_clock: MockClock) -> None:
    """What was due and found no room is not due any more: it waits for the clock, not for room."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(OPTIONS, clean_resource_interval_ms=600_000)  # nothing is removed
    async with running(disk, clock, store_options=files, timer_options=WHEEL) as service:
        for number in range(5):
            assert put(service, number, START_MS + 1_000).status.is_stored
        await trio.sleep(0.5)
        total, disk.total = disk.total, disk.usage(ROOT).used
        refused = [put(service, 100 + n, clock.now_ms()) for n in range(10)][-1]
        await trio.sleep(1)
        backoff = service.statistics().retried
        clock.step(-20_000)
        disk.total = total
        await trio.sleep(10)
        waiting = service.statistics()
        await trio.sleep(30)
        after = service.statistics()

    assert PutStatus.SERVICE_NOT_AVAILABLE is refused.status
    assert backoff > 0
    assert (0, 0) == (sum(waiting.lateness), waiting.early)
    assert (5, 0) == (sum(after.lateness), after.early)


@pytest.mark.parametrize("jump_ms", [0, 5_000], ids=["on time", "overdue"])
async def test_no_room_and_a_kill(autojump_clock: MockClock, jump_ms: int) -> None:
    """What was released and found no room is released again by the next process: none is lost.

    The slot of what is overdue is closed as soon as all of it has left, though nothing arrives.
    """
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    files = attrs.evolve(OPTIONS, clean_resource_interval_ms=600_000)  # nothing is removed
    async with running(
        disk, clock, store_options=files, timer_options=WHEEL, stop=False
    ) as service:
        for number in range(5):
            assert put(service, number, START_MS + 1_000).status.is_stored
        await trio.sleep(0.5)
        total, disk.total = disk.total, disk.usage(ROOT).used
        for number in range(10):
            put(service, 100 + number, clock.now_ms())
        clock.step(jump_ms)
        await trio.sleep(6)
        backoff = service.statistics()
    disk.process_kill()
    disk.total = total
    async with running(disk, clock, store_options=files, timer_options=WHEEL) as service:
        await trio.sleep(10)
        outcome = Outcome.of(service)

    assert backoff.retried > 0
    assert 0 == sum(backoff.lateness)
    assert outcome.faults == []
    assert list(range(5)) == [number for number, _ in outcome.arrived if number < 100]


@pytest.mark.parametrize("skip", range(6))
async def test_short_writes(autojump_clock: MockClock, skip: int) -> None:
    """What was written of a batch is undone: it is refused as a whole, or delivered later."""
    clock = VirtualClock()
    rule = FaultRule(
        operations=[Operation.WRITE],
        families=[FileFamily.COMMIT_LOG],
        fault=Fault(ENOSPC, written=900),
        skip=skip,
    )
    plan = FaultRules(rule)
    disk = FaultyDisk(MemoryDisk(now_ms=clock.now_ms), ROOT, plan)
    async with running(disk, clock, store_options=OPTIONS, timer_options=WHEEL) as service:
        results = [put(service, n, START_MS + 500 + n) for n in range(4)]
        taken = [n for n, result in enumerate(results) if result.status.is_stored]
        await trio.sleep(5)
        outcome = Outcome.of(service)

    assert 1 == len(plan.struck)
    assert len(taken) == (3 if skip < 4 else 4)
    assert outcome.faults == []
    assert taken == [number for number, _ in outcome.arrived]


@pytest.mark.parametrize(
    "family",
    [
        *MADE_FROM_LOG,
        FileFamily.CONFIG,
    ],
)
async def test_no_room_for_one_kind_of_file(autojump_clock: MockClock, family: FileFamily) -> None:
    """Whichever file cannot be written, each message comes once when there is room."""
    clock = VirtualClock()
    plan = FaultRules()
    disk = FaultyDisk(MemoryDisk(now_ms=clock.now_ms), ROOT, plan)
    rule = FaultRule(operations=TAKING_SPACE, families=[family], fault=Fault(ENOSPC), count=None)
    moments = {n: START_MS + 300 + 400 * n for n in range(12)}
    async with running(disk, clock, store_options=OPTIONS, timer_options=WHEEL) as service:
        plan.rules.append(rule)
        taken = {n: at for n, at in moments.items() if put(service, n, at).status.is_stored}
        await trio.sleep(3)
        rule.heal()
        await trio.sleep(20)
        outcome = Outcome.of(service)

    assert plan.struck
    assert taken
    assert outcome.faults == []
    assert sorted(taken) == sorted(number for number, _ in outcome.arrived)


async def left_behind(memory: MemoryDisk, clock: VirtualClock, ended: str) -> list[int]:
    """A service that takes twelve messages and delivers one or two; their numbers."""
    async with running(
        memory, clock, store_options=OPTIONS, timer_options=WHEEL, stop=ended == "stopped"
    ) as service:
        for number in range(12):
            assert put(service, number, START_MS + 300 + 700 * number).status.is_stored
        await trio.sleep(1)
    memory.process_kill()
    if ended == "queues lost":
        directory = f"{ROOT}/consumequeue/T/0"
        for queue in memory.list_dir(directory):
            memory.remove(f"{directory}/{queue}")
    return list(range(12))


@pytest.mark.parametrize("ended", ["stopped", "killed"])
async def test_a_start_on_a_full_disk(autojump_clock: MockClock, ended: str) -> None:
    """Not a block is free: the service starts, refuses sends, and goes on when there is room."""
    clock = VirtualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    taken = await left_behind(disk, clock, ended)
    total, disk.total = disk.total, disk.usage(ROOT).used
    async with running(disk, clock, store_options=OPTIONS, timer_options=WHEEL) as service:
        await trio.sleep(3)
        refused = put(service, 100, clock.now_ms() + 500)
        backoff = service.statistics().deliver_backoff
        disk.total = total
        await trio.sleep(20)
        again = put(service, 101, clock.now_ms() + 500)
        await trio.sleep(3)
        outcome = Outcome.of(service)

    assert PutStatus.SERVICE_NOT_AVAILABLE is refused.status
    assert (refused.remark or "").startswith("disk of /store is full: ")
    assert backoff.count
    assert f"'{ROOT}/commitlog/" in (backoff.error or "")
    assert PutStatus.PUT_OK is again.status
    assert outcome.faults == []
    assert [*taken, 101] == sorted(number for number, _ in outcome.arrived)


@pytest.mark.parametrize("family", FileFamily)
@pytest.mark.parametrize("ended", ["stopped", "killed", "queues lost"])
async def test_a_start_without_room_for_one_kind_of_file(
    autojump_clock: MockClock, family: FileFamily, ended: str
) -> None:
    """Only queues that have to be made again need room for a start; and it can be retried."""
    clock = VirtualClock()
    memory = MemoryDisk(now_ms=clock.now_ms)
    taken = await left_behind(memory, clock, ended)
    # The logs have their blocks from the beginning on.
    is_log = family in (FileFamily.COMMIT_LOG, FileFamily.TIMER_LOG)
    operations = [Operation.ALLOCATE] if is_log else [Operation.ALLOCATE, Operation.WRITE]
    rule = FaultRule(operations=operations, families=[family], fault=Fault(ENOSPC), count=None)
    disk = FaultyDisk(memory, ROOT, FaultRules(rule))
    failure: OSError | None = None
    outcome = Outcome([], ["never started"])
    for _ in range(2):
        try:
            async with running(disk, clock, store_options=OPTIONS, timer_options=WHEEL) as service:
                await trio.sleep(3)
                rule.heal()
                await trio.sleep(20)
                outcome = Outcome.of(service)
            break
        except OSError as error:
            failure = error
            rule.heal()
    needed = family is FileFamily.CONSUME_QUEUE and ended == "queues lost"

    assert outcome.faults == []
    assert taken == sorted(number for number, _ in outcome.arrived)
    assert needed == (failure is not None)
    if failure is not None:
        assert ENOSPC == failure.errno
        assert f"{ROOT}/consumequeue/" in str(failure.filename)


async def test_a_write_that_is_refused_for_good_ends_the_store(autojump_clock: MockClock) -> None:
    """Not a full disk but a broken one: no task waits for it to heal."""
    clock = VirtualClock()
    rule = FaultRule(operations=[Operation.WRITE], families=[FileFamily.TIMER_WHEEL], skip=1)
    disk = FaultyDisk(MemoryDisk(now_ms=clock.now_ms), ROOT, FaultRules(rule))
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - it ends somewhere in it
        async with running(disk, clock, store_options=OPTIONS, timer_options=WHEEL) as service:
            for number in range(20):
                put(service, number, START_MS + 60_000)
                await trio.sleep(0.5)

    assert caught.value.split(lambda one: f"{ROOT}/timerwheel" in str(one))[1] is None
