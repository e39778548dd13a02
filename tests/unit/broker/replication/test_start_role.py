"""Which role a broker begins with, by settings, note and what others say."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
import trio

from timermq.broker.options import BrokerOptions
from timermq.broker.replication.replica_calls import ReplicaCalls
from timermq.broker.replication.role import BrokerRole
from timermq.broker.replication.role_note import RoleNote
from timermq.broker.replication.start_role import StartRole, TwoMastersError, prepare_start
from timermq.remoting.epoch_report import EpochReport
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.store_options import StoreOptions

MASTER = StartRole(role=BrokerRole.ASYNC_MASTER)
OTHER = "b:1"


def follower(of: str | None) -> StartRole:
    """The role of a follower."""
    return StartRole(role=BrokerRole.SLAVE, master=of)


def report(epoch: int, *, leads: bool = True, name: str = "broker-a") -> EpochReport:
    """What a replica says of itself."""
    return EpochReport(
        cluster_name="C",
        broker_name=name,
        broker_id=0 if leads else 1,
        epochs=((epoch, 0),) if epoch >= 0 else (),
        min_offset=0,
        max_offset=1000,
    )


@pytest.mark.parametrize(
    ("wanted", "epoch", "found", "chosen"),
    [
        (MASTER, 1, {}, MASTER),
        (MASTER, 1, {"b:1": report(2)}, follower("b:1")),
        (MASTER, 2, {"b:1": report(1)}, MASTER),
        (MASTER, 1, {"b:1": report(2, leads=False)}, MASTER),
        (MASTER, 1, {"b:1": report(2, name="other")}, MASTER),
        (MASTER, -1, {"b:1": report(-1)}, MASTER),
        (MASTER, 1, {"b:1": report(2), "c:1": report(3)}, follower("c:1")),
        (follower("a:1"), 1, {}, follower("a:1")),
        (follower("a:1"), 1, {"a:1": report(1)}, follower("a:1")),
        (follower("a:1"), 1, {"a:1": report(1), "b:1": report(2)}, follower("b:1")),
        (follower("a:1"), 2, {"a:1": report(1)}, follower("a:1")),
        (follower(None), -1, {"b:1": report(1)}, follower("b:1")),
    ],
)
def test_the_role_by_what_others_say(
    wanted: StartRole, epoch: int, found: dict[str, EpochReport], chosen: StartRole
) -> None:
    """The highest epoch leads; a master that does not answer changes nothing."""
    assert wanted.after("broker-a", epoch, found) == chosen


def test_two_masters_of_one_epoch() -> None:
    """Each has records that the other has not: none of them is cut without being asked."""
    with pytest.raises(TwoMastersError, match="epoch 2, found another one at b:1"):
        MASTER.after("broker-a", 2, {"b:1": report(2)})


def test_the_note_counts_more_than_the_settings() -> None:
    """A promoted follower leads on at its next start, a fenced master follows."""
    follows = BrokerOptions(follow="a:1")
    leads = BrokerOptions(broker_role=BrokerRole.SYNC_MASTER)
    promoted = RoleNote(role=BrokerRole.ASYNC_MASTER, epoch=2, peers=("a:1",))
    fenced = RoleNote(role=BrokerRole.SLAVE, epoch=2, master="b:1")

    assert StartRole.of(follows, None) == follower("a:1")
    assert StartRole.of(follows, promoted) == MASTER
    assert StartRole.of(leads, fenced) == follower("b:1")
    changed = MASTER.options(follows)
    assert (changed.first_role, changed.follow, changed.broker_id) == (
        BrokerRole.ASYNC_MASTER,
        None,
        0,
    )
    assert MASTER.options(leads).first_role is BrokerRole.SYNC_MASTER
    changed = follower("b:1").options(leads)
    assert (changed.first_role, changed.follow, changed.broker_id) == (BrokerRole.SLAVE, "b:1", 1)


class LeaderCalls(ReplicaCalls):
    """Another replica that leads in epoch 3, and which brokers it knows of its name."""

    def __init__(self, brokers: Mapping[str, int] | None = None) -> None:
        async def refuse(host: str, port: int) -> trio.abc.Stream:
            raise ConnectionRefusedError(f"{host}:{port}")

        super().__init__(refuse)
        self._brokers = dict(brokers or {})

    async def epochs(self, address: str) -> EpochReport:
        """The report of it, for any address."""
        del address
        return attrs.evolve(report(3), follower_id=2)

    async def brokers(self, server: str, name: str, *, is_replica: bool = False) -> dict[str, int]:
        """The brokers that it knows; it is asked as a replica."""
        assert (server, name, is_replica) == (OTHER, "broker-a", True)
        return self._brokers


async def test_a_master_that_finds_another_one_notes_that_it_follows() -> None:
    """Else it would lead at the next start, in the epoch that it has copied by then."""
    disk = MemoryDisk()
    RoleNote(role=BrokerRole.ASYNC_MASTER, epoch=2, peers=(OTHER,)).save(disk, "/store")

    options = await prepare_start(disk, "/store", BrokerOptions(), StoreOptions(), LeaderCalls())
    note = RoleNote.load(disk, "/store")

    assert options.follow == OTHER
    assert note == RoleNote(
        role=BrokerRole.SLAVE, epoch=3, master=OTHER, peers=(OTHER,), broker_id=2
    )


@pytest.mark.parametrize(
    ("noted", "brokers", "chosen"),
    [
        (None, {}, 2),
        (None, {OTHER: 0, "c:1": 1}, 2),
        (None, {OTHER: 0, "c:1": 2}, 1),
        (None, {OTHER: 2}, 2),
        (1, {OTHER: 0, "c:1": 2}, 1),
        (1, {OTHER: 0, "c:1": 1, "d:1": 2}, 3),
        (1, {OTHER: 0, "127.0.0.1:10911": 1}, 1),
        (1, {OTHER: 0, "10.0.0.5:10911": 1}, 1),
    ],
)
async def test_the_id_of_one_that_goes_on_as_a_follower(
    noted: int | None, brokers: dict[str, int], chosen: int
) -> None:
    """The one that it had, or that its successor has left, unless another replica has it."""
    disk = MemoryDisk()
    note = RoleNote(role=BrokerRole.SLAVE, epoch=3, master=OTHER, broker_id=noted)
    note.save(disk, "/store")
    options = BrokerOptions(broker_role=BrokerRole.SYNC_MASTER, advertised_host="10.0.0.5")

    changed = await prepare_start(disk, "/store", options, StoreOptions(), LeaderCalls(brokers))
    kept = RoleNote.load(disk, "/store")

    assert kept is not None
    assert (changed.broker_id, kept.broker_id) == (chosen, chosen)


async def test_the_id_of_a_follower_by_its_settings() -> None:
    """It is as they say: what two have in common, the operator corrects."""
    disk = MemoryDisk()
    options = BrokerOptions(follow=OTHER, broker_id=2)

    changed = await prepare_start(disk, "/store", options, StoreOptions(), LeaderCalls({"c:1": 2}))

    assert changed.broker_id == 2
    assert RoleNote.load(disk, "/store") is None


def test_a_broker_does_not_follow_itself() -> None:
    """The lease names its holder by the advertised address, also behind a forwarded port."""
    options = BrokerOptions(
        lease="etcd://127.0.0.1:2379/orders",
        ha_listen_port=0,
        broker_id=1,
        advertised_host="10.0.0.9",
        advertised_port=31_911,
    )

    assert StartRole.of(options, None, holder="10.0.0.9:31911") == follower(None)
    assert StartRole.of(options, None, holder="10.0.0.8:31911") == follower("10.0.0.8:31911")
