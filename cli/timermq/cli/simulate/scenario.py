"""The plan of a simulation, as data: settings, clients with their steps, lives with their ends.

A seed is drawn into a plan (`draw`), a world carries it out (`world`), and a plan that breaks a
promise is made smaller (`shrinking`). Times are milliseconds of trio's clock since the beginning.
"""

from __future__ import annotations

import enum

import attrs

from timermq.pipeline.timer_options import TimerOptions
from timermq.timerstore.disk_damage import DamageKind
from timermq.timerstore.fault_plan import Operation
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.store_options import StoreOptions

from .process_disk import Place
from .steps import ClientPlan, Item, Poison, Schedule

SAVING_MS = 300_000
"""``Life.saving_ms`` of a life that lasts."""


class FaultKind(enum.Enum):
    """What may go wrong, or be there besides, as ``--faults`` names it."""

    KILL = "kill"
    """The process ends without a word; what it wrote stays."""
    POWER = "power"
    """And everything that was not synced is gone."""
    TORN = "torn"
    """Of what was not synced, some sectors reached the disk, others not."""
    CLOCK = "clock"
    """The wall clock steps, runs fast or slow, or stands still."""
    NETWORK = "network"
    """Connections are slow, break, lose answers, are closed by half."""
    EIO = "eio"
    """A sync or a write fails, and may have been done in part."""
    CLEAN = "clean"
    """Old segments go within the day, and the disk is nearly full."""
    SETTINGS = "settings"
    """Lives have other settings; the store is repaired between them."""
    POISON = "poison"
    """Records that no timer can be made of stand in the timer topic."""
    BULK = "bulk"
    """Bulk jobs, which are run again."""
    DELAYED = "delayed"
    """Transactions that ask for a moment."""
    ENOSPC = "enospc"
    """The disk is full for a while."""
    READ = "read"
    """A read fails."""
    BLOCKS = "blocks"
    """The file system cannot reserve blocks: they are written one after the other."""
    DAMAGE = "damage"
    """Bits are flipped between two processes, sectors are zero, old, or in another's place."""
    ROT = "rot"
    """The same while the broker runs, which may look for it."""
    LOST = "lost"
    """Files that can be made again are gone when a process begins."""
    ROCKETMQ = "rocketmq"
    """RocketMQ has begun the store, or has had it between two processes."""


class EndKind(enum.Enum):
    """How a life ends."""

    STOP = "stop"
    KILL = "kill"
    POWER = "power"
    TORN = "torn"


class Trigger(enum.Enum):
    """What the end waits for, once its time has come."""

    TIME = "time"
    AWAIT = "await"
    """The so many-th step of any task."""
    DISK = "disk"
    """The so many-th change of the disk."""


@attrs.frozen(kw_only=True)
class Settings:
    """Settings of a process."""

    store: StoreOptions
    timer: TimerOptions


class Loss(enum.Enum):
    """A file that is gone; all of it can be made again of the logs."""

    WHEEL = "wheel"
    TIMER_LOG = "timer log"
    """All of its segments."""
    TIMER_LOG_END = "end of the timer log"
    """Its newest segment."""
    TIMER_CHECKPOINT = "timer checkpoint"
    STORE_CHECKPOINT = "store checkpoint"
    INDEX = "index"
    SEALS = "seals"


@attrs.frozen(kw_only=True)
class DamageDraw:
    """One damage of the files."""

    kind: DamageKind
    seed: int
    """Decides where."""
    family: FileFamily


@attrs.frozen(kw_only=True)
class Rot:
    """One damage of the files of a process that runs; without one at that time there is none."""

    at_ms: int
    damage: DamageDraw
    skip: int = 0
    """Changes of the disk before it, for a minute at most."""


@attrs.frozen(kw_only=True)
class Rest:
    """What happens to the files between a process and the next one."""

    losses: tuple[Loss, ...] = ()
    damages: tuple[DamageDraw, ...] = ()
    is_rocketmq: bool = False
    """RocketMQ has had the store, and written its numbers; only if that was stopped in order."""


