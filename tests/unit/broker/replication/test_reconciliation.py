"""A store that was another master's, brought to a part of its new master's log."""

from __future__ import annotations

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import ManualClock
from small_store import ROOT, SEGMENT_SIZE, message, open_store, read_bodies, small_options
from timermq.broker.replication.epochs import EpochFile
from timermq.broker.replication.ha_frames import Epoch
from timermq.broker.replication.log_digest import log_digest
from timermq.broker.replication.reconciliation import Reconciliation, ReconciliationError
from timermq.broker.replication.replica_calls import ReplicaRefusedError
from timermq.broker.replication.truncation import Truncation
from timermq.remoting.epoch_report import EpochReport
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.message_store import MessageStore

OPTIONS = small_options(disk_space_warning_level_ratio=100)
NAME = "broker-a"


@attrs.define(eq=False, slots=False)
class Replica:
    """A store of a replica, which led in some epochs; as a master it answers about its log."""

    disk: MemoryDisk = attrs.Factory(MemoryDisk)
    clock: ManualClock = attrs.Factory(ManualClock)
    name: str = NAME
    has_epochs: bool = True
    asked: int = 0

    def __attrs_post_init__(self) -> None:
        self.store: MessageStore = open_store(self.disk, self.clock, OPTIONS)
        self.file = EpochFile(self.disk, ROOT)

    def put(self, *bodies: str) -> None:
        """Store messages; their moments are those of all replicas."""
        for body in bodies:
            self.clock.time_ms += 1
            assert self.store.put([message(body, "T")])[0].status.is_stored

    def begin(self, number: int) -> None:
        """Lead in an epoch from here on."""
        self.file.begin(Epoch(number, self.store.commit_log.max_offset))

    def stop(self) -> None:
        """End the process, as a kill does."""
        self.disk.process_kill()

    async def epochs(self, _address: str) -> EpochReport:
        """As a master answers 1007."""
        if not self.has_epochs:
            raise ReplicaRefusedError("java", 1, "no controller")
        log = self.store.commit_log
        return EpochReport(
            cluster_name="C",
            broker_name=self.name,
            broker_id=0,
            epochs=tuple((one.number, one.start) for one in self.file.epochs),
            min_offset=log.min_offset,
            max_offset=log.max_offset,
        )

    async def digest(self, _address: str, offset: int, size: int) -> str | None:
        """As a master answers 9032."""
        self.asked += 1
        return log_digest(self.store.commit_log, offset, size)

    async def record(self, _address: str, position: int) -> bytes | None:
        """As a master answers 33."""
        return look_message_by_offset(self.store, position)


def reconcile(own: Replica, master: Replica) -> Truncation:
    """Bring a stopped store to what a master has."""
    run = Reconciliation(
        disk=own.disk, root=ROOT, options=OPTIONS, broker_name=NAME, master="m:1", calls=master
    ).run
    return trio.run(run)


def body(number: int, size: int, owner: str) -> str:
    """The body of a message that one replica wrote."""
    return f"{owner}{number}".ljust(size, ".")


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=12),
    st.lists(st.integers(1, 300), max_size=6),
    st.lists(st.integers(1, 300), max_size=6),
    st.booleans(),
)
@settings(max_examples=60)
def test_two_logs_are_one_up_to_where_they_part(
    common: list[int], mine: list[int], theirs: list[int], notes_epoch: bool
) -> None:
    """The former master keeps what both have, and no more; also without an epoch that tells."""
    own, master = Replica(), Replica()
    for replica in (own, master):
        replica.begin(1)
        replica.put(*(body(number, size, "c") for number, size in enumerate(common)))
    part = own.store.commit_log.max_offset
    if notes_epoch:
        master.begin(2)
    own.put(*(body(number, size, "own") for number, size in enumerate(mine)))
    master.put(*(body(number, size, "new") for number, size in enumerate(theirs)))
    own.stop()
    done = reconcile(own, master)
    again = open_store(own.disk, own.clock, OPTIONS)

    assert done.start == part
    assert read_bodies(again) == [body(number, size, "c") for number, size in enumerate(common)]
    assert EpochFile(own.disk, ROOT).epochs == own.file.epochs.cut(part)
    own.stop()
    assert reconcile(own, master).size == 0


