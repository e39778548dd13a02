"""Every flipped bit of a small store at rest is found by one pass of the scrub, and put right."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from fakes import START_MS, ManualClock
from small_store import ROOT, SEGMENT_SIZE, message, open_store, read_bodies
from timer_units import append_units
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerlog import ChainError, TimerLog
from timermq.timerstore.log_scrub import LogScrub
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.scrub import Scrub, ScrubPart, ScrubStatistics
from timermq.timerstore.scrub_note import ScrubNote
from timermq.timerstore.seal_page import SECTOR_SIZE
from timermq.timerstore.seal_reader import seals_directory

LOG = f"{ROOT}/commitlog"
QUEUES = f"{ROOT}/consumequeue"
TIMER_LOG = f"{ROOT}/timerlog"
TIMER_SEGMENT_SIZE = 40 * 52 + 16

bits = st.integers(0)
records = st.lists(
    st.tuples(
        st.sampled_from(("A", "B")),
        st.integers(0, 1),
        st.integers(0, 600),
        st.sampled_from((b"", b"TAGS\x01x\x02", b"KEYS\x01k\x02TAGS\x01yy\x02")),
    ),
    min_size=1,
    max_size=30,
)
"""Topic, queue, size of the body and properties of each."""

Records = list[tuple[str, int, int, bytes]]


def stored(disk: MemoryDisk, what: Records) -> MessageStore:
    """A store that this process has written."""
    return put_all(open_store(disk), what)


def put_all(store: MessageStore, what: Records) -> MessageStore:
    """The same store with more records."""
    for number, (topic, queue_id, size, properties) in enumerate(what):
        body = (f"{number} " * (size + 1))[: size + 1]
        (result,) = store.put([message(body, topic, queue_id, properties)])
        assert result.status.is_stored
    return store


def scrubbed(*parts: ScrubPart) -> ScrubStatistics:
    """What one whole pass over the parts counted."""
    scrub = Scrub(parts, ScrubNote())
    scrub.begin(START_MS)
    while scrub.is_under_way:
        scrub.step(START_MS)
        scrub.announce()
    return scrub.statistics()


def contents(disk: MemoryDisk, directory: str) -> dict[str, bytes]:
    """Files of a directory, and of those in it."""
    found: dict[str, bytes] = {}
    for name in disk.list_dir(directory):
        path = f"{directory}/{name}"
        if disk.is_dir(path):
            found |= contents(disk, path)
        else:
            file = disk.open(path)
            found[path] = file.read(0, file.size())
    return found


def flip(disk: MemoryDisk, path: str, bit: int) -> None:
    """Turn a bit of a file over."""
    file = disk.open(path)
    (value,) = file.read(bit // 8, 1)
    file.write(bit // 8, bytes([value ^ 1 << bit % 8]))


def place(position: int, segment_size: int, directory: str) -> tuple[str, int]:
    """File and offset of a position in a log."""
    start = position - position % segment_size
    return f"{directory}/{start:020d}", position - start


def bit_of_log(bit: int, sizes: Sequence[int]) -> tuple[str, int]:
    """One of the bits of the first ``sizes[n]`` bytes of each segment, as file and bit."""
    at = bit % (8 * sum(sizes))
    number = 0
    while at >= 8 * sizes[number]:
        at -= 8 * sizes[number]
        number += 1
    return place(number * SEGMENT_SIZE, SEGMENT_SIZE, LOG)[0], at


def log_sizes(store: MessageStore) -> list[int]:
    """Bytes of records in each segment, the mark behind the last one included."""
    sizes: dict[int, int] = {}
    for at, size in store.commit_log.scan(0, check_crc=False):
        start = at - at % SEGMENT_SIZE
        sizes[start] = min(at - start + size + 8, SEGMENT_SIZE)
    last = store.commit_log.segments[-1].start
    sizes[last] = store.commit_log.max_offset - last
    return [sizes[start] for start in sorted(sizes)]


@given(what=records)
def test_a_sound_store_stays_as_it_is(what: Records) -> None:
    """Also with the next process, and behind a kill."""
    disk = MemoryDisk()
    store = stored(disk, what)
    before = contents(disk, ROOT)
    now = scrubbed(LogScrub(store.files))

    assert (now.damaged, now.repaired, now.left, now.passes) == (0, 0, 0, 1)
    assert now.size >= store.commit_log.max_offset - 8 * len(store.commit_log.segments)
    assert contents(disk, ROOT) == before
    trio.run(store.flush)
    disk.process_kill()
    assert scrubbed(LogScrub(open_store(disk).files)).damaged == 0


@given(what=records, bit=bits, is_later=st.booleans())
def test_a_flipped_bit_of_the_log_is_put_right(what: Records, bit: int, is_later: bool) -> None:
    """In a record of this process, or of the one before it."""
    disk = MemoryDisk()
    store = stored(disk, what)
    sizes = log_sizes(store)
    if is_later:
        trio.run(store.aclose)
        store = open_store(disk)
    before = contents(disk, LOG)
    flip(disk, *bit_of_log(bit, sizes))
    now = scrubbed(LogScrub(store.files))

    assert contents(disk, LOG) == before
    assert (now.damaged, now.repaired, now.left) == (1, 1, 0)


@given(what=records, bit=bits)
def test_a_flipped_bit_of_a_queue_is_put_right(what: Records, bit: int) -> None:
    """The record says what the unit is."""
    disk = MemoryDisk()
    store = stored(disk, what)
    before = contents(disk, QUEUES)
    units = [
        (queue, offset)
        for queue in store.queues()
        for offset in range(queue.min_offset, queue.max_offset)
    ]
    number, at = divmod(bit % (len(units) * UNIT.size * 8), UNIT.size * 8)
    queue, offset = units[number]
    path, first = place(offset * UNIT.size, 100, queue.directory)
    flip(disk, path, first * 8 + at)
    now = scrubbed(LogScrub(store.files))

    assert contents(disk, QUEUES) == before
    assert (now.damaged, now.repaired, now.left) == (1, 1, 0)


@given(what=records, at=st.integers(0))
def test_a_sector_of_zeros_is_counted_and_not_given_out(what: Records, at: int) -> None:
    """What else stands in the store is given out as before."""
    disk = MemoryDisk()
    store = stored(disk, what)
    log = store.commit_log
    path, first = place(at % log.max_offset // SECTOR_SIZE * SECTOR_SIZE, SEGMENT_SIZE, LOG)
    start = int(path[-20:]) + first
    bodies = {
        (queue.topic, queue.queue_id): read_bodies(store, queue.topic, queue.queue_id)
        for queue in store.queues()
    }
    whole = {
        body
        for queue in store.queues()
        for unit, body in zip(
            queue.units(0, queue.max_offset).tolist(),
            bodies[queue.topic, queue.queue_id],
            strict=False,
        )
        if unit[0] + unit[1] <= start or unit[0] >= start + SECTOR_SIZE
    }
    count = min(SECTOR_SIZE, log.max_offset - start, SEGMENT_SIZE - first)
    is_damage = any(disk.open(path).read(first, count))
    disk.open(path).write(first, bytes(count))
    now = scrubbed(LogScrub(store.files))
    read = {
        body for queue in store.queues() for body in read_bodies(store, queue.topic, queue.queue_id)
    }

    assert (now.left > 0 or now.repaired > 0) == is_damage
    assert whole <= read <= {body for found in bodies.values() for body in found}


@given(what=records, bit=bits)
def test_a_record_without_a_seal_has_its_checksum(what: Records, bit: int) -> None:
    """As RocketMQ leaves them: a flipped bit of a body is counted, and repairs nothing."""
    disk = MemoryDisk()
    store = stored(disk, what)
    for name in disk.list_dir(seals_directory(LOG)):
        disk.remove(f"{seals_directory(LOG)}/{name}")
    places = list(store.commit_log.scan(0, check_crc=False))
    at, _ = places[bit % len(places)]
    path, first = place(at, SEGMENT_SIZE, LOG)
    flip(disk, path, 8 * (first + 88) + bit % 8)
    before = contents(disk, ROOT)
    now = scrubbed(LogScrub(store.files))

    assert (now.damaged, now.repaired, now.left) == (1, 0, 1)
    assert contents(disk, ROOT) == before


@given(synced=records, what=records, steps=st.integers(0, 60), more=records)
def test_a_pass_goes_on_where_it_was(
    synced: Records, what: Records, steps: int, more: Records
) -> None:
    """In another process, whose log a power cut has taken the end of and which has grown again."""
    disk = MemoryDisk()
    store = stored(disk, synced)
    trio.run(store.flush)
    scrub = Scrub((LogScrub(put_all(store, what).files),), ScrubNote())
    scrub.begin(START_MS)
    with mock.patch("timermq.timerstore.log_scrub.RECORD_COUNT", 1):
        for _ in range(steps):
            if scrub.is_under_way:
                scrub.step(START_MS)
    disk.power_cut()
    scrub.note.save(disk, ROOT)
    store = stored(disk, more)
    again = Scrub((LogScrub(store.files),), ScrubNote.load(disk, ROOT))
    assert again.is_under_way == scrub.is_under_way
    if not again.is_under_way:
        again.begin(START_MS)
    while again.is_under_way:
        again.step(START_MS)

    assert again.statistics().damaged == 0
    assert again.statistics().whole_ms == START_MS


@given(what=records, steps=st.integers(0, 12))
def test_cleaning_goes_on_meanwhile(what: Records, steps: int) -> None:
    """What has gone is passed over, and the pass ends."""
    clock = ManualClock()
    disk = MemoryDisk(now_ms=clock.now_ms)
    store = open_store(disk, clock)
    for topic, queue_id, size, properties in what:
        store.put([message("x" * size, topic, queue_id, properties)])
    scrub = Scrub((LogScrub(store.files),), ScrubNote())
    scrub.begin(START_MS)
    for _ in range(steps):
        if scrub.is_under_way:
            scrub.step(START_MS)
    store.commit_log.delete_before(store.commit_log.max_offset)

    async def clean_queues() -> None:
        await store.files.queues.delete_before(store.commit_log.min_offset)

    trio.run(clean_queues)
    while scrub.is_under_way:
        scrub.step(START_MS)

    assert scrub.statistics().damaged == 0


def timer_log(disk: MemoryDisk, count: int) -> tuple[TimerLog, dict[int, int]]:
    """A timer log with units in three slots, and the newest of each."""
    log = TimerLog.open(disk, TIMER_LOG, TIMER_SEGMENT_SIZE)
    log.recover(0)
    newest: dict[int, int] = {}
    append_units(log, [number % 3 for number in range(count)], newest)
    trio.run(log.flush)
    return log, newest


@given(count=st.integers(1, 90), bit=bits)
def test_a_flipped_bit_of_the_timer_log_is_put_right(count: int, bit: int) -> None:
    """Of a unit, or of the blank that closes a segment."""
    disk = MemoryDisk()
    log, _ = timer_log(disk, count)
    before = contents(disk, TIMER_LOG)
    at = bit % (8 * log.max_pos)
    path, first = place(at // 8, TIMER_SEGMENT_SIZE, TIMER_LOG)
    flip(disk, path, 8 * first + at % 8)
    now = scrubbed(log.scrub)

    assert contents(disk, TIMER_LOG) == before
    assert (now.damaged, now.repaired, now.left) == (1, 1, 0)


@given(count=st.integers(1, 90), at=st.integers(0))
def test_no_chain_leads_through_a_damaged_sector(count: int, at: int) -> None:
    """Units that changed in two words may pass for others: the next start makes them again."""
    disk = MemoryDisk()
    log, newest = timer_log(disk, count)
    unit = at % count
    pos = unit // 40 * TIMER_SEGMENT_SIZE + unit % 40 * 52
    path, first = place(pos, TIMER_SEGMENT_SIZE, TIMER_LOG)
    file = disk.open(path)
    sector = first - first % SECTOR_SIZE
    for word in (first + 28, first + 36):
        if word // SECTOR_SIZE * SECTOR_SIZE == sector and word + 4 <= sector + SECTOR_SIZE:
            file.write(word, bytes(one ^ 0x55 for one in file.read(word, 4)))
    now = scrubbed(log.scrub)
    if now.left:
        with pytest.raises(ChainError, match="a damaged sector"):
            list(log.walk(newest[unit % 3], slot_ms=unit % 3))
    assert now.left or now.damaged == now.repaired
