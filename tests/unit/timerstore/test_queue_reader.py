"""Tests of reading through a consume queue."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from fakes import ManualClock
from small_store import (
    EVERYTHING,
    ROOT,
    SEGMENT_SIZE,
    message,
    open_store,
    put_bodies,
    small_options,
)
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.get_result import GetResult, GetStatus
from timermq.timerstore.java_hash import tags_code
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.old_bytes import OldBytes
from timermq.timerstore.queue_reader import FILTERED_RECORDS_MAX, TagsFilter
from timermq.timerstore.record import decode_record
from timermq.timerstore.record_layout import BODY_AT
from timermq.timerstore.seal_reader import remove_seals
from timermq.timerstore.store_checkpoint import EXTENSION_AT


def new_store(**changes: Any) -> MessageStore:  # noqa: ANN401 - passed on
    """An empty store of tiny files, with these settings."""
    return open_store(MemoryDisk(), options=small_options(**changes))


def read(store: MessageStore, offset: int = 0, **limits: Any) -> GetResult:  # noqa: ANN401 - passed on
    """Read queue 0 of topic T."""
    arguments: dict[str, Any] = {"count_max": 100, "bytes_max": EVERYTHING}
    return store.get("T", 0, offset, **arguments | limits)


NO_CODE = -1
"""A tags code that no message here has."""


def no_tag(code: int) -> bool:
    """A filter that passes nothing."""
    return code == NO_CODE


def every_tag(code: int) -> bool:
    """A filter that passes everything."""
    return code != NO_CODE


def outcome(result: GetResult) -> tuple[GetStatus, int, int]:
    """Status, next offset and count."""
    return result.status, result.next_offset, result.count


def test_a_queue_that_never_was() -> None:
    """RocketMQ's answer for an unknown queue."""
    assert (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0) == outcome(read(new_store(), 5))


def test_a_queue_without_messages() -> None:
    """A queue may be known before its first message."""
    store = new_store()
    store.put([message(flag=1 << 40)])

    assert (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0) == outcome(read(store, 5))


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
    ],
)
def test_offsets_outside_the_queue(offset: int, status: GetStatus, next_offset: int) -> None:
    """Each case says where to read next."""
    store = new_store()
    put_bodies(store, "a", "b", "c")

    assert (status, next_offset, 0) == outcome(read(store, offset))


def test_neighbours_are_one_item() -> None:
    """Records that stand side by side in the log are read in one piece."""
    store = new_store()
    for queue_id in (0, 0, 1, 0):
        put_bodies(store, "x", queue_id=queue_id)

    result = read(store)
    size = decode_record(result.records[1]).size

    assert (GetStatus.FOUND, 3, 3) == outcome(result)
    assert [2 * size, size] == [len(item) for item in result.records]
    assert result.size == 3 * size


@pytest.mark.parametrize(
    ("options", "limits", "count"),
    [
        ({}, {}, 5),
        ({}, {"count_max": 2}, 2),
        ({}, {"bytes_max": 250}, 2),
        ({}, {"bytes_max": 1}, 1),
        ({"max_transfer_count_on_message_in_memory": 3}, {}, 3),
        ({"max_transfer_bytes_on_message_in_memory": 350}, {}, 3),
        ({"physical_memory_size": 1, "max_transfer_count_on_message_in_disk": 2}, {}, 2),
        ({"physical_memory_size": 1, "max_transfer_bytes_on_message_in_disk": 150}, {}, 1),
    ],
)
def test_limits(options: dict[str, int], limits: dict[str, int], count: int) -> None:
    """A read stays within the caller's limits and the store's; its first message comes always."""
    store = new_store(mapped_file_size_consume_queue=1000, **options)
    put_bodies(store, *["x" * 8] * 5)  # records of 100 bytes

    assert (GetStatus.FOUND, count, count) == outcome(read(store, **limits))


