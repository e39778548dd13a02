"""Tests of the checks of a send: each has its code, and the first that fails counts."""

import attrs
import pytest

from broker_rig import RecordingSession, Rig, send_ext
from timermq.broker.options import BrokerOptions
from timermq.broker.topic_config import TopicConfig
from timermq.remoting import LanguageCode
from timermq.remoting.lock_body import MessageQueue
from timermq.timerstore.message import format_host


@pytest.mark.parametrize("topic", ["", "../T", "a/b", "a.b", "T\x00", "naïve", "x" * 128])
async def test_illegal_topics(topic: str) -> None:
    """A name that could be a path, is empty or too long is an invalid parameter (29)."""
    rig = Rig()
    answer = rig.send(topic)

    assert answer.code == 29
    assert answer.remark is not None
    assert answer.remark.startswith("TOPIC_NAME: the topic ")
    assert rig.broker.tables.topics.get(topic) is None


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "rmq_sys_wheel_timer",
        "rmq_sys_new",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ],
)
async def test_internal_topics(topic: str) -> None:
    """No client writes what the broker writes (16), the timer topic included."""
    answer = Rig().send(topic)

    assert (answer.code, answer.remark) == (
        16,
        f"TOPIC_NOT_ALLOWED: {topic} takes no messages from outside",
    )


async def test_unknown_topics() -> None:
    """Without a template that allows it, an unknown topic does not come to be (17)."""
    answer = Rig().send("T", defaultTopic="none")
    off = Rig(options=BrokerOptions(auto_create_topic_enable=False)).send("T")

    assert (answer.code, answer.remark) == (
        17,
        "TOPIC_NOT_EXIST: topic T does not exist, and 'none' does not let it be made",
    )
    assert off.code == 17


@pytest.mark.parametrize("queue_id", ["4", "2147483647"])
async def test_bad_queues(queue_id: str) -> None:
    """A queue that the topic does not have is an invalid parameter (29)."""
    answer = Rig().send("T", queueId=queue_id)

    assert (answer.code, answer.remark) == (
        29,
        f"QUEUE_ID: topic T has 4 queues, found queue {queue_id} from group 'PID'",
    )


async def test_a_negative_queue_is_the_broker_s_choice() -> None:
    """The broker takes the queues in turn."""
    rig = Rig()

    assert [rig.send("T", queueId="-1").ext["queueId"] for _ in range(5)] == list("01230")


async def test_not_accepting_yet() -> None:
    """Before its start time the broker takes nothing (1)."""
    rig = Rig(options=BrokerOptions(start_accept_send_request_time_stamp=1_700_000_000_001))

    assert rig.send("T").code == 1
    rig.clock.time_ms += 1
    assert rig.send("T").code == 0


async def test_order_topics_of_a_closed_broker() -> None:
    """A broker that is not writeable refuses order topics; clients keep away from the others."""
    rig = Rig(options=BrokerOptions(broker_permission=4))
    rig.broker.tables.topics.put(TopicConfig(topic_name="Ordered", order=True))

    assert rig.send("Ordered").code == 16
    assert rig.send("T").code == 0


@pytest.mark.parametrize(
    ("properties", "sys_flag"),
    [
        ("UNIQ_KEY\x01K\x02", "4"),
        ("UNIQ_KEY\x01K\x02", "8"),
        ("TRAN_MSG\x01false\x02UNIQ_KEY\x01K\x02", "12"),
    ],
)
async def test_a_transaction_is_marked_twice(properties: str, sys_flag: str) -> None:
    """The flag alone is refused (13): RocketMQ stores what no queue ever holds."""
    answer = Rig().call(10, send_ext("T", properties, sysFlag=sys_flag), b"x")

    assert (answer.code, answer.remark) == (
        13,
        f"TRANSACTION_FLAG: sysFlag {int(sys_flag):#x} is of a transaction, the property TRAN_MSG "
        "is not true",
    )


