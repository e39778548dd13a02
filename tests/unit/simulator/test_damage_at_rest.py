"""What a damage between processes excuses, and what a refused start leaves."""

from __future__ import annotations

from collections import Counter

import pytest

from timermq.client.history import Event, Publish
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.simulator.damage_at_rest import DamageAtRest
from timermq.simulator.disks.disk_damage import DamageKind
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.rules.broken import Broken, Rule
from timermq.simulator.scenario import DamageDraw
from timermq.simulator.seen_messages import SeenMessages
from timermq.simulator.segment_records import segment_records
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import StoreOptions

ROOT = "/store"

FILES = StoreOptions(mapped_file_size_commit_log=4_096, mapped_file_size_consume_queue=400)

LOG = f"{ROOT}/commitlog/{0:020d}"


def left_store() -> MemoryDisk:
    """Three messages of topic A, stopped in order as far as damage is concerned."""
    disk = MemoryDisk()
    store = MessageStore.open(
        disk, ROOT, FILES, now_ms=lambda: 5, store_host=pack_host("127.0.0.1", 1)
    )
    for name in ("M000001", "M000002", "M000003"):
        text = f"UNIQ_KEY\x01{name}\x02".encode()
        store.put([Message("A", 0, b"x" * 600, text)])
    store.abandon()
    disk.process_kill()
    disk.remove(f"{ROOT}/abort")
    return disk


def test_records_behind_damage_are_read() -> None:
    """The segment is passed over up to the next good one."""
    disk = left_store()
    data = disk.open(LOG).read(0, 4_096)
    first = next(segment_records(data, 0))
    zeros = bytes(first.size)

    assert ["M000002", "M000003"] == [
        one.unique_id for one in segment_records(zeros + data[first.size :], 0)
    ]


def damaged(seed: int) -> tuple[DamageAtRest, list[Event]]:
    """A store with a sector of its log zeroed, and what the history says of it."""
    told: list[Event] = []
    damage = DamageAtRest(
        root=ROOT,
        disk=left_store(),
        now_ms=lambda: 7,
        tell=told.append,
        seen=SeenMessages(is_sync=True),
        counts=Counter[str](),
    )
    damage.do(DamageDraw(kind=DamageKind.ZERO, seed=seed, family=FileFamily.COMMIT_LOG))
    return damage, told


def broken(rule: Rule, name: str) -> Broken:
    """A breach of a rule by a message."""
    return Broken(rule=rule, message_id=name, expected="", found="", lines=())


def test_what_is_excused_is_what_was_damaged() -> None:
    """A message with a record in the sector, once that is told; no other one, and never early."""
    damage, told = damaged(1)
    name, *_ = damage.names
    other, *_ = {"M000001", "M000002", "M000003"} - damage.names
    nothing = Counter[str]()

    assert damage.names == {one.message_id for one in told if isinstance(one, Publish)}
    assert not damage.explains(broken(Rule.NOT_LOST, name), nothing, nothing)
    assert damage.explains(broken(Rule.NOT_LOST, name), Counter([name]), nothing)
    assert not damage.explains(broken(Rule.NOT_LOST, other), nothing, nothing)
    assert damage.explains(broken(Rule.NOT_LOST, other), nothing, Counter([other]))
    assert not damage.explains(broken(Rule.NOT_BEFORE, name), Counter([name]), nothing)
    assert damage.hear("damaged message passed over: store repair puts an empty one in its place")
    assert damage.explains(broken(Rule.NOT_LOST, name), nothing, nothing)


@pytest.mark.parametrize(
    ("deliver_ms", "written_from", "is_left_damaged"),
    [
        (60_005, 0, True),
        (60_006, 0, True),
        (60_005, 1, True),
        (60_005, None, True),
        (60_005, 0, False),
    ],
    ids=["not compared", "waits longer", "of an earlier process", "not served", "left before"],
)
def test_a_timer_that_left_damaged_is_not_judged(
    deliver_ms: int, written_from: int | None, is_left_damaged: bool
) -> None:
    """If the process that wrote it does not compare it; the history has it as it was sent."""
    told: list[Event] = []
    damage = DamageAtRest(
        root=ROOT,
        disk=MemoryDisk(),
        now_ms=lambda: 7,
        tell=told.append,
        seen=SeenMessages(is_sync=True),
        counts=Counter[str](),
    )
    store = MessageStore.open(
        damage.disk, ROOT, FILES, now_ms=lambda: 5, store_host=pack_host("127.0.0.1", 1)
    )
    sent = b"UNIQ_KEY\x01M000001\x02TIMER_DELIVER_MS\x01%d\x02" % deliver_ms
    store.put([Message(TIMER_TOPIC, 0, b"x" * 3_000, sent)])
    damage.disk.remove(f"{ROOT}/abort")
    wanted = DamageDraw(kind=DamageKind.ZERO, seed=1, family=FileFamily.COMMIT_LOG)
    damage.do(wanted, written_from=written_from)
    left = sent.replace(b"UNIQ", b"UOIQ") if is_left_damaged else sent
    store.put([Message("A", 0, b"x" * 3_000, left, prepared_offset=origin_of(0))])
    damage.begin_start()
    is_excused = (deliver_ms, written_from, is_left_damaged) == (60_005, 0, True)

    assert damage.seen.left_damaged == ({"A/0@0"} if is_excused else set())
    assert [("M000001", "A", 0, 60_005)] * is_excused == [
        (one.message_id, one.topic, one.offset, one.deliver_ms)
        for one in told
        if isinstance(one, Publish)
    ]


def test_a_start_is_refused_by_place_and_leaves_all_as_it_was() -> None:
    """Then the damage is undone; a start that has changed something is told."""
    damage, _ = damaged(1)
    before = damage.disk.open(LOG).read(0, 4_096)
    damage.begin_start()
    error = StoreFormatError(LOG, 0, "a record", "zeros")

    assert damage.is_refused(error)
    assert not damage.is_refused(ValueError())
    damage.disk.rot(LOG, 4_000, b"x")
    assert [f"a refused start has changed {LOG}"] == list(damage.end_refused())
    assert before != damage.disk.open(LOG).read(0, 4_096)
    assert not damage.is_refused(error)


def test_a_refused_start_undoes_what_was_damaged_and_no_more() -> None:
    """What was written beside it stays."""
    damage, _ = damaged(1)
    whole, zeroed = left_store().open(LOG).read(0, 4_096), damage.disk.open(LOG).read(0, 4_096)
    damage.disk.rot(LOG, 4_000, b"x")
    damage.begin_start()

    assert whole != zeroed
    assert [] == list(damage.end_refused())
    assert whole[:4_000] + b"x" + whole[4_001:] == damage.disk.open(LOG).read(0, 4_096)


def test_what_was_written_over_a_damage_is_not_mixed_with_what_stood_there() -> None:
    """A repair that was cut off: its zeros are its own, though the damage had brought zeros too."""
    damage, _ = damaged(1)
    whole, zeroed = left_store().open(LOG).read(0, 4_096), damage.disk.open(LOG).read(0, 4_096)
    first = next(at for at in range(4_096) if whole[at] != zeroed[at])
    damage.disk.rot(LOG, first, b"repaired")
    written = damage.disk.open(LOG).read(0, 4_096)
    damage.begin_start()

    assert [] == list(damage.end_refused())
    assert written == damage.disk.open(LOG).read(0, 4_096)