@pytest.mark.parametrize("count_max", [1, 15, 63, 64, 100])
@pytest.mark.parametrize("bytes_max", [1, 150, 2_000, EVERYTHING])
def test_many_messages_among_those_of_another_queue(count_max: int, bytes_max: int) -> None:
    """As many are read as fit, neighbours together, few or many at a time."""
    store = new_store(
        mapped_file_size_consume_queue=2000,
        mapped_file_size_commit_log=1 << 16,
        max_transfer_count_on_message_in_memory=100,
    )
    sizes: list[int] = []
    for number in range(90):
        put_bodies(store, "x" * (number % 7), queue_id=int(number % 3 == 0 and number < 30))
        if number % 3 or number >= 30:
            sizes.append(92 + number % 7)
    expected = 1
    while expected < min(count_max, len(sizes)) and sum(sizes[: expected + 1]) <= bytes_max:
        expected += 1

    result = read(store, count_max=count_max, bytes_max=bytes_max)

    assert (GetStatus.FOUND, expected, expected) == outcome(result)
    assert sum(sizes[:expected]) == result.size
    assert len(result.records) == min(1 + (expected - 1) // 2, 10)


def test_a_read_ends_where_a_segment_of_the_queue_ends() -> None:
    """The reader gets what is before that end, and asks again for the rest."""
    store = new_store()
    put_bodies(store, *"abcdefg")

    assert [(GetStatus.FOUND, 5, 5), (GetStatus.FOUND, 7, 2)] == [
        outcome(read(store, offset)) for offset in (0, 5)
    ]


def test_filters() -> None:
    """The tags code is asked first, the record only if it may match."""
    store = new_store()
    for number, tag in enumerate((b"red", b"blue", b"red", b"red")):
        store.put([message(str(number), properties=b"TAGS\x01" + tag + b"\x02")])
    asked: list[bytes] = []

    def is_red(code: int) -> bool:
        return code == tags_code(b"red")

    def matches_record(record: bytes) -> bool:
        body = decode_record(record).body
        asked.append(body)
        return body != b"2"

    result = read(store, matches=is_red, matches_record=matches_record)

    assert (GetStatus.FOUND, 4, 2) == outcome(result)
    assert [b"0", b"2", b"3"] == asked
    assert (GetStatus.NO_MATCHED_MESSAGE, 4, 0) == outcome(read(store, matches=no_tag))


def test_a_filter_examines_a_bounded_part_of_the_queue() -> None:
    """A filter that never matches must not walk the whole queue in one call."""
    store = new_store(mapped_file_size_consume_queue=1000, max_filter_message_size=60)
    put_bodies(store, *"abcdefg")

    nothing = read(store, count_max=1, matches=no_tag)

    assert (GetStatus.NO_MATCHED_MESSAGE, 3, 0) == outcome(nothing)


def test_a_filter_of_records_reads_a_bounded_number() -> None:
    """Each record is read, so it stops sooner than a filter of tags, however much is asked for."""
    store = new_store(mapped_file_size_consume_queue=20_000)
    put_bodies(store, *["x"] * (FILTERED_RECORDS_MAX + 10))

    def is_whole(record: bytes) -> bool:
        return len(record) > 0

    def is_empty(record: bytes) -> bool:
        return len(record) == 0

    nothing = read(store, count_max=1_000, matches_record=is_empty)
    some = read(store, count_max=1_000, matches_record=is_whole)

    assert (GetStatus.NO_MATCHED_MESSAGE, FILTERED_RECORDS_MAX, 0) == outcome(nothing)
    assert FILTERED_RECORDS_MAX >= outcome(some)[2] > 0


def test_messages_whose_records_are_gone() -> None:
    """The units of a removed segment are passed over."""
    store = new_store(mapped_file_size_consume_queue=1000)
    put_bodies(store, *["x" * 200] * 4)
    store.commit_log.delete_before(SEGMENT_SIZE)

    assert (GetStatus.FOUND, 4, 1) == outcome(read(store))

    queue = store.queue("T", 0)
    assert queue is not None
    queue.cut(SEGMENT_SIZE)

    assert (GetStatus.MESSAGE_WAS_REMOVING, 3, 0) == outcome(read(store))


def timed_store() -> MessageStore:
    """Messages stored at 10, 20, 20 and 30."""
    clock = ManualClock(10)
    store = open_store(MemoryDisk(), clock)
    for time_ms in (10, 20, 20, 30):
        clock.time_ms = time_ms
        put_bodies(store, "x")
    return store


@pytest.mark.parametrize(
    ("time_ms", "lower", "upper"),
    [(5, 0, 0), (10, 0, 0), (15, 1, 0), (20, 1, 2), (25, 3, 2), (30, 3, 3), (35, 4, 3)],
)
def test_offsets_by_time(time_ms: int, lower: int, upper: int) -> None:
    """The table of the docstring."""
    store = timed_store()

    assert lower == store.offset_by_time("T", 0, time_ms)
    assert upper == store.offset_by_time("T", 0, time_ms, upper=True)


def test_times_of_what_is_not_there() -> None:
    """No queue: offset 0; no message: time -1."""
    store = timed_store()

    assert store.offset_by_time("U", 0, 20) == 0
    assert [20, -1, -1] == [store.store_ms_at("T", 0, offset) for offset in (2, 4, -1)]
    assert store.store_ms_at("U", 0, 0) == -1


def test_the_time_of_an_ipv6_producers_message() -> None:
    """Its store time stands twelve bytes further on."""
    clock = ManualClock(10)
    store = open_store(MemoryDisk(), clock)
    store.put([message(born_host=bytes(20))])

    assert store.store_ms_at("T", 0, 0) == 10


@pytest.mark.parametrize("at", [0, BODY_AT])
@pytest.mark.parametrize("tags", [None, every_tag])
@pytest.mark.parametrize("is_rocketmq", [False, True])
def test_damage_without_a_seal_is_passed_over(
    at: int, tags: TagsFilter | None, is_rocketmq: bool
) -> None:
    """A damaged size, or body, must not leave with its neighbours: RocketMQ leaves no seals."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a", "b", "c")
    whole = read(store).records[0]
    size = len(whole) // 3
    trio.run(store.aclose)
    if is_rocketmq:
        disk.rot(f"{ROOT}/checkpoint", EXTENSION_AT, bytes(1))
    else:
        remove_seals(disk, f"{ROOT}/commitlog")
    disk.rot(f"{ROOT}/commitlog/{0:020d}", size + at, b"\x7f")
    store = open_store(disk)

    found = read(store, matches=tags)

    assert (GetStatus.FOUND, 3, 2) == outcome(found)
    assert (whole[:size], whole[2 * size :]) == found.records


@pytest.mark.parametrize("is_sealed", [True, False])
def test_only_what_its_writer_has_sealed_is_proved(is_sealed: bool) -> None:
    """Records of an earlier process need no look then; sealed as they were found they do."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a", "b", "c")
    end = store.commit_log.max_offset
    trio.run(store.aclose)
    if not is_sealed:
        remove_seals(disk, f"{ROOT}/commitlog")
    old = open_store(disk).commit_log.old

    assert old.compare(0, end)
    assert old.is_proved(0, end) == is_sealed
    assert old.is_proved(end, end + 1)


def test_what_this_process_wrote_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull of a burst would ask for each run of records: twice the work of reading them."""
    disk = MemoryDisk()
    store = open_store(disk)
    put_bodies(store, "a")
    trio.run(store.aclose)
    store = open_store(disk)
    put_bodies(store, "b", "c")
    asked: list[str] = []

    def ask(name: str, *_: object) -> bool:
        asked.append(name)
        return True

    for name in ("compare", "is_proved"):
        monkeypatch.setattr(OldBytes, name, partial(ask, name))

    assert (GetStatus.FOUND, 3, 2) == outcome(read(store, 1))
    assert not asked
    assert (GetStatus.FOUND, 3, 3) == outcome(read(store))
    assert ["compare", "is_proved"] == asked
