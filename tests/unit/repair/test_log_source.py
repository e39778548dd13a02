"""Bytes of a log that come in parts: taken only as whole records."""

from __future__ import annotations

import pytest

from backup_rig import BackupRig
from small_store import ROOT, open_store, put_bodies
from timermq.repair.log_source import RecordRun

SEGMENT_SIZE = 1024


async def segment() -> bytes:
    """The first segment of a store: records, and a blank."""
    rig = BackupRig(is_served=False)
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *(f"body-{number:03d}-{'x' * 100}" for number in range(10)))
    await store.aclose()
    file = rig.disk.open(f"{ROOT}/commitlog/{0:020d}", read_only=True)
    return file.read(0, SEGMENT_SIZE)


def is_whole(data: bytes, *, at: int = 0, parts: int = 1, end: int | None = None) -> bool:
    """Whether bytes that come in parts are whole records."""
    run = RecordRun(at, at + len(data) if end is None else end, SEGMENT_SIZE)
    size = -(-len(data) // parts)
    fed = all(run.feed(data[first : first + size]) for first in range(0, len(data), size))
    return fed and run.is_whole


@pytest.mark.parametrize("parts", [1, 2, 3, 10, 1024])
async def test_records_in_parts(parts: int) -> None:
    """Cut anywhere: the verdict is the same."""
    data = await segment()
    size = int.from_bytes(data[:4])

    assert is_whole(data, parts=parts)
    assert is_whole(data[: 2 * size], parts=parts)
    assert is_whole(data[size:], at=size, parts=parts)
    assert not is_whole(data[:-8], parts=parts, end=SEGMENT_SIZE)
    assert not is_whole(data[: size + 1], parts=parts)
    assert not is_whole(data[:size], at=SEGMENT_SIZE, parts=parts)
    assert not is_whole(data[1:size], at=1, parts=parts)
    assert not is_whole(data[:size] + bytes(100), parts=parts)
    assert not is_whole(data, parts=parts, end=size)


async def test_one_changed_byte() -> None:
    """A changed size, magic, checksum, position or body is seen, whatever the parts are."""
    data = await segment()
    size = int.from_bytes(data[:4])
    for at in (*range(12), *range(28, 36), size // 2):
        changed = bytearray(data[:size])
        changed[at] ^= 1

        assert not is_whole(bytes(changed), parts=3), at
