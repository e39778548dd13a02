"""Who leads, and how that changes: decisions of one broker, with its store and its note."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from small_store import ROOT, message, open_store
from timermq.broker.refusal import RefusedError
from timermq.broker.replication.epochs import EpochFile, EpochList
from timermq.broker.replication.ha_frames import FIRST_EPOCH, Epoch
from timermq.broker.replication.next_life import NextLife
from timermq.broker.replication.replica_calls import NoReplicaError, ReplicaRefusedError
from timermq.broker.replication.role import BrokerRole, Role
from timermq.broker.replication.role_note import RoleNote
from timermq.broker.replication.succession import BEHIND_MAX, Succession
from timermq.remoting.epoch_report import EpochReport
from timermq.simulator.disks.memory_disk import MemoryDisk

OWN, MASTER, OTHER = "own:1", "m:1", "o:1"


def report(epoch: int, *, leads: bool = True, end: int = 0, name: str = "B") -> EpochReport:
    """What a replica says of itself."""
    return EpochReport(
        cluster_name="C",
        broker_name=name,
        broker_id=0 if leads else 1,
        epochs=((epoch, 0),),
        min_offset=0,
        max_offset=end,
    )


@attrs.define(eq=False)
class Others:
    """The other replicas, as far as they answer: address to what each says."""

    reports: dict[str, EpochReport] = attrs.Factory(dict[str, EpochReport])
    refuses: Exception | None = None
    """Why none takes the lead over."""
    leads_silently: bool = False
    """The one that is asked leads, and its answer is lost."""
    told: list[tuple[str, int]] = attrs.Factory(list[tuple[str, int]])
    promoted: list[tuple[str, int, int]] = attrs.Factory(list[tuple[str, int, int]])

    async def epochs(self, address: str) -> EpochReport:
        """As a replica answers 1007."""
        await trio.lowlevel.checkpoint()
        if address not in self.reports:
            raise NoReplicaError(f"{address}: gone")
        return self.reports[address]

    async def promote(self, address: str, *, offset: int, epoch: int) -> EpochReport:
        """As a replica answers 9030."""
        await trio.lowlevel.checkpoint()
        self.promoted.append((address, offset, epoch))
        if self.refuses is not None:
            if self.leads_silently:
                self.reports[address] = report(epoch + 1, end=offset)
            raise self.refuses
        self.reports[address] = report(epoch + 1, end=offset)
        return self.reports[address]

    async def tell(self, address: str, *, master: str, epoch: int) -> None:
        """As a replica answers 1008."""
        await trio.lowlevel.checkpoint()
        assert master == OWN
        self.told.append((address, epoch))
        if self.refuses is not None:
            raise self.refuses
        if address not in self.reports:
            raise NoReplicaError(f"{address}: gone")


class Case:
    """One broker whose role is changed by hand; its store and its files are real."""

    def __init__(
        self,
        role: BrokerRole,
        *,
        is_empty: bool = False,
        **more: Any,  # noqa: ANN401 - passed on
    ) -> None:
        self.disk = MemoryDisk()
        self.store = open_store(self.disk)
        if not is_empty:
            assert self.store.put([message("first")])[0].status.is_stored
        self.role = Role(role, 1)
        self.others = Others()
        self.done: list[str] = []
        self.lives: list[tuple[NextLife, bool]] = []
        self.missing: int | None = 0
        self.epochs = EpochFile(self.disk, ROOT)
        self.epochs.save(EpochList([FIRST_EPOCH]))
        calls: Any = self.others
        fields: dict[str, Any] = {
            "cluster_name": "C",
            "broker_name": "B",
            "address": OWN,
            "store": self.store,
            "role": self.role,
            "epochs": self.epochs,
            "calls": calls,
            "link": lambda: self,
            "lead": self.lead,
            "follow": self.follow,
            "reign": self.reign,
            "end": self.end_life,
            "followers": lambda: [OTHER],
            "stand_alone": lambda: self.done.append("alone"),
        }
        self.succession = Succession(**fields | more)

    def reign(self, epoch: int) -> None:
        """Note an epoch that the tables have."""
        self.done.append(f"reign {epoch}")

    def end_life(self, next_life: NextLife, *, at_once: bool) -> None:
        """Note how the broker goes on."""
        self.lives.append((next_life, at_once))

    @property
    def end(self) -> int:
        """Position where its log ends."""
        return self.store.commit_log.max_offset

    @property
    def note(self) -> RoleNote | None:
        """As a start would find it."""
        return RoleNote.load(self.disk, ROOT)

    def behind(self) -> int | None:
        """As the link to the master knows."""
        return self.missing

    async def stop(self) -> None:
        """As the link to the master does."""
        await trio.lowlevel.checkpoint()
        assert self.note is not None
        assert self.note.role.is_master
        self.done.append("stopped")

    async def lead(self, role: BrokerRole, begin: Callable[[], None]) -> None:
        """As the broker itself does."""
        await trio.lowlevel.checkpoint()
        begin()
        self.role.become(role)
        self.done.append("leads")

    async def follow(self) -> None:
        """As the broker itself does."""
        await trio.lowlevel.checkpoint()
        self.role.become(BrokerRole.SLAVE)
        self.done.append("parked")


def following(**more: Any) -> Case:  # noqa: ANN401 - passed on
    """A follower of a master that is gone."""
    case = Case(BrokerRole.SLAVE, **more)
    case.role.master_address = MASTER
    return case


async def refusal_of(call: Callable[[], Any]) -> str:
    """The rule by which a call is refused."""
    with pytest.raises(RefusedError) as caught:
        await call()
    return caught.value.rule


async def test_a_promotion_is_noted_then_the_link_ends_then_it_leads() -> None:
    """A process that ends in between goes on as it was told to; its epoch begins at the end."""
    case = following()
    found = await case.succession.promote()

    assert case.done == ["stopped", "alone", "reign 2", "leads"]
    assert case.epochs.epochs == EpochList([FIRST_EPOCH, Epoch(2, case.end)])
    assert case.note == RoleNote(
        role=BrokerRole.ASYNC_MASTER, epoch=2, peers=(MASTER,), broker_id=1
    )
    assert (found.is_master, found.last_epoch) == (True, 2)


async def test_an_epoch_that_was_told_of_is_not_given_again() -> None:
    """The follower has no byte of it yet, as of a master that nothing was sent to."""
    case = following()
    case.succession.seen_epoch = 6

    assert (await case.succession.promote()).last_epoch == 7


async def test_a_promotion_that_was_cut_off_goes_on_at_the_start() -> None:
    """The note says that it leads in an epoch that has not begun: it begins then."""
    case = following(note=RoleNote(role=BrokerRole.ASYNC_MASTER, epoch=5))
    case.role.become(BrokerRole.ASYNC_MASTER)
    case.succession.begin()

    assert case.epochs.epochs.last == Epoch(5, case.end)
    assert case.done == ["reign 5", "alone"]


@pytest.mark.parametrize("missing", [1, None])
async def test_missing_bytes_forbid_a_promotion(missing: int | None) -> None:
    """By force it leads all the same."""
    case = following()
    case.missing = missing

    assert await refusal_of(case.succession.promote) == "BEHIND"
    assert case.note is None
    assert (await case.succession.promote(force=True)).is_master


async def test_an_empty_follower_leads_by_force_alone() -> None:
    """Its epoch is above the master's first one, of which it may have heard nothing."""
    case = following(is_empty=True)
    case.epochs.save(EpochList())

    assert await refusal_of(case.succession.promote) == "EMPTY"
    assert (await case.succession.promote(force=True)).epochs == ((2, 0),)


