"""Stores cut to a position: what is left is the broker as it was when its log ended there."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from damaged_stores import LATER_MS, checked, damage_of, on_disk, records, serve_on, small_image
from fakes import ManualClock
from simulation.crash_states import CrashStates
from simulation.recording_disk import Recording, RecordingDisk
from simulation.staged_service import HOST, ROOT, SMALL_FILES, SMALL_WHEEL
from small_store import ROOT as SMALL_ROOT
from small_store import message, open_store, read_bodies, small_options
from timermq.broker.replication.diverged_records import DivergedRecords
from timermq.broker.replication.epochs import EpochFile, EpochList
from timermq.broker.replication.ha_frames import Epoch
from timermq.broker.replication.truncation import TruncationError, stopped_log, truncate_store
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.simulator.disks.disk_damage import Image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_files import checkpoint_path

CRASH_ONLY_MAX = 3


def sent_before(whole: dict[int, bytes], position: int) -> set[str]:
    """The bodies of the messages, deletes left out, that were sent before a position."""
    found = {
        decode_record(data).body.decode()
        for at, data in whole.items()
        if at < position and decode_record(data).topic == TIMER_TOPIC
    }
    return {body for body in found if body.startswith("m")}


async def check_cut(disk: MemoryDisk, whole: dict[int, bytes], position: int) -> None:
    """The log ends at the position, nothing is damaged, and each message comes once."""
    left = records(disk)
    assert left == {at: data for at, data in whole.items() if at < position}
    arrived = await serve_on(disk)
    assert arrived == Counter(sent_before(whole, position)), position
    assert damage_of(checked(disk, now_ms=LATER_MS + 100_000)) == []


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
async def test_a_store_cut_anywhere_is_served_on(autojump_clock: MockClock, stop: bool) -> None:
    """Messages sent before the cut come once, what was delivered behind it too; others are gone."""
    image = await small_image(stop=stop)
    whole = records(on_disk(image))
    bounds = sorted(whole)
    end = bounds[-1] + len(whole[bounds[-1]])
    for position in (*bounds[1 :: len(bounds) // 12], bounds[-1], end):
        disk = on_disk(image)
        done = truncate_store(disk, ROOT, SMALL_FILES, position)

        assert (done.start, done.end) == (position, end)
        rows = list(DivergedRecords(disk, ROOT).rows(SMALL_WHEEL.timer_precision_ms))
        assert [row.phy_offset for row in rows] == [at for at in bounds if at >= position]
        assert (done.saved is None) == (position == end)
        await check_cut(disk, whole, position)


@pytest.mark.slow
async def test_a_cut_that_is_cut_off_goes_on(autojump_clock: MockClock) -> None:
    """Whatever a crash leaves of a cut: the same cut ends as one that was not disturbed."""
    image = await small_image(stop=False)
    whole = records(on_disk(image))
    position = sorted(whole)[len(whole) // 2]
    inner = MemoryDisk(now_ms=lambda: LATER_MS)
    recording = Recording(now_ms=lambda: LATER_MS)
    disk = RecordingDisk(inner, recording)
    copy_recorded(image, disk)
    begin = len(recording.events)
    truncate_store(disk, ROOT, SMALL_FILES, position)
    seen: set[bytes] = set()
    served = 0
    for state in CrashStates(recording.events, only_max=CRASH_ONLY_MAX):
        if state.event_count < begin or state.digest() in seen:
            continue
        seen.add(state.digest())
        crashed = MemoryDisk(now_ms=lambda: LATER_MS)
        state.write_to(crashed)
        truncate_store(crashed, ROOT, SMALL_FILES, position)
        copies = [one for one in DivergedRecords(crashed, ROOT).rows(1000) if one.kind]

        assert {one.phy_offset for one in copies} == {at for at in whole if at >= position}
        with stopped_log(crashed, ROOT, SMALL_FILES) as stopped:
            assert stopped.end == position
        if len(seen) % 10 == 0:
            served += 1
            # The start zeroes what the crash has left of a tail that was being zeroed.
            opened = MessageStore.open(
                crashed, ROOT, SMALL_FILES, now_ms=lambda: LATER_MS, store_host=HOST
            )
            opened.abandon()
            await check_cut(crashed, whole, position)
    assert len(seen) > 20
    assert served


def copy_recorded(image: Image, disk: RecordingDisk) -> None:
    """Write an image through a recording disk, durably."""
    for path, data in image.items():
        directory = path.rpartition("/")[0]
        for one in (*disk.make_dirs(directory), directory):
            disk.sync_dir_now(one)
        with closing(disk.open(path, create=True)) as file:
            file.truncate(len(data))
            file.write(0, data)
            disk.sync_now(file)
        disk.sync_dir_now(directory)


@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 300)), min_size=1, max_size=20),
    st.integers(0, 20),
    st.sampled_from(["stop", "kill"]),
    st.lists(st.integers(0, 300), max_size=5),
)
@settings(max_examples=40)
def test_tiny_segments(
    sizes: list[tuple[str, int]], cut: int, ending: str, more: list[int]
) -> None:
    """Queues, index and log of a cut store, and what is stored next, are of the shorter log."""
    disk, clock = MemoryDisk(), ManualClock()
    options = small_options(disk_space_warning_level_ratio=100)
    ends = [0]
    sent: list[tuple[str, str]] = []
    store = open_store(disk, clock, options)
    for number, (topic, size) in enumerate(sizes):
        body = f"{number}".ljust(size, ".")
        text = f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number}\x02".encode()
        (result,) = store.put([message(body, topic, properties=text)])
        ends.append(result.end)
        sent.append((topic, body))
    if ending == "stop":
        trio.run(store.aclose)
    else:
        disk.process_kill()
    count = min(cut, len(sizes))
    truncate_store(disk, SMALL_ROOT, options, ends[count])
    store = open_store(disk, clock, options)
    left = sent[:count]
    for topic in "AB":
        assert read_bodies(store, topic) == [body for name, body in left if name == topic]
    for number, size in enumerate(more, 100):
        body = f"{number}".ljust(size, ".")
        text = f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number}\x02".encode()
        assert store.put([message(body, "A", properties=text)])[0].status.is_stored
        left.append(("A", body))
    for topic in "AB":
        assert read_bodies(store, topic) == [body for name, body in left if name == topic]
    for number, (topic, body) in enumerate(sent):
        found = store.query(topic, f"k{number}", count_max=2)
        expected = [body] if (topic, body) in left else []
        assert [decode_record(one).body.decode() for one in found] == expected
    disk.process_kill()


def small_cut_store() -> tuple[MemoryDisk, list[int]]:
    """A stopped store of three messages, and the ends of their records."""
    disk = MemoryDisk()
    store = open_store(disk)
    ends = [store.put([message(body)])[0].end for body in ("a", "b", "c")]
    disk.process_kill()
    return disk, ends


def test_confirmed_records_are_not_cut() -> None:
    """The refusal says up to where they were confirmed, and nothing changes."""
    disk, ends = small_cut_store()
    with closing(StoreCheckpoint.open(disk, checkpoint_path(SMALL_ROOT))) as checkpoint:
        checkpoint.confirm_phy_offset = ends[1]
        checkpoint.write()
    with pytest.raises(TruncationError, match=f"expected to cut at {ends[1]} or behind"):
        truncate_store(disk, SMALL_ROOT, small_options(), ends[0])

    assert DivergedRecords(disk, SMALL_ROOT).names() == []
    assert read_bodies(open_store(disk)) == ["a", "b", "c"]


def test_a_cut_is_at_the_end_of_a_record() -> None:
    """A position inside a record, or outside the log, is refused."""
    disk, ends = small_cut_store()
    for position in (-1, 1, ends[0] + 1, ends[2] + 1):
        with pytest.raises(TruncationError, match=f"found {position}"):
            truncate_store(disk, SMALL_ROOT, small_options(), position)


def test_epochs_behind_the_cut_go() -> None:
    """An epoch that begins where the log ends now wrote nothing that is left."""
    disk, ends = small_cut_store()
    file = EpochFile(disk, SMALL_ROOT)
    file.begin(Epoch(1, 0))
    file.begin(Epoch(3, ends[1]))
    truncate_store(disk, SMALL_ROOT, small_options(), ends[1])

    assert EpochFile(disk, SMALL_ROOT).epochs == EpochList([Epoch(1, 0)])


def test_a_stopped_log_names_bounds() -> None:
    """Positions where records end, and no others."""
    disk, ends = small_cut_store()
    with stopped_log(disk, SMALL_ROOT, small_options()) as stopped:
        bounds = [at for at in range(ends[-1] + 2) if stopped.is_record_bound(at)]

        assert bounds == [0, *ends]
        assert (stopped.start, stopped.end) == (0, ends[-1])
