"""RocketMQ's own stores, read to the last byte: everything is as its manifest says.

A store is opened read only, and what was read is also written again: each record, queue unit,
timer-log unit, slot, checkpoint and table comes out as the bytes that RocketMQ wrote.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import attrs
import numpy as np
import pytest
import trio

from golden_stores import NAMES, GoldenStore, GoldenStores, LogRecord, Slot, Unit
from timermq.pipeline.recall_handle import decode_handle, encode_handle
from timermq.pipeline.timer_files import TimerFiles
from timermq.pipeline.timer_options import TimerOptions
from timermq.pipeline.timer_recovery import recover
from timermq.timerlog import UNIT, TimerCheckpoint, TimerMetrics
from timermq.timerlog.timer_checkpoint import CHECKPOINT
from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.config_file import fastjson, load_json, parse_json
from timermq.timerstore.consume_queue import UNIT as QUEUE_UNIT
from timermq.timerstore.java_hash import java_hash
from timermq.timerstore.message import NO_HOST, Message, SysFlag, format_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.record import blank_record, decode_record, encode_record
from timermq.timerstore.store_checkpoint import StoreCheckpoint
from timermq.timerstore.store_options import StoreOptions
from timermq.wheel import SLOT

pytestmark = pytest.mark.slow

STORE_OPTIONS = StoreOptions(
    mapped_file_size_commit_log=1_048_576,
    mapped_file_size_consume_queue=1_000,
    max_hash_slot_num=100,
    max_index_num=400,
)
TIMER_OPTIONS = TimerOptions(mapped_file_size_timer_log=5_200)

TABLES = ("topics", "subscriptionGroup", "consumerOffset", "delayOffset", "consumerFilter")
PRETTY_TABLES = (*(f"{name}.json" for name in TABLES), "consumerOrderInfo.json")
COMPACT_TABLES = ("timermetrics", "transactionMetrics")

AFTERWARDS_MS = 1_800_000_000_000
"""A moment after all that happened to the stores."""


@attrs.frozen
class Opened:
    """A golden store and what this program sees of it."""

    golden: GoldenStore
    store: MessageStore
    timer_files: TimerFiles
    read_ms: int


@pytest.fixture(params=NAMES)
def opened(request: pytest.FixtureRequest, golden_stores: GoldenStores) -> Iterator[Opened]:
    """Each of the stores, open read only, timers recovered in memory."""
    golden = golden_stores[cast("str", request.param)]
    disk = OsDisk()
    store = MessageStore.open(
        disk,
        golden.root,
        STORE_OPTIONS,
        now_ms=lambda: AFTERWARDS_MS,
        store_host=NO_HOST,
        read_only=True,
    )
    files = TimerFiles.open(disk, golden.root, TIMER_OPTIONS, read_only=True)
    recovered = recover(files, store, TIMER_OPTIONS, AFTERWARDS_MS)
    yield Opened(golden, store, files, recovered.read_ms)
    files.close()
    trio.run(store.aclose)


def log_records(opened: Opened) -> list[tuple[int, bytes]]:
    """Position and bytes of every record."""
    log = opened.store.commit_log
    return [
        (phy_offset, log.read(phy_offset, size))
        for phy_offset, size in log.scan(log.min_offset, check_crc=True)
    ]


def file_bytes(opened: Opened, path: str) -> bytes:
    """A whole file of the store."""
    return (Path(opened.golden.root) / path).read_bytes()


def test_log_ends_where_java_says(opened: Opened) -> None:
    """Positions of the log, and whether the broker was stopped or killed."""
    state = opened.golden.manifest.state
    log = opened.store.commit_log

    assert (state.min_phy_offset, state.max_phy_offset) == (log.min_offset, log.max_offset)
    assert opened.golden.manifest.clean_shutdown == opened.store.last_exit_ok
    assert opened.store.recovery.notes == ()


def test_records(opened: Opened) -> None:
    """Every record has the bytes and decodes to the fields that Java read."""
    expected = [one for one in opened.golden.manifest.state.records if not one.blank]

    assert expected == [java_record(data) for _, data in log_records(opened)]


def java_record(data: bytes) -> LogRecord:
    """A record in the manifest's words."""
    record = decode_record(data)
    body = decompress_body(record)
    return LogRecord(
        phy_offset=record.phy_offset,
        size=record.size,
        sha256=hashlib.sha256(data).hexdigest(),
        magic=record.magic,
        body_crc=record.body_crc,
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        flag=record.flag,
        # Java takes the flag away when it decompresses.
        sys_flag=record.sys_flag & ~SysFlag.COMPRESSED,
        born_ms=record.born_ms,
        born_host=format_host(record.born_host),
        store_ms=record.store_ms,
        store_host=format_host(record.store_host),
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        stored_body_size=len(record.body),
        body_size=len(body),
        body_sha256=hashlib.sha256(body).hexdigest(),
        uniq_key=record.unique_id,
        offset_msg_id=record.offset_message_id,
        properties_text=record.properties.decode(),
        properties=record.properties_dict(),
    )


