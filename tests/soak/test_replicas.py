"""How three replicas are told apart, and when their logs are found to differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from golden_stores import GoldenStores
from soak.replica_episode import LogsDifferError, check_logs
from soak.replicas import COUNT, Replicas
from timermq.remoting.epoch_report import EpochReport


def report(*, broker_id: int, epoch: int, end: int = 100) -> EpochReport:
    """What a replica says of itself."""
    return EpochReport(
        cluster_name="c",
        broker_name="broker-a",
        broker_id=broker_id,
        epochs=((1, 0), (epoch, 50)),
        min_offset=0,
        max_offset=end,
    )


def test_of_two_that_lead_the_newer_does(tmp_path: Path) -> None:
    """An old master that was stopped still says that it leads."""
    replicas = Replicas.of(tmp_path, None)
    replicas.reports = {
        1: report(broker_id=0, epoch=2),
        2: report(broker_id=0, epoch=3),
        3: report(broker_id=3, epoch=3),
    }
    leader = replicas.leader()

    assert leader is not None
    assert leader.number == 2
    replicas.reports = {3: report(broker_id=3, epoch=3)}
    assert replicas.leader() is None


@pytest.mark.parametrize(("last_end", "is_level"), [(100, True), (101, False)])
def test_level_are_all_or_none(tmp_path: Path, last_end: int, *, is_level: bool) -> None:
    """One leads, all answer, and no log is longer than another."""
    replicas = Replicas.of(tmp_path, None)
    replicas.reports = {
        1: report(broker_id=0, epoch=2),
        2: report(broker_id=2, epoch=2),
        3: report(broker_id=3, epoch=2, end=last_end),
    }
    assert replicas.are_level() is is_level
    del replicas.reports[2]
    assert not replicas.are_level()


@pytest.mark.parametrize("lease", [None, "etcd://127.0.0.1:2379/soak?ttl=4"])
def test_each_has_ports_and_a_store_of_its_own(tmp_path: Path, lease: str | None) -> None:
    """With a lease all are alike; without one the first leads at first."""
    replicas = Replicas.of(tmp_path, lease)
    masters = [one.number for one in replicas.all if "--set=broker_role=SYNC_MASTER" in one.flags]

    assert len({one.listen for one in replicas.all}) == COUNT
    assert len({one.store for one in replicas.all}) == COUNT
    assert masters == ([1] if lease is None else [1, 2, 3])


def test_logs_that_differ(golden_stores: GoldenStores, tmp_path: Path) -> None:
    """Equal ones pass; a byte that is another, and a segment that is not there, do not."""
    stores = [tmp_path / name for name in ("a", "b")]
    first = Path(golden_stores.unpack_copy("g3", tmp_path / "unpacked"))
    for one in stores:
        shutil.copytree(first, one)
    check_logs(stores)
    segment = min((stores[1] / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    with pytest.raises(LogsDifferError, match="expected the bytes of"):
        check_logs(stores)
    segment.unlink()
    with pytest.raises(LogsDifferError, match="expected the bytes of"):
        check_logs(stores)
