"""The role that a broker begins with: by its settings, its note, and what other replicas say.

========================  ========================  ============================================
it would be               another replica leads     it is
========================  ========================  ============================================
a master                  in a higher epoch         a follower of that one
a master                  in the same epoch         refused: two masters of one epoch
a master                  in a lower one, or none   a master
a follower                in its epoch, or higher   a follower of that one
a follower                in a lower one, or none   a follower of the master that it knows
========================  ========================  ============================================

The note counts more than the settings: it is of the last role that the broker took.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping

import attrs
import structlog
import trio

from timermq.remoting.epoch_report import EpochReport
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreError
from timermq.timerstore.store_options import StoreOptions

from ..options import BrokerOptions
from .epochs import EpochFile
from .follow_options import FIRST_FOLLOWER_ID
from .reconciliation import Reconciliation
from .replica_calls import NoReplicaError, ReplicaCalls, ReplicaRefusedError
from .role import MASTER_ID, BrokerRole
from .role_note import RoleNote

log = structlog.get_logger("timermq.broker.replication.start_role")


class TwoMastersError(StoreError):
    """Two replicas lead in one epoch, each with records that the other has not."""


@attrs.frozen(kw_only=True)
class StartRole:
    """A role, and the master that is followed."""

    role: BrokerRole
    master: str | None = None
    """``host:port``; None of a master, or when it is not known."""
    broker_id: int | None = None
    """Its id as a follower; None: as the settings say."""

    @classmethod
    def of(
        cls, options: BrokerOptions, note: RoleNote | None, holder: str | None = None
    ) -> StartRole:
        """The role before other replicas are asked.

        Args:
            options: Settings of the broker.
            note: Of its last role.
            holder: ``host:port`` of the broker in the lease, if there is one.
        """
        if options.lease is not None:
            noted = options.follow if note is None else note.master
            is_other = holder not in (None, options.own_address)
            return cls(role=BrokerRole.SLAVE, master=holder if is_other else noted)
        if note is None:
            return cls(role=options.first_role, master=options.follow)
        return cls(role=note.role, master=note.master, broker_id=note.broker_id)

    def after(self, name: str, epoch: int, found: Mapping[str, EpochReport]) -> StartRole:
        """The role when they have answered.

        Args:
            name: Name of the broker.
            epoch: The newest that it knows, -1 without any.
            found: What replicas say, by ``host:port``.

        Raises:
            TwoMastersError: Another one leads in the epoch in which this one would.
        """
        leaders = {
            address: one.last_epoch
            for address, one in found.items()
            if one.is_master and one.broker_name == name
        }
        address = max(leaders, key=leaders.__getitem__, default=None)
        if address is None or leaders[address] < epoch:
            return self
        if not self.role.is_master:
            return attrs.evolve(self, master=address)
        if leaders[address] > epoch:
            return StartRole(role=BrokerRole.SLAVE, master=address)
        if epoch < 0:
            return self
        raise TwoMastersError(
            f"{name}: expected one master in epoch {epoch}, found another one at {address}: let "
            "one of them lead in a higher epoch (timermq promote, while the other one is stopped)"
        )

    def options(self, options: BrokerOptions) -> BrokerOptions:
        """The settings of a broker with this role."""
        if options.lease is not None:
            return attrs.evolve(options, follow=self.master, broker_id=options.follower_id)
        if self.role.is_master:
            role = options.broker_role if options.first_role.is_master else self.role
            return attrs.evolve(options, broker_role=role, follow=None, broker_id=MASTER_ID)
        broker_id = self.broker_id or options.follower_id
        return attrs.evolve(options, broker_role=self.role, follow=self.master, broker_id=broker_id)


async def prepare_start(
    disk: Disk, root: str, options: BrokerOptions, store_options: StoreOptions, calls: ReplicaCalls
) -> BrokerOptions:
    """Find the role of a broker that is about to open its store, and cut that to its master's log.

    A broker without replicas is left as it is. A master that does not answer is followed as soon as
    it does.

    Args:
        disk: The disk of the store.
        root: Its directory.
        options: Settings of the broker.
        store_options: Settings of the store.
        calls: Asks other replicas.

    Returns:
        The settings with the role.

    Raises:
        StoreError: Two replicas lead in one epoch, or the store cannot follow the master.
        OSError: The disk refused.

    Cancellation: the store is as it was, or cut.
    """
    note = RoleNote.load(disk, root)
    wanted = StartRole.of(options, note, await _holder(options, calls))
    if note is None and wanted.role.is_master and options.broker_role is None:
        return options
    epoch = max(EpochFile(disk, root).epochs.last_number, -1 if note is None else note.epoch)
    registered = await _registered(calls, options)
    found = await _ask_all(calls, _addresses(options, note, wanted.master, registered))
    chosen = wanted.after(options.broker_name, epoch, found)
    if chosen != wanted:
        log.warning(
            "another replica leads", master=chosen.master, own_epoch=epoch, role=chosen.role.value
        )
    if chosen.master is not None and chosen.master in found:
        report = found[chosen.master]
        is_by_settings = options.lease is not None or (note is None and chosen == wanted)
        if not (chosen.role.is_master or is_by_settings):
            chosen = await _with_id(calls, options, chosen, report, registered)
        if chosen != wanted:
            # Or it would lead again at the next start, in an epoch that it has copied.
            _keep(disk, root, note, chosen, report.last_epoch)
    if not chosen.role.is_master and chosen.master is not None:
        await _reconcile(disk, root, options, store_options, calls, chosen.master)
    return chosen.options(options)


def _keep(disk: Disk, root: str, note: RoleNote | None, chosen: StartRole, epoch: int) -> None:
    peers = () if note is None else note.peers
    kept = RoleNote(
        role=chosen.role,
        epoch=epoch,
        master=chosen.master,
        peers=peers,
        broker_id=chosen.broker_id,
    )
    kept.with_peer(chosen.master).save(disk, root)


async def _with_id(
    calls: ReplicaCalls,
    options: BrokerOptions,
    chosen: StartRole,
    master: EpochReport,
    registered: Mapping[str, int],
) -> StartRole:
    """The role of a follower with an id that no other replica has.

    That of its last life; a master that was passed over takes the one that its successor has left.
    """
    assert chosen.master is not None
    others = dict(registered)
    try:
        others |= await calls.brokers(chosen.master, options.broker_name, is_replica=True)
    except NoReplicaError as error:
        log.info("the master does not say who follows it", error=str(error))
    taken = {
        broker_id
        for address, broker_id in others.items()
        if address not in (chosen.master, *_own_addresses(options))
    }
    wanted = chosen.broker_id or master.follower_id or options.follower_id
    return attrs.evolve(chosen, broker_id=free_id(wanted, taken))


def free_id(wanted: int, taken: Container[int]) -> int:
    """The id that is wanted, or the lowest of a follower that is free."""
    free = (one for one in itertools.count(FIRST_FOLLOWER_ID) if one not in taken)
    return next(free) if wanted in taken else wanted


async def _holder(options: BrokerOptions, calls: ReplicaCalls) -> str | None:
    if options.lease is None:
        return None
    # Imported late: most brokers have no lease.
    from .leased_lead import holder_of

    return await holder_of(options, calls.open_stream)


async def _reconcile(
    disk: Disk,
    root: str,
    options: BrokerOptions,
    store_options: StoreOptions,
    calls: ReplicaCalls,
    master: str,
) -> None:
    if not disk.list_dir(f"{root}/commitlog"):
        return
    try:
        await Reconciliation(
            disk=disk,
            root=root,
            options=store_options,
            broker_name=options.broker_name,
            master=master,
            calls=calls,
        ).run()
    except NoReplicaError as error:
        log.warning("master does not answer: the log is compared when it does", error=str(error))


async def _registered(calls: ReplicaCalls, options: BrokerOptions) -> dict[str, int]:
    """Addresses of the brokers of this name to their ids, as the name servers have them."""
    found: dict[str, int] = {}
    for server in options.namesrv_addresses:
        try:
            found |= await calls.brokers(server, options.broker_name)
        except NoReplicaError as error:
            log.info("name server does not say who leads", error=str(error))
    return found


def _addresses(
    options: BrokerOptions, note: RoleNote | None, master: str | None, registered: Iterable[str]
) -> list[str]:
    """All addresses at which another replica may be."""
    known = [master, options.follow]
    if note is not None:
        known += [note.master, *note.peers]
    own = _own_addresses(options)
    return [one for one in dict.fromkeys([*known, *registered]) if one and one not in own]


def _own_addresses(options: BrokerOptions) -> tuple[str, str]:
    """Where it listens, and where others are told to reach it."""
    return f"{options.listen_host}:{options.listen_port}", options.own_address


async def _ask_all(calls: ReplicaCalls, addresses: Iterable[str]) -> dict[str, EpochReport]:
    found: dict[str, EpochReport] = {}

    async def ask(address: str) -> None:
        try:
            found[address] = await calls.epochs(address)
        except (NoReplicaError, ReplicaRefusedError) as error:
            log.info("replica does not answer", error=str(error))

    async with trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(ask, address)
    return found