def test_records_are_written_alike(opened: Opened) -> None:
    """A record encoded from its decoded fields is the record."""
    for phy_offset, data in log_records(opened):
        record = decode_record(data)
        again = encode_record(
            Message(
                topic=record.topic,
                queue_id=record.queue_id,
                body=record.body,
                properties=record.properties,
                flag=record.flag,
                sys_flag=record.sys_flag,
                born_ms=record.born_ms,
                born_host=record.born_host,
                reconsume_times=record.reconsume_times,
                prepared_offset=record.prepared_transaction_offset,
            ),
            queue_offset=record.queue_offset,
            phy_offset=phy_offset,
            store_ms=record.store_ms,
            store_host=record.store_host,
        )

        assert data == again


def test_blanks(opened: Opened) -> None:
    """The tail of a full segment holds a blank that says how long it is."""
    log = opened.store.commit_log
    for blank in opened.golden.manifest.state.records:
        if blank.blank:
            found = log.read(blank.phy_offset, 8)

            assert blank_record(blank.size) == found
            assert log.segment_size == blank.phy_offset % log.segment_size + blank.size


def test_queues(opened: Opened) -> None:
    """There are the queues that Java sees, with its bounds and units."""
    expected = {
        (one.topic, one.queue_id): (
            one.min_offset,
            one.max_offset,
            [tuple(unit[1:]) for unit in one.units],
        )
        for one in opened.golden.manifest.state.queues
    }
    found = {
        (queue.topic, queue.queue_id): (
            queue.min_offset,
            queue.max_offset,
            queue_units(opened.store, queue.topic, queue.queue_id),
        )
        for queue in opened.store.queues()
    }

    assert expected == found


def queue_units(store: MessageStore, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
    """All units of a queue, over the borders of its segments."""
    queue = store.queue(topic, queue_id)
    assert queue is not None
    units: list[tuple[int, int, int]] = []
    while queue.min_offset + len(units) < queue.max_offset:
        units += queue.units(queue.min_offset + len(units), 1000).tolist()
    return units


def test_queue_units_are_written_alike(opened: Opened) -> None:
    """The units of a queue, packed again, are the bytes of its files."""
    for queue in opened.golden.manifest.state.queues:
        units = queue_units(opened.store, queue.topic, queue.queue_id)
        packed = b"".join(QUEUE_UNIT.pack(*unit) for unit in units)
        folder = Path(opened.golden.root) / "consumequeue" / queue.topic / str(queue.queue_id)
        files = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))

        assert files[: len(packed)] == packed


def test_index_answers(opened: Opened) -> None:
    """A query by key finds the messages that Java finds."""
    for query in opened.golden.manifest.state.key_queries:
        records = opened.store.query(query.topic, query.key, count_max=64)
        found = [decode_record(record).phy_offset for record in records]

        assert (query.topic, query.key, query.phy_offsets) == (query.topic, query.key, found)


def test_offsets_by_time(opened: Opened) -> None:
    """A queue offset by store time is Java's, at both boundaries."""
    for query in opened.golden.manifest.state.time_queries:
        lower, upper = (
            opened.store.offset_by_time(query.topic, query.queue_id, query.timestamp, upper=upper)
            for upper in (False, True)
        )

        assert (query, query.lower, query.upper) == (query, lower, upper)


def test_checkpoint(opened: Opened) -> None:
    """The store checkpoint has Java's numbers and is written alike.

    The manifest has them as they are after Java's recovery, which sets the confirmed position, and
    after a kill moves the time of the queues.
    """
    expected = opened.golden.manifest.state.checkpoint
    path = f"{opened.golden.root}/checkpoint"
    checkpoint = StoreCheckpoint.open(OsDisk(), path, read_only=True)

    assert expected.physic_msg_timestamp == checkpoint.physic_msg_timestamp
    assert expected.index_msg_timestamp == checkpoint.index_msg_timestamp
    assert expected.master_flushed_offset == checkpoint.master_flushed_offset
    if opened.golden.manifest.clean_shutdown:
        assert expected.logics_msg_timestamp == checkpoint.logics_msg_timestamp
    assert file_bytes(opened, "checkpoint").startswith(checkpoint.encode())


def test_timer_checkpoint(opened: Opened) -> None:
    """The timer checkpoint has Java's seven numbers and is written alike."""
    expected = opened.golden.manifest.state.timer.timercheck
    page = file_bytes(opened, "config/timercheck")
    checkpoint = TimerCheckpoint.decode(page)

    assert (
        expected.last_read_time_ms,
        expected.last_timer_log_flush_pos,
        expected.last_timer_queue_offset,
        expected.master_timer_queue_offset,
        expected.state_version,
        expected.timestamp,
        expected.counter,
    ) == tuple(getattr(checkpoint, name) for name in CHECKPOINT.names)
    assert checkpoint.extension is None
    assert page == checkpoint.encode()