async def test_a_master_that_answers_forbids_a_promotion() -> None:
    """Unless it follows another one by now, or by force."""
    case = following()
    case.others.reports[MASTER] = report(1)

    assert await refusal_of(case.succession.promote) == "MASTER_ANSWERS"
    case.others.reports[MASTER] = report(1, leads=False)
    assert (await case.succession.promote()).is_master
    assert await refusal_of(case.succession.promote) == "NOT_A_FOLLOWER"


async def test_a_lead_is_taken_over_with_the_whole_log_alone() -> None:
    """The follower waits for the end that its master names; another end is refused."""
    case = following()
    with trio.fail_after(60):
        assert await refusal_of(lambda: case.succession.take_over(case.end - 1, 1)) == "BEHIND"
        found = await case.succession.take_over(case.end, 7)

    assert found.last_epoch == 8
    assert case.done[-2:] == ["reign 8", "leads"]


async def test_a_switch_parks_before_it_hands_over() -> None:
    """The follower is named the end of a log to which nothing comes any more."""
    case = Case(BrokerRole.SYNC_MASTER)
    case.others.reports[OTHER] = report(1, leads=False, end=case.end)
    found = await case.succession.demote()

    assert case.done == ["parked"]
    assert case.others.promoted == [(OTHER, case.end, 1)]
    assert found.last_epoch == 2
    assert case.lives == [(NextLife(master=OTHER, epoch=2), False)]
    assert case.note == RoleNote(
        role=BrokerRole.SLAVE, epoch=2, master=OTHER, peers=(OTHER,), broker_id=1
    )


async def test_a_follower_that_refuses_leaves_the_lead_where_it_is() -> None:
    """The master leads on, in the same epoch and the same role."""
    case = Case(BrokerRole.SYNC_MASTER)
    case.others.reports[OTHER] = report(1, leads=False, end=case.end)
    case.others.refuses = ReplicaRefusedError(OTHER, 604, "BEHIND: no")

    assert await refusal_of(case.succession.demote) == "FOLLOWER_REFUSES"
    assert case.done == ["parked", "leads"]
    assert case.role.role is BrokerRole.SYNC_MASTER
    assert case.epochs.epochs == EpochList([FIRST_EPOCH])
    assert case.lives == []


