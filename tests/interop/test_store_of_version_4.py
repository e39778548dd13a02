"""A store that a killed RocketMQ 4.9 left is served on: it has no wheel, and old level offsets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from broker_rig import BROKER, open_broker
from fakes import VirtualClock
from golden_stores import GOLDEN, GoldenStores
from interop.test_served_on import FILES, JAVAS_TIMERS, loaded_from
from simulation.staged_service import ROOT, arrivals, arrivals_everywhere, running
from timermq.broker.broker import Broker
from timermq.broker.consumer_offset import ConsumerOffsetTable
from timermq.pipeline.admission.delay_level import DelayLevels
from timermq.remoting import Command
from timermq.timerstore.config_file import load_json
from timermq.timerstore.delay_levels import SCHEDULE_TOPIC
from timermq.timerstore.delay_offset import DelayOffsets
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.record import Record, decode_record
from transaction_rig import (
    COMMIT,
    END_TRANSACTION,
    ROLLBACK,
    checks,
    joined,
    log_records,
    reply_ext,
)

pytestmark = pytest.mark.slow


class Sent(msgspec.Struct, rename="camel"):
    """A message as its producer saw it."""

    body: str
    level: int
    msg_id: str


class Manifest(msgspec.Struct, rename="camel"):
    """What the producer and the consumer saw."""

    times: Mapping[str, int]
    settings: Mapping[str, str]
    topic: str
    group: str
    committed: list[Mapping[str, int]]
    messages: list[Sent]


MANIFEST = msgspec.json.decode((GOLDEN / "g6.manifest.json").read_bytes(), type=Manifest)
STEERING = {"REAL_TOPIC", "REAL_QID", "DELAY", "TIMER_DELIVER_MS"}
"""Properties that say when and where, and how a message came: not the producer's."""
NOT_VISIBLE = {"open"}
"""The half message that no producer has ended."""


def told(record: Record, *, topic: str, queue_id: int) -> object:
    """All that a consumer can tell of a message."""
    own = record.properties_dict()
    kept = {name: own[name] for name in own if name not in STEERING}
    return (
        *(topic, queue_id, record.body, record.flag, record.sys_flag, kept),
        *(record.born_ms, record.born_host, record.reconsume_times),
    )


def changed_on_the_way(store: MessageStore) -> list[tuple[object, object]]:
    """Messages of levels that did not arrive as RocketMQ had stored them."""
    log = store.commit_log
    records = [
        decode_record(log.read(at, size)) for at, size in log.scan(log.min_offset, check_crc=True)
    ]
    arrived = {one.body: one for one in records if one.topic == MANIFEST.topic}
    pairs: list[tuple[object, object]] = []
    for one in (one for one in records if one.topic == SCHEDULE_TOPIC):
        own, found = one.properties_dict(), arrived[one.body]
        pairs.append(
            (
                told(one, topic=own["REAL_TOPIC"], queue_id=int(own["REAL_QID"])),
                told(found, topic=found.topic, queue_id=found.queue_id),
            )
        )
    assert len(pairs) == sum(one.level > 0 for one in MANIFEST.messages)
    return [(before, after) for before, after in pairs if before != after]


