"""The plan of a simulation of replicas, as data: clients, settings, what befalls the brokers."""

from __future__ import annotations

import enum

import attrs

from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.store_options import StoreOptions

from ..process_disk import Place
from ..scenario import EndKind, NetworkPlan, Trigger
from ..steps import ClientPlan


class Blow(enum.Enum):
    """The kind of an event for one broker, or for the lines between brokers."""

    STOP = "stop"
    """It stops in order."""
    KILL = "kill"
    POWER = "power"
    """Its power is cut: what was not synced is gone."""
    DISK = "disk"
    """Its disk is lost for good. It comes back with an empty one."""
    CUT = "cut"
    """All connections between brokers break, and no new one comes about for a while."""
    SILENCE = "silence"
    """Nothing that is sent between brokers arrives for a while."""
    SPLIT = "split"
    """The lines are cut, and a follower is promoted while its master leads on."""
    DEMOTE = "demote"
    """The master hands over."""
    AWAY = "away"
    """The engine of the lease answers no broker for a while."""
    PARTED = "parted"
    """A broker does not reach the engine of the lease for a while."""

    @property
    def end(self) -> EndKind | None:
        """The end of a process that it brings; None: it lives on."""
        return {
            Blow.STOP: EndKind.STOP,
            Blow.KILL: EndKind.KILL,
            Blow.POWER: EndKind.POWER,
            Blow.DISK: EndKind.KILL,
        }.get(self)


@attrs.frozen(kw_only=True)
class ReplicaFault:
    """One event, at a time or as soon as those before it are over."""

    at_ms: int
    blow: Blow
    hits_master: bool = True
    """Whether it is the master's, or a follower's."""
    promotes: bool = False
    """Whether a follower is promoted when the master is down; else it comes back as a master."""
    trigger: Trigger = Trigger.TIME
    count: int = 1
    """With AWAIT and DISK, how many steps or changes are still to come."""
    place: Place = Place.BEFORE
    down_ms: int = 0
    """Milliseconds until the broker is started again, or the lines are whole."""
    kills_promoted: int = 0
    """Steps of any task from the call for a promotion to a kill of the one that is promoted; 0: it
    is not killed."""


@attrs.frozen(kw_only=True)
class LeasePlan:
    """The lease by which brokers lead, and how well its engine answers."""

    ttl_ms: int
    margin_ms: int
    rates: tuple[float, ...]
    """Milliseconds that pass on the steady clock of each broker in one of trio's."""
    slow: float
    """Share of the requests that take long."""
    slow_max_ms: int
    lost: float
    """Share of the answers that are lost, and of the requests."""


@attrs.frozen(kw_only=True)
class ReplicaScenario:
    """Everything that one seed decides about a simulation of replicas."""

    seed: int
    brokers: int
    """Two or three."""
    duration_ms: int
    is_confirmed: bool
    """SYNC_MASTER with confirm=replicated, where nothing may be lost; else ASYNC_MASTER."""
    store: StoreOptions
    timer: TimerOptions
    network: NetworkPlan
    clients: tuple[ClientPlan, ...]
    faults: tuple[ReplicaFault, ...]
    skews_ms: tuple[int, ...]
    """By how much the clock of each broker is off."""
    sync_max_ms: int = 0
    transfer_size: int = 1 << 20
    """Bytes of a frame between replicas."""
    lease: LeasePlan | None = None
    """None: an operator says who leads."""
