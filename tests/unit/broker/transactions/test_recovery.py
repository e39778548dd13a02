"""Tests of which transactions are open after a process has ended."""

from __future__ import annotations

import attrs
import pytest

from broker_rig import BROKER, ROOT, RecordingSession, Rig, commands_in, open_broker
from damaged_stores import flip_bit
from timermq.broker.broker import Broker
from timermq.broker.config_table import ConfigSaver
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message
from timermq.timerstore.queue_unit import UNIT
from timermq.timerstore.seal_page import SECTOR_SIZE
from transaction_rig import (
    COMMIT,
    DISCARD_TOPIC,
    END_TRANSACTION,
    HALF_TOPIC,
    OP_TOPIC,
    ROLLBACK,
    bodies,
    checks,
    end,
    end_ext,
    half_properties,
    joined,
    marked,
    send_half,
)


def killed(rig: Rig) -> Broker:
    """The next broker on the same disk; it is an end in any case, as no task ran."""
    disk = rig.broker.store.disk
    assert isinstance(disk, MemoryDisk)
    disk.process_kill()
    return open_broker(rig.clock, disk=disk)


def end_at(broker: Broker, half: Command, decision: int) -> Command:
    """The answer of a broker to an ending."""
    command = Command(END_TRANSACTION, ext=end_ext(half, decision))
    (answer,) = commands_in(broker.dispatcher.handle(RecordingSession().session, [command]))
    return answer


def open_offsets(broker: Broker) -> list[int]:
    """Queue offsets of the open half messages."""
    table = broker.transactions.open
    return [offset for name in table.names() if (offset := table.offset_of(name)) is not None]


def put_record(rig: Rig, message: Message) -> int:
    """Store what another process may have left; its position."""
    (result,) = rig.broker.store.put([message])
    return result.phy_offset


def java_commit(rig: Rig, half: Command, key: str) -> None:
    """What RocketMQ has written seconds before its op message."""
    phy_offset = int(half.ext["msgId"][16:], 16)
    properties = half_properties(key, REAL_TOPIC="T", REAL_QID="0").encode()
    message = Message("T", 0, key.encode(), properties, sys_flag=8, prepared_offset=phy_offset)
    message.born_ms = 1_700_000_000_000
    put_record(rig, message)


def java_half(key: str, *, times: int) -> Message:
    """A half message as RocketMQ renews it."""
    properties = half_properties(
        key, REAL_TOPIC="T", REAL_QID="0", TRANSACTION_CHECK_TIMES=str(times)
    )
    return Message(HALF_TOPIC, 0, key.encode(), properties.encode(), born_ms=1_700_000_000_000)


async def test_an_empty_store() -> None:
    """Nothing is open, and the first half message is."""
    rig = Rig()
    before = open_offsets(rig.broker)
    half = send_half(rig, "K0")
    broker = killed(rig)

    assert before == []
    assert open_offsets(broker) == [0]
    assert end_at(broker, half, COMMIT).code == 0
    assert bodies(broker) == ["K0"]


async def test_what_has_ended_stays_so() -> None:
    """And is answered as before."""
    rig = Rig()
    halves = [send_half(rig, f"K{number}") for number in range(3)]
    end(rig, halves[0], COMMIT)
    end(rig, halves[2], ROLLBACK)
    broker = killed(rig)

    assert open_offsets(broker) == [1]
    assert end_at(broker, halves[0], COMMIT).code == 0
    assert end_at(broker, halves[2], COMMIT).remark == (
        "TRANSACTION_ENDED: the transaction K2 has ended by rollback before"
    )
    assert bodies(broker) == ["K0"]


async def test_a_commit_without_its_mark() -> None:
    """It is found in the log, marked with the next op message, and not committed again."""
    rig = Rig()
    halves = [send_half(rig, f"K{number}") for number in range(3)]
    java_commit(rig, halves[1], "K1")
    broker = killed(rig)
    before = marked(broker)
    answers = [end_at(broker, halves[1], COMMIT), end_at(broker, halves[0], COMMIT)]

    assert before == []
    assert [one.code for one in answers] == [0, 0]
    assert bodies(broker) == ["K1", "K0"]
    assert marked(broker) == ["1,", "0,"]
    assert open_offsets(broker) == [2]


