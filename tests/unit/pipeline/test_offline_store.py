"""A store looked at from outside, of any writer: nothing of it is changed."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from damaged_stores import LATER_MS, on_disk, small_image
from simulation.staged_service import ROOT, SMALL_FILES, SMALL_WHEEL
from small_store import message, open_store, small_options
from timermq.pipeline.offline_store import open_offline
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.disk_damage import Image, read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.record import decode_record


@pytest.fixture(scope="module")
def image() -> Image:
    """The files of a small store with timers in every state, stopped in order."""
    return trio.run(small_image, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_the_next_start_would_deliver_is_listed(image: Image, *, is_killed: bool) -> None:
    """In order of slots; a killed store is recovered in memory alone."""
    files = dict(image)
    if is_killed:
        files[f"{ROOT}/abort"] = b""
    disk = on_disk(files)
    before = read_image(disk, ROOT)
    with open_offline(disk, ROOT, SMALL_FILES, SMALL_WHEEL) as offline:
        found = list(offline.pending())
        assert list(offline.pending_levels()) == []
        assert offline.differing_sectors() == 0
        assert offline.quarantine().active == 0

    assert len(found) > 10
    assert [one.topic for one in found if one.topic not in ("T0", "T1", "T")] == []
    assert all(one.deliver_ms > LATER_MS - 2_000 for one in found)
    assert read_image(disk, ROOT) == before


def small(*properties: str) -> MemoryDisk:
    """A store with messages of two topics in turn."""
    disk = MemoryDisk()
    store = open_store(disk)
    for number, text in enumerate(properties):
        store.put([message("x", "TU"[number % 2], properties=text.encode())])
    trio.run(store.aclose)
    return disk


def test_a_message_is_found_without_the_index() -> None:
    """The newest first; one whose text only holds the key somewhere is another message."""
    disk = small(
        "UNIQ_KEY\x01a1\x02", "UNIQ_KEY\x01a1\x02", "UNIQ_KEY\x01a1\x02", "KEYS\x01a1\x02",
        "UNIQ_KEY\x01a12\x02",
    )  # fmt: skip
    with open_offline(disk, ROOT, small_options(), TimerOptions(slots_total=10)) as offline:
        found = offline.find("a1")
        of_t = [
            decode_record(data).queue_offset
            for _, data in found.newest_first("T", "a1", unique=True)
        ]
        of_u = list(found.newest_first("U", "a1", unique=True))
        by_key = list(found.newest_first("U", "a1", unique=False))

    assert len(found.places) == 5
    assert of_t == [1, 0]
    assert len(of_u) == 1
    assert by_key == []


def test_index_files_are_shown_one_by_one() -> None:
    """Oldest first; one of other settings is refused, and the rest of the store is not."""
    disk = small(*(f"UNIQ_KEY\x01k{number}\x02" for number in range(25)))
    options = TimerOptions(slots_total=10)
    with open_offline(disk, ROOT, small_options(), options) as offline:
        names = [one.name for one in offline.index_files()]
        begins = [one.header.begin_phy_offset for one in offline.index_files()]
    with (
        open_offline(disk, ROOT, small_options(max_index_num=30), options) as offline,
        pytest.raises(StoreFormatError),
    ):
        list(offline.index_files())

    assert len(names) == 2
    assert begins == sorted(begins)
    assert begins[0] == 0
