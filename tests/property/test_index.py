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

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fakes import START_MS, ManualClock
from timermq.timerstore.index_layout import key_hash
from timermq.timerstore.index_service import QUERY_COUNT_MAX, IndexEntry, IndexService
from timermq.timerstore.java_hash import hash_keys, java_hash
from timermq.timerstore.memory_disk import MemoryDisk

KEYS = ("a", "b", "Aa", "BB", "标", "polygenelubricants")
"""Among them two of one hash, and one whose hash is 0."""
DIRECTORY = "/store/index"
FOREVER_MS = 1 << 60
DISK_SIZE = 1 << 50
BLOCK_SIZE = 4096

key_lists = st.lists(st.sampled_from(KEYS), max_size=4)
message_lists = st.lists(key_lists, min_size=1, max_size=5)


class IndexModel(RuleBasedStateMachine):
    """An index, the messages of its log, and how many of them are flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk(total=DISK_SIZE)
        self.clock = ManualClock()
        self.messages: list[IndexEntry] = []
        self.back_ms = 0
        self.flushed_py = -1
        self.log_min_py = 0
        """The log holds messages from here on."""

    @initialize(slots=st.integers(1, 3), entries=st.integers(2, 12))
    def open(self, slots: int, entries: int) -> None:
        """Open the index of a new store."""
        self.slots, self.entries = slots, entries
        self.index = self._opened()

    def _opened(self) -> IndexService:
        index = IndexService(
            self.disk,
            DIRECTORY,
            hash_slots=self.slots,
            entries_max=self.entries,
            now_ms=lambda: self.clock.time_ms - self.back_ms,
        )
        index.load()
        return index

    @rule(
        key_lists=message_lists,
        step_ms=st.integers(0, 1500),
        blocks_left=st.none() | st.integers(0, 2),
    )
    def add(self, key_lists: list[list[str]], step_ms: int, blocks_left: int | None) -> None:
        """Messages arrive; the disk may become full among them, and later there is room."""
        batch: list[IndexEntry] = []
        for keys in key_lists:
            self.clock.time_ms += step_ms
            encoded = [key.encode() for key in keys]
            offset_py = 100 * (len(self.messages) + len(batch))
            batch.append(IndexEntry("T", encoded, offset_py, self.clock.time_ms))
        self.messages += batch
        if blocks_left is not None:
            self.disk.total = self.disk.usage("/").used + BLOCK_SIZE * blocks_left
        try:
            self.index.add_batch(batch)
        except OSError:
            self.disk.total = DISK_SIZE
            self.index.add_batch(batch)
        self.disk.total = DISK_SIZE

    @rule()
    def flush(self) -> None:
        """Everything becomes durable."""
        assert trio.run(self.index.flush)
        self.flushed_py = self.index.covered_to

    @rule(
        good_syncs=st.none() | st.integers(0, 4),
        power_cut=st.none() | st.just(0) | st.integers(1, 1 << 16),
        back_ms=st.integers(0, 5000),
    )
    def crash(self, good_syncs: int | None, power_cut: int | None, back_ms: int) -> None:
        """The process is killed, or the machine stops, perhaps in the middle of a flush.

        Args:
            good_syncs: Syncs of a flush before the crash; None: no flush.
            power_cut: None: a kill. 0: nothing is there that was not synced; otherwise the seed
                that decides sector by sector.
            back_ms: By how much the clock that names files is behind from now on.
        """
        if good_syncs is not None:
            syncs = iter(range(good_syncs))
            self.disk.fail_syncs_of = lambda _: next(syncs, None) is None
            with contextlib.suppress(OSError):
                trio.run(self.index.flush)
            self.disk.fail_syncs_of = lambda _: False
        if power_cut is None:
            self.disk.process_kill()
        else:
            self.disk.power_cut(Random(power_cut) if power_cut else None)
        self.back_ms = back_ms
        self.index = self._opened()
        assert self.index.covered_to >= self.flushed_py or self.flushed_py < self.log_min_py
        start_py = max(self.index.covered_to, self.log_min_py)
        self.index.add_batch([entry for entry in self.messages if entry.phy_offset >= start_py])

    @rule(part=st.integers(0, 4))
    def delete(self, part: int) -> None:
        """The log forgets its first messages."""
        self.log_min_py = max(self.log_min_py, 100 * len(self.messages) * part // 4)
        self.index.delete_before(self.log_min_py)

    @invariant()
    def finds_what_the_dictionary_finds(self) -> None:
        """Every key gives its messages, and those of equal hash, newest first."""
        expected: defaultdict[int, list[int]] = defaultdict(list)
        for message in self.messages:
            for found_hash in {key_hash(f"T#{key.decode()}") for key in message.keys}:
                if message.phy_offset >= self.log_min_py:
                    expected[found_hash].insert(0, message.phy_offset)
        for key in KEYS:
            found = self.index.query(
                "T", key, count_max=QUERY_COUNT_MAX, begin_ms=0, end_ms=FOREVER_MS
            )
            in_log = [offset_py for offset_py in found if offset_py >= self.log_min_py]

            assert expected[key_hash(f"T#{key}")][:QUERY_COUNT_MAX] == in_log


IndexModel.TestCase.settings = settings(max_examples=150, stateful_step_count=12, deadline=None)
TestIndexModel = pytest.mark.slow(IndexModel.TestCase)


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
    index.add_batch(stored)
    begin_ms = START_MS + begin
    end_ms = begin_ms + span
    found = index.query("T", "a", count_max=64, begin_ms=begin_ms, end_ms=end_ms)
    times = {entry.phy_offset: entry.store_ms for entry in stored if b"a" in entry.keys}

    assert {py for py, time_ms in times.items() if begin_ms <= time_ms <= end_ms} <= set(found)
    assert all(begin_ms - 1000 <= times[py] < end_ms + 1000 for py in found)


@given(st.lists(st.text(max_size=6), max_size=12))
def test_hashes_in_columns_are_java_hashes(keys: list[str]) -> None:
    """Hashing many keys at once gives what hashing them one by one gives."""
    assert [java_hash(key) for key in keys] == hash_keys([key.encode() for key in keys]).tolist()
