"""What is drawn for the files between processes, and what a damage there excuses."""

from __future__ import annotations

from collections import Counter

import pytest

from timermq.client.history import Event, Publish
from timermq.pipeline.records.deduplication import origin_of
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.simulator.damage_at_rest import DamageAtRest
from timermq.simulator.disks.disk_damage import DamageKind
from timermq.simulator.disks.fault_plan import Operation
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.disks.memory_node import BLOCK_SIZE
from timermq.simulator.draw import draw_scenario
from timermq.simulator.plans.rest_plan import ROLLS_MAX
from timermq.simulator.plans.rot_plan import FAMILIES
from timermq.simulator.process_disk import BLOCKS_WRITTEN, Place, ProcessDisk
from timermq.simulator.rules.broken import Broken, Rule
from timermq.simulator.scenario import DamageDraw, FaultKind, Loss, Scenario
from timermq.simulator.seen_messages import SeenMessages
from timermq.simulator.segment_records import segment_records
from timermq.simulator.steps import Schedule, Transact, When
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.store_options import StoreOptions

ROOT = "/store"
FILES = StoreOptions(mapped_file_size_commit_log=4_096, mapped_file_size_consume_queue=400)
LOG = f"{ROOT}/commitlog/{0:020d}"


def drawn(*kinds: FaultKind, count: int = 100) -> list[Scenario]:
    """The plans of some seeds."""
    return [draw_scenario(seed, days=0.2, faults=kinds) for seed in range(count)]


def test_each_kind_is_in_some_plans_and_not_in_all() -> None:
    """A kind of fault is drawn where it is named, and only there."""
    kinds = (FaultKind.KILL, FaultKind.LOST, FaultKind.ROCKETMQ, FaultKind.DAMAGE)
    rests = [
        [life.rest for life in plan.lives if life.rest is not None]
        for plan in drawn(*kinds, count=200)
    ]
    losses = {loss for plan in rests for rest in plan for loss in rest.losses}
    families = {one.family for plan in rests for rest in plan for one in rest.damages}

    assert {Loss.WHEEL, Loss.TIMER_LOG, Loss.TIMER_CHECKPOINT, Loss.SEALS} <= losses
    assert {FileFamily.COMMIT_LOG, FileFamily.TIMER_CHECKPOINT, FileFamily.CONFIG} <= families
    assert [rest for plan in rests for rest in plan if rest.is_rocketmq]
    assert [] == [life for plan in drawn(FaultKind.KILL) for life in plan.lives if life.rest]


def test_a_timer_checkpoint_is_lost_or_damaged_while_that_costs_few_rolls() -> None:
    """Without it the wheel is read from its oldest slot, and all that waits rolls along."""
    plans = [
        draw_scenario(seed, days=1.0, faults=(FaultKind.KILL, kind))
        for kind in (FaultKind.LOST, FaultKind.DAMAGE)
        for seed in range(150)
    ]
    ends = [
        life.end_ms / plan.timer.roll_window_ms
        for plan in plans
        for life in plan.lives
        if life.rest is not None
        and (
            Loss.TIMER_CHECKPOINT in life.rest.losses
            or any(one.family is FileFamily.TIMER_CHECKPOINT for one in life.rest.damages)
        )
    ]

    assert len(ends) > 5
    assert max(ends) <= ROLLS_MAX


def test_rot_is_in_some_plans_and_comes_alone() -> None:
    """With every rate of the scrub, in every kind of file that a process has open."""
    kinds = (FaultKind.ROT, FaultKind.DAMAGE, FaultKind.LOST, FaultKind.ENOSPC)
    plans = drawn(*kinds)
    rotting = [plan for plan in plans if plan.rots]

    assert 0 < len(rotting) < len(plans)
    assert {0, 20_000, 4 << 20} == {one.store.scrub_bytes_per_second for one in rotting}
    assert {one for group in FAMILIES for one in group} == {
        rot.damage.family for plan in rotting for rot in plan.rots
    }
    assert [] == [life for plan in rotting for life in plan.lives if life.rest]
    assert [] == [plan for plan in rotting if plan.full_disks]


def test_rot_comes_right_before_a_change_or_not_at_all() -> None:
    """Once; a process that is over is not damaged any more."""
    memory = MemoryDisk()
    memory.make_dirs(ROOT)
    disk = ProcessDisk(memory)
    seen: list[int] = []
    disk.rot_at(2, lambda: seen.append(disk.operations))
    for name in "abc":
        disk.open(f"{ROOT}/{name}", create=True)
    disk.rot_now()
    assert [2] == seen
    disk.rot_at(1, lambda: seen.append(0))
    disk.die()
    disk.rot_now()
    assert [2] == seen


def test_what_is_asked_for_besides() -> None:
    """Bulk jobs, delayed transactions, begun stores, reads that fail, plain file systems."""
    plans = drawn(
        FaultKind.BULK, FaultKind.DELAYED, FaultKind.ROCKETMQ, FaultKind.READ, FaultKind.BLOCKS
    )
    steps = [step for plan in plans for client in plan.clients for step in client.steps]
    moments = {one.item.when for one in steps if isinstance(one, Transact)}

    assert {0, 1} == {one.variant for one in steps if isinstance(one, Schedule)}
    assert set(When) == moments
    assert {True, False} == {plan.begun is None for plan in plans}
    assert {True, False} == {plan.reserves_blocks for plan in plans}
    assert {Operation.READ} == {one.operation for plan in plans for one in plan.disk_faults}


def test_a_process_ends_among_blocks_that_are_written_one_by_one() -> None:
    """The blocks that were written before the end stay."""
    memory = MemoryDisk()
    memory.make_dirs(ROOT)
    memory.reserves_blocks = False
    disk = ProcessDisk(memory, reserves_blocks=False)
    memory.on_reserving = disk.reserving
    file = disk.open(f"{ROOT}/a", create=True)
    disk.crash_at(1, Place.MIDDLE, memory.process_kill)
    with pytest.raises(OSError, match="closed"):
        file.allocate(10 * BLOCK_SIZE)

    assert BLOCKS_WRITTEN * BLOCK_SIZE == memory.usage("/").used


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
