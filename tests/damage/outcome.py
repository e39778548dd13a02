"""Serves a damaged store until all is due, and says what came of it.

Truth is what the same store shows without damage. What a consumer sees is asked as a pull asks:
each queue from its start, offset by offset.

| outcome | what it means |
|---|---|
| same | consumers see what they see without damage |
| set aside | so, but for messages that are in quarantine, by name |
| withheld | so, but for records of a damaged sector that had arrived before; the log says so |
| refused | the start is refused with file and offset, and nothing has changed |
| breach | anything else |
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Generator, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import attrs
import structlog
import trio
import trio.testing

from fakes import VirtualClock
from judge.reader import LogReader, LogRecord
from simulation.staged_service import ROOT
from timermq.broker.topic_validator import TRANS_HALF_TOPIC
from timermq.broker.transactions.half_message import HalfMessageError
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.causes import causes
from timermq.simulator.disks.disk_damage import Image, read_image, write_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import SECTOR_SIZE
from timermq.simulator.seeded_scheduling import seeded_scheduling
from timermq.timerstore.boot_note import NAME as BOOT
from timermq.timerstore.errors import StoreError
from timermq.timerstore.file_family import FileFamily, family_of
from timermq.timerstore.record import RecordError, decode_record

from .damages import Case
from .process import FILES, Process, serving
from .stores import OVER_MS, Store, store_named

STARTS_MAX = 3
"""So often a process that ends by itself is started again."""
LONGEST_S = 600
"""Virtual seconds that a process has for all that is due and its stop."""
TOPICS = ("T", "P")
ROLLED_BACK = frozenset({"2"})
"""Transactions that their producer decides so, as often as it is asked."""
PLACE = re.compile(rf"{ROOT}/\S+: at \d+: expected ")
"""How a refusal begins."""
NO_CONTENT = frozenset({FileFamily.LOCK, FileFamily.ABORT, FileFamily.INDEX})
"""Files that a refused start may change: the index is read by no start, and follows the log."""


class Outcome(enum.Enum):
    """What came of a damage."""

    SAME = "same"
    SET_ASIDE = "set aside"
    WITHHELD = "withheld"
    REFUSED = "refused"
    BREACH = "breach"


@attrs.frozen
class Verdict:
    """What came of a damage, and in a breach what is broken."""

    outcome: Outcome
    broken: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class View:
    """What consumers and operators of a store see."""

    queues: dict[tuple[str, int], dict[int, str]]
    """Of each queue of a real topic: offset to the name of the record."""
    ends: dict[tuple[str, int], int]
    """Where each queue ends."""
    aside: Counter[int]
    """Positions of the records that are in quarantine."""
    in_doubt: Counter[int]
    """Of these, those that may have been delivered or taken back."""
    unreadable: int
    """Records of the quarantine that cannot be read."""
    early: int
    left: int
    """Messages that still wait."""

    @property
    def names(self) -> Counter[str]:
        """Every message that has arrived: unique key and body."""
        return Counter(name for queue in self.queues.values() for name in queue.values())

    @property
    def keys(self) -> Counter[str]:
        """Unique keys of all that has arrived."""
        return Counter(
            name.partition("=")[0] for queue in self.queues.values() for name in queue.values()
        )


def view_of(service: TimerMessageStore) -> View:
    """Read every queue of a real topic as a consumer does."""
    queues: dict[tuple[str, int], dict[int, str]] = {}
    ends: dict[tuple[str, int], int] = {}
    for queue in service.store.queues():
        if queue.topic in TOPICS:
            place = queue.topic, queue.queue_id
            queues[place] = dict(_read(service, *place, queue.min_offset, queue.max_offset))
            ends[place] = queue.max_offset
    statistics = service.statistics()
    entries = [entry for entry, _ in service.quarantine.entries()]
    return View(
        queues,
        ends,
        aside=Counter(one.origin_py for one in entries),
        in_doubt=Counter(one.origin_py for one in entries if one.reason == "in_doubt"),
        unreadable=service.quarantine.active - len(entries),
        early=statistics.early,
        left=statistics.pending,
    )


def _read(
    service: TimerMessageStore, topic: str, queue_id: int, first: int, end: int
) -> Iterator[tuple[int, str]]:
    at = first
    while at < end:
        found = service.store.get(topic, queue_id, at, count_max=1, bytes_max=1 << 20)
        after = max(found.next_offset, at + 1)
        for data in found.records:
            # What cannot be read is passed over, so that the record may be a later one.
            yield _content(data, topic, queue_id, range(at, after))
        at = after


def _content(data: bytes, topic: str, queue_id: int, places: range) -> tuple[int, str]:
    """Offset and name of a record, if it is whole and stands where it belongs."""
    try:
        record = decode_record(data)
    except RecordError:
        return places[0], "no record"
    is_there = (record.topic, record.queue_id) == (topic, queue_id)
    if not is_there or record.queue_offset not in places:
        return places[0], "a record of another place"
    body = record.body.partition(b":")[0].decode("utf-8", "replace")
    return record.queue_offset, f"{record.unique_id}={body}"


@cache
def _records(name: str) -> tuple[LogRecord, ...]:
    """All records of a sound store."""
    store = store_named(name)
    disk = MemoryDisk(now_ms=lambda: store.now_ms)
    write_image(disk, store.image)
    return tuple(LogReader(disk, f"{ROOT}/commitlog").read().records)


@attrs.frozen(eq=False)
class Served:
    """What came of serving a damaged store until all was due."""

    view: View | None = None
    refusal: str | None = None
    """Why the start was refused."""
    ends: tuple[str, ...] = ()
    """Of processes that ended by themselves: why."""
    lines: tuple[str, ...] = ()
    """What the program logged."""
    image: Image = attrs.Factory(dict[str, bytes])
    """The files in the end."""


@contextmanager
def quiet(lines: list[str]) -> Generator[None]:
    """Let what the program logs as a warning or worse go to a list, and no further."""

    def note(_: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method in ("warning", "error"):
            lines.append(repr(dict(event)))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[note], wrapper_class=structlog.make_filtering_bound_logger(0))
    try:
        yield
    finally:
        structlog.configure(**before)


def serve(store: Store, image: Image) -> Served:
    """Start a process over some files, and let it serve until all is due."""
    lines: list[str] = []
    clock = trio.testing.MockClock(autojump_threshold=0)
    with quiet(lines), seeded_scheduling(1):
        served = trio.run(_serve, store, image, clock=clock)
    return attrs.evolve(served, lines=tuple(lines))


async def _serve(store: Store, image: Image) -> Served:
    clock = VirtualClock(store.now_ms - int(trio.current_time() * 1000))
    disk = MemoryDisk(now_ms=clock.now_ms)
    write_image(disk, image)
    ends: list[str] = []
    for _ in range(STARTS_MAX):
        try:
            with trio.fail_after(LONGEST_S):
                async with serving(disk, clock, store.parts, stop=True) as process:
                    view = await _wait_and_view(process)
            return Served(view, None, tuple(ends), (), {})
        except Exception as error:
            found = list(causes(error))
            disk.process_kill()
            if _is_refusal(found[0]) and not ends:
                return Served(None, str(found[0]), (), (), read_image(disk, ROOT))
            ends.append(f"{type(found[0]).__name__}: {found[0]}")
    return Served(None, None, tuple(ends), (), {})


async def _wait_and_view(process: Process) -> View:
    """Let time pass until all is due, and end what is open."""
    await trio.sleep(max(OVER_MS - process.clock.now_ms(), 0) / 1000)
    transactions = process.transactions
    if transactions is not None:
        for name in transactions.open.names():
            try:
                half = transactions.newest(name)
            except HalfMessageError as error:
                transactions.set_aside(name, str(error))
                continue
            if half is not None and half.unique_key in ROLLED_BACK:
                transactions.rollback(half)
            elif half is not None:
                transactions.commit(half)
    await trio.sleep(1)
    return view_of(process.service)


@cache
def without_damage(name: str) -> View:
    """What a store shows without damage."""
    store = store_named(name)
    served = serve(store, store.image)
    assert served.view is not None, served.ends
    return served.view


def judge(case: Case) -> Verdict:
    """Do a damage, serve, and say what came of it."""
    store = store_named(case.store)
    image = case.damage.image(store)
    served = serve(store, image)
    if served.refusal is not None:
        return _judge_refusal(served.refusal, image, served.image)
    if served.view is None:
        return Verdict(Outcome.BREACH, (f"ends at every start: {served.ends[0]}",))
    broken = [f"ended once: {one}" for one in served.ends]
    truth, found = without_damage(case.store), served.view
    aside = _keys_aside(case, found.aside - truth.aside - found.in_doubt)
    doubtful = _keys_aside(case, found.in_doubt)
    broken += _wrong_messages(truth, found, aside)
    withheld = truth.keys - found.keys - aside - doubtful
    if withheld and not _is_told(withheld, case, served.lines):
        broken.append(f"lost: {sorted(withheld)}")
    gone = truth.aside - found.aside
    if gone and not (found.unreadable and case.damage.family is FileFamily.COMMIT_LOG):
        broken.append(f"gone from the quarantine: {sorted(gone)}")
    broken += _wrong_queues(case, truth, found)
    if broken:
        return Verdict(Outcome.BREACH, tuple(broken))
    if withheld or found.unreadable:
        return Verdict(Outcome.WITHHELD)
    return Verdict(Outcome.SET_ASIDE if aside or doubtful else Outcome.SAME)


def _keys_aside(case: Case, positions: Counter[int]) -> Counter[str]:
    """Which messages those are whose records are in quarantine; deletes are none."""
    keys = {one.position: one.unique_key for one in _records(case.store) if not one.is_delete}
    return Counter(keys[one] for one in positions if one in keys)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, StoreError) and PLACE.match(str(error)) is not None


def _judge_refusal(refusal: str, before: Image, after: Image) -> Verdict:
    changed = [
        path
        for path in sorted(before.keys() | after.keys())
        if family_of(ROOT, path) not in NO_CONTENT
        # What is refused above the store comes when that has noted the boot.
        and path != f"{ROOT}/{BOOT}"
        # An empty file holds nothing: whether it is there is no change.
        and before.get(path, b"") != after.get(path, b"")
    ]
    if changed:
        return Verdict(Outcome.BREACH, (f"refused ({refusal}), and changed {changed}",))
    return Verdict(Outcome.REFUSED)


def _wrong_messages(truth: View, found: View, aside: Counter[str]) -> Iterator[str]:
    names, known = found.names, truth.names
    for name, count in sorted(names.items()):
        if name not in known:
            yield f"arrived, and must not: {name}"
        elif count > known[name]:
            yield f"arrived {count} times: {name}"
        elif name.partition("=")[0] in aside:
            yield f"arrived and set aside: {name}"
    if found.early:
        yield f"{found.early} early"
    if found.left:
        yield f"{found.left} wait for ever"


def _wrong_queues(case: Case, truth: View, found: View) -> Iterator[str]:
    """What stood in a queue before stands at its offset, or nowhere; and no queue ends earlier."""
    for place, records in truth.queues.items():
        now = found.queues.get(place, {})
        for offset, name in _before(case.store).queues.get(place, {}).items():
            if now.get(offset, name) != name:
                yield f"{place} shows {now[offset]} at {offset}, expected {name}"
        missing = Counter(records.values()) - found.names
        if found.ends.get(place, 0) < truth.ends[place] - missing.total():
            yield f"{place} ends at {found.ends.get(place, 0)}, expected {truth.ends[place]}"


@cache
def _before(name: str) -> View:
    """What had arrived when a store was left."""
    store = store_named(name)
    with quiet([]), seeded_scheduling(1):
        return trio.run(_look, store, clock=trio.testing.MockClock(autojump_threshold=0))


async def _look(store: Store) -> View:
    clock = VirtualClock(store.now_ms)
    disk = MemoryDisk(now_ms=clock.now_ms)
    write_image(disk, store.image)
    async with serving(disk, clock, attrs.evolve(store.parts, bulk=False), stop=False) as process:
        return view_of(process.service)


def _is_told(keys: Counter[str], case: Case, lines: tuple[str, ...]) -> bool:
    """Whether each had arrived or was a half message, is damaged, and the program said so."""
    if case.damage.family is not FileFamily.COMMIT_LOG:
        return False
    damaged = [
        one
        for one in _records(case.store)
        if one.topic in (*TOPICS, TRANS_HALF_TOPIC) and _touches(case, one)
    ]
    is_told = any("passed over" in line for line in lines)
    return is_told and keys.keys() <= {one.unique_key for one in damaged}


def _touches(case: Case, record: LogRecord) -> bool:
    start = int(case.damage.path.rpartition("/")[2])
    sectors = case.damage.sectors(FILES.mapped_file_size_commit_log)
    return any(
        start + one < record.end and record.position < start + one + SECTOR_SIZE for one in sectors
    )