@attrs.frozen(kw_only=True)
class Life:
    """One process of the broker, from its start to its end."""

    end_ms: int
    kind: EndKind = EndKind.KILL
    trigger: Trigger = Trigger.TIME
    count: int = 1
    """With AWAIT and DISK: steps or changes still to come."""
    place: Place = Place.BEFORE
    """With DISK: where in the change."""
    torn: int = 0
    """With TORN: decides which sectors had reached the disk."""
    down_ms: int = 0
    """From the end to the next start."""
    saving_ms: int = SAVING_MS
    """Between two checkpoints of the timers, and two savings of committed offsets."""
    settings: Settings | None = None
    """None: those of the plan."""
    is_repaired: bool = False
    """The store is repaired before it begins."""
    rest: Rest | None = None
    """What happens to the files behind it; None: nothing."""


@attrs.frozen(kw_only=True)
class ClockFault:
    """The wall clock goes wrong."""

    at_ms: int
    step_ms: int = 0
    rate: float | None = None
    """None: as before."""


@attrs.frozen(kw_only=True)
class DiskFault:
    """One operation of the disk fails, some time behind ``at_ms``."""

    at_ms: int
    operation: Operation
    skip: int = 0
    """Operations of that kind that go well before."""
    written: int = 0
    """Bytes of a failing write that reach the file all the same."""


@attrs.frozen(kw_only=True)
class FullDisk:
    """The disk takes only some more blocks, for a while."""

    at_ms: int
    until_ms: int
    room: int = 0
    """Bytes that are left."""
    used_percent: int = 100
    """Below 100: how much of it is used then; what is left is not by ``room``."""

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
    """So many of each level, the first ones, are on their topic."""
    known: int | None
    """So many of each level are before the offsets, at most ``arrived``; None: there is no file."""


@attrs.frozen(kw_only=True)
class NetworkPlan:
    """How connections are."""

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
    """Everything that one seed decides."""

    seed: int
    duration_ms: int
    store: StoreOptions
    timer: TimerOptions
    network: NetworkPlan
    clients: tuple[ClientPlan, ...]
    lives: tuple[Life, ...]
    """All but the last one, which lasts until everything has arrived."""
    clock_faults: tuple[ClockFault, ...] = ()
    disk_faults: tuple[DiskFault, ...] = ()
    full_disks: tuple[FullDisk, ...] = ()
    rots: tuple[Rot, ...] = ()
    cleanings_ms: tuple[int, ...] = ()
    """When the store cleans, beside its own interval."""
    sync_max_ms: int = 0
    """How long a sync takes at most; 0: no time at all."""
    reserves_blocks: bool = True
    """Whether the file system can."""
    delays_commits: bool = False
    """Transactions may ask for a moment."""
    begun: Begun | None = None
    """What RocketMQ has left in the store; None: there is none yet."""

    def settings_of(self, life: Life | None) -> Settings:
        """Settings of a life; None: of the last one."""
        own = None if life is None else life.settings
        return Settings(store=self.store, timer=self.timer) if own is None else own

    @property
    def is_damaged(self) -> bool:
        """Whether the disk damages files."""
        rests = [one.rest for one in self.lives if one.rest is not None]
        return bool(self.rots) or any(one.damages for one in rests)

    @property
    def poisons(self) -> int:
        """Records that no timer can be made of."""
        return sum(isinstance(step, Poison) for client in self.clients for step in client.steps)

    @property
    def schedules(self) -> list[Schedule]:
        """Every bulk job with every variant of its rows, once."""
        steps = [step for client in self.clients for step in client.steps]
        found = {(one.job, one.variant): one for one in steps if isinstance(one, Schedule)}
        return [found[name] for name in sorted(found)]

    @property
    def is_sync_flush(self) -> bool:
        """Whether every life has the disk before it answers."""
        return all(self.settings_of(one).store.is_sync_flush for one in (None, *self.lives))
