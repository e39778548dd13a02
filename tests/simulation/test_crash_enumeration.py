"""The enumeration itself: it would see a store that forgets to sync."""

from __future__ import annotations

from fakes import ManualClock
from simulation.crash_states import CrashState, CrashStates
from simulation.crash_workloads import WORKLOADS
from simulation.recording_disk import Named, Recording, RecordingDisk, SyncBegun, Synced
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.timerstore.errors import StoreFormatError


def recorded() -> RecordingDisk:
    """An empty disk with the durable directory ``/d``."""
    disk = RecordingDisk(MemoryDisk(), Recording(ManualClock().now_ms))
    disk.make_dirs("/d")
    disk.sync_dir_now("/")
    return disk


def last_states(disk: RecordingDisk) -> dict[str, dict[str, bytes]]:
    """The states behind the last event, by label."""
    events = disk.recording.events
    states = CrashStates(events, only_max=9)
    return {one.label: one.files for one in states if one.event_count == len(events)}


def test_what_is_synced_is_there() -> None:
    """One state is left when content and name are synced."""
    disk = recorded()
    file = disk.open("/d/a", create=True)
    file.write(0, b"abc")
    disk.sync_now(file)
    disk.sync_dir_now("/d")

    assert {"all": {"/d/a": b"abc"}} == last_states(disk)


def test_a_name_that_is_not_synced_may_be_lost() -> None:
    """Also the new name of a renamed file."""
    disk = recorded()
    file = disk.open("/d/a", create=True)
    disk.sync_dir_now("/d")
    file.write(0, b"x")
    disk.sync_now(file)
    disk.rename("/d/a", "/d/b")
    found = last_states(disk)

    assert ({"/d/b": b"x"}, {"/d/a": b"x"}) == (found["all"], found["none"])


def test_a_directory_takes_its_files_with_it() -> None:
    """Unless the name of the directory is durable."""
    disk = recorded()
    disk.make_dirs("/d/e")
    file = disk.open("/d/e/a", create=True)
    file.write(0, b"x")
    disk.sync_now(file)
    disk.sync_dir_now("/d/e")

    assert {} == last_states(disk)["none"]
    assert {"/d/e/a": b"x"} == last_states(disk)["all"]


def test_writes_are_lost_in_any_subset() -> None:
    """One by one, all but one, the last ones alone; and lengths without data."""
    disk = recorded()
    file = disk.open("/d/a", create=True)
    file.allocate(3)
    disk.sync_now(file)
    disk.sync_dir_now("/d")
    for at, byte in enumerate((b"a", b"b", b"c")):
        file.write(at, byte)
    disk.sync_dir_now("/d")
    found = {label: files["/d/a"] for label, files in last_states(disk).items()}

    assert found == {
        "all": b"abc",
        "none": b"\0\0\0",
        "without 0": b"\0bc",
        "only 0": b"a\0\0",
        "without 1": b"a\0c",
        "only 1": b"\0b\0",
        "without 2": b"ab\0",
        "only 2": b"\0\0c",
        "only the last 2": b"\0bc",
    }


def test_a_write_that_grows_a_file_may_leave_zeros_or_no_growth() -> None:
    """The length goes its own way."""
    disk = recorded()
    file = disk.open("/d/a", create=True)
    disk.sync_dir_now("/d")
    file.write(0, b"abc")
    found = {label: files["/d/a"] for label, files in last_states(disk).items()}

    assert (b"abc", b"\0\0\0", b"") == (found["all"], found["names, no data"], found["none"])
    assert b"" == found["0 of 1 names"]


def test_the_last_write_is_torn_at_each_sector() -> None:
    """Its head is there or its tail."""
    disk = recorded()
    file = disk.open("/d/a", create=True)
    file.allocate(4 * SECTOR_SIZE)
    disk.sync_now(file)
    disk.sync_dir_now("/d")
    file.write(500, b"x" * 600)
    found = {label: files["/d/a"] for label, files in last_states(disk).items()}
    torn = {label: found[label].count(b"x") for label in found if label.startswith("torn")}

    assert torn == {
        "torn at 512, head": 12,
        "torn at 512, tail": 588,
        "torn at 1024, head": 524,
        "torn at 1024, tail": 76,
    }


def test_a_sync_covers_what_was_written_before_its_beginning() -> None:
    """What is written while it runs may be lost."""
    disk = recorded()
    file = disk.open("/d/a", create=True)
    file.allocate(2)
    disk.sync_now(file)
    disk.sync_dir_now("/d")
    file.write(0, b"a")

    begun = SyncBegun(file.inode)
    disk.recording.add(begun)
    file.write(1, b"b")
    disk.recording.add(Synced(begun))

    assert (b"ab", b"a\0") == tuple(last_states(disk)[one]["/d/a"] for one in ("all", "none"))


def test_a_store_that_does_not_sync_is_found_out() -> None:
    """With the syncs of the log left out, some state breaks a promise, or is not opened at all."""
    workload = WORKLOADS["checkpoint"]
    whole = workload.record()
    forgotten = {
        inode
        for event in whole.events
        if isinstance(event, Named)
        for path, inode in event.names.items()
        if "/commitlog/" in path
    }
    recording = whole.without_syncs(forgotten.__contains__)
    states = [one for one in CrashStates(recording.events, only_max=0) if one.label == "none"]

    def is_found_out(state: CrashState) -> bool:
        try:
            return bool(workload.faults_in(recording, state))
        except StoreFormatError:
            return True

    assert any(map(is_found_out, states[-20:]))
