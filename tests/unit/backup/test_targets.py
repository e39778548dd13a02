"""One contract for both targets: a directory, and an object store that speaks S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_rig import BackupRig
from interop.serving import free_port
from object_store import BUCKET, access, object_store
from small_store import ROOT, open_store, put_bodies, small_options
from timermq.backup.backup_check import BackupCheck
from timermq.backup.backup_objects import BackupObjects
from timermq.backup.directory_target import UNFINISHED, DirectoryTarget
from timermq.backup.target import Target, TargetError
from timermq.backup.target_place import target_of
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.repair.store_check import CheckedStore, is_damage
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.os_disk import OsDisk

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an object store in a process of its own, with one bucket."""
    with object_store(tmp_path_factory.mktemp("moto") / "log") as one:
        yield one


@pytest.fixture
def url(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an object store whose access the environment names."""
    for name, value in access(port).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}"


async def keeps_the_contract(target: Target) -> None:
    """Objects are there as they were put last, by their names, until they are deleted."""
    assert [] == await target.names()
    assert await target.get("manifest") is None
    await target.put("log/1-2", b"\0" * 70_000)
    await target.put("manifest", b"first")
    await target.put("manifest", b"second")
    assert {"log/1-2", "manifest"} == set(await target.names())
    assert b"second" == await target.get("manifest")
    assert b"\0" * 70_000 == await target.get("log/1-2")
    await target.delete("log/1-2")
    await target.delete("log/1-2")
    assert ["manifest"] == await target.names()


async def test_a_directory(tmp_path: Path) -> None:
    """Files below a directory that is made with the first of them."""
    await keeps_the_contract(target_of(f"{tmp_path}/deep/backup/", OsDisk()))


async def test_an_object_store(url: str) -> None:
    """Objects below the prefix, and none of those beside it."""
    other = target_of(f"{url}/other", OsDisk())
    await other.put("manifest", b"other")
    await keeps_the_contract(target_of(f"{url}/one/prefix", OsDisk()))
    assert b"other" == await other.get("manifest")


async def test_a_backup_in_an_object_store(url: str) -> None:
    """A store is shipped in two rounds, and comes back."""
    rig = BackupRig()
    rig.target.target = target_of(f"{url}/rig", OsDisk())
    store = open_store(rig.disk, rig.clock)
    bodies = [f"{number}-{'x' * 100}" for number in range(12)]
    put_bodies(store, *bodies[:7])
    await rig.ship()
    put_bodies(store, *bodies[7:])
    await rig.ship()

    assert bodies == await rig.restored_bodies()


async def test_the_check_of_a_backup_in_an_object_store(url: str) -> None:
    """It is read as one in a directory; a changed object is found there too."""
    rig = BackupRig(is_served=False)
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *"abcdefghijkl")
    await store.aclose()
    rig.target.target = target_of(f"{url}/checked", OsDisk())
    await rig.ship()
    objects = await BackupObjects.load(rig.target.target)
    check = BackupCheck(
        objects=objects,
        settings=CheckedStore(
            disk=rig.disk,
            root=ROOT,
            store_options=small_options(),
            timer_options=TimerOptions(),
            now_ms=rig.clock.now_ms(),
        ),
    )
    sound = [one for one in await check.run() if is_damage(one)]
    (piece, *_) = [one for part in objects.segments() for one in await objects.pieces_of(part)]
    await rig.target.target.put(piece.name, b"other bytes")
    damaged = [one for one in await check.run() if is_damage(one)]

    assert [] == sound
    assert piece.name in {one.file for one in damaged}


async def test_an_object_store_that_refuses(url: str) -> None:
    """The error names the target and what was found."""
    target = target_of("s3://no-such-bucket/backup", OsDisk())
    with pytest.raises(TargetError, match="s3://no-such-bucket/backup: expected an object store"):
        await target.put("manifest", b"")


async def test_an_object_store_that_is_away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of the target, for the next round to try again."""
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    target = target_of(f"{url}/away", OsDisk())
    with pytest.raises(TargetError, match="expected an object store that takes a backup"):
        await target.get("manifest")


async def test_a_scheme_that_is_none() -> None:
    """A URL that the library does not know is refused at once."""
    with pytest.raises(TargetError, match="nosuch://bucket: expected an object store"):
        target_of("nosuch://bucket", OsDisk())


async def test_a_full_disk() -> None:
    """What has no room leaves the old object, and nothing of the new one."""
    disk = MemoryDisk(total=1 << 16)
    target = DirectoryTarget(disk, "/backup")
    await target.put("manifest", b"old")
    with pytest.raises(TargetError, match=r"found: (n|N)o space left"):
        await target.put("manifest", bytes(1 << 17))

    assert ["manifest"] == await target.names()
    assert b"old" == await target.get("manifest")
    await target.put("manifest", b"new")
    assert b"new" == await target.get("manifest")


async def test_what_a_kill_leaves_is_no_object() -> None:
    """A file without its name is replaced by the next put, and counts as garbage until then."""
    disk = MemoryDisk()
    target = DirectoryTarget(disk, "/backup")
    await target.put("log/1", b"one")
    disk.open(f"/backup/log/2{UNFINISHED}", create=True).write(0, b"half of it")
    assert await target.get("log/2") is None
    await target.put("log/2", b"two")

    assert b"two" == await target.get("log/2")
    assert ["log/1", "log/2"] == await target.names()