def test_many_segments_are_compared_in_few_steps() -> None:
    """The place where logs part is searched for by halves, not record by record."""
    own, master = Replica(), Replica()
    for replica in (own, master):
        replica.begin(1)
        replica.put(*(body(number, 200, "c") for number in range(200)))
    part = own.store.commit_log.max_offset
    own.put(*(body(number, 200, "own") for number in range(200)))
    master.put(*(body(number, 200, "new") for number in range(200)))
    own.stop()

    assert own.store.commit_log.max_offset > 50 * SEGMENT_SIZE
    assert reconcile(own, master).start == part
    assert master.asked < 20


def test_a_lower_epoch_is_not_followed() -> None:
    """The master that was passed over is not one to follow: nothing is cut."""
    own, master = Replica(), Replica()
    for replica in (own, master):
        replica.begin(1)
        replica.put("a")
    own.begin(2)
    own.put("b")
    own.stop()
    with pytest.raises(ReconciliationError, match="newest epoch is 1, and that of this store 2"):
        reconcile(own, master)

    assert read_bodies(open_store(own.disk, own.clock, OPTIONS)) == ["a", "b"]


def test_an_epoch_that_wrote_nothing_does_not_count() -> None:
    """A replica that led and wrote nothing follows whichever master there is."""
    own, master = Replica(), Replica()
    for replica in (own, master):
        replica.begin(1)
        replica.put("a")
    own.begin(2)
    own.stop()
    master.put("b")

    assert reconcile(own, master).size == 0
    assert EpochFile(own.disk, ROOT).epochs.last_number == 1


@pytest.mark.parametrize(
    ("own_epoch", "epoch", "rule"),
    [
        (1, 1, "logs of two brokers"),
        (1, 3, r"EMPTY_SUCCESSOR: it began to lead in epoch 3 .* records of epoch 1 here"),
    ],
)
def test_logs_of_two_brokers_are_told_apart(own_epoch: int, epoch: int, rule: str) -> None:
    """With the same epochs by chance, or none in common: nothing is cut, and it says why."""
    own, master = Replica(), Replica()
    own.begin(own_epoch)
    own.put("a")
    master.begin(epoch)
    master.put("x", "y")
    own.stop()
    with pytest.raises(ReconciliationError, match=rule):
        reconcile(own, master)

    assert read_bodies(open_store(own.disk, own.clock, OPTIONS)) == ["a"]


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_master_with_an_empty_log_is_not_followed(epoch: int) -> None:
    """It has lost its disk, or has never copied a byte: nothing is cut for that."""
    own, master = Replica(), Replica()
    own.begin(1)
    own.put("a")
    master.begin(epoch)
    own.stop()
    with pytest.raises(ReconciliationError, match="EMPTY_MASTER: expected a log with records"):
        reconcile(own, master)

    assert read_bodies(open_store(own.disk, own.clock, OPTIONS)) == ["a"]


def test_another_name_is_not_followed() -> None:
    """A broker of another name has another log."""
    own, master = Replica(), Replica(name="broker-b")
    own.put("a")
    own.stop()
    with pytest.raises(ReconciliationError, match="it is broker-b, and this is broker-a"):
        reconcile(own, master)


def test_an_empty_store_follows_any_master() -> None:
    """There is nothing that could differ."""
    own, master = Replica(), Replica()
    master.begin(4)
    master.put("x")
    own.stop()

    assert reconcile(own, master).size == 0


def test_a_store_from_before_the_epochs() -> None:
    """One that was never followed has no epochs: its records tell what both have."""
    own, master = Replica(), Replica()
    for replica in (own, master):
        replica.put("a", "b")
    part = own.store.commit_log.max_offset
    master.begin(1)
    master.put("x")
    own.put("c")
    own.stop()

    assert reconcile(own, master).start == part


def test_a_master_without_epochs() -> None:
    """RocketMQ's is asked for the last record: a part of its log may follow, another may not."""
    own, master = Replica(), Replica(has_epochs=False)
    for replica in (own, master):
        replica.put("a")
    own.stop()
    assert reconcile(own, master).size == 0
    longer = Replica()
    longer.put("a", "b")
    longer.stop()
    with pytest.raises(ReconciliationError, match="no epochs to tell where they part"):
        reconcile(longer, master)
