"""A running follower compares its log with its master's, and keeps that one's epochs."""

from __future__ import annotations

from typing import Any

import pytest

from small_store import message, open_store
from timermq.broker.replication.agreement import Agreement
from timermq.broker.replication.epochs import EpochFile, EpochList
from timermq.broker.replication.follow_state import FollowError
from timermq.broker.replication.ha_frames import Epoch, Epochs, EpochTransfer
from timermq.broker.replication.log_digest import log_digest
from timermq.broker.replication.replica_calls import NoReplicaError
from timermq.remoting.epoch_report import EpochReport
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_files import checkpoint_path

ROOT = "/store"


class Case:
    """A follower, and what its master says: a log of this end, led in these epochs."""

    def __init__(self, *, own: int = 3, master: int = 3) -> None:
        self.disk = MemoryDisk()
        self.store = open_store(self.disk)
        self.master = open_store(MemoryDisk())
        for store, count in ((self.store, own), (self.master, master)):
            for number in range(count):
                assert store.put([message(f"m{number}")])[0].status.is_stored
        self.epochs = EpochFile(self.disk, ROOT)
        self.master_epochs = ((1, 0),)
        self.leads = True
        self.is_there = True
        self.lives: list[tuple[str, int]] = []
        self.looked: list[str] = []
        self.seen_epoch = -1
        calls: Any = self
        self.agreement = Agreement(
            broker_name="B", store=self.store, epochs=self.epochs, calls=calls, succession=calls
        )

    async def epochs_of(self, _address: str) -> EpochReport:
        """As the master answers 1007."""
        if not self.is_there:
            raise NoReplicaError("gone")
        log = self.master.commit_log
        return EpochReport(
            cluster_name="C",
            broker_name="B",
            broker_id=0 if self.leads else 1,
            epochs=self.master_epochs,
            min_offset=log.min_offset,
            max_offset=log.max_offset,
            master_address=None if self.leads else "o:1",
        )

    async def digest(self, _address: str, offset: int, size: int) -> str | None:
        """As the master answers 9032."""
        return log_digest(self.master.commit_log, offset, size)

    async def look(self, address: str) -> None:
        """As the succession of the broker does."""
        self.looked.append(address)

    def follow_again(self, master: str, epoch: int) -> None:
        """As the succession of the broker does."""
        self.lives.append((master, epoch))


@pytest.fixture
def case() -> Case:
    """A follower with the master's whole log."""
    return Case()


async def compared(case: Case) -> str | None:
    """The rule by which the master is not linked to; None: it is."""
    calls: Any = _Calls(case)
    agreement = Agreement(
        broker_name="B", store=case.store, epochs=case.epochs, calls=calls, succession=calls
    )
    try:
        await agreement.compare("m:1")
    except FollowError as error:
        return error.name
    return None


class _Calls:
    """The requests of a case, under the names that they have."""

    def __init__(self, case: Case) -> None:
        self.epochs = case.epochs_of
        self.digest = case.digest
        self.look = case.look
        self.follow_again = case.follow_again


async def test_a_part_of_the_masters_log_goes_on() -> None:
    """With its epochs, or from before there were any."""
    for own in (0, 2, 3):
        case = Case(own=own)
        assert await compared(case) is None
        case.epochs.save(EpochList([Epoch(1, 0)] if own else []))
        assert await compared(case) is None
        assert case.lives == []


async def test_bytes_that_the_master_lacks_are_cut_off_in_the_next_life() -> None:
    """The master has lost its tail, or led on from before it."""
    case = Case(own=3, master=2)
    case.epochs.save(EpochList([Epoch(1, 0)]))

    assert await compared(case) == "SLAVE_DIVERGED"
    assert case.lives == [("m:1", 1)]


async def test_a_master_that_follows_is_not_followed(case: Case) -> None:
    """The one that it follows is looked at; one that is gone is asked again."""
    case.leads = False
    assert await compared(case) == "NOT_A_MASTER"
    assert case.looked == ["o:1"]
    case.is_there = False
    assert await compared(case) == "MASTER"


async def test_logs_of_two_brokers_are_no_reason_to_cut(case: Case) -> None:
    """An epoch of its own that the master knows nothing of: an operator decides."""
    case.epochs.save(EpochList([Epoch(5, 0)]))

    assert await compared(case) == "SLAVE_DIVERGED"
    assert case.lives == []


def test_the_masters_epochs_are_taken_over(case: Case) -> None:
    """As far as the own log goes; later ones come with their bytes."""
    end = case.store.commit_log.max_offset
    starts = (Epoch(1, 0), Epoch(2, 10), Epoch(4, end), Epoch(5, end + 50))
    agreed = case.agreement.agree(Epochs(end + 90, 5, starts))

    assert agreed == end
    assert case.epochs.epochs == EpochList([Epoch(1, 0), Epoch(2, 10), Epoch(4, end)])
    assert case.seen_epoch == 5
    case.agreement.keep_epoch(EpochTransfer(end, 4, end, 0, b"x"))
    assert case.epochs.epochs.last == Epoch(4, end)
    with pytest.raises(FollowError, match="EPOCHS"):
        case.agreement.keep_epoch(EpochTransfer(end, 3, end, 0, b"x"))


def test_epochs_that_part_before_the_own_end_are_refused(case: Case) -> None:
    """The link is not gone on with: the logs are compared anew."""
    end = case.store.commit_log.max_offset
    case.epochs.save(EpochList([Epoch(1, 0), Epoch(2, 10)]))
    for starts in ((Epoch(1, 0),), (Epoch(1, 0), Epoch(3, 10)), ()):
        with pytest.raises(FollowError, match="SLAVE_DIVERGED"):
            case.agreement.agree(Epochs(end, 3, starts))


async def test_what_both_have_is_confirmed(case: Case) -> None:
    """The store's checkpoint says so, never more than the own log has."""
    end = case.store.commit_log.max_offset
    case.agreement.keep_epoch(EpochTransfer(end, 1, 0, end + 100, b"x"))
    await case.store.flush(noted=True)
    await case.store.aclose()
    found = StoreCheckpoint.open(case.disk, checkpoint_path(ROOT), read_only=True)

    assert found.confirm_phy_offset == end
