"""Damage to files by a disk, and the effects that it may have: no others.

A damage is one flipped bit, a sector of zeros, an older state of a sector, or a sector in the place
of another. It is done where the store says that all is durable: what a kill or a power cut has left
behind that looks the same. Which records it touches is read from the log before it is done, so what
is excused is what the damage has met. While a process serves the damaged files it may give out what
it has not compared since: that is not judged before the next start, which finds what is damaged.

==============================  ====================================================================
what was damaged                what is excused
==============================  ====================================================================
the record of a message         it is in quarantine, by name, or passed over in a pull, and told;
                                what is asked about it finds it or not; its ending, if it is one of
                                a transaction
of one that has arrived         the same; the waiting one arrives in its place when the store is
                                repaired
of one that left damaged        a repair has put an empty one in its place
of a timer, under the process   if it leaves within a minute, before the next start: it stands on
that wrote it                   its topic as it was then, and is passed over or arrives so
of a cancel or a move           it does not take effect; or the message is in quarantine
the commit log                  a message is in quarantine as ``in_doubt``: it may have arrived
a table                         it is as it was saved before
anything                        a start is refused with file and offset, and has changed nothing
==============================  ====================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random

import attrs

from timermq.broker.config_fields import ConfigTableError
from timermq.client.history import Event
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.pipeline.stages.dequeue_get_message import WARM_MS
from timermq.timerlog import TimerCheckpoint
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.file_family import FileFamily, family_of
from timermq.timerstore.record import Record
from timermq.timerstore.store_checkpoint import StoreCheckpoint

from .disks.disk_damage import Damage, Image, draw_damage, read_image
from .disks.memory_disk import MemoryDisk
from .disks.memory_node import SECTOR_SIZE
from .rules.broken import Broken, Rule
from .scenario import DamageDraw
from .seen_messages import SeenMessages, place_of
from .segment_records import published, segment_records
from .staged.staged_message import LOST, first_id, name_of
from .steps import TOPICS

TOLD = frozenset(
    {
        "a damaged table is renamed",
        "a table is damaged, and its .bak",
        "cannot be read",
        "commit log damaged",
        "damaged half message",
        "damaged message passed over: store repair puts an empty one in its place",
        "damaged record",
        "damaged record of a transaction passed over",
        "damaged sector",
        "message quarantined",
        "messages are in quarantine",
        "quarantine record damaged: an entry, or what became of one, cannot be read",
        "timer log damaged",
        "timer log is damaged",
    }
)
"""Errors that a broker rightly logs of a damage."""
PASSED_OVER = frozenset(one for one in TOLD if "passed over" in one or "cannot be read" in one)
FOLLOWING = frozenset({FileFamily.ABORT, FileFamily.LOCK, FileFamily.INDEX, FileFamily.OTHER})
"""Files that a refused start may change: they hold nothing, or are read by no start."""
DRAWS_MAX = 50
"""Tries to find a place that is durable for sure."""
_SERVED_FROM = frozenset({FileFamily.COMMIT_LOG, FileFamily.CONSUME_QUEUE})
"""What consumers are given is read from these."""
_ASKED = frozenset({Rule.CANCEL, Rule.RESCHEDULE})


@attrs.define(eq=False, kw_only=True)
class DamageAtRest:
    """Damages files between processes, and knows which broken rules that excuses."""

    root: str
    disk: MemoryDisk
    now_ms: Callable[[], int]
    tell: Callable[[Event], None]
    """Writes an event into the history."""
    seen: SeenMessages
    counts: Counter[str]
    positions: dict[int, str] = attrs.field(factory=dict[int, str], init=False)
    """Positions of damaged records, each with the unique key of its message."""
    names: set[str] = attrs.field(factory=set[str], init=False)
    """Unique keys of messages with a damaged record of any kind."""
    arrived: set[str] = attrs.field(factory=set[str], init=False)
    """Unique keys of messages whose record on their topic was damaged."""
    uncompared: dict[int, Record] = attrs.field(factory=dict[int, Record], init=False)
    """Timers, as they were, by the positions of records that were damaged so soon behind their
    write that they may leave so: what a process wrote just now is not compared."""
    is_told: bool = attrs.field(default=False, init=False)
    """A broker has logged that it passed something over, or a store with damage was repaired."""
    families: set[FileFamily] = attrs.field(factory=set[FileFamily], init=False)
    """The families of files that were damaged so far."""
    _earlier: Image = attrs.field(factory=dict[str, bytes], init=False)
    _latest: list[Damage] = attrs.field(factory=list[Damage], init=False)
    """The damages since the newest start of a process."""
    _are_met: int = attrs.field(default=0, init=False)
    """How many of these were done before the start that is under way."""
    _before_start: Image = attrs.field(factory=dict[str, bytes], init=False)

    def do(self, wanted: DamageDraw, *, written_from: int | None = None) -> None:
        """Damage the files, if there is anything to damage.

        Args:
            wanted: What and where.
            written_from: A process has them open, and has written the log from this position on;
                None: no process has.
        """
        is_served = written_from is not None
        if not self.disk.exists(self.root):
            return
        image = read_image(self.disk, self.root)
        draw = Random(wanted.seed)  # noqa: S311 - a plan, not a secret
        earlier, self._earlier = self._earlier, image
        for _ in range(DRAWS_MAX):
            found = draw_damage(
                draw,
                image,
                self.root,
                families={wanted.family},
                kinds={wanted.kind},
                earlier=earlier,
            )
            is_units = is_served and wanted.family is FileFamily.TIMER_LOG
            is_durable = self._are_flushed if is_units else self._is_durable
            if found is None or is_durable(found, image):
                break
        else:
            return
        if found is None:
            return
        when = "damage while served" if is_served else "damage"
        self.counts[f"{when}: {found.family.value}, {found.kind.value}"] += 1
        self.families.add(found.family)
        if found.family is FileFamily.COMMIT_LOG:
            for record in _touched(found, image[found.path]):
                self._note(record)
                if written_from is not None and _is_warm(record, written_from):
                    self.uncompared[record.phy_offset] = record
            for record in _touched(found, _changed(found, image[found.path])):
                self.names.add(name_of(record.properties_dict()))
        self.seen.is_doubtful |= is_served and found.family in _SERVED_FROM
        self.disk.rot(found.path, found.offset, found.after)
        self._latest.append(found)

    def remember(self) -> None:
        """Keep the files as they are for the next damage, which may bring back an older state."""
        if self.disk.exists(self.root):
            self._earlier = read_image(self.disk, self.root)

    def begin_start(self) -> None:
        """A process is about to start over the files."""
        self._note_left_damaged()
        self._are_met = len(self._latest)
        if self._latest:
            self._before_start = read_image(self.disk, self.root)

    def end_start(self) -> None:
        """The process takes requests: what was damaged is known to it, or is met later."""
        del self._latest[: self._are_met]
        self.seen.is_doubtful = False

    def is_refused(self, error: BaseException) -> bool:
        """Whether a start ended rightly: something is damaged, and the error names the place."""
        is_named = isinstance(error, StoreFormatError | ConfigTableError)
        return bool(self._latest) and is_named

    def end_refused(self) -> Iterator[str]:
        """A start was refused; what is wrong with that. Then the files are as before the damage."""
        after = read_image(self.disk, self.root)
        is_table = any(one.family is FileFamily.CONFIG for one in self._latest)
        for path in sorted(self._before_start.keys() | after.keys()):
            was, found = self._before_start.get(path, b""), after.get(path, b"")
            family = family_of(self.root, path)
            if is_table and family is not FileFamily.CONFIG:
                continue  # tables are read behind the recovery of the store
            if family not in FOLLOWING and was != found:
                yield f"a refused start has changed {path}"
        self.counts["starts refused for damage"] += 1
        for damage in reversed(self._latest):
            self._undo(damage)
        self._latest.clear()

    def _undo(self, damage: Damage) -> None:
        """Put back what was damaged, unless it was written over since, as a repair does.

        What a repair has written is whole by itself: a mixture of both would be a damage of ours.
        """
        if not self.disk.exists(damage.path):
            return
        file = self.disk.open(damage.path, read_only=True)
        found = file.read(damage.offset, len(damage.before))
        file.close()
        places = list(zip(damage.before, damage.after, found, strict=False))
        if all(now == after for was, after, now in places if was != after):
            repaired = bytes(now if was == after else was for was, after, now in places)
            self.disk.rot(damage.path, damage.offset, repaired)

    def hear(self, event: str) -> bool:
        """Take note of an error in the log; whether a damage explains it."""
        self.is_told |= event in PASSED_OVER
        return bool(self.families) and event in TOLD

    def explains(self, broken: Broken, quarantined: Counter[str], in_doubt: Counter[str]) -> bool:
        """Whether a promise is not broken by the broker, but by what the disk has taken.

        Args:
            broken: What is broken.
            quarantined: Unique keys of all that is in quarantine.
            in_doubt: Of those that may have arrived.
        """
        name, rule = broken.message_id, broken.rule
        if rule is Rule.OFFSETS:
            place, _, _ = broken.expected.partition(" behind ")
            # A repair fills what a power cut has torn out of the log as well.
            if place in self.seen.fillers:
                return True
        if FileFamily.COMMIT_LOG not in self.families:
            return False
        if name in self.names:
            if rule is Rule.NOT_LOST:
                return bool(quarantined[name]) or self.is_told
            return rule in _ASKED or (rule in (Rule.ONCE, Rule.ORDER) and name in self.arrived)
        return bool(in_doubt[name]) and (rule is Rule.NOT_LOST or rule in _ASKED)

    def _note_left_damaged(self) -> None:
        """Find what the process before has brought to topics though it was damaged under it."""
        image = read_image(self.disk, f"{self.root}/{FileFamily.COMMIT_LOG.value}")
        for path, data in image.items() if self.uncompared else ():
            for record in segment_records(data, int(path.rpartition("/")[2])):
                was = self.uncompared.get(origin_of(record.prepared_transaction_offset))
                if was is None or record.topic not in TOPICS or _is_copy(record, was):
                    continue
                if record.phy_offset in self.positions:
                    continue  # it was damaged when it stood there
                self.positions[record.phy_offset] = name = name_of(was.properties_dict())
                self.arrived.add(name)
                self.seen.left_damaged.add(place_of(record))
                self.tell(published(attrs.evolve(record, properties=was.properties), self.now_ms()))
        self.uncompared.clear()

    def names_at(self, positions: Iterable[int]) -> Iterator[str]:
        """Unique keys of damaged records, which may not say them any more."""
        return (self.positions[one] for one in positions if one in self.positions)

    def is_expected_quarantined(self, origin_py: int, reason: str) -> bool:
        """Whether a record may be in quarantine: it was damaged, or may have been delivered."""
        is_doubt = reason == "in_doubt" and FileFamily.COMMIT_LOG in self.families
        return is_doubt or origin_py in self.positions

    def _is_durable(self, damage: Damage, image: Image) -> bool:
        """Whether it is where nothing looks as a kill or a power cut would have left it."""
        if f"{self.root}/{FileFamily.ABORT.value}" not in image:
            return True
        if damage.family is not FileFamily.COMMIT_LOG:
            return True
        page = image.get(f"{self.root}/{FileFamily.STORE_CHECKPOINT.value}", b"")
        durable_py = StoreCheckpoint.decode(page).durable_py if page else None
        start = int(damage.path.rpartition("/")[2])
        return start + damage.offset + SECTOR_SIZE <= (durable_py or 0)

    def _are_flushed(self, damage: Damage, image: Image) -> bool:
        """Whether units that a process has open are sealed, which they are with their flush."""
        page = image.get(f"{self.root}/{FileFamily.TIMER_CHECKPOINT.value}", b"")
        flush_pos = TimerCheckpoint.decode(page).last_timer_log_flush_pos if page else 0
        start = int(damage.path.rpartition("/")[2])
        return start + damage.offset + SECTOR_SIZE <= flush_pos

    def _note(self, record: Record) -> None:
        properties = record.properties_dict()
        if LOST in properties:
            return  # a repair has put it there: it tells of nothing
        name = name_of(properties)
        self.positions[record.phy_offset] = name
        self.names.add(name)
        cancelled_key = properties.get("TIMER_DEL_UNIQKEY")
        if cancelled_key is not None and record.topic == TIMER_TOPIC:
            self.names.add(first_id(cancelled_key.rpartition("+")[2]))
        if record.topic not in TOPICS:
            return
        self.arrived.add(name)
        self.seen.forget((record.topic, name), (record.queue_id, record.queue_offset))
        # It had arrived there before it was damaged.
        self.tell(published(record, self.now_ms()))


def _is_copy(record: Record, timer: Record) -> bool:
    """Whether a record on a topic is what the timer's sender sent."""
    is_same = record.properties_dict().items() <= timer.properties_dict().items()
    return is_same and record.body == timer.body


def _is_warm(record: Record, written_from: int) -> bool:
    """Whether a timer leaves so soon behind its write that nothing compares it then."""
    if record.phy_offset < written_from:
        return False
    deliver_ms = record.properties_dict().get("TIMER_DELIVER_MS", "")
    is_timer = record.topic == TIMER_TOPIC and deliver_ms.isdecimal()
    return is_timer and int(deliver_ms) - record.store_ms <= WARM_MS


def _changed(damage: Damage, data: bytes) -> bytes:
    """The file as it is with the damage."""
    end = damage.offset + len(damage.after)
    return data[: damage.offset] + damage.after + data[end:]


def _touched(damage: Damage, data: bytes) -> Iterator[Record]:
    """Records of the file with bytes in the damaged sector."""
    start = int(damage.path.rpartition("/")[2])
    first, end = damage.offset, damage.offset + SECTOR_SIZE
    for record in segment_records(data, start, end=end):
        if record.phy_offset + record.size > start + first:
            yield record
