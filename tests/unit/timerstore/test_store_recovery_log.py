"""Tests of recovery: logs that are torn, cut short, damaged, or something else altogether."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from fakes import START_MS, ManualClock
from small_store import (
    ROOT,
    SEGMENT_SIZE,
    message,
    open_store,
    put_bodies,
    read_bodies,
    small_options,
)
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.seal_reader import remove_seals
from unit.timerstore.stopped_store import BODIES, POSITIONS, RECORD_SIZE, Rig


def test_a_torn_tail_is_cut() -> None:
    """What was never acknowledged as durable may be lost, and its units with it."""
    rig = Rig()
    trio.run(rig.store.flush)
    put_bodies(rig.store, BODIES[12])
    rig.disk.process_kill()
    rig.write(POSITIONS[12] + 100, b"torn")

    store = rig.open()

    assert POSITIONS[12] == store.recovery.end
    assert len(store.recovery.notes) == 1
    assert store.recovery.notes[0].startswith(f"commit log ends at {POSITIONS[12]}: body checksum")
    assert BODIES[:12] == read_bodies(store)


@pytest.mark.parametrize("properties", [b"", b"KEYS\x01k1 k2\x02TAGS\x01red"])
def test_a_record_is_there_whole_or_not_at_all(properties: bytes) -> None:
    """A write that a kill ends at any byte: neither body, nor topic, nor properties lack one."""
    rig = Rig(1)
    start = rig.store.commit_log.max_offset
    rig.store.put([message("last", "Topic", 0, properties)])
    whole = rig.store.commit_log.read(start, SEGMENT_SIZE - start)
    rig.kill()
    for left in range(len(whole)):
        rig.set_checkpoint(0, 0)
        written = whole[:left].ljust(len(whole), b"\0")
        rig.write(start, written)
        store = rig.open()
        rig.disk.process_kill()

        assert (len(whole) if written == whole else 0) == store.commit_log.max_offset - start


@pytest.mark.parametrize("sector", [1, 2])
def test_a_record_that_lacks_a_sector_of_its_properties_is_cut(sector: int) -> None:
    """Its body is whole, and its checksum with it: zeros among its properties tell."""
    clock, disk, options = (
        ManualClock(),
        MemoryDisk(),
        small_options(mapped_file_size_commit_log=4_096),
    )
    store = open_store(disk, clock, options)
    put_bodies(store, "first")
    trio.run(store.flush)
    start = store.commit_log.max_offset
    store.put([message("torn", properties=b"A\x01" + b"b" * 1_800)])
    disk.process_kill()
    disk.open(f"{ROOT}/commitlog/{0:020d}").write(sector * 512, bytes(512))

    store = open_store(disk, clock, options)

    assert store.recovery.end == start
    assert read_bodies(store) == ["first"]


def test_nothing_stale_is_left_behind_a_cut_log() -> None:
    """A record of the same size must not be followed by old ones at their right places."""
    rig = Rig(4)
    rig.kill()
    rig.write(POSITIONS[1] + 100, b"torn")

    store = rig.open()
    put_bodies(store, "B" * 100)
    rig.disk.process_kill()

    assert [BODIES[0], "B" * 100] == read_bodies(rig.open())


def test_later_segments_go_with_a_cut_log() -> None:
    """Their records are lost; a power cut may keep them and lose earlier ones."""
    rig = Rig()
    rig.kill()
    rig.set_checkpoint(0, 0)
    rig.write(POSITIONS[3], bytes(RECORD_SIZE))
    store = rig.open()

    assert BODIES[:3] == read_bodies(store)
    assert [f"{0:020d}"] == rig.disk.list_dir(f"{ROOT}/commitlog")


DAMAGES: dict[str, Callable[[Rig], None]] = {
    "body": lambda rig: rig.write(POSITIONS[3] + 95, b"rot"),
    "head": lambda rig: rig.write(POSITIONS[3] + 2, b"rots"),
    "zeros": lambda rig: rig.write(POSITIONS[3], bytes(RECORD_SIZE)),
}


@pytest.mark.parametrize("at", [1, 2, 4, 6])
def test_a_record_of_which_one_field_is_damaged_is_repaired(at: int) -> None:
    """Its size or its magic: the log goes on behind it, whatever of it was durable."""
    rig = Rig(5)
    rig.kill()
    rig.set_checkpoint(0, 0)
    before = rig.contents()
    rig.write(POSITIONS[3] + at, b"\x55")
    store = rig.open()

    assert BODIES[:5] == read_bodies(store)
    assert store.recovery.notes[0].startswith(
        f"record at {POSITIONS[3]} of the commit log repaired: "
    )
    log = f"{ROOT}/commitlog/{0:020d}"
    assert rig.contents()[log] == before[log]
    # Sealed is what was repaired, not what stood there.
    assert store.commit_log.old.compare(0, store.commit_log.max_offset)
    assert rig.contents()[log] == before[log]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_that_is_damaged_in_its_middle_is_refused(damage: str) -> None:
    """Cutting it there would lose acknowledged messages; nothing is changed."""
    rig = Rig()
    rig.kill()
    rig.set_checkpoint(START_MS + 11_000, START_MS)
    DAMAGES[damage](rig)
    before = rig.contents()

    expected = (
        f"^{ROOT}/commitlog/{0:020d}: at {POSITIONS[3]}: "
        f"expected a record, for what stands at {SEGMENT_SIZE} was durable, found "
    )
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()

    assert before == rig.contents()
    with pytest.raises(StoreFormatError, match=expected):
        rig.open(read_only=True)


@pytest.mark.parametrize(("damage", "behind"), [("body", 3), ("head", 4), ("zeros", 4)])
def test_units_tell_of_records_behind_the_damage_too(damage: str, behind: int) -> None:
    """In a log of one segment; the damaged record itself may still say when it was stored."""
    rig = Rig(5)
    rig.kill()
    rig.set_checkpoint(START_MS + 4001, START_MS)
    DAMAGES[damage](rig)

    expected = f"for what stands at {POSITIONS[behind]} was durable, found"
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()


def test_units_that_a_torn_power_cut_zeroed_tell_of_no_record() -> None:
    """Among units of what was lost they seem to name the first record, which is there."""
    rig = Rig(16)
    rig.kill()
    rig.set_checkpoint(START_MS + 2_500, START_MS)
    rig.write(POSITIONS[3], bytes(RECORD_SIZE))
    # Three newer files of the queue are whole, so that it is taken to go on behind it.
    rig.write_unit(4, bytes(20))

    assert BODIES[:3] == read_bodies(rig.open())


def test_a_stopped_store_whose_last_record_has_rotted_is_served() -> None:
    """Its seal tells that it was there; its number is not given out again."""
    rig = Rig(4)
    rig.stop()
    rig.write(POSITIONS[3] + 95, b"rot")
    store = rig.open()

    assert 4 == store.put([message()])[0].queue_offset
    assert BODIES[0] == read_bodies(store)[0]
    assert BODIES[3] not in read_bodies(store)


def test_a_log_that_ends_earlier_than_when_it_was_closed_is_refused() -> None:
    """A clean stop has written down where it ended; no seal tells what stood there."""
    rig = Rig(4)
    rig.stop()
    remove_seals(rig.disk, f"{ROOT}/commitlog")
    rig.write(POSITIONS[3] + 95, b"rot")

    expected = (
        f"at {POSITIONS[3]}: expected records up to 768, where the log ended before, found body"
    )
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_foreign_file_is_refused(is_clean: bool) -> None:
    """Something of the right name and length that is no log."""
    rig = Rig(0)
    if is_clean:
        rig.stop()
    else:
        rig.kill()
    rig.disk.make_dirs(f"{ROOT}/commitlog")
    rig.disk.open(f"{ROOT}/commitlog/{0:020d}", create=True).write(0, b"hello" * 204 + b"1234")
    before = rig.contents()

    expected = f"^{ROOT}/commitlog/{0:020d}: at 0: expected a commit log record, found magic: "
    with pytest.raises(StoreFormatError, match=expected):
        rig.open()

    assert before == rig.contents()


def test_other_settings_are_refused() -> None:
    """The lock is given back: the next try finds the store as it was."""
    rig = Rig()
    rig.stop()
    before = rig.contents()

    with pytest.raises(StoreFormatError, match="expected a segment of 2048 bytes, found 1024"):
        open_store(rig.disk, options=small_options(mapped_file_size_commit_log=2048))

    assert before == rig.contents()
    assert BODIES[:12] == read_bodies(rig.open())
