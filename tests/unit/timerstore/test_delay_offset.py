"""How far the level queues are: RocketMQ's file, ours, and what is none."""

from __future__ import annotations

import pytest

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import DataVersion, save_json_now
from timermq.timerstore.delay_offset import PATH, DelayOffsets

ROOT = "/store"
JAVAS = """{
	"dataVersion":{
		"counter":1,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"offsetTable":{1:3,2:5
	}
}"""


def saved(text: str) -> MemoryDisk:
    """A disk with this file."""
    disk = MemoryDisk()
    save_json_now(disk, f"{ROOT}/{PATH}", text)
    return disk


def test_of_rocketmq() -> None:
    """Levels and offsets, keys without quotes; no position in the log."""
    version = DataVersion(counter=1, state_version=0, timestamp=1_700_000_000_000)

    assert DelayOffsets(offsets={1: 3, 2: 5}, data_version=version) == DelayOffsets.load(
        saved(JAVAS), ROOT
    )


async def test_as_rocketmq_writes_it() -> None:
    """What is saved without a position has RocketMQ's bytes; the old file becomes ``.bak``."""
    disk = saved(JAVAS)
    known = DelayOffsets.load(disk, ROOT)
    assert known is not None
    await DelayOffsets(offsets={2: 9}).save(disk, ROOT)
    await known.save(disk, ROOT)
    kept = disk.open(f"{ROOT}/{PATH}.bak", read_only=True)

    assert JAVAS.encode() == disk.open(f"{ROOT}/{PATH}", read_only=True).read(0, 1000)
    assert b"{2:9\n" in kept.read(0, 1000)


async def test_position_is_kept() -> None:
    """Ours says where to look for what was done beyond the offsets."""
    disk = MemoryDisk()
    ours = DelayOffsets(offsets={1: 3}, scan_py=4096)
    await ours.save(disk, ROOT)

    assert ours == DelayOffsets.load(disk, ROOT)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('{"offsetTable":{"1":2}}', {1: 2}),
        ("{}", {}),
        ('{"offsetTable":{"x":1}}', None),
        ('{"offsetTable":{1:true}}', None),
        ('{"offsetTable":{1:-1}}', None),
        ('{"offsetTable":[]}', None),
        ('{"offsetTable":', None),
        ("[]", None),
        ("", None),
    ],
)
def test_other_texts(text: str, offsets: dict[int, int] | None) -> None:
    """Quoted keys are keys; a table that is none is no file at all."""
    known = DelayOffsets.load(saved(text), ROOT)

    assert offsets == (None if known is None else known.offsets)


def test_backup() -> None:
    """The ``.bak`` counts when the file is damaged."""
    disk = saved(JAVAS)
    disk.rename(f"{ROOT}/{PATH}", f"{ROOT}/{PATH}.bak")
    disk.open(f"{ROOT}/{PATH}", create=True).write(0, b"\xff{")
    known = DelayOffsets.load(disk, ROOT)

    assert {1: 3, 2: 5} == (None if known is None else known.offsets)
