"""What the audit's SQL says of records is what the form for one record says."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import trio
from pyspark.sql import SparkSession

from fakes import START_MS
from simulation.staged_service import QUIET_FILES, ROOT
from spark.audited_stores import write_files
from timermq.pipeline.records.cancel_mark import name_in_delete, names_of
from timermq.pipeline.records.deduplication import origin_in, origin_of
from timermq.pipeline.records.foreign_key import foreign_key_in
from timermq.pipeline.records.record_effect import Effect, effect_of
from timermq.pipeline.records.system_topics import CANCEL_MARK_TOPIC, QUARANTINE_TOPIC
from timermq.pipeline.records.timer_properties import DELETE, DELETE_NAME, DELETE_ORDER, DEQUEUE
from timermq.pipeline.records.timer_record import TIMER_TOPIC, timer_tail
from timermq.pipeline.spark import read_table
from timermq.pipeline.spark.jobs.audit.by_key import (
    FOREIGN_COLUMNS,
    TIMER_COLUMNS,
    foreign_ends,
    named_timers,
)
from timermq.pipeline.spark.jobs.audit.facts import (
    LOG_COLUMNS,
    Limits,
    by_position,
    effect_sql,
    record_facts,
)
from timermq.pipeline.spark.jobs.audit.rules import IS_TIMER
from timermq.simulator.disks.disk_damage import read_image
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.log_record import read_log_record
from timermq.timerstore.message import Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.properties import find
from timermq.timerstore.record import record_properties

SLOT_MS = START_MS // 1000 * 1000 + 10_000
FIRST = timer_tail(deliver_ms=SLOT_MS + 7, out_ms=SLOT_MS, topic="T", queue_id=3)
ROLLED = timer_tail(
    deliver_ms=SLOT_MS + 7, out_ms=SLOT_MS, topic="T", queue_id=3, rolls=2, order_py=0
)
JAVA = b"REAL_QID\x013\x02REAL_TOPIC\x01T\x02TIMER_OUT_MS\x01%d\x02" % SLOT_MS

PLACES = (
    (TIMER_TOPIC, 0),
    (TIMER_TOPIC, 1),
    ("T", 3),
    ("%RETRY%group", 0),
    (QUARANTINE_TOPIC, 0),
    (CANCEL_MARK_TOPIC, 0),
)
TAILS = (FIRST, ROLLED, JAVA, JAVA + b"TIMER_ROLL_TIMES\x012\x02")
NAMED = (
    b"",
    DELETE + b"u\x02",
    DELETE + b"T+u\x02" + DELETE_ORDER + b"0\x02",
    DELETE + b"?\x02",
)
ORIGINS = (0, origin_of(0))
HANDLED = (b"", b"UNIQ_KEY\x01u\x02" + DEQUEUE + b"17\x02")


def messages() -> list[Message]:
    """Records of all kinds: where they stand, what they say, and what they name."""
    return [
        Message(topic, queue_id, b"b", handled + named + tail, prepared_offset=origin)
        for (topic, queue_id), tail, named, origin, handled in product(
            PLACES, TAILS, NAMED, ORIGINS, HANDLED
        )
    ]


async def stored(directory: Path, sent: list[Message]) -> tuple[str, dict[int, bytes]]:
    """A store with some messages, never served; and its records by position."""
    disk = MemoryDisk(now_ms=lambda: START_MS)
    store = MessageStore.open(disk, ROOT, QUIET_FILES, now_ms=disk.now_ms, store_host=bytes(8))
    assert all(one.status.is_stored for one in store.put(sent))
    records = {
        at: store.commit_log.read(at, size) for at, size in store.commit_log.scan(0, check_crc=True)
    }
    await store.aclose()
    return str(write_files(read_image(disk, ROOT), directory)), records


def test_effects_and_foreign_ends(spark: SparkSession, tmp_path: Path) -> None:
    """Each record does the same to its origin, and RocketMQ's ends have the same keys."""
    store, records = trio.run(stored, tmp_path, messages())
    rows = {at: read_log_record(record) for at, record in records.items()}
    effects = {at: effect_of(one.topic, one.queue_id, one.properties) for at, one in rows.items()}
    keys = [foreign_key_in(one) for one in records.values() if origin_in(one) is None]
    ends = Counter(
        (topic.decode(), unique_key.decode(), int(out), int(rolls))
        for topic, unique_key, out, rolls in filter(None, keys)
    )

    log = read_table(spark, "timermq.commitlog", store, damage="report")
    found = log.select(*LOG_COLUMNS).selectExpr("phy_offset", f"{effect_sql()} AS effect").collect()
    by_name = foreign_ends(log.select(*FOREIGN_COLUMNS)).collect()

    assert len(messages()) == len(found)
    assert effects == {row.phy_offset: Effect(row.effect) for row in found}
    assert ends == {
        (row.real_topic, row.unique_id, row.out_ms, row.rolls): row.foreign for row in by_name
    }


def deletes_by_name() -> list[Message]:
    """Pairs of a message and a delete by name: each pair has a unique key of its own."""
    found: list[Message] = []
    cases = product(("T", "V"), (SLOT_MS, SLOT_MS + 1000), ("T", "V"), ("%s", "T+%s", "V+%s", "T+"))
    for number, (topic, slot_ms, of_topic, form) in enumerate(cases):
        key = f"u{number}"
        name = form.replace("%s", key)
        waits = f"UNIQ_KEY\x01{key}\x02".encode() + tail(SLOT_MS, topic)
        takes = b"%b%b\x02" % (DELETE, name.encode()) + tail(slot_ms, of_topic)
        found += [Message(TIMER_TOPIC, 0, b"b", waits), Message(TIMER_TOPIC, 0, b"0", takes)]
    return found


def tail(slot_ms: int, topic: str) -> bytes:
    """What the record of a message or a delete ends with."""
    return timer_tail(deliver_ms=slot_ms + 1, out_ms=slot_ms, topic=topic, queue_id=0)


def test_deletes_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """The audit's joins find the messages that a slot would leave out, and no others."""
    store, records = trio.run(stored, tmp_path, deletes_by_name())
    properties = {at: record_properties(record) for at, record in records.items()}
    deletes = [at for at, text in properties.items() if find(text, DELETE_NAME) is not None]
    names = {name_in_delete(records[at]) for at in deletes}
    left_out = {at for at in records if at not in deletes and names_of(records[at], at) & names}
    limits = Limits(log_start=0, log_end=1 << 40, read_ms=0, queue_offset=0, precision_ms=1000)

    log = read_table(spark, "timermq.commitlog", store, damage="report")
    rows = named_timers(
        by_position(record_facts(log.select(*LOG_COLUMNS)), limits, 1),
        log.where(f"topic = '{TIMER_TOPIC}'").select(*TIMER_COLUMNS),
        foreign_ends(log.select(*FOREIGN_COLUMNS)),
        log.where("false").selectExpr("order_py"),
        limits,
    )
    found = rows.where(f"{IS_TIMER} AND delete_ms IS NOT NULL").select("key").collect()

    assert left_out
    assert left_out == {row.key for row in found}
    assert len(left_out) < len(records) - len(deletes)
