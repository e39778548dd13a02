"""Damage at rest: drawn, done and undone."""

from __future__ import annotations

from random import Random

import pytest

from timermq.simulator.disks.disk_damage import (
    Damage,
    DamageKind,
    draw_damage,
    read_image,
    write_image,
)
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.file_family import FileFamily

IMAGE = {
    "/s/commitlog/0": bytes(1024) + b"log" * 300 + bytes(5000),
    "/s/checkpoint": b"\1" * 40,
    "/s/timerwheel": b"",
}


def draw(seed: int, kind: DamageKind, earlier: dict[str, bytes] | None = None) -> Damage:
    """A damage of the log."""
    found = draw_damage(
        Random(seed),
        IMAGE,
        "/s",
        families=[FileFamily.COMMIT_LOG],
        kinds=[kind],
        earlier=earlier,
    )
    assert found is not None
    return found


def test_an_image_is_a_store() -> None:
    """What is read can be written elsewhere, durably."""
    disk = MemoryDisk()
    write_image(disk, IMAGE)
    disk.power_cut()

    assert read_image(disk, "/s") == IMAGE


@pytest.mark.parametrize("kind", DamageKind)
@pytest.mark.parametrize("seed", range(5))
def test_damage_changes_one_sector(kind: DamageKind, seed: int) -> None:
    """It changes what it says, durably, and can be undone."""
    disk = MemoryDisk()
    write_image(disk, IMAGE)
    damage = draw(seed, kind)
    damage.do(disk)
    disk.power_cut()
    damaged = read_image(disk, "/s")
    damage.undo(disk)
    different = [
        at
        for at, (one, other) in enumerate(
            zip(IMAGE[damage.path], damaged[damage.path], strict=True)
        )
        if one != other
    ]

    assert (kind, FileFamily.COMMIT_LOG) == (damage.kind, damage.family)
    assert different
    assert {damage.offset // 512} == {at // 512 for at in different}
    assert damaged | {damage.path: IMAGE[damage.path]} == IMAGE
    assert read_image(disk, "/s") == IMAGE


def test_a_flip_is_one_bit() -> None:
    """No more than one bit."""
    damage = draw(3, DamageKind.FLIP)
    bits = int.from_bytes(damage.before) ^ int.from_bytes(damage.after)

    assert 1 == bits.bit_count()


def test_stale_is_what_was_there_before() -> None:
    """A stale sector comes from the earlier image, or was never written."""
    earlier = {"/s/commitlog/0": b"old" * 3000}

    assert bytes(512) == draw(1, DamageKind.STALE).after
    assert b"old" in draw(1, DamageKind.STALE, earlier).after


def test_nothing_to_damage() -> None:
    """Files that are empty, or zero all over, cannot be zeroed."""
    nothing = {"/s/commitlog/0": bytes(2000), "/s/timerwheel": b""}

    assert draw_damage(Random(1), {"/s/timerwheel": b""}, "/s") is None
    assert draw_damage(Random(1), nothing, "/s", kinds=[DamageKind.ZERO]) is None
