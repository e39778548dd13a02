"""Stores to be damaged and repaired: RocketMQ's golden ones, and a small one of this program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import trio

from fakes import START_MS, VirtualClock
from golden_stores import GoldenStore
from simulation.staged_service import (
    QUIET_FILES,
    ROOT,
    SMALL_FILES,
    SMALL_WHEEL,
    arrivals_everywhere,
    delete_of,
    running,
    timed,
)
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.finding import Finding, Step
from timermq.repair.log_survey import Found, LogSurvey
from timermq.repair.segment_row import SegmentRow
from timermq.repair.store_check import CheckedStore, is_damage
from timermq.repair.store_repair import RepairReport, StoreRepair
from timermq.simulator.disks.disk_damage import Image, read_image, write_image
from timermq.simulator.disks.fault_plan import Operation
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

GOLDEN_FILES = StoreOptions(
    mapped_file_size_commit_log=1_048_576,
    mapped_file_size_consume_queue=1_000,
    max_hash_slot_num=100,
    max_index_num=400,
    file_reserved_time_hours=24 * 30,
    flush_interval_commit_log_ms=60_000,
    flush_interval_consume_queue_ms=60_000,
)
GOLDEN_WHEEL = TimerOptions(
    mapped_file_size_timer_log=5_200,
    clock_check_interval_ms=86_400_000,
    timer_flush_interval_ms=60_000,
)

SENT = 60
"""Messages of the small store."""
LATER_MS = START_MS + 12_000
"""When the small store was stopped: a part is delivered, a part rolled, a part waits."""
CHANGING = frozenset(Operation) - {Operation.OPEN, Operation.READ, Operation.MAP}
"""Operations after which a disk holds something else."""


def golden_image(store: GoldenStore) -> Image:
    """The files of a golden store, under `ROOT`."""
    found = read_image(OsDisk(), store.root)
    return {ROOT + path.removeprefix(store.root): data for path, data in found.items()}


def clock_at(now_ms: int) -> VirtualClock:
    """A virtual clock that shows a moment now."""
    return VirtualClock(now_ms - int(trio.current_time() * 1000))


async def small_image(*, stop: bool = True, sent: int = SENT) -> Image:
    """The files of a small store with timers in every state, stopped or left as a kill does.

    With fewer messages sent it is as it was earlier. Runs under an autojump clock.
    """
    clock = clock_at(START_MS)
    disk = MemoryDisk(now_ms=clock.now_ms)
    draw = Random(1)
    async with running(disk, clock, store_options=SMALL_FILES, stop=stop) as service:
        for number in range(sent):
            deliver_ms = clock.now_ms() + draw.randint(50, 60_000 if number % 3 else 4_000)
            service.put([timed(f"m{number}", deliver_ms, topic=f"T{number % 2}")])
            if number % 10 == 9:
                service.put([timed(f"gone{number}", LATER_MS + 9_000)])
                service.put([delete_of(f"gone{number}", LATER_MS + 9_000)])
            await trio.sleep(0.1)
        if sent == SENT:
            await trio.sleep((LATER_MS - clock.now_ms()) / 1000)
    return read_image(disk, ROOT)


def on_disk(image: Image) -> MemoryDisk:
    """A disk with these files."""
    disk = MemoryDisk(now_ms=lambda: LATER_MS)
    write_image(disk, image)
    return disk


def records(disk: Disk) -> dict[int, bytes]:
    """Every good record by its position."""
    row = SegmentRow(disk, ROOT, "commitlog", SMALL_FILES.mapped_file_size_commit_log)
    found = {one.position: one.data for one in LogSurvey(row) if isinstance(one, Found)}
    row.close()
    return found


def overwrite(disk: Disk, path: str, at: int, data: bytes) -> None:
    """Let bytes of a file be others, durably."""
    file = disk.open(path)
    file.write(at, data)
    disk.sync_now(file)
    file.close()


def flip_bit(disk: Disk, path: str, at: int, bit: int) -> None:
    """Let a bit of a byte of a file be another, durably."""
    file = disk.open(path, read_only=True)
    (value,) = file.read(at, 1)
    file.close()
    overwrite(disk, path, at, bytes([value ^ bit]))


def checked(
    disk: Disk,
    *,
    store_options: StoreOptions = SMALL_FILES,
    timer_options: TimerOptions = SMALL_WHEEL,
    now_ms: int = LATER_MS,
) -> CheckedStore:
    """The store of a disk, to be checked."""
    return CheckedStore(
        disk=disk,
        root=ROOT,
        store_options=store_options,
        timer_options=timer_options,
        now_ms=now_ms,
    )


def golden_checked(disk: Disk, now_ms: int) -> CheckedStore:
    """A golden store of a disk, to be checked."""
    return checked(disk, store_options=GOLDEN_FILES, timer_options=GOLDEN_WHEEL, now_ms=now_ms)


def damage_of(store: CheckedStore) -> list[Finding]:
    """What a check finds, notes left out."""
    return [finding for finding in store.find() if is_damage(finding)]


def mendable(findings: list[Finding]) -> list[Finding]:
    """Those that a repair does something about."""
    return [finding for finding in findings if finding.step is not Step.NOTHING]


async def repair(store: CheckedStore) -> RepairReport:
    """Repair a store at its own moment; the report of what was done."""
    now_ms: Callable[[], int] = lambda: store.now_ms  # noqa: E731 - a clock that stands still
    return await StoreRepair(store, now_ms).run()


async def serve_on(disk: MemoryDisk, from_ms: int = LATER_MS) -> Counter[str]:
    """Serve a small store until all is due; returns how often each body reached a topic."""
    clock = clock_at(from_ms)
    disk.now_ms = clock.now_ms
    async with running(disk, clock, store_options=QUIET_FILES) as service:
        await trio.sleep(90)
        found = arrivals_everywhere(service.store)
        assert 0 == service.statistics().early
    return Counter(
        one.body
        for one in found
        if one.topic.startswith("T") and one.body and one.body.isascii() and one.body[0] == "m"
    )
