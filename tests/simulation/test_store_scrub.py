"""The scrub as a task of the broker: in virtual time, beside everything else."""

from __future__ import annotations

import errno
from itertools import pairwise

import attrs
import pytest
import trio
from trio.testing import MockClock

from fakes import VirtualClock
from simulation.staged_service import (
    QUIET_FILES,
    ROOT,
    SMALL_FILES,
    SMALL_WHEEL,
    delete_of,
    running,
    timed,
)
from small_store import read_bodies
from timermq.pipeline.store_scrub import CHANGES_WITHIN_S, HOUR_MS, REST_S, StoreScrub
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.simulator.disks.fault_plan import Access, Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreFailedError
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.seal_scrub import PIECE_SIZE

WAITS_MS = 3_600_000
"""How far ahead the messages are that wait."""
FILES = attrs.evolve(QUIET_FILES, scrub_bytes_per_second=100_000)
WHEEL = attrs.evolve(SMALL_WHEEL, slots_total=7_200, timer_roll_window_slot=7_000)
"""On which they wait without a roll."""


def put(service: TimerMessageStore, clock: VirtualClock, count: int, size: int = 100) -> None:
    """Messages for later, named by their numbers."""
    moment_ms = clock.now_ms() + WAITS_MS
    for number in range(count):
        service.put([timed(f"{number:04d}".ljust(size, "."), moment_ms)])


def change(disk: Disk, path: str, offset: int, *, count: int = 1) -> None:
    """Turn bits of some neighbouring words over."""
    file = disk.open(path)
    for at in range(offset, offset + 4 * count, 4):
        (value,) = file.read(at, 1)
        file.write(at, bytes([value ^ 0x10]))


def log_file(number: int = 0) -> str:
    """A segment of the commit log."""
    size = SMALL_FILES.mapped_file_size_commit_log
    return f"{ROOT}/commitlog/{number * size:020d}"


async def whole(service: TimerMessageStore) -> None:
    """Wait until a pass is through."""
    await passed(service.scrub, service.scrub.statistics().passes + 1)


async def passed(scrub: StoreScrub, passes: int) -> None:
    """Wait until so many passes are through; some hours at most."""
    for _ in range(20_000):
        if scrub.statistics().passes >= passes:
            return
        await trio.sleep(1 if scrub.statistics().done_ratio is not None else 60)
    raise AssertionError("no pass came to its end")


async def test_a_body_that_rots_while_it_waits_is_quarantined(autojump_clock: MockClock) -> None:
    """This process has written it, and no reader has met it since; the others arrive."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        put(service, clock, 8, 600)
        await trio.sleep(2)
        log = service.store.commit_log
        third = [at for at, _ in log.scan(0, check_crc=False)][2]
        change(disk, log_file(), third + 300, count=2)
        await whole(service)
        await trio.sleep(WAITS_MS / 1000 + 10)
        numbers = [body[:4] for body in read_bodies(service.store)]

        assert service.scrub.statistics().left == 1
        assert "0002" not in numbers
        assert {"0000", "0004", "0005", "0006", "0007"} <= set(numbers)
        assert len(numbers) + service.quarantine.active == 8


async def test_units_that_rot_while_they_wait_are_put_right(autojump_clock: MockClock) -> None:
    """One bit each: in the log, in the timer log and in a queue; all arrive."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        put(service, clock, 30)
        await trio.sleep(2)
        change(disk, log_file(), 1000)
        change(disk, f"{ROOT}/timerlog/{0:020d}", 52 * 7 + 33)
        change(disk, f"{ROOT}/consumequeue/rmq_sys_wheel_timer/0/{0:020d}", 20 * 11 + 3)
        await whole(service)
        now = service.scrub.statistics()
        await trio.sleep(WAITS_MS / 1000 + 10)

        assert (now.damaged, now.repaired, now.left) == (3, 3, 0)
        assert [body[:4] for body in read_bodies(service.store)] == [f"{n:04d}" for n in range(30)]
        assert service.quarantine.active == 0


