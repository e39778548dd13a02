"""Tests of send-backs (36): where the message goes, when, and what is refused."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import (
    BROKER,
    STORE,
    TIMER,
    Peer,
    RecordingSession,
    Rig,
    pull_ext,
    running_broker,
    send_ext,
)
from timermq.broker.consuming.retry_policy import CustomizedRetryPolicy, ExponentialRetryPolicy
from timermq.broker.options import BrokerOptions
from timermq.broker.topic_config import PERM_READ, TopicConfig
from timermq.remoting import Command, LanguageCode
from timermq.remoting.codes import FLAG_ONEWAY
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.store_options import FlushDiskType

ORIGIN = "7F00000100002A9F0000000000000000"
LEVELS_SECONDS = (10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30, 60, 120)))
"""Pauses before the 1st to the 16th retry."""


def send_back(rig: Rig, *, peer: RecordingSession | None = None, **ext: str) -> Command:
    """The answer to a send-back of the first message of the log."""
    return rig.call(36, {"group": "g", "offset": "0", "delayLevel": "0", **ext}, peer=peer)


def waiting(rig: Rig) -> Record:
    """The one message that waits on the wheel."""
    (record,) = rig.records("rmq_sys_wheel_timer")
    return record


def asks_for_ms(rig: Rig) -> int:
    """How long it waits, from now."""
    return int(waiting(rig).properties_dict()["TIMER_DELIVER_MS"]) - rig.clock.now_ms()


async def test_the_first_retry_waits_for_level_3() -> None:
    """It goes to the group's retry topic, counted, and says where it came from."""
    rig = Rig()
    rig.send("T", b"hello", "UNIQ_KEY\x01K\x02TAGS\x01t\x02")
    answer = send_back(rig)

    assert (answer.code, answer.ext, answer.remark) == (0, {}, None)
    record = waiting(rig)
    properties = record.properties_dict()
    assert (record.body, record.reconsume_times) == (b"hello", 1)
    assert asks_for_ms(rig) == 10_000
    assert properties["REAL_TOPIC"] == "%RETRY%g"
    assert properties["RETRY_TOPIC"] == "T"
    assert properties["ORIGIN_MESSAGE_ID"] == ORIGIN
    assert (properties["UNIQ_KEY"], properties["TAGS"]) == ("K", "t")
    config = rig.broker.tables.topics.get("%RETRY%g")
    assert config is not None
    assert (config.read_queue_nums, config.perm) == (1, 6)


async def test_sixteen_tries_by_default() -> None:
    """Each waits one level longer than the one before; the seventeenth failure is the last."""
    for times, seconds in enumerate(LEVELS_SECONDS):
        rig = Rig()
        rig.send("T", reconsumeTimes=str(times))
        send_back(rig)
        assert (asks_for_ms(rig), waiting(rig).reconsume_times) == (seconds * 1000, times + 1)
    rig = Rig()
    rig.send("T", reconsumeTimes="16")
    send_back(rig)

    assert len(LEVELS_SECONDS) == 16
    assert rig.records("%DLQ%g")[0].reconsume_times == 17


@pytest.mark.parametrize(("level", "seconds"), [("1", 1), ("2", 5), ("18", 7_200), ("99", 7_200)])
async def test_an_explicit_level(level: str, seconds: int) -> None:
    """The consumer may say when; above the highest level it is that one."""
    rig = Rig()
    rig.send("T")
    send_back(rig, delayLevel=level)

    assert asks_for_ms(rig) == seconds * 1000


async def test_a_dead_letter_on_request() -> None:
    """A level below 0 gives the message up: no delay, one more try on the count, as in Java."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K\x02DELAY\x010\x02")
    answer = send_back(rig, delayLevel="-1")
    (record,) = rig.records("%DLQ%g")

    assert answer.code == 0
    assert record.reconsume_times == 1
    assert record.properties_dict()["RETRY_TOPIC"] == "T"
    assert b"DELAY" not in record.properties
    config = rig.broker.tables.topics.get("%DLQ%g")
    assert config is not None
    assert (config.read_queue_nums, config.perm) == (1, 6)


@pytest.mark.parametrize(
    ("language", "version", "stated", "topic"),
    [
        (LanguageCode.JAVA, 479, "", "%RETRY%g"),
        (LanguageCode.JAVA, 479, "3", "%DLQ%g"),
        (LanguageCode.JAVA, 479, "4", "%RETRY%g"),
        (LanguageCode.JAVA, 121, "3", "%DLQ%g"),
        (LanguageCode.JAVA, 120, "3", "%RETRY%g"),
        (LanguageCode.GO, 317, "0", "%DLQ%g"),
        (LanguageCode.CPP, 63, "3", "%RETRY%g"),
    ],
)
async def test_tries_that_the_client_states(
    language: LanguageCode, version: int, stated: str, topic: str
) -> None:
    """From version 121 on they count instead of the group's; a message tried so often is over."""
    rig, peer = Rig(), RecordingSession(language=language)
    peer.session.version = version
    rig.send("T", reconsumeTimes="3")
    answer = send_back(rig, peer=peer, **({"maxReconsumeTimes": stated} if stated else {}))

    assert answer.code == 0
    if topic == "%DLQ%g":
        assert rig.records(topic)[0].reconsume_times == 4
    else:
        assert waiting(rig).properties_dict()["REAL_TOPIC"] == topic


