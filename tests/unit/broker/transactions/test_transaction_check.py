"""Tests of asking producers that have not decided about a transaction."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, STORE, RecordingSession, Rig, running_broker, send_ext
from timermq.broker.options import BrokerOptions
from timermq.broker.speaker import UNLIMITED, Speaker
from timermq.broker.transactions.half_message import decode_half
from timermq.broker.transactions.transaction_check import Step, next_step
from timermq.remoting import Command, LanguageCode
from timermq.remoting.stored_message import decode_messages
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message, SysFlag, pack_host
from timermq.timerstore.record import encode_record
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
    half_properties,
    joined,
    marked,
    reply_ext,
    send_half,
)

IMMUNITY_MS = 6_000


async def check(rig: Rig, *, after_ms: int = IMMUNITY_MS) -> None:
    """Let time pass, then one round."""
    rig.clock.time_ms += after_ms
    await rig.broker.transaction_check.check()


async def test_a_producer_is_asked() -> None:
    """With the message as it will appear, and where its new half message stands."""
    rig = Rig()
    producer = joined(rig.broker.tables.clients)
    send_half(rig, "K0", TAGS="a")
    await check(rig)
    (asked,) = checks(producer)
    (_, renewed) = rig.records(HALF_TOPIC)
    (message,) = decode_messages(asked.body)

    assert (asked.flag, asked.ext) == (
        2,
        {
            "topic": HALF_TOPIC,
            "tranStateTableOffset": "1",
            "commitLogOffset": str(renewed.phy_offset),
            "msgId": "K0",
            "transactionId": "K0",
            "offsetMsgId": f"7F00000100002A9F{renewed.phy_offset:016X}",
            "bname": "broker-a",
        },
    )
    assert (message.topic, message.queue_id, message.body) == ("T", 0, b"K0")
    assert (message.queue_offset, message.phy_offset) == (1, renewed.phy_offset)
    assert message.properties["PGROUP"] == "P"
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"


async def test_no_producer_is_asked_before_the_immunity_is_over() -> None:
    """Six seconds, or what the message asks for if that is more; one that has ended never."""
    rig = Rig()
    producer = joined(rig.broker.tables.clients)
    send_half(rig, "K0")
    send_half(rig, "K1", CHECK_IMMUNITY_TIME_IN_SECONDS="20")
    send_half(rig, "K2", CHECK_IMMUNITY_TIME_IN_SECONDS="2")
    end(rig, send_half(rig, "K3"), ROLLBACK)
    found: list[tuple[int, list[str]]] = []
    for after_ms in (5_999, 1, 13_999, 1):
        await check(rig, after_ms=after_ms)
        asked = sorted(one.ext["msgId"] for one in checks(producer))
        found.append((rig.clock.time_ms % 100_000, asked))

    assert found == [
        (5_999, []),
        (6_000, ["K0", "K2"]),
        (19_999, ["K0", "K2"]),
        (20_000, ["K0", "K1", "K2"]),
    ]


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_the_answer_to_a_check_ends_the_transaction(decision: int) -> None:
    """Once: whatever the producer says by itself about the first half message afterwards."""
    rig = Rig()
    producer = joined(rig.broker.tables.clients)
    half = send_half(rig, "K0")
    await check(rig)
    (asked,) = checks(producer)
    answers = [rig.call(END_TRANSACTION, reply_ext(asked, decision)), end(rig, half, decision)]
    await check(rig)

    assert [one.code for one in answers] == [0, 0]
    assert bodies(rig.broker) == ["K0"] * (decision == COMMIT)
    assert marked(rig.broker) == ["0,", "1,"]
    assert checks(producer) == []


async def test_a_late_ending_names_an_older_half_message() -> None:
    """RocketMQ takes the two for two transactions, and commits the message twice."""
    rig = Rig()
    producer = joined(rig.broker.tables.clients)
    half = send_half(rig, "K0")
    await check(rig)
    (first,) = checks(producer)
    await check(rig)
    (second,) = checks(producer)
    answers = [
        end(rig, half, COMMIT),
        rig.call(END_TRANSACTION, reply_ext(first, COMMIT)),
        rig.call(END_TRANSACTION, reply_ext(second, COMMIT)),
    ]
    await check(rig)

    assert [one.code for one in answers] == [0, 0, 0]
    assert bodies(rig.broker) == ["K0"]
    assert marked(rig.broker) == ["0,", "1,", "2,"]
    assert checks(producer) == []


async def test_what_no_producer_decides_about_is_discarded() -> None:
    """After so many checks, to a topic that an operator reads; an ending is refused then (604)."""
    rig = Rig(options=attrs.evolve(BROKER, transaction_check_max=2))
    producer = joined(rig.broker.tables.clients)
    half = send_half(rig, "K0")
    asked: list[int] = []
    for _ in range(4):
        await check(rig)
        asked.append(len(checks(producer)))
    answer = end(rig, half, COMMIT)
    (record,) = rig.records(DISCARD_TOPIC)
    topic = rig.broker.tables.topics.get(DISCARD_TOPIC)

    assert asked == [1, 1, 0, 0]
    assert (answer.code, answer.remark) == (
        604,
        "TRANSACTION_ENDED: the transaction K0 has ended by discard before",
    )
    assert record.body == b"K0"
    assert record.properties_dict()["REAL_TOPIC"] == "T"
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    assert rig.records("T") == []
    assert rig.broker.statistics().transactions == attrs.evolve(
        rig.broker.statistics().transactions, open=0, discarded=1, checks=2
    )


async def test_a_check_without_a_producer_counts() -> None:
    """As in RocketMQ: a group that is gone does not keep its transactions for ever."""
    rig = Rig(options=attrs.evolve(BROKER, transaction_check_max=2))
    joined(rig.broker.tables.clients, group="another")
    send_half(rig, "K0")
    for _ in range(3):
        await check(rig)

    assert bodies(rig.broker, DISCARD_TOPIC) == ["K0"]


async def test_producers_take_turns() -> None:
    """Those of the group that are connected."""
    rig = Rig()
    clients = rig.broker.tables.clients
    producers = [joined(clients) for _ in range(3)]
    producers[2].session.is_open = False
    for number in range(4):
        send_half(rig, f"K{number}")
    await check(rig)

    assert [len(checks(one)) for one in producers] == [2, 2, 0]


async def test_a_producer_without_the_right_to_the_topic_is_not_asked() -> None:
    """Anybody can register for a group; he does not stand for a producer either."""
    rig = Rig(options=attrs.evolve(BROKER, transaction_check_max=2))
    speaker = Speaker("stranger", lambda topic: topic != "T")
    stranger = joined(rig.broker.tables.clients, speaker=speaker)
    stranger.session.speaker = UNLIMITED  # of a later request on its connection
    send_half(rig, "K0")
    for _ in range(3):
        await check(rig)

    assert checks(stranger) == []
    assert bodies(rig.broker, DISCARD_TOPIC) == ["K0"]


async def test_a_producer_that_does_not_read_is_not_asked() -> None:
    """Nor does that count: it is asked when it has read."""
    rig = Rig()
    producer = joined(rig.broker.tables.clients)
    producer.has_room = False
    send_half(rig, "K0")
    await check(rig)
    halves = len(rig.records(HALF_TOPIC))
    producer.has_room = True
    await check(rig)

    assert halves == 1
    assert len(checks(producer)) == 1


async def test_go_gets_bodies_that_it_can_read() -> None:
    """A Go client, which knows only zlib, is asked with a body that is not packed."""
    rig = Rig()
    producer = RecordingSession(language=LanguageCode.GO)
    rig.broker.tables.clients.register_producer(producer.session, "client", "P")
    flags = int(SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD | SysFlag.TRANSACTION_PREPARED)
    rig.send("T", b"no frame", half_properties("K0"), sysFlag=str(flags))
    await check(rig)
    (asked,) = checks(producer)
    (message,) = decode_messages(asked.body)

    assert (message.sys_flag & SysFlag.COMPRESSED, message.body) == (0, b"no frame")


async def test_many_are_renewed_in_batches() -> None:
    """One op message for all of a batch."""
    rig = Rig()
    producer = joined(rig.broker.tables.clients)
    for number in range(100):
        send_half(rig, f"K{number}")
    await check(rig)

    assert len(checks(producer)) == 100
    assert [one.count(",") for one in marked(rig.broker)] == [64, 36]


async def test_a_full_disk_ends_a_round() -> None:
    """No producer is asked, and nothing counts, until it takes the renewals."""
    rig = Rig(store_options=attrs.evolve(STORE, mapped_file_size_commit_log=2048))
    producer = joined(rig.broker.tables.clients)
    send_half(rig, "K0", note="x" * 900)
    disk = rig.broker.store.disk
    assert isinstance(disk, MemoryDisk)
    total, disk.total = disk.total, 0
    await check(rig)
    refused = len(checks(producer))
    disk.total = total
    await check(rig)
    (asked,) = checks(producer)

    assert refused == 0
    assert decode_messages(asked.body)[0].properties["TRANSACTION_CHECK_TIMES"] == "1"


async def test_rounds_come_at_their_interval(autojump_clock: MockClock) -> None:
    """By the staged clock; the offsets of the group say how far the log is through."""
    options = attrs.evolve(BROKER, transaction_check_interval_ms=10_000)
    async with running_broker(options=options) as running:
        producer = joined(running.broker.tables.clients)
        peer = running.connect()
        properties = half_properties("K0")
        half = await peer.call(10, send_ext("T", properties, sysFlag="4"), b"K0")
        asked: list[Command] = []
        times: list[int] = []
        begin = running.clock.now_ms()
        await trio.sleep(0.5)
        for _ in range(35):
            await trio.sleep(1)
            found = checks(producer)
            asked += found
            times += [(running.clock.now_ms() - begin) // 1000] * len(found)
        answer = await peer.call(END_TRANSACTION, reply_ext(asked[-1], COMMIT))
        await trio.sleep(30)
        offsets = running.broker.tables.offsets

        assert half.code == 0
        assert times == [10, 20, 30]
        assert answer.code == 0
        assert bodies(running.broker) == ["K0"]
        assert (
            offsets.query(group="CID_RMQ_SYS_TRANS", topic=HALF_TOPIC, queue_id=0),
            offsets.query(group="CID_RMQ_SYS_TRANS", topic=OP_TOPIC, queue_id=0),
        ) == (4, 4)


@pytest.mark.parametrize(
    ("age_ms", "renewed_ms", "times", "immunity_sec", "step"),
    [
        (5_999, 5_999, 0, None, Step.WAIT),
        (6_000, 6_000, 0, None, Step.CHECK),
        (-1, -1, 0, None, Step.CHECK),
        (6_000, 0, 14, None, Step.CHECK),
        (6_000, 0, 15, None, Step.DISCARD),
        (5_999, 0, 15, None, Step.WAIT),
        (9_000_000, 299_999, 0, 9_001, Step.WAIT),
        (9_000_000, 300_000, 0, 9_001, Step.RENEW),
        (9_001_000, 300_000, 0, 9_001, Step.CHECK),
        (6_000, 6_000, 0, 1, Step.CHECK),
        (5_999, 5_999, 0, 1, Step.WAIT),
    ],
)
def test_next_step(
    age_ms: int, renewed_ms: int, times: int, immunity_sec: int | None, step: Step
) -> None:
    """By age, checks and immunity; a half message that waits long is renewed without a check."""
    now_ms = 1_700_000_000_000
    properties = half_properties(
        "K0", REAL_TOPIC="T", REAL_QID="0", TIMERMQ_HALF=f"0,{now_ms - age_ms}"
    )
    if times:
        properties += f"TRANSACTION_CHECK_TIMES\x01{times}\x02"
    if immunity_sec is not None:
        properties += f"CHECK_IMMUNITY_TIME_IN_SECONDS\x01{immunity_sec}\x02"
    record = encode_record(
        Message(HALF_TOPIC, 0, b"x", properties.encode()),
        queue_offset=7,
        phy_offset=700,
        store_ms=now_ms - renewed_ms,
        store_host=pack_host("127.0.0.1", 10911),
    )

    assert next_step(decode_half(record), BrokerOptions(), now_ms) is step
