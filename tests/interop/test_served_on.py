"""A store that a killed Java broker left is served on: each pending timer on its millisecond."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from pathlib import Path

import pytest
import trio

from fakes import VirtualClock
from golden_stores import GoldenStore, GoldenStores, SentMessage
from simulation.staged_service import HOST, ROOT, Arrival, arrivals_everywhere, running
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import decode_record
from timermq.timerstore.store_options import StoreOptions

DAY_MS = 86_400_000

pytestmark = pytest.mark.slow


def loaded(store: GoldenStore, clock: VirtualClock) -> MemoryDisk:
    """A memory disk with the files of a store; virtual time and real threads do not go together."""
    return loaded_from(store.root, clock)


def loaded_from(root: str, clock: VirtualClock) -> MemoryDisk:
    """The same of a directory."""
    disk = MemoryDisk(now_ms=clock.now_ms)
    for folder, _, names in os.walk(root):
        target = ROOT + folder.removeprefix(root)
        disk.make_dirs(target)
        for name in names:
            data = (Path(folder) / name).read_bytes()
            file = disk.open(f"{target}/{name}", create=True)
            file.truncate(len(data))
            file.write(0, data)
            disk.sync_now(file)
        disk.sync_dir_now(target)
    return disk


FILES = StoreOptions(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=1000,
    max_hash_slot_num=100,
    max_index_num=400,
    file_reserved_time_hours=24 * 30,
    flush_interval_commit_log_ms=60_000,
    flush_interval_consume_queue_ms=60_000,
)

JAVAS_TIMERS = TimerOptions(
    mapped_file_size_timer_log=5200,
    clock_check_interval_ms=DAY_MS,
    timer_flush_interval_ms=60_000,
)


def said(
    topic: str, queue_id: int | None, flag: int, body_sha256: str, own: dict[str, str]
) -> object:
    """What a consumer can tell of a message; of its properties those that do not steer timers."""
    kept = {name: text for name, text in own.items() if not name.startswith(("TIMER_", "DELAY"))}
    return topic, queue_id, flag, body_sha256, kept


def as_sent(one: SentMessage) -> object:
    """The message as its producer sent it."""
    return said(one.topic, one.queue_id, one.flag, one.body_sha256, one.properties)


def as_delivered(store: MessageStore, arrival: Arrival, sent: SentMessage) -> object:
    """The same of its record, of the properties those that the producer sent."""
    log = store.commit_log
    (at, size) = next(iter(log.scan(arrival.phy_offset, check_crc=True)))
    record = decode_record(log.read(at, size))
    found = record.properties_dict()
    return said(
        record.topic,
        record.queue_id,
        record.flag,
        hashlib.sha256(decompress_body(record)).hexdigest(),
        {name: found.get(name, "gone") for name in sent.properties},
    )


def changed_on_the_way(
    store: MessageStore, found: list[Arrival], sent: list[SentMessage]
) -> list[tuple[object, object]]:
    """Messages that did not arrive as they were sent: topic, queue, flag, body, properties."""
    arrived = {one.unique_id: one for one in found}
    pairs = [(as_sent(one), as_delivered(store, arrived[one.msg_id], one)) for one in sent]
    return [(before, after) for before, after in pairs if before != after]


def poison(disk: MemoryDisk, clock: VirtualClock) -> int:
    """Messages that a client of Java's sent straight into its timer topic; how many."""
    texts = [
        "UNIQ_KEY\x01P1\x02TIMER_DELIVER_MS\x011\x02",
        f"UNIQ_KEY\x01P2\x02TIMER_OUT_MS\x01{clock.now_ms() // 1000 * 1000}\x02",
        "UNIQ_KEY\x01P3\x02TIMER_OUT_MS\x010\x02REAL_TOPIC\x01no topic\x02REAL_QID\x010\x02",
    ]
    store = MessageStore.open(disk, ROOT, FILES, now_ms=clock.now_ms, store_host=HOST)
    for result in store.put([Message(TIMER_TOPIC, 0, b"x", text.encode()) for text in texts]):
        assert result.status.is_stored, result.remark
    disk.process_kill()
    return len(texts)