async def test_transactions_may_be_forbidden() -> None:
    """As by Java's rejectTransactionMessage (16)."""
    rig = Rig(options=BrokerOptions(reject_transaction_message=True))
    answer = rig.send("T", properties="TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01K\x02")

    assert (answer.code, answer.remark) == (
        16,
        "TRANSACTION_REJECTED: rejectTransactionMessage is true on this broker",
    )


async def test_a_message_that_is_tried_again_is_no_transaction() -> None:
    """Java's consumers before 4.6.1 send it back with all that it once had."""
    rig = Rig()
    properties = "TRAN_MSG\x01true\x02DELAY\x013\x02UNIQ_KEY\x01K\x02"
    answer = rig.send("%RETRY%G", properties=properties, sysFlag="4", reconsumeTimes="1")
    (waiting,) = rig.records("rmq_sys_wheel_timer")

    assert answer.code == 0
    assert waiting.sys_flag == 0
    assert b"TRAN_MSG" not in waiting.properties


async def test_flags_that_the_broker_sets() -> None:
    """Inner batches are refused (13); marks of IPv6 hosts follow from the hosts alone."""
    rig = Rig()

    assert rig.send("T", sysFlag="128").code == 13
    assert rig.send("T", sysFlag="49").code == 0
    (record,) = rig.records("T")
    assert record.sys_flag == 1
    assert format_host(record.born_host) == "127.0.0.1:40000"


async def test_compaction_topics_need_keys() -> None:
    """Their messages are found by key only (13)."""
    rig = Rig()
    rig.broker.tables.topics.put(
        TopicConfig(topic_name="C", attributes={"cleanup.policy": "COMPACTION"})
    )

    assert rig.send("C").code == 13
    assert rig.send("C", properties="KEYS\x01k\x02").code == 0


async def test_a_retry_topic_is_made_with_its_group() -> None:
    """A consumer that sends a message to its retry topic needs nothing prepared."""
    rig = Rig()

    assert rig.send("%RETRY%g").code == 0
    config = rig.broker.tables.topics.get("%RETRY%g")
    assert config is not None
    assert (config.read_queue_nums, config.perm) == (1, 6)
    strict = Rig(options=BrokerOptions(auto_create_subscription_group=False))
    assert strict.send("%RETRY%g").code == 26
    assert rig.send("%RETRY%a/b").code == 29


async def test_a_message_tried_too_often_is_a_dead_letter() -> None:
    """Beyond its tries it goes to the group's dead letters, at once whatever it asks for."""
    rig = Rig()
    properties = "UNIQ_KEY\x01K\x02DELAY\x013\x02"

    assert rig.send("%RETRY%g", properties=properties, reconsumeTimes="17").code == 0
    (record,) = rig.records("%DLQ%g")
    assert record.reconsume_times == 17
    assert b"DELAY" not in record.properties
    assert rig.records("%RETRY%g") == []


@pytest.mark.parametrize(
    ("language", "version", "stated", "topic"),
    [
        (LanguageCode.JAVA, 479, "2", "%DLQ%g"),
        (LanguageCode.JAVA, 479, "3", "%RETRY%g"),
        (LanguageCode.JAVA, 479, "0", "%DLQ%g"),
        (LanguageCode.GO, 317, "0", "%RETRY%g"),
        (LanguageCode.CPP, 63, "2", "%RETRY%g"),
    ],
)
async def test_tries_that_the_client_states(
    language: LanguageCode, version: int, stated: str, topic: str
) -> None:
    """Recent clients say how often; Go always says 0 and means nothing, C++ is too old."""
    rig, peer = Rig(), RecordingSession(language=language)
    peer.session.version = version
    ext = {"topic": "%RETRY%g", "queueId": "0", "reconsumeTimes": "3", "maxReconsumeTimes": stated}

    assert rig.call(10, ext, b"x", peer=peer).code == 0
    assert len(rig.records(topic)) == 1


async def test_the_group_s_own_limit_counts() -> None:
    """An operator can set fewer tries for a group."""
    rig = Rig()
    groups = rig.broker.tables.groups
    groups.put(attrs.evolve(groups.find("g"), retry_max_times=1))
    rig.send("%RETRY%g", reconsumeTimes="1")
    rig.send("%RETRY%g", reconsumeTimes="2")

    assert len(rig.records("%RETRY%g")) == 1
    assert len(rig.records("%DLQ%g")) == 1


