"""A copy of a log: the same bytes and the same queues, however the bytes come."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from small_store import SEGMENT_SIZE, SYNC_OPTIONS, message, open_store, put_bodies, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.log_copy import CopyError
from timermq.timerstore.message_store import MessageStore

Units = dict[tuple[str, int], tuple[int, list[tuple[int, int, int]]]]


def filled(count: int = 24, topics: Iterable[str] = ("T", "U")) -> MessageStore:
    """A store whose messages lie in several segments, those of two queues in turn."""
    store = open_store(MemoryDisk())
    names = list(topics)
    for number in range(count):
        properties = b"TAGS\x01a%d\x02" % number
        one = message("b" * (number % 7), names[number % len(names)], properties=properties)
        store.put([one])
    return store


def log_bytes(store: MessageStore) -> bytes:
    """The whole log, from its first segment on."""
    log = store.commit_log
    parts = [segment.file.read(0, segment.size) for segment in log.segments]
    return b"".join(parts)[: log.max_offset - log.min_offset]


def units(store: MessageStore) -> Units:
    """The first offset and the units of each queue."""
    return {
        (one.topic, one.queue_id): (
            one.min_offset,
            [
                tuple(unit)
                for first in range(one.min_offset, one.max_offset)
                for unit in one.units(first, 1).tolist()
            ],
        )
        for one in store.queues()
        if not one.is_empty
    }


def pieces(data: bytes, first: int, cuts: Iterable[int]) -> Iterable[tuple[int, bytes]]:
    """The bytes in pieces, cut at these places and where segments end."""
    ends = {*cuts, len(data), *range(SEGMENT_SIZE - first % SEGMENT_SIZE, len(data), SEGMENT_SIZE)}
    at = 0
    for end in sorted(one for one in ends if one <= len(data)):
        if end > at:
            yield first + at, data[at:end]
            at = end


def copied(
    data: bytes, first: int = 0, cuts: Iterable[int] = (), store: MessageStore | None = None
) -> MessageStore:
    """A store to which bytes were copied."""
    store = store or open_store(MemoryDisk())
    store.park("copy")

    async def copy() -> None:
        for offset, piece in pieces(data, first, cuts):
            await store.log_copy.append(offset, piece)

    trio.run(copy)
    return store


SOURCE = filled()
DATA = log_bytes(SOURCE)


@settings(max_examples=40, deadline=None)
@given(
    cuts=st.lists(st.integers(0, len(DATA)), max_size=40),
    stop=st.integers(0, len(DATA)),
    is_clean=st.booleans(),
)
def test_pieces_cut_anywhere_make_the_same_store(
    cuts: list[int], stop: int, is_clean: bool
) -> None:
    """Also when the process ends in between: it goes on behind the last whole record."""
    disk = MemoryDisk()
    store = copied(DATA[:stop], 0, cuts, open_store(disk))
    assert DATA.startswith(log_bytes(store))
    if is_clean:
        trio.run(store.aclose)
    disk.process_kill()
    store = open_store(disk)
    first = store.log_copy.begin()
    assert stop - SEGMENT_SIZE < first <= stop
    copied(DATA[first:], first, [one - first for one in cuts if one > first], store)

    assert log_bytes(store) == DATA
    assert units(store) == units(SOURCE)
    assert store.last_store_ms == SOURCE.last_store_ms


def test_a_copy_may_begin_with_any_segment() -> None:
    """Queues begin where the first record says; what the source has cleaned is not missed."""
    store = copied(DATA[SEGMENT_SIZE:], SEGMENT_SIZE)
    again = open_store(store.disk, read_only=True)

    assert (store.commit_log.min_offset, log_bytes(store)) == (SEGMENT_SIZE, DATA[SEGMENT_SIZE:])
    expected = units(SOURCE)
    for key, (first, found) in units(store).items():
        assert (first, found) == (first, expected[key][1][first:])
        assert first > 0
    assert units(again) == units(store)


def test_a_promoted_copy_goes_on_behind() -> None:
    """New messages get the next places of log and queues."""
    store = copied(DATA)
    assert store.put([message()])[0].remark == "copy"
    store.unpark()
    with pytest.raises(CopyError, match="a log of its own"):
        trio.run(store.log_copy.append, store.commit_log.max_offset, b"")
    put_bodies(store, "new")
    put_bodies(SOURCE_LIKE := filled(), "new")

    assert units(store) == units(SOURCE_LIKE)


def test_units_wait_for_the_sync() -> None:
    """With SYNC_FLUSH no queue shows what a power cut could take."""
    store = copied(DATA[:1_500], store=open_store(MemoryDisk(), options=SYNC_OPTIONS))
    first = store.log_copy.begin()
    assert 0 < first < 1_500
    copied(DATA[first:], first, store=store)
    assert units(store) == {}

    trio.run(store.flush)
    assert units(store) == units(SOURCE)


def test_a_topic_that_begins_again_was_deleted() -> None:
    """Its records begin at 0 once more: what the queues had before goes, as in the source."""
    source = filled()
    trio.run(source.delete_topic, "T")
    put_bodies(source, "new")
    store = copied(log_bytes(source))

    assert units(store) == units(source)
    assert len(units(store)["T", 0][1]) == 1


def changed(at: int, byte: int) -> bytes:
    """The first records, one byte another."""
    return DATA[:at] + bytes([byte]) + DATA[at + 1 :]


@pytest.mark.parametrize(
    ("offset", "data", "said"),
    [
        (5, b"x", "expected a segment of 1024 bytes to begin with, found position 5"),
        (0, b"x" * 1025, "expected bytes within a segment of 1024 bytes, found 1025 at 0"),
        (0, b"x" * 200, "expected a record of 91 to 1024 bytes, found magic"),
        (SEGMENT_SIZE, DATA[:SEGMENT_SIZE], "record at 1024: position: expected 1024, found 0"),
    ],
)
def test_what_is_no_log_is_refused(offset: int, data: bytes, said: str) -> None:
    """Nothing of it comes to the store."""
    store = open_store(MemoryDisk())
    store.park("copy")
    with pytest.raises(CopyError, match=said.replace("(", "\\(")):
        trio.run(store.log_copy.append, offset, data)
    assert log_bytes(store) == b""


def test_what_came_before_the_fault_stays() -> None:
    """The copy goes on at the record that was not one."""
    (first, size, _), second = units(SOURCE)["T", 0][1][0], units(SOURCE)["U", 0][1][0]
    assert (first, second[0]) == (0, size)
    store = open_store(MemoryDisk())
    store.park("copy")
    with pytest.raises(CopyError, match=f"at {size}: expected a record"):
        trio.run(store.log_copy.append, 0, changed(size + 4, 0)[:SEGMENT_SIZE])
    assert store.log_copy.begin() == size

    copied(DATA[size:], size, store=store)
    assert units(store) == units(SOURCE)


def test_bytes_that_do_not_follow_are_refused() -> None:
    """A stream that lost some is not taken for whole."""
    store = copied(DATA[:300])
    with pytest.raises(CopyError, match="expected bytes at 300, found 301"):
        trio.run(store.log_copy.append, 301, DATA[301:400])


def test_a_damaged_body_is_copied_and_told() -> None:
    """The copy is as its source, if it comes so twice: damage on the way is another one."""
    at = DATA.index(b"bbbb")
    store = open_store(MemoryDisk())
    for byte in (0x64, 0x63, 0x64, 0x63):
        with pytest.raises(CopyError, match="body checksum"):
            copied(changed(at, byte)[(first := store.log_copy.begin()) :], first, store=store)
    copied(changed(at, 0x63)[(first := store.log_copy.begin()) :], first, store=store)

    assert log_bytes(store) == changed(at, 0x63)
    assert (store.log_copy.damaged, store.log_copy.copied) == (1, 24)


def test_a_full_disk_is_told() -> None:
    """What was on its way has to come again; no queue shows what the log has not."""
    disk = MemoryDisk(total=3_000)
    store = open_store(disk, options=small_options(message_index_enable=False))
    with pytest.raises(OSError, match="no space left"):
        copied(DATA, store=store)
    end = store.log_copy.begin()
    assert log_bytes(store) == DATA[:end]
    disk.total = 1 << 30
    copied(DATA[end:], end, store=store)
    assert units(store) == units(SOURCE)