def test_timer_log(opened: Opened) -> None:
    """Every unit of the timer log, over segments and blanks; packed again it is the same."""
    timer_log = opened.timer_files.timer_log
    found: list[Unit] = []
    for positions, units in timer_log.scan(timer_log.min_pos):
        for pos, unit in zip(positions.tolist(), units, strict=True):
            size, prev_pos, magic, write_ms, delay_ms, offset_py, size_py, topic_hash, zero = cast(
                "tuple[int, ...]", unit.item()
            )
            found.append(
                Unit(
                    position=pos,
                    prev_pos=prev_pos,
                    magic=magic,
                    write_time_ms=write_ms,
                    delay_ms=delay_ms,
                    phy_offset=offset_py,
                    message_size=size_py,
                    topic_hash=topic_hash,
                )
            )

            assert (UNIT.size, 0) == (size, zero)
            assert UNIT.pack(*unit.item()) == stored_unit(opened, pos)

    assert opened.golden.manifest.state.timer.units == found


def stored_unit(opened: Opened, pos: int) -> bytes:
    """The bytes of a unit in its file."""
    size = TIMER_OPTIONS.mapped_file_size_timer_log
    data = file_bytes(opened, f"timerlog/{pos // size * size:020}")
    return data[pos % size : pos % size + UNIT.size]


def test_wheel_file(opened: Opened) -> None:
    """The slots of the file are those that Java finds there, at the index of their time."""
    slots = np.frombuffer(file_bytes(opened, "timerwheel"), SLOT.dtype)
    used = np.flatnonzero(slots["time"])
    found = [
        Slot(time_ms=time * 1000, first_pos=first_pos, last_pos=last_pos, num=num)
        for time, first_pos, last_pos, num, _ in slots[used].tolist()
    ]

    assert opened.golden.manifest.state.timer.slots_on_disk == found
    assert (slots["time"][used] % len(slots) == used).all()


def test_chains(opened: Opened) -> None:
    """After recovery the live slots and their chains are Java's.

    Of a killed broker's slots Java's `num` is stale, so it is compared only where all was clean.
    """
    timer_log, wheel = opened.timer_files.timer_log, opened.timer_files.wheel
    expected = opened.golden.manifest.state.timer.slots_recovered
    live = wheel.live(opened.read_ms)
    found = [
        Slot(
            time_ms=time_ms,
            first_pos=first_pos,
            last_pos=last_pos,
            num=num,
            chain=[
                pos
                for chunk in timer_log.walk(last_pos, slot_ms=time_ms)
                for pos in chunk.pos.tolist()
            ],
        )
        for time_ms, first_pos, last_pos, num in live[
            ["time_ms", "first_pos", "last_pos", "num"]
        ].tolist()
    ]
    if not opened.golden.manifest.clean_shutdown:
        for slot in (*expected, *found):
            slot.num = 0

    assert expected == found


def test_tables_are_written_alike(opened: Opened) -> None:
    """Each table of RocketMQ, parsed and printed, is the file."""
    folder = Path(opened.golden.root) / "config"
    for name in (*PRETTY_TABLES, *COMPACT_TABLES):
        path = folder / name
        if path.exists():
            text = path.read_text()
            printed = fastjson(parse_json(text), pretty=name in PRETTY_TABLES)

            assert (name, text) == (name, printed)


def test_tables(opened: Opened) -> None:
    """Each table says what Java reads in it."""
    for name in TABLES:
        expected = opened.golden.raw.get(f"config {name}")
        table = load_json(OsDisk(), f"{opened.golden.root}/config/{name}.json")
        # The manifest is JSON, which has no integer keys.
        found = json.loads(json.dumps(table))

        assert (name, expected) == (name, found)


def test_timer_metrics(opened: Opened) -> None:
    """The counts of waiting messages are printed as they were stored."""
    metrics = TimerMetrics.load(OsDisk(), f"{opened.golden.root}/config/timermetrics")

    assert file_bytes(opened, "config/timermetrics").decode() == metrics.text(AFTERWARDS_MS)


def test_recall_handles(opened: Opened) -> None:
    """A recall handle names topic, broker, moment and message, and is written alike."""
    for message in opened.golden.manifest.messages:
        if message.recall_handle is not None:
            handle = decode_handle(message.recall_handle)

            assert (message.topic, message.msg_id) == (handle.topic, handle.unique_key)
            assert message.recall_handle == encode_handle(
                handle.topic, handle.broker_name, handle.timestamp_ms, handle.unique_key
            )


def test_topic_hashes(opened: Opened) -> None:
    """A timer-log unit holds the hash of the topic that its message is for."""
    topics = {java_hash(topic) for topic in {one.topic for one in opened.golden.manifest.messages}}

    assert {unit.topic_hash for unit in opened.golden.manifest.state.timer.units} <= topics


@pytest.mark.parametrize("name", NAMES)
def test_reading_changes_nothing(golden_stores: GoldenStores, name: str) -> None:
    """After all that reading every file has the size and digest of the archive."""
    golden = golden_stores[name]
    root = Path(golden.root).parent
    found = {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }

    assert {one.path: one.sha256 for one in golden.manifest.archive.files} == found