async def test_a_commit_behind_damage() -> None:
    """It is found all the same, and not committed again."""
    rig = Rig()
    half = send_half(rig, "K0")
    damaged_py = put_record(rig, Message("P", 0, b"x"))
    java_commit(rig, half, "K0")
    await rig.broker.store.aclose()
    disk = rig.broker.store.disk
    flip_bit(disk, f"{ROOT}/commitlog/{0:020}", damaged_py + 2, 0x01)
    broker = open_broker(rig.clock, disk=disk)
    answer = end_at(broker, half, COMMIT)
    queue = broker.store.queue("T", 0)

    assert queue is not None
    assert (answer.code, queue.max_offset) == (0, 1)
    assert open_offsets(broker) == []


async def test_a_damaged_half_message_is_quarantined() -> None:
    """It is not renewed as if it were sound, nor committed: its name and bytes are kept, once."""
    rig = Rig()
    halves = [send_half(rig, f"K{number}") for number in range(2)]
    damaged_py = int(halves[0].ext["msgId"][16:], 16)
    disk = rig.broker.store.disk
    body_at = rig.broker.store.commit_log.read(damaged_py, 400).index(b"K0")
    flip_bit(disk, f"{ROOT}/commitlog/{0:020}", damaged_py + body_at, 0x01)
    answer = end(rig, halves[0], COMMIT)
    rig.clock.time_ms += 10_000
    await rig.broker.transaction_check.check()
    quarantine = rig.broker.timer_store.quarantine
    (entry,) = [one for one, _ in quarantine.entries()]
    kept = [one.body for one in rig.records(HALF_TOPIC)]
    await rig.broker.store.aclose()
    again = open_broker(rig.clock, disk=disk)
    await again.transaction_check.check()

    assert answer.code == 1
    assert f"no half message begins at {damaged_py}: half message at {damaged_py}: body" in (
        answer.remark or ""
    )
    assert (entry.origin_py, entry.reason) == (damaged_py, "damaged")
    assert b"J0" in entry.record
    assert "body checksum: expected " in entry.text
    assert kept == [b"J0", b"K1", b"K1"]
    assert again.timer_store.quarantine.active == 1
    assert len(open_offsets(again)) == 1
    assert bodies(again) == []


@pytest.mark.parametrize("number", [0, 1, 3])
async def test_an_open_half_message_is_found_though_its_queue_has_rotted(number: int) -> None:
    """Its record says where it stands; units beside it are put right as well."""
    rig = Rig()
    halves = [send_half(rig, f"K{number}") for number in range(4)]
    disk, path = rig.broker.store.disk, f"{ROOT}/consumequeue/{HALF_TOPIC}/0/{0:020}"
    queue = disk.open(path)
    before = queue.read(0, 4 * UNIT.size)
    queue.write(number * UNIT.size, bytes(UNIT.size))
    queue.write(2 * UNIT.size, UNIT.pack(1 << 40, 400, 0))
    rig.clock.time_ms += 10_000
    await rig.broker.transaction_check.check()
    answers = [end(rig, half, COMMIT).code for half in halves]

    assert before == queue.read(0, 4 * UNIT.size)
    assert answers == [0] * 4
    assert bodies(rig.broker) == ["K0", "K1", "K2", "K3"]
    assert rig.broker.timer_store.quarantine.active == 0


async def test_cleaning_leaves_an_open_half_message_whose_unit_has_rotted() -> None:
    """A unit that leads behind it, to a record or to none, says nothing of what is needed."""
    rig = Rig()
    for number in range(3):
        send_half(rig, f"K{number}")
    transactions, queue = rig.broker.transactions, rig.broker.store.queue(HALF_TOPIC, 0)
    assert queue is not None
    first_py = transactions.needed_from()
    second = UNIT.pack(*queue.units(1, 1).tolist()[0])
    file = rig.broker.store.disk.open(f"{ROOT}/consumequeue/{HALF_TOPIC}/0/{0:020}")
    for rotted in (second, UNIT.pack(1 << 40, 400, 0)):
        file.write(0, rotted)
        assert transactions.needed_from() == first_py


async def damaged_group(rig: Rig, half: Command) -> int:
    """Stop, and flip two bits in the group of a half message; the position of its record."""
    damaged_py = int(half.ext["msgId"][16:], 16)
    at = rig.broker.store.commit_log.read(damaged_py, 400).index(b"PGROUP")
    await rig.broker.store.aclose()
    for place in (at, at + 5):
        flip_bit(rig.broker.store.disk, f"{ROOT}/commitlog/{0:020}", damaged_py + place, 0x01)
    return damaged_py