@pytest.mark.parametrize(
    ("outage_ms", "is_poisoned"),
    [(1_000, False), (10 * DAY_MS, False), (1_000, True)],
    ids=["at once", "after ten days", "poisoned"],
)
async def test_killed_java_store(
    autojump_clock: trio.testing.MockClock,
    golden_stores: GoldenStores,
    outage_ms: int,
    is_poisoned: bool,
) -> None:
    """What was pending arrives at its moment, once, as it was sent.

    So does what Java's recovery delivers twice. Messages without a real topic in front of it are
    quarantined; Java stops at the first of them.
    """
    store = golden_stores["g3"]
    manifest = store.manifest
    start_ms = manifest.times["stopSignalMs"] + outage_ms
    clock = VirtualClock(start_ms)
    disk = loaded(store, clock)
    end_py = manifest.state.max_phy_offset
    poisons = poison(disk, clock) if is_poisoned else 0
    async with running(
        disk,
        clock,
        store_options=FILES,
        timer_options=JAVAS_TIMERS,
    ) as service:
        await trio.sleep(3 * 86_400)
        found = [
            one
            for one in arrivals_everywhere(service.store)
            if one.phy_offset >= end_py and one.topic not in (TIMER_TOPIC, *OWN_TOPICS)
        ]
        statistics = service.statistics()
        waited = [one for one in manifest.messages if one.state.startswith("pending")]
        changed = changed_on_the_way(service.store, found, waited)
    arrived: defaultdict[str, list[Arrival]] = defaultdict(list)
    for one in found:
        arrived[one.unique_id].append(one)
    pending = {one.msg_id: one for one in waited}
    expected_ms = {
        key: max(one.deliver_ms or 0, start_ms) for key, one in pending.items() if one.deliver_ms
    }

    assert len(pending) > 90
    assert dict.fromkeys(pending, 1) == {key: len(rows) for key, rows in arrived.items()}
    assert {} == {
        key: (arrived[key][0].stored_ms, moment)
        for key, moment in expected_ms.items()
        if arrived[key][0].stored_ms != moment
    }
    assert [] == changed
    assert (0, poisons) == (statistics.early, statistics.quarantined)


async def test_classic_levels(
    autojump_clock: trio.testing.MockClock, golden_stores: GoldenStores
) -> None:
    """Each message that waits for a level arrives at store time and delay, once, and no other."""
    store = golden_stores["g2"]
    manifest = store.manifest
    start_ms = manifest.times["stopSignalMs"] + 1_000
    clock = VirtualClock(start_ms)
    disk = loaded(store, clock)
    async with running(disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS) as service:
        await trio.sleep(3 * 3_600)
        found = [
            one
            for one in arrivals_everywhere(service.store)
            if one.phy_offset >= manifest.state.max_phy_offset
            and one.topic not in (TIMER_TOPIC, *OWN_TOPICS)
        ]
        statistics = service.statistics()
        pending = [one for one in manifest.messages if one.state == "pending"]
        changed = changed_on_the_way(service.store, found, pending)
    units = [
        unit
        for queue in manifest.state.queues
        if queue.topic == SCHEDULE_TOPIC
        for unit in queue.units
    ]
    due_ms = {position: moment for _, position, _, moment in units}
    expected = sorted(
        (one.msg_id, one.topic, max(due_ms[one.held[-1].phy_offset], start_ms))
        for one in pending
        if one.held[-1].topic == SCHEDULE_TOPIC
    )

    assert len(expected) > 50
    assert expected == sorted(
        (one.unique_id, one.topic, one.stored_ms)
        for one in found
        if one.unique_id in {msg_id for msg_id, _, _ in expected}
    )
    assert sorted(one.msg_id for one in pending) == sorted(one.unique_id for one in found)
    assert [] == changed
    assert (0, 0, 0) == (statistics.early, statistics.quarantined, statistics.levels_left)