async def test_units_that_rot_past_repair_are_made_again(autojump_clock: MockClock) -> None:
    """Two words of a unit that would pass for another: before it is due, in the same process."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        put(service, clock, 30)
        await trio.sleep(2)
        change(disk, f"{ROOT}/timerlog/{0:020d}", 52 * 7 + 32, count=2)
        await whole(service)
        assert service.scrub.statistics().left == 1
        assert not service.files.timer_log.damaged
        await trio.sleep(WAITS_MS / 1000 + 10)

        bodies = [body[:4] for body in read_bodies(service.store)]
        assert bodies == [f"{number:04d}" for number in range(30)]
        assert service.quarantine.active == 0


@pytest.mark.parametrize(
    ("offset", "count"),
    [(36, 1), (36, 2), (28, 1), (32, 1), (32, 2), (4, 2), (12, 2), (20, 1), (20, 2)],
    ids=[
        "size",
        "size and topic",
        "far position",
        "position",
        "position and size",
        "link",
        "magic and time",
        "time",
        "time and delay",
    ],
)
async def test_a_unit_that_is_read_before_a_scrub_has_compared_it(
    autojump_clock: MockClock, offset: int, count: int
) -> None:
    """It names no record, or is not of its chain: it is compared, and made again, each time."""
    disk, clock = MemoryDisk(), VirtualClock()
    files = attrs.evolve(FILES, scrub_bytes_per_second=0)
    async with running(disk, clock, store_options=files, timer_options=WHEEL) as service:
        for times in range(1, 4):
            put(service, clock, 30)
            await trio.sleep(2)
            pos = service.files.timer_log.min_pos + 52 * 7
            start = service.files.timer_log.segment_start(pos)
            change(disk, f"{ROOT}/timerlog/{start:020d}", pos - start + offset, count=count)
            await trio.sleep(WAITS_MS / 1000 + 10)

            bodies = [body[:4] for body in read_bodies(service.store)]
            assert bodies == [f"{number:04d}" for number in range(30)] * times
            assert service.quarantine.active == 0


async def test_a_delete_whose_unit_has_rotted_takes_effect(autojump_clock: MockClock) -> None:
    """Nor are others of its slot in doubt."""
    disk, clock = MemoryDisk(), VirtualClock()
    files = attrs.evolve(FILES, scrub_bytes_per_second=0)
    async with running(disk, clock, store_options=files, timer_options=WHEEL) as service:
        moment_ms = clock.now_ms() + WAITS_MS
        service.put([timed("kept", moment_ms), timed("gone", moment_ms)])
        service.put([delete_of("gone", moment_ms)])
        await trio.sleep(2)
        change(disk, f"{ROOT}/timerlog/{0:020d}", 52 * 2 + 36)
        await trio.sleep(WAITS_MS / 1000 + 10)

        assert read_bodies(service.store) == ["kept"]
        assert service.quarantine.active == 0


async def test_it_reads_no_more_a_second_than_it_may(autojump_clock: MockClock) -> None:
    """But for the piece that it begins with."""
    read: list[tuple[float, int]] = []

    def note(access: Access) -> Fault | None:
        is_log = access.family in (FileFamily.COMMIT_LOG, FileFamily.TIMER_LOG)
        if access.operation is Operation.READ and is_log and access.size > 1024:
            read.append((trio.current_time(), access.size))
        return None

    disk, clock = FaultyDisk(MemoryDisk(), ROOT, note), VirtualClock()
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        put(service, clock, 1000, 1000)
        await trio.sleep(REST_S - 1)
        read.clear()
        await whole(service)

        total = service.store.commit_log.max_offset
        begun = read[0][0]
        done = 0
        for at, size in read:
            assert done <= FILES.scrub_bytes_per_second * (at - begun) + PIECE_SIZE
            done += size
        assert done > total - 64 * 1024 > 5 * PIECE_SIZE
        assert service.scrub.statistics().damaged == 0


@pytest.mark.parametrize("is_busy", [False, True])
async def test_it_makes_way_while_the_store_is_busy(
    autojump_clock: MockClock, is_busy: bool
) -> None:
    """The log grows by more than an eighth of the rate: a piece a second; else at the rate."""
    disk, clock = MemoryDisk(), VirtualClock()
    options = attrs.evolve(FILES, scrub_bytes_per_second=10 * PIECE_SIZE)
    async with running(disk, clock, store_options=options, timer_options=WHEEL) as service:
        put(service, clock, 2500, 1000)
        await trio.sleep(REST_S - 1)
        ratios: list[float] = []
        for _ in range(40):
            put(service, clock, 40 if is_busy else 1, 1000)
            await trio.sleep(0.1)
            ratios.append(service.scrub.statistics().done_ratio or 0.0)
        pieces = sum(after > before for before, after in pairwise(ratios))

        assert pieces in range(2, 6) if is_busy else pieces > 20


async def test_a_pass_begins_an_interval_after_the_last_one_began(
    autojump_clock: MockClock,
) -> None:
    """Also with another process, which has a note of it."""
    disk, clock = MemoryDisk(), VirtualClock()
    options = attrs.evolve(FILES, scrub_interval_hours=1)
    async with running(disk, clock, store_options=options, timer_options=WHEEL) as service:
        put(service, clock, 30)
        await whole(service)
        begun_ms = service.scrub.statistics().begun_ms
    async with running(disk, clock, store_options=options, timer_options=WHEEL) as service:
        await trio.sleep(2 * REST_S)
        before = service.scrub.statistics()
        await whole(service)
        after = service.scrub.statistics()

        assert before.passes == 0
        assert before.begun_ms == begun_ms <= before.whole_ms
        assert 0 <= after.begun_ms - (begun_ms + HOUR_MS) <= 1000 * CHANGES_WITHIN_S


async def test_a_rate_of_nothing_is_never(autojump_clock: MockClock) -> None:
    """Until it is changed, while the store is served."""
    disk, clock = MemoryDisk(), VirtualClock()
    options = attrs.evolve(FILES, scrub_bytes_per_second=0)
    async with running(disk, clock, store_options=options, timer_options=WHEEL) as service:
        await trio.sleep(4 * CHANGES_WITHIN_S)
        assert service.scrub.statistics().begun_ms == 0
        service.store.options.scrub_bytes_per_second = 1000
        await trio.sleep(CHANGES_WITHIN_S + 60)
        assert service.scrub.statistics().passes == 1


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_a_cancel_leaves_nothing_half_done(autojump_clock: MockClock, steps: int) -> None:
    """What is not looked at yet is looked at when it goes on."""
    disk, clock = MemoryDisk(), VirtualClock()
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        put(service, clock, 300, 1000)
        await trio.sleep(2)
        for number in range(5):
            change(disk, log_file(number), 20_000)
        scrub = StoreScrub(service.store, service.files.timer_log, clock, lambda: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scrub.run)
            await trio.sleep(REST_S)
            for _ in range(steps):
                await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scrub.run)
            await passed(scrub, 1)
            nursery.cancel_scope.cancel()
        now = scrub.statistics()

        # The service's own scrub runs beside it, and may be the first to find one.
        other = service.scrub.statistics()
        assert now.repaired + other.repaired == 5
        assert now.left == other.left == 0


async def test_a_disk_that_does_not_take_a_repair_ends_the_store(autojump_clock: MockClock) -> None:
    """What it holds is not to be trusted any more."""
    rules = FaultRules()
    inner = MemoryDisk()
    disk, clock = FaultyDisk(inner, ROOT, rules), VirtualClock()
    with pytest.RaisesGroup(StoreFailedError, StoreFailedError, flatten_subgroups=True):
        async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
            put(service, clock, 30)
            await trio.sleep(2)
            change(inner, log_file(), 1000)
            families = frozenset({FileFamily.COMMIT_LOG})
            rules.rules.append(FaultRule(operations=(Operation.SYNC,), families=families))
            await whole(service)


async def test_a_process_without_files_tries_again(autojump_clock: MockClock) -> None:
    """No more can be opened for a while: nothing is passed over."""
    rules = FaultRules()
    inner = MemoryDisk()
    disk, clock = FaultyDisk(inner, ROOT, rules), VirtualClock()
    async with running(disk, clock, store_options=FILES, timer_options=WHEEL) as service:
        put(service, clock, 30)
        await trio.sleep(REST_S - 10)
        change(inner, log_file(), 1000)
        families = frozenset({FileFamily.SEALS})
        rule = FaultRule(
            operations=(Operation.OPEN,), families=families, fault=Fault(errno.EMFILE), count=None
        )
        rules.rules.append(rule)
        await trio.sleep(100)
        assert service.scrub.statistics().size == 0
        rules.rules.remove(rule)
        await whole(service)

        assert service.scrub.statistics().repaired == 1


async def test_what_cannot_be_read_is_counted(autojump_clock: MockClock) -> None:
    """By its place; what it holds is not accused, and the pass goes on behind it."""
    disk, clock = MemoryDisk(), VirtualClock()

    def refuse(access: Access) -> Fault | None:
        is_there = access.offset < 13_000 < access.offset + access.size
        is_bad = access.operation is Operation.READ and access.path == log_file()
        return Fault() if is_bad and is_there and has_begun else None

    has_begun = False
    faulty = FaultyDisk(disk, ROOT, refuse)
    async with running(faulty, clock, store_options=FILES, timer_options=WHEEL) as service:
        put(service, clock, 300, 1000)
        await trio.sleep(REST_S - 10)
        has_begun = True
        change(disk, log_file(1), 20_000)
        await whole(service)
        now = service.scrub.statistics()
        has_begun = False
        await trio.sleep(WAITS_MS / 1000 + 10)

        assert (now.damaged, now.repaired, now.left) == (2, 1, 1)
        assert len(read_bodies(service.store)) == 300