async def test_a_half_message_unlike_its_seal_is_quarantined_after_a_start() -> None:
    """Its checksum fits: its group is damaged. The start leaves it open till then."""
    rig = Rig()
    half = send_half(rig, "K0")
    damaged_py = await damaged_group(rig, half)
    broker = open_broker(rig.clock, disk=rig.broker.store.disk)
    before = open_offsets(broker)
    answer = end_at(broker, half, COMMIT)
    await broker.transaction_check.check()

    assert before == [0]
    assert answer.code == 1
    assert [one.origin_py for one, _ in broker.timer_store.quarantine.entries()] == [damaged_py]
    assert open_offsets(broker) == []
    assert marked(broker) == ["0,"]
    assert bodies(broker) == []


async def test_a_damaged_half_message_that_was_committed_is_done() -> None:
    """Its commit names its place; the mark was not written. It is not quarantined besides."""
    rig = Rig()
    half = send_half(rig, "K0")
    put_record(rig, Message("P", 0, bytes(2 * SECTOR_SIZE)))
    java_commit(rig, half, "K0")
    await damaged_group(rig, half)
    broker = open_broker(rig.clock, disk=rig.broker.store.disk)
    await broker.transaction_check.check()

    assert open_offsets(broker) == []
    assert broker.timer_store.quarantine.active == 0


async def test_marks_are_made_up_for_by_themselves() -> None:
    """When nothing else is written."""
    rig = Rig()
    java_commit(rig, send_half(rig, "K0"), "K0")
    broker = killed(rig)
    broker.transactions.commit_offsets()

    assert marked(broker) == ["0,"]


async def test_only_the_message_of_a_transaction_ends_it() -> None:
    """One that is retried keeps the flag of its commit, and names position 0."""
    rig = Rig()
    first = send_half(rig, "K0")
    properties = b"UNIQ_KEY\x01K9\x02"
    put_record(rig, Message("%RETRY%G", 0, b"x", properties, sys_flag=8, prepared_offset=0))
    broker = killed(rig)

    assert first.ext["msgId"].endswith("0" * 16)
    assert open_offsets(broker) == [0]


async def test_a_discard_without_its_mark() -> None:
    """It is found on its topic."""
    rig = Rig(options=attrs.evolve(BROKER, transaction_check_max=0))
    send_half(rig, "K0")
    rig.clock.time_ms += 6_000
    await rig.broker.transaction_check.check()
    (record,) = rig.records(DISCARD_TOPIC)
    other = Rig()
    send_half(other, "K0")
    put_record(other, Message(DISCARD_TOPIC, 0, record.body, record.properties))
    broker = killed(other)

    assert open_offsets(broker) == []


async def test_the_newest_renewal_counts() -> None:
    """Also when an older half message of the transaction has no mark."""
    rig = Rig()
    half = send_half(rig, "K0")
    send_half(rig, "K1")
    rig.clock.time_ms += 6_000
    await rig.broker.transaction_check.check()
    (_, _, renewal, _) = rig.records(HALF_TOPIC)
    other = Rig()
    send_half(other, "K0")
    send_half(other, "K1")
    put_record(other, Message(HALF_TOPIC, 0, b"K0", renewal.properties))
    broker = killed(other)

    assert open_offsets(killed(rig)) == [2, 3]
    assert open_offsets(broker) == [1, 2]
    assert end_at(broker, half, COMMIT).code == 0
    assert bodies(broker) == ["K0"]
    assert marked(broker) == ["0,", "2,"]


async def test_renewals_of_java() -> None:
    """They tell no name: the later one of the same message counts, and one that is marked too."""
    rig = Rig()
    for number in range(2):
        rig.send("T", f"K{number}".encode(), half_properties(f"K{number}"), sysFlag="4")
    put_record(rig, java_half("K0", times=1))
    put_record(rig, java_half("K1", times=1))
    put_record(rig, Message(OP_TOPIC, 0, b"3,", b"TAGS\x01d\x02"))
    broker = killed(rig)

    assert open_offsets(broker) == [2]


async def test_java_commits_an_older_half_message() -> None:
    """Its producer was asked about the newer one meanwhile: then the transaction has ended."""
    rig = Rig()
    half = send_half(rig, "K0")
    put_record(rig, java_half("K0", times=1))
    java_commit(rig, half, "K0")
    broker = killed(rig)

    assert open_offsets(broker) == []


