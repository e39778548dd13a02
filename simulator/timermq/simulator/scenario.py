"""The plan of a simulation, as data: settings, clients with their steps, lives with their ends.

A seed is drawn into a plan (`draw`), a world carries it out (`world`), and a plan that breaks a
promise is made smaller (`shrinking`). Times are milliseconds of trio's clock since the beginning.
"""

from __future__ import annotations

import enum

import attrs

from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.store_options import StoreOptions

from .disks.disk_damage import DamageKind
from .disks.fault_plan import Operation
from .process_disk import Place
from .steps import ClientPlan, Item, Poison, Schedule

SAVING_MS = 300_000
"""``Life.saving_ms`` of a process that ends at no planned time."""


class FaultKind(enum.Enum):
    """A kind of fault, or of an unusual store, by its name in ``--faults``."""

    KILL = "kill"
    """The process is killed; what it wrote stays."""
    POWER = "power"
    """The power is cut: the process ends, and everything that was not synced is gone."""
    TORN = "torn"
    """The power is cut, and some sectors of what was not synced have reached the disk."""
    CLOCK = "clock"
    """The wall clock steps, runs fast or slow, or stands still."""
    NETWORK = "network"
    """Connections are slow, break, lose answers, are closed by half."""
    EIO = "eio"
    """A sync or a write fails, and may have been done in part."""
    CLEAN = "clean"
    """Old segments are removed within the day, and the disk is nearly full."""
    SETTINGS = "settings"
    """Processes have different settings, and the store is repaired between them."""
    POISON = "poison"
    """The timer topic has records from which no timer can be made."""
    BULK = "bulk"
    """Bulk jobs run, and run again."""
    DELAYED = "delayed"
    """Transactions ask for a moment."""
    ENOSPC = "enospc"
    """The disk is full for a while."""
    READ = "read"
    """A read of a file fails."""
    BLOCKS = "blocks"
    """The file system cannot reserve blocks, so they are written one after the other."""
    DAMAGE = "damage"
    """Between two processes bits flip, and sectors become zero, old, or change places."""
    ROT = "rot"
    """Such damage happens while a broker runs, which may look for it."""
    LOST = "lost"
    """When a process begins, files are gone that can be made again."""
    ROCKETMQ = "rocketmq"
    """RocketMQ has begun the store, or has served it between two processes."""


class EndKind(enum.Enum):
    """How a process ends: in order, or by the fault of that name."""

    STOP = "stop"
    KILL = "kill"
    POWER = "power"
    TORN = "torn"


class Trigger(enum.Enum):
    """The condition that the end waits for, once its time has come."""

    TIME = "time"
    AWAIT = "await"
    """A number of steps of any task."""
    DISK = "disk"
    """A number of changes of the disk."""


@attrs.frozen(kw_only=True)
class Settings:
    """The settings that one process runs with."""

    store: StoreOptions
    timer: TimerOptions


class Loss(enum.Enum):
    """Files that are lost between two processes; the logs have all that was in them."""

    WHEEL = "wheel"
    TIMER_LOG = "timer log"
    """All segments of the timer log."""
    TIMER_LOG_END = "end of the timer log"
    """The newest segment of the timer log."""
    TIMER_CHECKPOINT = "timer checkpoint"
    STORE_CHECKPOINT = "store checkpoint"
    INDEX = "index"
    SEALS = "seals"


@attrs.frozen(kw_only=True)
class DamageDraw:
    """One damage of the files, between two processes or under one."""

    kind: DamageKind
    seed: int
    """Decides at which place of the file the damage is."""
    family: FileFamily


@attrs.frozen(kw_only=True)
class Rot:
    """One damage under a running process. If none runs at that time, nothing is damaged."""

    at_ms: int
    damage: DamageDraw
    skip: int = 0
    """How many changes of the disk come before the damage; it waits for them a minute at most."""


@attrs.frozen(kw_only=True)
class Rest:
    """The events for the files between a process and the next one."""

    losses: tuple[Loss, ...] = ()
    damages: tuple[DamageDraw, ...] = ()
    is_rocketmq: bool = False
    """RocketMQ has served the store and written its numbers. That needs a store that was stopped
    in order."""


@attrs.frozen(kw_only=True)
class Life:
    """One process of the broker, from its start to its end."""

    end_ms: int
    kind: EndKind = EndKind.KILL
    trigger: Trigger = Trigger.TIME
    count: int = 1
    """With AWAIT and DISK, how many steps or changes are still to come."""
    place: Place = Place.BEFORE
    """With DISK, in which part of the change the process ends."""
    torn: int = 0
    """With TORN, decides which sectors had reached the disk."""
    down_ms: int = 0
    """Milliseconds from the end to the next start."""
    saving_ms: int = SAVING_MS
    """Milliseconds between two checkpoints of the timers, and between two saves of committed
    offsets."""
    settings: Settings | None = None
    """The settings of this process; None stands for those of the plan."""
    is_repaired: bool = False
    """Whether the store is repaired before the process begins."""
    rest: Rest | None = None
    """The events for the files after its end; None: there are none."""


