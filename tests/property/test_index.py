"""The index beside a dictionary: tiny files, kills and power cuts at any moment.

| what happens | what may be lost | what must hold |
| --- | --- | --- |
| kill | what was added after the last flush | ``covered_to`` says so; the rest is found |
| power cut | the same, and any sector that was not synced | the same |
| full disk | nothing | adding again adds the rest, nothing twice |
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from random import Random

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import START_MS, ManualClock
from index_entries import IndexEntry, add_batch
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.index_layout import key_hash
from timermq.timerstore.index_service import IndexService
from timermq.timerstore.java_hash import hash_keys, java_hash

KEYS = ("a", "b", "Aa", "BB", "标", "polygenelubricants")
"""Among them two of one hash, and one whose hash is 0."""
DIRECTORY = "/store/index"
FOREVER_MS = 1 << 60
DISK_SIZE = 1 << 50
BLOCK_SIZE = 4096
COUNT_MAX = 64
"""Positions that are asked for."""

message_lists = st.lists(st.lists(st.sampled_from(KEYS), max_size=3), min_size=1, max_size=4)


@attrs.frozen
class Add:
    """Messages arrive, each with keys."""

    key_lists: list[list[str]]
    step_ms: int
    """Time between two of them."""
    blocks_left: int | None
    """Room on the disk; None: enough. When it is used up there is room again."""


@attrs.frozen
class Flush:
    """A step: everything that was added becomes durable."""


@attrs.frozen
class Crash:
    """The process is killed, or the machine stops, perhaps in the middle of a flush."""

    good_syncs: int | None
    """Syncs of a flush before the crash; None: no flush is under way."""
    power_cut: int | None
    """None: a kill. 0: nothing is there that was not synced. Otherwise the seed that decides
    sector by sector."""
    back_ms: int
    """By how much the clock that names files is behind from now on."""


@attrs.frozen
class Delete:
    """The log forgets messages from its beginning."""

    quarters: int


additions = st.builds(Add, message_lists, st.integers(0, 1500), st.none() | st.integers(0, 2))
crashes = st.builds(
    Crash,
    st.none() | st.integers(0, 3),
    st.none() | st.just(0) | st.integers(1, 1 << 16),
    st.integers(0, 5000),
)
steps = additions | additions | st.just(Flush()) | crashes | st.builds(Delete, st.integers(0, 4))


class IndexModel:
    """An index, the messages of its log, and how far it is flushed.

    Args:
        slots: Slots of a file; with 1 or 3 chains are long, with 300 a file has several sectors.
        entries: Entries of a file.
    """

    def __init__(self, slots: int, entries: int) -> None:
        self.disk = MemoryDisk(total=DISK_SIZE)
        self.slots, self.entries = slots, entries
        self.clock = ManualClock()
        self.back_ms = 0
        self.messages: list[IndexEntry] = []
        self.flushed_py = -1
        self.log_min_py = 0
        """The log holds messages from here on."""
        self.index = self.opened()

    def opened(self) -> IndexService:
        """The index as it is found on the disk."""
        index = IndexService(
            self.disk,
            DIRECTORY,
            hash_slots=self.slots,
            entries_max=self.entries,
            now_ms=lambda: self.clock.time_ms - self.back_ms,
        )
        index.load()
        return index

    def add(self, step: Add) -> None:
        """Add messages; when the disk is full make room and hand them over again."""
        batch: list[IndexEntry] = []
        for keys in step.key_lists:
            self.clock.time_ms += step.step_ms
            encoded = [key.encode() for key in keys]
            offset_py = 100 * (len(self.messages) + len(batch))
            batch.append(IndexEntry("T", encoded, offset_py, self.clock.time_ms))
        self.messages += batch
        if step.blocks_left is not None:
            self.disk.total = self.disk.usage("/").used + BLOCK_SIZE * step.blocks_left
        try:
            add_batch(self.index, batch)
        except OSError:
            self.disk.total = DISK_SIZE
            add_batch(self.index, batch)
        self.disk.total = DISK_SIZE

    def flush(self) -> None:
        """Make everything that was added durable, and note how far it reaches."""
        assert trio.run(self.index.flush)
        self.flushed_py = self.index.covered_to

    def crash(self, step: Crash) -> None:
        """Crash, open the index again, hand over what it does not cover."""
        if step.good_syncs is not None:
            syncs = iter(range(step.good_syncs))
            self.disk.fail_syncs_of = lambda _: next(syncs, None) is None
            with contextlib.suppress(OSError):
                trio.run(self.index.flush)
            self.disk.fail_syncs_of = lambda _: False
        if step.power_cut is None:
            self.disk.process_kill()
        else:
            self.disk.power_cut(Random(step.power_cut) if step.power_cut else None)
        self.back_ms = step.back_ms
        self.index = self.opened()

        assert self.index.covered_to >= self.flushed_py or self.flushed_py < self.log_min_py
        start_py = max(self.index.covered_to, self.log_min_py)
        add_batch(self.index, [entry for entry in self.messages if entry.phy_offset >= start_py])

    def delete(self, step: Delete) -> None:
        """Let the log, and then the index, forget."""
        end_py = 100 * len(self.messages)
        self.log_min_py = max(self.log_min_py, end_py * step.quarters // 4)
        self.index.delete_before(self.log_min_py)

    def take(self, step: Add | Flush | Crash | Delete) -> None:
        """Do one step to the index and to the model."""
        match step:
            case Add():
                self.add(step)
            case Flush():
                self.flush()
            case Crash():
                self.crash(step)
            case Delete():
                self.delete(step)

    def check(self) -> None:
        """Every key gives its messages and those of equal hash, newest first; nothing is twice."""
        expected: defaultdict[int, list[int]] = defaultdict(list)
        for message in reversed(self.messages):
            for found_hash in {key_hash(f"T#{key.decode()}") for key in message.keys}:
                if message.phy_offset >= self.log_min_py:
                    expected[found_hash].append(message.phy_offset)
        for key in KEYS:
            found = self.index.query("T", key, count_max=COUNT_MAX, begin_ms=0, end_ms=FOREVER_MS)
            in_log = [offset_py for offset_py in found if offset_py >= self.log_min_py]

            assert expected[key_hash(f"T#{key}")][:COUNT_MAX] == in_log
        key_count = sum(len(message.keys) for message in self.messages)

        assert self.index.statistics().entry_count <= key_count


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    slots=st.sampled_from([1, 3, 300]),
    entries=st.integers(2, 12),
    steps=st.lists(steps, min_size=1, max_size=12),
)
def test_the_index_finds_what_a_dictionary_finds(
    slots: int, entries: int, steps: list[Add | Flush | Crash | Delete]
) -> None:
    """Whatever happens, the index followed by the log gives every message of every key."""
    model = IndexModel(slots, entries)
    for step in steps:
        model.take(step)
        model.check()


@given(
    messages=message_lists,
    steps_ms=st.lists(st.integers(0, 3000), min_size=5, max_size=5),
    begin=st.integers(-2000, 9000),
    span=st.integers(0, 9000),
)
def test_queries_by_time(
    messages: list[list[str]], steps_ms: list[int], begin: int, span: int
) -> None:
    """Everything stored within the time is found, and nothing more than a second outside it."""
    index = IndexService(
        MemoryDisk(), DIRECTORY, hash_slots=2, entries_max=4, now_ms=ManualClock().now_ms
    )
    store_ms = START_MS
    stored: list[IndexEntry] = []
    for keys, step_ms in zip(messages, steps_ms, strict=False):
        store_ms += step_ms
        encoded = [key.encode() for key in keys]
        stored.append(IndexEntry("T", encoded, len(stored), store_ms))
    add_batch(index, stored)
    begin_ms = START_MS + begin
    end_ms = begin_ms + span
    found = index.query("T", "a", count_max=64, begin_ms=begin_ms, end_ms=end_ms)
    times = {entry.phy_offset: entry.store_ms for entry in stored if b"a" in entry.keys}

    assert {py for py, time_ms in times.items() if begin_ms <= time_ms <= end_ms} <= set(found)
    assert all(begin_ms - 1000 <= times[py] < end_ms + 1000 for py in found)


@given(st.lists(st.text(max_size=6), max_size=12))
def test_hashes_in_columns_are_java_hashes(keys: list[str]) -> None:
    """Hashing many keys at once gives what hashing them one by one gives."""
    texts = [key.encode() for key in keys]

    assert [java_hash(key) for key in keys] == hash_keys(texts).tolist()