async def test_the_group_s_own_numbers() -> None:
    """Its tries, its retry queues in turn, and nothing at all where it has none."""
    rig = Rig()
    groups = rig.broker.tables.groups
    groups.put(attrs.evolve(groups.find("g"), retry_max_times=1, retry_queue_nums=3))
    rig.send("T")
    for _ in range(4):
        send_back(rig)
    queue_ids = [one.properties_dict()["REAL_QID"] for one in rig.records("rmq_sys_wheel_timer")]

    assert queue_ids == ["0", "1", "2", "0"]
    groups.put(attrs.evolve(groups.find("g"), retry_max_times=0))
    send_back(rig)
    assert len(rig.records("%DLQ%g")) == 1
    groups.put(attrs.evolve(groups.find("g"), retry_queue_nums=0))
    end = rig.broker.store.commit_log.max_offset
    assert send_back(rig).code == 0
    assert rig.broker.store.commit_log.max_offset == end


async def test_retries_stay_within_the_queues_that_the_topic_has() -> None:
    """A group that got more queues than its topic has: Java writes where no consumer reads."""
    rig = Rig()
    groups = rig.broker.tables.groups
    rig.send("T")
    send_back(rig)
    groups.put(attrs.evolve(groups.find("g"), retry_queue_nums=8))
    for _ in range(3):
        send_back(rig)
    queue_ids = [one.properties_dict()["REAL_QID"] for one in rig.records("rmq_sys_wheel_timer")]

    assert queue_ids == ["0"] * 4


@pytest.mark.parametrize(
    ("policy", "level", "waits_ms"),
    [
        (CustomizedRetryPolicy(next=(1, 2, 77, 88)), "0", 77),
        (CustomizedRetryPolicy(next=(1, 2, 77, 88)), "1", 1_000),
        (ExponentialRetryPolicy(initial=250), "0", 250),
        (ExponentialRetryPolicy(initial=10**12, max=10**12), "0", 86_400_000),
    ],
)
async def test_a_policy_of_the_group(
    policy: CustomizedRetryPolicy | ExponentialRetryPolicy, level: str, waits_ms: int
) -> None:
    """It says when to try again, unless the consumer does; within the longest delay."""
    rig = Rig()
    groups = rig.broker.tables.groups
    groups.put(attrs.evolve(groups.find("g"), retry_policy=policy))
    rig.send("T")
    send_back(rig, delayLevel=level)

    assert asks_for_ms(rig) == waits_ms


@pytest.mark.parametrize(
    ("policy", "waits_ms"), [(None, 10_000), (ExponentialRetryPolicy(initial=250), 250)]
)
async def test_a_retry_with_a_disabled_wheel(
    policy: ExponentialRetryPolicy | None, waits_ms: int
) -> None:
    """Groups try again whatever producers may ask for, by level or by their policy."""
    rig = Rig(timer_options=attrs.evolve(TIMER, timer_wheel_enable=False))
    groups = rig.broker.tables.groups
    groups.put(attrs.evolve(groups.find("g"), retry_policy=policy))
    rig.send("T")

    assert send_back(rig).code == 0
    assert asks_for_ms(rig) == waits_ms


async def test_what_cannot_be_sent_back() -> None:
    """Each refusal has Java's code; the client then sends the message itself."""
    rig = Rig()
    rig.send("T")
    rig.broker.tables.topics.put(TopicConfig(topic_name="%RETRY%closed", perm=PERM_READ))

    def refusal(**ext: str) -> tuple[int, str | None]:
        answer = send_back(rig, peer=None, **ext)
        return answer.code, answer.remark

    assert refusal(offset="1") == (1, "MESSAGE_NOT_FOUND: no message begins at 1")
    assert refusal(offset="-5") == (1, "MESSAGE_NOT_FOUND: no message begins at -5")
    assert refusal(group="a/b")[0] == 29
    assert refusal(group="closed") == (
        16,
        "TOPIC_NOT_WRITEABLE: topic %RETRY%closed is not writeable",
    )
    assert refusal(delayLevel="x")[0] == 1
    strict = Rig(options=BrokerOptions(auto_create_subscription_group=False))
    assert send_back(strict).code == 26
    closed = Rig(options=attrs.evolve(BROKER, broker_permission=4))
    assert send_back(closed).code == 16


async def test_what_still_waits_is_not_delivered_early() -> None:
    """NOT_BEFORE: the record of a pending message is no message that a consumer can have."""
    rig = Rig()
    rig.send("T", properties="UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x015000\x02")
    answer = send_back(rig, delayLevel="-1")

    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("MESSAGE_NOT_FOUND: the message at 0 is of rmq_sys_wheel_timer")
    assert rig.records("%DLQ%g") == []