@pytest.mark.parametrize("outage_ms", [0, 4 * 3_600_000], ids=["at once", "after four hours"])
async def test_each_message_once(
    autojump_clock: trio.testing.MockClock,
    golden_stores: GoldenStores,
    tmp_path: Path,
    outage_ms: int,
) -> None:
    """Of each level at store time and delay; what was delivered before the kill does not return."""
    clock = VirtualClock(MANIFEST.times["stopSignalMs"] + outage_ms)
    start_ms = clock.now_ms()
    disk = loaded_from(golden_stores.unpack_copy("g6", tmp_path), clock)
    assert not disk.exists(f"{ROOT}/timerwheel")
    before = DelayOffsets.load(disk, ROOT)
    async with running(disk, clock, store_options=FILES, timer_options=JAVAS_TIMERS) as service:
        await trio.sleep(3 * 3_600)
        found = arrivals(service.store, MANIFEST.topic)
        waited = {
            one.body: one.stored_ms
            for one in arrivals_everywhere(service.store)
            if one.topic == SCHEDULE_TOPIC
        }
        statistics = service.statistics()
        changed = changed_on_the_way(service.store)
    levels = DelayLevels.parse(MANIFEST.settings["messageDelayLevel"])
    due_ms = {
        one.body: waited[one.body] + levels.delay_ms(one.level)
        for one in MANIFEST.messages
        if one.level
    }
    late = {
        one.body: one.stored_ms
        for one in found
        if one.body in due_ms
        and one.stored_ms >= start_ms
        and one.stored_ms != max(due_ms[one.body], start_ms)
    }

    assert {1: 3, 2: 3, 3: 3} == (None if before is None else before.offsets)
    assert sorted({one.body for one in MANIFEST.messages} - NOT_VISIBLE) == sorted(
        one.body for one in found
    )
    assert {} == late
    assert [] == changed
    assert all(one.stored_ms >= due_ms.get(one.body, 0) for one in found)
    assert (0, 0, 0) == (statistics.early, statistics.quarantined, statistics.levels_left)
    after = DelayOffsets.load(disk, ROOT)
    assert dict.fromkeys(range(1, 19), 3) | dict.fromkeys(range(1, 5), 4) == (
        None if after is None else after.offsets
    )


def test_consumer_offsets(golden_stores: GoldenStores, tmp_path: Path) -> None:
    """The group goes on where it was."""
    store = golden_stores.unpack_copy("g6", tmp_path)
    table = ConsumerOffsetTable(now_ms=lambda: 0, version_step=1)
    table.load(load_json(OsDisk(), f"{store}/{table.path}"))

    assert {one["queueId"]: one["offset"] for one in MANIFEST.committed} == table.offsets(
        group=MANIFEST.group, topic=MANIFEST.topic
    )


@pytest.mark.parametrize(("decision", "expected"), [(COMMIT, 1), (ROLLBACK, 0)])
async def test_the_open_transaction(
    autojump_clock: trio.testing.MockClock,
    golden_stores: GoldenStores,
    tmp_path: Path,
    decision: int,
    expected: int,
) -> None:
    """Its producer is asked, and ends it once, whatever comes behind."""
    clock = VirtualClock(MANIFEST.times["stopSignalMs"] + 60_000)
    disk = loaded_from(golden_stores.unpack_copy("g6", tmp_path), clock)

    def opened() -> Broker:
        return open_broker(
            clock, disk=disk, options=BROKER, store_options=FILES, timer_options=JAVAS_TIMERS
        )

    broker = opened()
    (half,) = [one for one in log_records(broker) if one.body == b"open"]
    (sent,) = [one for one in MANIFEST.messages if one.body == "open"]
    group = half.properties_dict()["PGROUP"]
    producer = joined(broker.tables.clients, group=group)
    await broker.transaction_check.check()
    (asked,) = checks(producer)
    ext = {**reply_ext(asked, decision), "producerGroup": group}
    codes: list[int] = []
    for _ in range(2):
        (answer,) = broker.dispatcher.handle(producer.session, [Command(END_TRANSACTION, ext=ext)])
        assert isinstance(answer, Command)
        codes.append(answer.code)
    disk.process_kill()
    again = opened()
    await trio.lowlevel.checkpoint()
    arrived = [one for one in log_records(again) if one.topic == MANIFEST.topic]

    assert decode_record(asked.body).unique_id == half.unique_id
    assert half.unique_id == sent.msg_id
    assert codes == [0, 0]
    assert [one.body for one in arrived].count(b"open") == expected
    assert [one.body for one in arrived].count(b"committed") == 1
    assert again.transactions.open.names() == []