@attrs.frozen(kw_only=True)
class ClockFault:
    """The wall clock goes wrong at one moment."""

    at_ms: int
    step_ms: int = 0
    rate: float | None = None
    """How fast the clock runs from then on; None leaves it as it was."""


@attrs.frozen(kw_only=True)
class DiskFault:
    """One operation of the disk fails, some time behind ``at_ms``."""

    at_ms: int
    operation: Operation
    skip: int = 0
    """How many operations of that kind succeed before one fails."""
    written: int = 0
    """How many bytes of a failing write reach the file all the same."""


@attrs.frozen(kw_only=True)
class FullDisk:
    """The disk takes only some more blocks, for a while."""

    at_ms: int
    until_ms: int
    room: int = 0
    """How many bytes are left on the disk."""
    used_percent: int = 100
    """A number below 100 says what share of the disk is used; then ``room`` does not count."""

    def total(self, used: int) -> int:
        """Size of the disk, of which so many bytes are used."""
        return used + self.room if self.used_percent == 100 else used * 100 // self.used_percent


@attrs.frozen(kw_only=True)
class Begun:
    """A store that RocketMQ has begun: messages that wait for classic levels, some on their topic.

    It writes down how far the levels are every ten seconds: what it has brought to its topic since
    then stands there, and still before the offsets.
    """

    items: tuple[Item, ...]
    arrived: int
    """How many messages of each level, counted from the first, have arrived on their topic."""
    known: int | None
    """How many of each level the offsets have passed, at most ``arrived``; None: no file."""


@attrs.frozen(kw_only=True)
class NetworkPlan:
    """How slow connections are, and how often they go wrong."""

    delay_max_ms: int = 0
    pieces_max: int = 1
    window_size: int = 65_536
    """Bytes under way in one direction, beyond which nothing more is taken."""
    rough: float = 0.0
    """Share of the broker's reads and writes that fall short, and of polls that are mistaken."""
    breaks: float = 0.0
    """Share of its reads and writes behind which the connection breaks."""
    receive_size: int = 65_536
    """Setting of the broker: bytes of one reading."""
    unread_output_size_max: int = 64 << 20
    """Setting of the broker: from a 16th of it on a connection rests."""


@attrs.frozen(kw_only=True)
class Scenario:
    """Everything that one seed decides about a simulation."""

    seed: int
    duration_ms: int
    store: StoreOptions
    timer: TimerOptions
    network: NetworkPlan
    clients: tuple[ClientPlan, ...]
    lives: tuple[Life, ...]
    """All processes but the last one, which runs until everything has arrived."""
    clock_faults: tuple[ClockFault, ...] = ()
    disk_faults: tuple[DiskFault, ...] = ()
    full_disks: tuple[FullDisk, ...] = ()
    rots: tuple[Rot, ...] = ()
    cleanings_ms: tuple[int, ...] = ()
    """Moments at which the store cleans, besides those of its own interval."""
    sync_max_ms: int = 0
    """How many milliseconds a sync takes at most; 0: a sync takes no time."""
    reserves_blocks: bool = True
    """Whether the file system can reserve blocks."""
    delays_commits: bool = False
    """Whether transactions may ask for a moment."""
    begun: Begun | None = None
    """The store left by RocketMQ; None: the simulation begins without a store."""

    def settings_of(self, life: Life | None) -> Settings:
        """The settings of a process; None: of the last one."""
        own = None if life is None else life.settings
        return Settings(store=self.store, timer=self.timer) if own is None else own

    @property
    def is_damaged(self) -> bool:
        """Whether the disk damages files in this plan."""
        rests = [one.rest for one in self.lives if one.rest is not None]
        return bool(self.rots) or any(one.damages for one in rests)

    @property
    def poisons(self) -> int:
        """The records of the plan from which no timer can be made."""
        return sum(isinstance(step, Poison) for client in self.clients for step in client.steps)

    @property
    def schedules(self) -> list[Schedule]:
        """Every bulk job with every variant of its rows, once."""
        steps = [step for client in self.clients for step in client.steps]
        found = {(one.job, one.variant): one for one in steps if isinstance(one, Schedule)}
        return [found[name] for name in sorted(found)]

    @property
    def is_sync_flush(self) -> bool:
        """Whether every process syncs before it answers."""
        return all(self.settings_of(one).store.is_sync_flush for one in (None, *self.lives))
