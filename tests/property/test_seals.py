"""The seals of a log, held against what was appended, cut, killed and damaged."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from timermq.simulator.disks.fault_plan import Fault, FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.seal_page import PAGE_SIZE, SECTOR_SIZE, STRETCH_SIZE
from timermq.timerstore.seal_reader import remove_seals, seals_directory
from timermq.timerstore.seal_scrub import SealScrub
from timermq.timerstore.seals import SealMoment

LOG = "/store/log"
PAGES = "/timermq-seals/"
SEGMENT_SIZE = STRETCH_SIZE + 3 * SECTOR_SIZE + 100
"""A page, and one that is not full."""

sizes = st.one_of(
    st.integers(1, 40),
    st.integers(1, 3 * SECTOR_SIZE),
    st.just(SECTOR_SIZE),
    st.integers(1, SEGMENT_SIZE),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), sizes),
        st.tuples(st.just("cut"), st.integers(0, 2 * SEGMENT_SIZE)),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("power"), st.just(0)),
    ),
    max_size=12,
)


moments = st.sampled_from(SealMoment)


def opened(disk: Disk, moment: SealMoment) -> MappedFileQueue:
    """The log as a start finds it; its end is known from elsewhere."""
    log = MappedFileQueue(disk, LOG, SEGMENT_SIZE, reserve=True, sealed=moment)
    log.load()
    return log


class Log:
    """The log, and what it should hold."""

    def __init__(self, moment: SealMoment) -> None:
        self.disk = MemoryDisk()
        self.moment = moment
        self.queue = opened(self.disk, moment)
        self.written = b""
        self.flushed = b""
        self._number = 0

    def append(self, size: int) -> None:
        """Append bytes that were never there, in pieces where a segment ends."""
        while size:
            at = len(self.written)
            count = min(size, SEGMENT_SIZE - at % SEGMENT_SIZE)
            self._number += 1
            data = (b"%d " % self._number * count)[:count]
            self.queue.write(at, data)
            self.written += data
            size -= count

    def flush(self) -> None:
        """Make all durable, as a checkpoint does."""

        async def flush() -> None:
            await self.queue.flush()
            await self.queue.flush_seals()

        trio.run(flush)
        self.flushed = self.written

    def cut(self, end: int) -> None:
        """As a recovery does: the end, and nothing behind it, durable."""
        end = min(end, len(self.written))
        self.queue.set_end(end)
        self.written = self.written[:end]
        self.queue.rewrite(end)
        self.flush()

    def kill(self) -> None:
        """Kill the process and open the log; the page cache stays."""
        self.disk.process_kill()
        self._open(self.written)

    def cut_power(self) -> None:
        """What was not synced is gone."""
        self.disk.power_cut()
        self._open(self.flushed)

    def _open(self, held: bytes) -> None:
        self.queue = opened(self.disk, self.moment)
        self.queue.set_end(len(held))
        self.written = held
        self.queue.rewrite(0)
        self.disk.sync_now(*(segment.file for segment in self.queue.segments))
        if self.queue.segments:
            self.disk.sync_dir_now(LOG)
        self.flush()

    def damaged(self) -> list[int]:
        """Positions at which the seals find damage that they cannot put right."""
        return self.queue.repair(0, len(self.written))


def led(plan: list[tuple[str, int]], moment: SealMoment) -> Log:
    """Carry a plan out; the seals find nothing wrong at any time."""
    log = Log(moment)
    for step, value in plan:
        match step:
            case "append":
                log.append(value)
            case "cut":
                log.cut(value)
            case "kill":
                log.kill()
            case _:
                log.flush()
                log.append(7)
                log.cut_power()
        assert log.damaged() == []
    return log


def written_again(log: Log, end: int) -> None:
    """A process cuts the log, appends, and syncs; then the power is cut."""
    log.queue, log.written = opened(log.disk, SealMoment.APPEND), log.written[:end]
    log.queue.set_end(end)
    log.append(2 * SECTOR_SIZE)
    trio.run(log.queue.flush)
    log.disk.power_cut()
    log.queue = opened(log.disk, SealMoment.APPEND)


@pytest.mark.parametrize("written", [0, 100, PAGE_SIZE])
def test_seals_behind_the_end_do_not_come_back_when_a_start_was_killed(written: int) -> None:
    """It had cut the page in memory, in part or as a whole; the next power cut shows the disk."""
    log = Log(SealMoment.APPEND)
    log.append(3 * SECTOR_SIZE)
    log.flush()
    rule = FaultRule(operations=[Operation.WRITE], name=PAGES, fault=Fault(written=written))
    killed = opened(FaultyDisk(log.disk, "/store", FaultRules(rule)), SealMoment.APPEND)
    with pytest.raises(OSError, match="Input/output"):
        killed.set_end(SECTOR_SIZE)
    log.disk.process_kill()
    written_again(log, SECTOR_SIZE)

    assert log.damaged() == []


def test_pages_of_a_segment_that_a_power_cut_took_do_not_come_back() -> None:
    """They had reached the disk, and the segment had not: it is begun again, with other bytes."""
    log = Log(SealMoment.APPEND)
    log.append(SEGMENT_SIZE + 2 * SECTOR_SIZE)
    log.flush()
    log.disk.remove(log.queue.segments[1].file.path)
    log.disk.sync_dir_now(LOG)
    log.disk.power_cut()
    written_again(log, SEGMENT_SIZE)

    assert log.damaged() == []


def test_pages_of_a_removed_segment_do_not_come_back_when_a_process_was_killed() -> None:
    """It had removed the pages alone: the next one finds none, and removes the segment."""
    log = Log(SealMoment.APPEND)
    log.append(SEGMENT_SIZE + 1)
    log.flush()
    rule = FaultRule(operations=[Operation.SYNC_DIR], name=PAGES)
    killed = opened(FaultyDisk(log.disk, "/store", FaultRules(rule)), SealMoment.APPEND)
    with pytest.raises(OSError, match="Input/output"):
        killed.delete_before(SEGMENT_SIZE)
    log.disk.process_kill()
    assert 1 == opened(log.disk, SealMoment.APPEND).delete_before(SEGMENT_SIZE)
    log.disk.sync_dir_now(LOG)
    log.disk.power_cut()

    names = log.disk.list_dir(LOG)
    assert names == [f"{SEGMENT_SIZE:020d}"]
    assert names == log.disk.list_dir(seals_directory(LOG))


@given(size=st.integers(1, 3 * SECTOR_SIZE), more=st.lists(st.integers(1, SECTOR_SIZE), max_size=4))
def test_a_damaged_sector_stays_one(size: int, more: list[int]) -> None:
    """That in which the log ends too, when it is filled on by later processes."""
    log = Log(SealMoment.APPEND)
    log.append(size)
    log.flush()
    first = (size - 1) // SECTOR_SIZE * SECTOR_SIZE
    if size - first < 8:
        return
    file = log.queue.segments[0].file
    file.write(first, bytes(size - first))
    log.written = file.read(0, size)
    for count in more:
        log.kill()
        log.append(count)
        assert log.damaged() == [first]


@given(plan=steps, moment=moments)
def test_sound_bytes_have_seals_that_fit(plan: list[tuple[str, int]], moment: SealMoment) -> None:
    """Whatever was appended, cut, killed."""
    led(plan, moment)


@given(plan=steps, moment=moments, size=sizes, place=st.integers(0), bit=st.integers(0, 7))
def test_a_flipped_bit_is_put_right(
    plan: list[tuple[str, int]], moment: SealMoment, size: int, place: int, bit: int
) -> None:
    """Any bit, also of the last sector, which is not full."""
    log = led(plan, moment)
    log.append(size)
    if moment is SealMoment.FLUSH:
        log.flush()
    before = log.written
    number, at = divmod(place % len(before), SEGMENT_SIZE)
    file = log.disk.open(f"{LOG}/{number * SEGMENT_SIZE:020d}")
    (value,) = file.read(at, 1)
    file.write(at, bytes([value ^ 1 << bit]))

    assert log.damaged() == []
    assert file.read(at, 1) == bytes([value])


@given(plan=steps, size=sizes, place=st.integers(0))
def test_a_sector_of_zeros_is_found(plan: list[tuple[str, int]], size: int, place: int) -> None:
    """It stays as it is, and its position is told; what is left of it in one word is put right."""
    log = led(plan, SealMoment.APPEND)
    log.append(size)
    number, at = divmod(place % len(log.written), SEGMENT_SIZE)
    at -= at % SECTOR_SIZE
    start = number * SEGMENT_SIZE
    file = log.disk.open(f"{LOG}/{start:020d}")
    count = min(SECTOR_SIZE, SEGMENT_SIZE - at, len(log.written) - start - at)
    before = file.read(at, count)
    file.write(at, bytes(count))

    assert log.damaged() == [start + at] or file.read(at, count) == before


@given(plan=steps, bit=st.integers(0))
def test_damaged_pages_accuse_no_bytes(plan: list[tuple[str, int]], bit: int) -> None:
    """What they sealed counts as not sealed."""
    log = led(plan, SealMoment.APPEND)
    log.append(10)
    directory = seals_directory(LOG)
    name = log.disk.list_dir(directory)[-1]
    file = log.disk.open(f"{directory}/{name}")
    at = bit % (8 * file.size())
    (value,) = file.read(at // 8, 1)
    file.write(at // 8, bytes([value ^ 1 << at % 8]))

    assert log.damaged() == []


@given(plan=steps)
def test_seals_may_be_missing(plan: list[tuple[str, int]]) -> None:
    """A log without any goes on, and has seals from there on."""
    log = led(plan, SealMoment.APPEND)
    log.append(1000)
    directory = seals_directory(LOG)
    for name in log.disk.list_dir(directory):
        log.disk.remove(f"{directory}/{name}")
    log.kill()
    log.append(1)

    assert log.damaged() == []
    assert log.disk.list_dir(directory)


def test_pages_made_behind_a_start_outlast_a_power_cut() -> None:
    """Their name is durable, though no segment is begun with it: after a repair there are none."""
    log = Log(SealMoment.APPEND)
    log.append(3 * SECTOR_SIZE)
    log.flush()
    remove_seals(log.disk, LOG)
    log.disk.sync_dir_now(seals_directory(LOG))
    log.kill()
    log.append(3 * SECTOR_SIZE)
    log.flush()
    log.disk.power_cut()

    assert ["0" * 20] == log.disk.list_dir(seals_directory(LOG))


@given(plan=steps, bit=st.integers(0), is_damaged=st.booleans())
def test_a_log_without_seals_is_sealed_again(
    plan: list[tuple[str, int]], bit: int, is_damaged: bool
) -> None:
    """Each flipped bit of what was there at the start is found then, also behind a power cut."""
    log = led(plan, SealMoment.APPEND)
    log.append(SEGMENT_SIZE)
    log.flush()
    directory = seals_directory(LOG)
    if is_damaged:
        for name in log.disk.list_dir(directory):
            log.disk.open(f"{directory}/{name}").write(8, b"\xff")
    else:
        remove_seals(log.disk, LOG)
    log.kill()
    SealScrub(log.queue, lambda _: None).seal_all()
    log.flush()
    log.disk.power_cut()
    log.kill()
    at = bit % (8 * len(log.written))
    segment = log.queue.segment_at(at // 8)
    assert segment is not None
    offset = at // 8 - segment.start
    (value,) = segment.file.read(offset, 1)
    segment.file.write(offset, bytes([value ^ 1 << at % 8]))

    found = log.queue.repair(0, len(log.written), only_look=True)
    assert found == [at // 8 - offset % SECTOR_SIZE]