async def test_an_answer_that_is_lost_is_asked_for() -> None:
    """The follower leads though its answer never came: the master follows."""
    case = Case(BrokerRole.ASYNC_MASTER)
    case.others.reports[OTHER] = report(1, leads=False, end=case.end)
    case.others.refuses = NoReplicaError("cut off")
    case.others.leads_silently = True
    found = await case.succession.demote(OTHER)

    assert found.last_epoch == 2
    assert [life.master for life, _ in case.lives] == [OTHER]


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        (None, "FOLLOWER"),
        (report(1), "FOLLOWER"),
        (report(1, leads=False, name="X"), "FOLLOWER"),
        (report(1, leads=False, end=-BEHIND_MAX), "BEHIND"),
    ],
)
async def test_who_takes_no_lead(said: EpochReport | None, rule: str) -> None:
    """One that does not answer, leads, has another name, or is far behind: nothing is parked."""
    case = Case(BrokerRole.ASYNC_MASTER)
    if said is not None:
        case.others.reports[OTHER] = said

    assert await refusal_of(lambda: case.succession.demote(OTHER)) == rule
    assert case.done == []


async def test_the_only_follower_need_not_be_named() -> None:
    """With none, or two, it has to be; a follower hands nothing over."""
    for known in (list[str](), [OTHER, MASTER]):
        case = Case(BrokerRole.ASYNC_MASTER, followers=known.copy)
        assert await refusal_of(case.succession.demote) == "FOLLOWER"
    assert await refusal_of(following().succession.demote) == "NOT_A_MASTER"


def test_a_higher_epoch_fences() -> None:
    """The master ends at once, and its next life follows; the note is there before."""
    case = Case(BrokerRole.ASYNC_MASTER)
    case.succession.see(OTHER, 2)
    case.succession.see(OTHER, 2)

    assert case.lives == [(NextLife(master=OTHER, epoch=2), True)]
    assert case.note == RoleNote(role=BrokerRole.SLAVE, epoch=2, master=OTHER, peers=(OTHER,))


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_master_gives_way_to_a_higher_epoch_alone(epoch: int) -> None:
    """One that was passed over, or leads in the same epoch by mistake, is refused."""
    case = Case(BrokerRole.ASYNC_MASTER)
    with pytest.raises(RefusedError, match=f"LOWER_EPOCH.*epoch {epoch}: expected above 1"):
        case.succession.see(OTHER, epoch)

    assert case.lives == []
    assert case.note is None


def test_a_follower_goes_to_the_new_master() -> None:
    """By another address in its epoch or above; its own master is no news."""
    case = following()
    case.succession.see(MASTER, 1)
    assert case.lives == []
    case.succession.see(OTHER, 2)
    assert case.lives == [(NextLife(master=OTHER, epoch=2), True)]


async def test_what_a_replica_says_is_looked_at() -> None:
    """A namesake is believed if it leads under this name in a higher epoch."""
    case = Case(BrokerRole.ASYNC_MASTER)
    for said in (report(1), report(2, leads=False), report(2, name="X")):
        case.others.reports[OTHER] = said
        await case.succession.look(OTHER)
    await case.succession.look("gone:1")
    assert case.lives == []
    case.others.reports[OTHER] = report(2)
    await case.succession.look(OTHER)

    assert [life.master for life, _ in case.lives] == [OTHER]


async def test_a_new_master_tells_the_others(autojump_clock: object) -> None:
    """Again and again, until they hear it; then now and then."""
    case = following()
    await case.succession.promote()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(case.succession.run)
        await trio.sleep(3.5)
        silent = len(case.others.told)
        case.others.reports[MASTER] = report(1, leads=False)
        await trio.sleep(30)
        nursery.cancel_scope.cancel()

    assert silent == 4
    assert 6 <= len(case.others.told) <= 8
    assert set(case.others.told) == {(MASTER, 2)}


@pytest.mark.parametrize(("code", "lines"), [(604, 2), (16, 2), (3, 0)])
async def test_two_masters_of_one_name_are_told_once_a_minute(
    autojump_clock: object, code: int, lines: int
) -> None:
    """With what the other one says of it; one of RocketMQ's knows no such request."""
    case = following()
    await case.succession.promote()
    said = "LOWER_EPOCH: own:1 says that it leads in epoch 2: expected above 2"
    case.others.refuses = ReplicaRefusedError(MASTER, code, said)
    case.others.reports[MASTER] = report(2)
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(case.succession.run)
            await trio.sleep(70)
            nursery.cancel_scope.cancel()

    assert len(case.others.told) == 70
    assert [one["reason"] for one in logs] == lines * [f"{MASTER}: {said}"]
    assert case.lives == []


def test_the_first_epoch_of_a_master_with_followers() -> None:
    """It is of the whole log; where there is one, none begins."""
    case = Case(BrokerRole.ASYNC_MASTER)
    case.epochs.save(EpochList())
    case.succession.begin_first()
    case.succession.begin_first()

    assert case.epochs.epochs == EpochList([FIRST_EPOCH])
    assert [one.number for one in case.succession.told_epochs()] == [1]