async def test_what_an_orderly_group_gives_up_is_a_dead_letter() -> None:
    """It tries again by itself; while it holds locks, what it sends to its retry topic is over."""
    rig = Rig()
    queue = MessageQueue(topic="T", broker_name="broker-a", queue_id=0)
    rig.broker.tables.locks.lock("g", [queue], "c")
    rig.send("%RETRY%g", properties="UNIQ_KEY\x01K\x02DELAY\x013\x02", reconsumeTimes="1")
    rig.broker.tables.locks.unlock("g", [queue], "c")
    rig.send("%RETRY%g", reconsumeTimes="1")

    (given_up,) = rig.records("%DLQ%g")
    assert b"DELAY" not in given_up.properties
    assert len(rig.records("%RETRY%g")) == 1


async def test_a_dead_letter_begins_no_transaction() -> None:
    """Old consumers send back a half message as it was; RocketMQ parks such a letter for ever."""
    rig = Rig()
    properties = "UNIQ_KEY\x01K\x02DELAY\x013\x02TRAN_MSG\x01true\x02PGROUP\x01P\x02"
    rig.send("%RETRY%g", properties=properties, reconsumeTimes="17", sysFlag="4")

    (letter,) = rig.records("%DLQ%g")
    assert letter.sys_flag == 0
    assert b"TRAN_MSG" not in letter.properties


LATER = "TIMER_DELAY_MS\x0160000\x02"


@pytest.mark.parametrize(
    ("priority", "more", "queue_id", "is_kept"),
    [
        ("0", "", 0, True),
        ("2", "", 2, True),
        ("3", "", 3, True),
        ("4", "", 3, True),
        ("+2", "", 2, True),
        ("2147483647", "", 3, True),
        ("2147483648", "", 1, True),
        ("-1", "", 1, True),
        ("high", "", 1, True),
        ("9" * 5_000, "", 1, True),
        ("2", "__SHARDINGKEY\x01order 7\x02", 1, False),
        ("2", LATER, 2, True),
        ("high", LATER, 1, True),
    ],
)
async def test_a_priority_chooses_the_queue(
    priority: str, more: str, queue_id: int, is_kept: bool
) -> None:
    """Not of a message with a sharding key, whose order counts; a delayed one keeps it."""
    rig = Rig()
    properties = f"UNIQ_KEY\x01K1\x02_SYS_MSG_PRIORITY_\x01{priority}\x02{more}"
    answer = rig.send("T", properties=properties, queueId="1")
    topic = "rmq_sys_wheel_timer" if more == LATER else "T"
    (record,) = rig.records(topic, int(answer.ext["queueId"]) if topic == "T" else 0)
    found = record.properties_dict()

    assert answer.code == 0
    assert answer.ext["queueId"] == str(queue_id)
    assert ("_SYS_MSG_PRIORITY_" in found) is is_kept
    assert found.get("REAL_QID", str(queue_id)) == str(queue_id)


async def test_priorities_of_a_transaction_end_there() -> None:
    """A half message has none, as in RocketMQ; it keeps the queue that its producer chose."""
    rig = Rig()
    priority = "_SYS_MSG_PRIORITY_\x012\x02"
    properties = f"UNIQ_KEY\x01K1\x02PGROUP\x01PID\x02TRAN_MSG\x01true\x02{priority}"
    rig.send("T", properties=properties, queueId="1", sysFlag="4")
    (record,) = rig.records("RMQ_SYS_TRANS_HALF_TOPIC")
    found = record.properties_dict()

    assert found["REAL_QID"] == "1"
    assert "_SYS_MSG_PRIORITY_" not in found


async def test_priorities_in_a_topic_with_fewer_queues_to_write() -> None:
    """The queues that are only read get none."""
    rig = Rig()
    rig.broker.tables.topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2))
    answer = rig.send("T", properties="UNIQ_KEY\x01K1\x02_SYS_MSG_PRIORITY_\x019\x02")

    assert answer.ext["queueId"] == "1"