async def test_a_damaged_message_is_not_spread() -> None:
    """Its checksum is compared: the client has a good copy, and sends that."""
    rig = Rig()
    rig.send("T", b"hello")
    record = rig.records("T")[0]
    segment = rig.broker.store.disk.open("/store/commitlog/00000000000000000000")
    body_at = segment.read(0, record.size).index(b"hello")
    segment.write(body_at, b"jello")
    answer = send_back(rig)

    assert answer.code == 1
    assert answer.remark is not None
    assert answer.remark.startswith("MESSAGE_DAMAGED: the message at 0: ")


async def test_a_store_that_takes_nothing() -> None:
    """Its reason is the answer, and nothing waits."""
    rig = Rig()
    rig.send("T", b"x", f"UNIQ_KEY\x01{'k' * 32_500}\x02")
    answer = send_back(rig)

    assert answer.code == 13
    assert answer.remark is not None
    assert answer.remark.startswith("PROPERTIES_SIZE: ")
    assert rig.records("rmq_sys_wheel_timer") == []


async def next_message(peer: Peer, topic: str, offset: int) -> Record:
    """The message at an offset, waited for with held pulls as consumers do."""
    wanted = pull_ext(topic, "g", sysFlag="6", queueOffset=str(offset))
    while (answer := await peer.call(11, wanted)).code == 19:
        pass
    return decode_record(answer.body)


async def test_one_message_through_its_tries(autojump_clock: MockClock) -> None:
    """Three retries, each in its millisecond, then a dead letter; names and ids stay."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", "UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x011500\x02"), b"x")
        first = message = await next_message(peer, "T", 0)
        back = {"group": "g", "delayLevel": "0", "maxReconsumeTimes": "3"}
        for times, seconds in enumerate((*LEVELS_SECONDS[:3], 0)):
            sent_ms = running.clock.now_ms()
            answer = await peer.call(36, {**back, "offset": str(message.phy_offset)})
            assert answer.code == 0
            topic, offset = ("%RETRY%g", times) if seconds else ("%DLQ%g", 0)
            message = await next_message(peer, topic, offset)
            assert message.reconsume_times == times + 1
            assert message.store_ms - sent_ms == seconds * 1000

    properties = message.properties_dict()
    assert (message.body, message.reconsume_times) == (b"x", 4)
    assert properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id
    assert properties["RETRY_TOPIC"] == "T"
    assert properties["UNIQ_KEY"] == "K"
    assert not {"DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS"} & set(properties)


async def test_a_cancel_of_the_message_does_not_take_the_retry_back(
    autojump_clock: MockClock,
) -> None:
    """The message has arrived, so a cancel is too late, though its retry waits under its key."""
    async with running_broker() as running:
        peer = running.connect()
        await peer.call(10, send_ext("T", "UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x011500\x02"), b"x")
        message = await next_message(peer, "T", 0)
        await peer.call(36, {"group": "g", "offset": str(message.phy_offset)})
        answer = await peer.call(9005, {"topic": "T", "uniqueKey": "K"})

        assert answer.ext["verdict"] == "too_late"
        assert (await next_message(peer, "%RETRY%g", 0)).unique_id == "K"


async def test_sync_flush_waits(autojump_clock: MockClock) -> None:
    """With SYNC_FLUSH it is answered when a power cut does not undo it."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with running_broker(store_options=sync) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        answer = await peer.call(36, {"group": "g", "offset": "0", "delayLevel": "-1"})
        log = running.broker.store.commit_log

        assert answer.code == 0
        assert log.flushed_where == log.max_offset


async def test_a_power_cut_takes_no_retry_that_was_answered(autojump_clock: MockClock) -> None:
    """With SYNC_FLUSH it waits on the wheel again, and comes once."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    disk = MemoryDisk()
    async with running_broker(disk=disk, store_options=sync) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        answer = await peer.call(36, {"group": "g", "offset": "0", "delayLevel": "2"})
        assert answer.code == 0
        running.broker.abort()
    disk.power_cut()
    async with running_broker(disk=disk, store_options=sync) as running:
        peer = running.connect()
        retry = await next_message(peer, "%RETRY%g", 0)
        await trio.sleep(100)
        end = await peer.call(30, {"topic": "%RETRY%g", "queueId": "0"})

    assert (retry.body, retry.reconsume_times) == (b"x", 1)
    assert end.ext["offset"] == "1"


async def test_one_way(autojump_clock: MockClock) -> None:
    """A one-way send-back is stored and never answered, with SYNC_FLUSH too."""
    sync = attrs.evolve(STORE, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    async with running_broker(store_options=sync) as running:
        peer = running.connect()
        await peer.call(10, send_ext("T"), b"x")
        ext = {"group": "g", "offset": "0", "delayLevel": "-1"}
        await peer.send(Command(36, opaque=99, flag=FLAG_ONEWAY, ext=ext))
        with trio.move_on_after(10):
            await peer.receive()
            raise AssertionError("a one-way request was answered")
        answer = await peer.call(30, {"topic": "%DLQ%g", "queueId": "0"})

        assert answer.ext["offset"] == "1"