async def test_java_commits_and_renews_beside() -> None:
    """Its mark names the older half message, and the renewed one stays open for ever."""
    rig = Rig()
    half = send_half(rig, "K0")
    java_commit(rig, half, "K0")
    put_record(rig, java_half("K0", times=1))
    put_record(rig, Message(OP_TOPIC, 0, b"0,", b"TAGS\x01d\x02"))
    rig.broker.tables.offsets.keep(
        group="CID_RMQ_SYS_TRANS", topic=HALF_TOPIC, queue_id=0, offset=1
    )
    await _save_table(rig)
    broker = killed(rig)
    answer = end_at(broker, half, COMMIT)

    assert open_offsets(broker) == []
    assert answer.code == 604
    assert bodies(broker) == ["K0"]


async def test_what_is_no_half_message_is_passed_over() -> None:
    """The store keeps it; no client can end it."""
    rig = Rig()
    put_record(rig, Message(HALF_TOPIC, 0, b"x", b"REAL_TOPIC\x01T\x02"))
    send_half(rig, "K1")

    assert open_offsets(killed(rig)) == [1]


async def test_offsets_say_where_to_begin() -> None:
    """Of the op topic no mark of a half message behind the other offset is left out."""
    rig = Rig()
    halves = [send_half(rig, f"K{number}") for number in range(4)]
    end(rig, halves[0], COMMIT)
    end(rig, halves[2], COMMIT)
    found = [await _saved(rig) for _ in range(4)]
    end(rig, halves[1], COMMIT)
    found += [await _saved(rig) for _ in range(4)]
    broker = killed(rig)

    assert found == [
        (None, None), (1, 0), (1, 0), (1, 0),
        (1, 0), (3, 0), (3, 0), (3, 0),
    ]  # fmt: skip
    assert open_offsets(broker) == [3]
    assert [end_at(broker, one, COMMIT).code for one in halves] == [0, 0, 0, 0]
    assert bodies(broker) == ["K0", "K2", "K1", "K3"]


async def test_offsets_wait_for_the_disk() -> None:
    """What ended the half messages before them must be durable: a power cut takes the rest."""
    rig = Rig()
    end(rig, send_half(rig, "K0"), COMMIT)
    for _ in range(3):
        rig.broker.transactions.commit_offsets()
    before = rig.broker.transactions.statistics(), _offsets(rig)
    await rig.broker.store.flush()
    rig.broker.transactions.commit_offsets()

    assert before[1] == (None, None)
    assert _offsets(rig) == (1, 0)


async def test_the_log_keeps_what_is_open() -> None:
    """Cleaning asks for the oldest position that is needed."""
    rig = Rig()
    rig.send("T")
    first = send_half(rig, "K0")
    second = send_half(rig, "K1")
    pins = [rig.broker.store.pins.lowest()]
    end(rig, first, COMMIT)
    pins.append(rig.broker.store.pins.lowest())
    end(rig, second, COMMIT)
    pins.append(rig.broker.store.pins.lowest())

    assert pins == [*(int(one.ext["msgId"][16:], 16) for one in (first, second)), None]


async def test_a_producer_is_asked_by_the_next_process() -> None:
    """The number of checks goes on."""
    rig = Rig()
    send_half(rig, "K0")
    rig.clock.time_ms += 6_000
    await rig.broker.transaction_check.check()
    broker = killed(rig)
    producer = joined(broker.tables.clients)
    await broker.transaction_check.check()
    (asked,) = checks(producer)

    assert b"TRANSACTION_CHECK_TIMES\x012\x02" in asked.body


def _offsets(rig: Rig) -> tuple[int | None, int | None]:
    def query(topic: str) -> int | None:
        table = rig.broker.tables.offsets
        return table.query(group="CID_RMQ_SYS_TRANS", topic=topic, queue_id=0)

    return query(HALF_TOPIC), query(OP_TOPIC)


async def _saved(rig: Rig) -> tuple[int | None, int | None]:
    """The offsets after one more look, with all that was written durable; they are saved."""
    await rig.broker.store.flush()
    rig.broker.transactions.commit_offsets()
    await _save_table(rig)
    return _offsets(rig)


async def _save_table(rig: Rig) -> None:
    tables = (rig.broker.tables.offsets,)
    await ConfigSaver(rig.broker.store.disk, ROOT, prompt=(), periodic=tables, interval_ms=1).save()
