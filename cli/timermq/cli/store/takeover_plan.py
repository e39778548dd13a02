"""The changes to a store when timermq serves it: the rows of ``timermq store plan``."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import attrs
import numpy as np

from timermq.broker.config_fields import ConfigTableError
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.broker.topic_validator import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from timermq.broker.transactions.recovery import recover as recover_transactions
from timermq.pipeline.admission.delay_level import DelayLevels
from timermq.pipeline.levels.level_outlook import level_outlooks
from timermq.pipeline.levels.level_queues import count_left
from timermq.pipeline.offline_store import OfflineStore
from timermq.pipeline.records.system_topics import OWN_TOPICS, TIMER_TOPIC
from timermq.pipeline.recovery.store_sizes import measure
from timermq.pipeline.recovery.timer_engine import TimerEngines
from timermq.timerlog import slot_times
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import PATH, DelayOffsets
from timermq.timerstore.disk import Disk
from timermq.timerstore.errors import StoreError
from timermq.timerstore.rocksdb_parts import found_parts
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_files import checkpoint_path
from timermq.wheel.wheel_snapshots import WHEEL_NAME

from ..configuration import Configuration
from ..offline_store import consumer_offsets
from ..output import Row

SIZES = (
    "mapped_file_size_commit_log",
    "mapped_file_size_consume_queue",
    "mapped_file_size_timer_log",
    "max_hash_slot_num",
    "max_index_num",
    "slots_total",
)
"""Settings that must be those of the files."""

APPEND_TOPIC = ": set appendTopicForTimerDeleteKey=true"
"""The setting with which RocketMQ 5.4 and later compares deletes as 5.3.3 does."""

INTERNAL_TOPICS = frozenset(
    {TIMER_TOPIC, *OWN_TOPICS, SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC}
)


@attrs.frozen(kw_only=True)
class Planned:
    """One row of the plan: something in the store, and what becomes of it."""

    part: str
    name: str
    count: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    overdue: int | None = None
    what: str
    """The content of the part, and its change."""
    blocks: bool = False
    """The store cannot be served like this."""

    def row(self) -> Row:
        """The row as a dictionary, for a table or JSON."""
        return attrs.asdict(self)


def end_rows(disk: Disk, root: str, *, is_served: bool) -> Iterator[Planned]:
    """Which program wrote the store, and whether it stopped in order; nothing is opened."""
    if is_served:
        yield Planned(part="store", name="served", what="stop its broker first", blocks=True)
    if disk.exists(f"{root}/abort"):
        what = (
            "it was killed, or is served now: the ends of log and queues are checked at the start"
        )
        yield Planned(part="store", name="not stopped", what=what)
    else:
        yield Planned(part="store", name="stopped", what="as its broker left it in order")
    engines = TimerEngines.of(disk, root)
    yield Planned(part="store", name="written by", what=_writer(disk, root, engines))
    yield Planned(part="store", name="timer engine", what=_engine(disk, root, engines))
    for one in found_parts(disk, root):
        yield Planned(part="store", name=one.directory, what=one.message(root), blocks=True)


def _writer(disk: Disk, root: str, engines: TimerEngines) -> str:
    """The program that wrote last, as far as the files tell."""
    has_wheel = disk.exists(f"{root}/timerwheel") or disk.exists(f"{root}/config/timercheck")
    try:
        if StoreCheckpoint.open(disk, checkpoint_path(root), read_only=True).durable_py is not None:
            return "timermq"
    except StoreError:
        pass
    if engines.is_5_4:
        return "RocketMQ 5.4 or later"
    return "RocketMQ 5" if has_wheel else "RocketMQ 4, or 5 without its wheel: a wheel is made"


def _engine(disk: Disk, root: str, engines: TimerEngines) -> str:
    """The engines that have left timers, and the files from which they are taken over."""
    if not disk.exists(f"{root}/{WHEEL_NAME}") and not engines.snapshots:
        return "none yet"
    if engines.has_timeline:
        return f"{engines.names()}: what waits is told by the commit log, which is read whole"
    if engines.snapshots:
        return f"{engines.names()}: the timer log tells what they show, and they are removed"
    return engines.names()


def setting_rows(disk: Disk, root: str, configuration: Configuration) -> Iterator[Planned]:
    """Settings that must be those of the files, each as it is set and as the files are."""
    set_to = {**attrs.asdict(configuration.store), **attrs.asdict(configuration.timer)}
    store, timer = measure(disk, root, configuration.store, configuration.timer, ())
    found = {**attrs.asdict(store), **attrs.asdict(timer)}
    for key in SIZES:
        fits = found[key] == set_to[key]
        what = "fits the files" if fits else f"is {set_to[key]}, and must be {found[key]}"
        yield Planned(part="setting", name=key, count=found[key], what=what, blocks=not fits)


def content_rows(offline: OfflineStore, now_ms: int) -> Iterator[Planned]:
    """The parts of the store, and their changes."""
    yield _messages(offline)
    yield from _timers(offline, now_ms)
    yield from _cancels(offline)
    yield from _precision(offline)
    yield from _levels(offline, now_ms)
    yield from _groups_and_transactions(offline)
    quarantined = offline.quarantine().active
    if quarantined:
        what = "stay until they are retried or dropped: timermq quarantine"
        yield Planned(part="quarantine", name="messages", count=quarantined, what=what)


def _messages(offline: OfflineStore) -> Planned:
    queues = [one for one in offline.store.queues() if one.topic not in INTERNAL_TOPICS]
    count = sum(one.max_offset - one.min_offset for one in queues)
    topics = len({one.topic for one in queues})
    what = f"{topics} topics, {len(queues)} queues: served as they are"
    return Planned(part="messages", name="stored", count=count, what=what)


def _timers(offline: OfflineStore, now_ms: int) -> Iterator[Planned]:
    moments, rolled = list[int](), 0
    for one in offline.pending():
        moments.append(one.deliver_ms)
        rolled += one.rolls > 0
    yield Planned(
        part="timers",
        name="pending",
        count=len(moments),
        first_ms=min(moments, default=None),
        last_ms=max(moments, default=None),
        overdue=sum(one <= now_ms for one in moments),
        what="each at its moment, overdue ones at once in the order of their moments",
    )
    if rolled:
        what = "of these: on their way, as long as need be"
        yield Planned(part="timers", name="rolled", count=rolled, what=what)


def _cancels(offline: OfflineStore) -> Iterator[Planned]:
    """How many cancels each version of RocketMQ would honour: they compare deletes in two ways."""
    forms = offline.delete_forms()
    if not forms.count:
        return
    for name, count, remedy in (
        ("RocketMQ 5.3.2, 5.3.3", forms.with_topic, ""),
        ("RocketMQ 5.4 and later", forms.with_key, APPEND_TOPIC),
    ):
        what = "honoured there; timermq honours all"
        lost = forms.count - count
        if lost:
            has_remedy = remedy and forms.with_topic == forms.count
            what += f"; {lost} more would be delivered there" + (remedy if has_remedy else "")
        yield Planned(part="cancels", name=name, count=count, what=what)


def _precision(offline: OfflineStore) -> Iterator[Planned]:
    """RocketMQ does not record the width of a slot: the times of its slots tell."""
    timer_log, set_ms = offline.timer_files.timer_log, offline.timer_options.timer_precision_ms
    width_ms = 0
    for _, units in timer_log.scan(timer_log.min_pos):
        width_ms = gcd(width_ms, int(np.gcd.reduce(slot_times(units))))
    if width_ms:
        fits = width_ms % set_ms == 0
        what = "fits the slots" if fits else f"is {set_ms}: set it as the Java broker had it"
        yield Planned(part="setting", name="timer_precision_ms", what=what, blocks=not fits)


@attrs.define
class _Level:
    """The messages of a level that move."""

    delay_ms: int
    """How long the first of them waits."""
    first_ms: int
    last_ms: int
    count: int = 0
    overdue: int = 0

    def add(self, deliver_ms: int, now_ms: int) -> None:
        self.first_ms, self.last_ms = min(self.first_ms, deliver_ms), max(self.last_ms, deliver_ms)
        self.count += 1
        self.overdue += deliver_ms <= now_ms


def _levels(offline: OfflineStore, now_ms: int) -> Iterator[Planned]:
    store = offline.store
    moving, done, faults = dict[int, _Level](), 0, 0
    fault = ""
    for one in level_outlooks(store, offline.timer_options):
        if one.message is not None:
            level = moving.setdefault(
                one.level, _Level(one.delay_ms, one.deliver_ms, one.deliver_ms)
            )
            level.add(one.deliver_ms, now_ms)
        elif one.fault is not None:
            faults, fault = faults + 1, fault or one.fault
        else:
            done += 1
    levels = DelayLevels.parse(offline.timer_options.message_delay_level)
    for number, level in sorted(moving.items()):
        yield _level(number, level, levels)
    if done:
        what = f"were delivered or moved after {PATH} was written: left out"
        yield Planned(part="level", name="done", count=done, what=what)
    if faults:
        what = f"the wheel cannot take them, they go to the quarantine: {fault}"
        yield Planned(part="level", name="quarantined", count=faults, what=what)
    if count_left(store) and DelayOffsets.load(store.disk, store.root) is None:
        what = "is missing or damaged: what was delivered is looked for in the log"
        yield Planned(part="file", name=PATH, what=what)


def _level(number: int, level: _Level, levels: DelayLevels) -> Planned:
    what = "move to the wheel, each at its moment"
    if level.delay_ms != levels.delay_ms(number):
        what += (
            f", {level.delay_ms} ms after it was stored: "
            "set message_delay_level as the broker had it"
        )
    return Planned(
        part="level",
        name=str(number),
        count=level.count,
        first_ms=level.first_ms,
        last_ms=level.last_ms,
        overdue=level.overdue,
        what=what,
    )


def _groups_and_transactions(offline: OfflineStore) -> Iterator[Planned]:
    try:
        offsets = consumer_offsets(offline.store)
    except (ConfigTableError, StoreError) as error:
        yield Planned(part="groups", name=ConsumerOffsetTable.path, what=str(error), blocks=True)
        return
    groups = {group for group, _, _ in offsets.all()} - {TRANS_GROUP}
    what = "go on where they were"
    yield Planned(part="groups", name="consumer groups", count=len(groups), what=what)
    count = len(recover_transactions(offline.store, offsets).open)
    if count:
        what = "stay open until their producers end them, or are asked"
        yield Planned(part="transactions", name="open", count=count, what=what)


def file_rows(offline: OfflineStore, levels_left: int) -> Iterator[Planned]:
    """The files written at the start, beyond those that serving adds."""
    decision = offline.timers.decision
    files = {
        "checkpoint": "RocketMQ's numbers stay, ours stand behind them",
        "config/timercheck": "the same",
    }
    if decision.rebuild_wheel:
        files["timerwheel"] = f"rebuilt from the timer log ({decision.label})"
    if not offline.store.recovery.last_exit_ok:
        files["consumequeue, index"] = "their ends are made again from the log"
    if levels_left:
        files[PATH] = "follows what moves to the wheel"
    for name, what in files.items():
        yield Planned(part="file", name=name, what=what)
