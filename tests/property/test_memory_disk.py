"""The disk in memory beside the real one, and beside a model of what is durable."""

from __future__ import annotations

import tempfile
from random import Random

import attrs
from hypothesis import given
from hypothesis import strategies as st

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.disk import Disk
from timermq.timerstore.os_disk import OsDisk

NAMES = st.sampled_from(["a", "b", "c"])
SIZES = st.sampled_from([0, 1, 511, 4095, 4096, 4097, 9000])
DATA = st.tuples(st.integers(1, 9), SIZES).map(lambda pair: bytes([pair[0]]) * pair[1])


@attrs.frozen
class Step:
    """One operation on one file, and what it may need."""

    verb: str
    name: str
    other: str
    size: int
    data: bytes


STEPS = st.builds(
    Step,
    st.sampled_from(["write", "truncate", "allocate", "rename", "remove", "sync", "sync_dir"]),
    NAMES,
    NAMES,
    SIZES,
    DATA,
)


def run(disk: Disk, root: str, step: Step) -> str:
    """Do a step; the name of what it raised."""
    path = f"{root}/{step.name}"
    try:
        if step.verb == "rename":
            disk.rename(path, f"{root}/{step.other}")
        elif step.verb == "remove":
            disk.remove(path)
        elif step.verb == "sync_dir":
            disk.sync_dir_now(root)
        else:
            file = disk.open(path, create=step.verb == "write")
            if step.verb == "write":
                file.write(step.size, step.data)
            elif step.verb == "truncate":
                file.truncate(step.size)
            elif step.verb == "allocate":
                file.allocate(step.size)
            else:
                disk.sync_now(file)
            file.close()
    except OSError as error:
        return type(error).__name__
    return ""


def contents(disk: Disk, root: str) -> dict[str, bytes]:
    """The content of every file of a directory, by name."""
    found: dict[str, bytes] = {}
    for name in disk.list_dir(root):
        file = disk.open(f"{root}/{name}")
        found[name] = file.read(0, file.size())
        file.close()
    return found


@given(st.lists(STEPS, max_size=12))
def test_both_disks_do_the_same(steps: list[Step]) -> None:
    """Any sequence of operations leaves the same files, and fails at the same steps."""
    with tempfile.TemporaryDirectory() as directory:
        real, memory = OsDisk(), MemoryDisk()
        memory.make_dirs(directory)
        raised = [(run(real, directory, step), run(memory, directory, step)) for step in steps]

        assert [one for one, _ in raised] == [other for _, other in raised]
        assert contents(real, directory) == contents(memory, directory)


@given(st.lists(STEPS, max_size=12))
def test_space_is_counted(steps: list[Step]) -> None:
    """The used space is that of the files there are, whatever happened before."""
    disk = MemoryDisk()
    disk.make_dirs("/d")
    for step in steps:
        run(disk, "/d", step)
    used = disk.usage("/d").used
    for name in disk.list_dir("/d"):
        disk.remove(f"/d/{name}")

    assert used % 4096 == 0
    assert disk.usage("/d").used == 0


@given(st.lists(STEPS, max_size=12))
def test_a_power_cut_goes_back_to_what_is_durable(steps: list[Step]) -> None:
    """A model that keeps names and contents as of their last syncs foretells the files."""
    disk = MemoryDisk()
    disk.make_dirs("/d")
    names: dict[str, int] = {}
    durable_names: dict[str, int] = {}
    durable: dict[int, bytes] = {}
    for number, step in enumerate(steps):
        if run(disk, "/d", step):
            continue
        if step.verb == "write":
            names.setdefault(step.name, number)
        elif step.verb == "rename":
            names[step.other] = names.pop(step.name)
        elif step.verb == "remove":
            names.pop(step.name, None)
        elif step.verb == "sync":
            durable[names[step.name]] = contents(disk, "/d")[step.name]
        elif step.verb == "sync_dir":
            durable_names = dict(names)
    disk.power_cut()

    expected = {name: durable.get(node, b"") for name, node in durable_names.items()}
    assert expected == contents(disk, "/d")


@given(st.lists(STEPS, max_size=12), st.integers(0, 99))
def test_a_torn_power_cut_keeps_what_is_durable(steps: list[Step], seed: int) -> None:
    """Syncing everything before it leaves nothing to be torn."""
    disk = MemoryDisk()
    disk.make_dirs("/d")
    for step in steps:
        run(disk, "/d", step)
    for name in disk.list_dir("/d"):
        disk.sync_now(disk.open(f"/d/{name}"))
    disk.sync_dir_now("/d")
    before = contents(disk, "/d")
    disk.power_cut(Random(seed))

    assert before == contents(disk, "/d")
