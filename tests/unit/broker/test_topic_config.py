"""Tests of the topic table."""

from pathlib import Path

import pytest

from broker_rig import BROKER, as_object
from fakes import START_MS
from golden_stores import GoldenStores
from timermq.broker.config_fields import ConfigTableError
from timermq.broker.options import BrokerOptions
from timermq.broker.refusal import RefusedError
from timermq.broker.topic_config import TopicConfig, TopicConfigTable
from timermq.timerstore.config_file import parse_json


def make_table(options: BrokerOptions = BROKER) -> TopicConfigTable:
    """A table as a new broker has it."""
    return TopicConfigTable(options, now_ms=lambda: START_MS, level_max=18)


def test_system_topics_are_there_from_the_start() -> None:
    """The broker makes the topics that a Java broker makes, with their queues and permissions."""
    table = make_table()

    assert {
        config.topic_name: (config.perm, config.write_queue_nums) for config in table.all()
    } == {
        "TBW102": (7, 8),
        "SCHEDULE_TOPIC_XXXX": (6, 18),
        "rmq_sys_wheel_timer": (6, 1),
        "SELF_TEST_TOPIC": (6, 1),
        "BenchmarkTest": (6, 1024),
        "DefaultCluster": (7, 16),
        "broker-a": (7, 1),
        "OFFSET_MOVED_EVENT": (6, 1),
        "DefaultCluster_REPLY_TOPIC": (6, 1),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (6, 8),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (6, 1),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (6, 1),
    }


def test_a_topic_is_made_after_its_template() -> None:
    """The producer's number of queues counts up to the template's, and inheriting ends."""
    table = make_table()
    config = table.create_in_send("T", default_topic="TBW102", default_topic_queue_nums=4)

    assert config == TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, perm=6)
    many = table.create_in_send("U", default_topic="TBW102", default_topic_queue_nums=99)
    assert many is not None
    assert many.queue_nums == 8
    none = table.create_in_send("V", default_topic="TBW102", default_topic_queue_nums=-1)
    assert none is not None
    assert none.queue_nums == 1


def test_queues_of_all_topics_are_bounded() -> None:
    """Each is an open file: what would be beyond is refused, and deleted topics make room."""
    table = make_table(BrokerOptions(queues_max=9))

    def make(topic: str, queues: int = 4) -> None:
        table.create_in_send(topic, default_topic="TBW102", default_topic_queue_nums=queues)

    make("T")
    make("U")
    with pytest.raises(RefusedError, match="no room for V: the topics have 8 queues of 9, and 4"):
        make("V")
    make("V", 1)
    table.delete("T")
    make("W")

    assert ["U", "V", "W"] == [
        one.topic_name for one in table.all() if not table.is_system(one.topic_name)
    ]


@pytest.mark.parametrize(
    ("options", "left"),
    [(BrokerOptions(topics_max=20), 1), (BrokerOptions(queues_max=8), 2)],
    ids=["topics", "queues"],
)
def test_a_flood_of_one_leaves_room_for_others(options: BrokerOptions, left: int) -> None:
    """Who sends to ever new topics gets half of the room; an operator gets what is there."""
    table = make_table(options)

    def make_all(name: str, owner: str) -> tuple[int, str]:
        for made in range(100):
            try:
                table.create_in_send(
                    f"{name}{made}", default_topic="TBW102", default_topic_queue_nums=1, owner=owner
                )
            except RefusedError as error:
                return made, error.rule
        return 100, ""

    assert make_all("A", "10.0.0.1") == (4, "TOPICS_SHARE")
    assert make_all("B", "10.0.0.2") == (2, "TOPICS_SHARE")
    assert make_all("C", "")[0] == left


def test_changes_count_by_what_they_add() -> None:
    """A topic that gets fewer queues always may; several are refused together."""
    table = make_table(BrokerOptions(queues_max=9))

    def topic(name: str, queues: int) -> TopicConfig:
        return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=1)

    table.put(topic("T", 12))  # a message has arrived there
    table.check_room([topic("T", 11)])
    with pytest.raises(RefusedError, match="QUEUES_MAX"):
        table.check_room([topic("T", 13)])
    table.put(topic("T", 5))
    table.check_room([topic("U", 2), topic("V", 2)])
    with pytest.raises(RefusedError, match="QUEUES_MAX"):
        table.check_room([topic("U", 2), topic("V", 3)])


def test_without_permission_no_topic_is_made() -> None:
    """A template must exist and allow it, and TBW102 must be switched on."""
    table = make_table()

    assert table.create_in_send("T", default_topic="none", default_topic_queue_nums=4) is None
    assert (
        table.create_in_send("T", default_topic="SELF_TEST_TOPIC", default_topic_queue_nums=4)
        is None
    )
    off = make_table(BrokerOptions(auto_create_topic_enable=False))
    assert off.create_in_send("T", default_topic="TBW102", default_topic_queue_nums=4) is None
    assert off.get("TBW102") is None


def test_the_table_is_bounded() -> None:
    """A request for one topic too many is refused and says so."""
    table = make_table(BrokerOptions(topics_max=13))

    with pytest.raises(RefusedError) as caught:
        table.create_in_send("T", default_topic="TBW102", default_topic_queue_nums=4)

    assert caught.value.remark == "TOPICS_MAX: no room for T: the table holds 13 topics"
    with pytest.raises(RefusedError, match="TOPICS_MAX"):
        table.create_in_send_back("%RETRY%g", 1)


def test_changes_are_counted_and_told() -> None:
    """Each change raises the data version, and all who asked for it hear of it."""
    table = make_table()
    told: list[int] = []
    told_too: list[int] = []
    table.on_change(lambda: told.append(table.changes))
    table.on_change(lambda: told_too.append(table.changes))
    before = table.data_version.counter
    table.create_in_send_back("%RETRY%g", 1)
    table.create_in_send_back("%RETRY%g", 1)

    assert told == told_too == [1]
    assert table.data_version.counter == before + 1
    assert table.data_version.timestamp == START_MS
    assert table.delete("%RETRY%g")
    assert not table.delete("%RETRY%g")
    assert not table.delete("TBW102")
    assert told == [1, 2]


def test_a_java_file_goes_through_unchanged(golden_stores: GoldenStores) -> None:
    """What Java wrote is read and written with the same values."""
    text = Path(golden_stores["g1"].root, "config/topics.json").read_text()
    data = parse_json(text)
    table = make_table()
    table.load(data)

    assert table.to_json() == data
    assert table.get("Ordered_5d51") == TopicConfig(
        topic_name="Ordered_5d51",
        read_queue_nums=3,
        write_queue_nums=3,
        attributes={"message.type": "FIFO"},
    )


def test_unknown_fields_are_kept() -> None:
    """Fields of later versions are written back as they were, in alphabetical order."""
    table = make_table()
    table.load(
        {
            "newTop": 1,
            "topicConfigTable": {"T": {"topicName": "T", "newField": [1], "perm": 4}},
        }
    )
    written = as_object(table.to_json())

    assert written["newTop"] == 1
    assert list(written["topicConfigTable"]["T"]) == [
        "attributes",
        "newField",
        "order",
        "perm",
        "readQueueNums",
        "topicFilterType",
        "topicName",
        "topicSysFlag",
        "writeQueueNums",
    ]
    assert written["topicConfigTable"]["T"]["newField"] == [1]


def test_a_topic_with_a_path_in_its_name_is_left_out() -> None:
    """A name that could leave the store's directory never becomes a topic."""
    table = make_table()
    table.load({"topicConfigTable": {"../../etc": {"topicName": "../../etc"}}})

    assert table.get("../../etc") is None


def test_a_damaged_file_is_not_guessed_at() -> None:
    """A value of the wrong type names file, topic and field."""
    with pytest.raises(ConfigTableError) as caught:
        make_table().load({"topicConfigTable": {"T": {"perm": "6"}}})

    assert str(caught.value) == (
        "config/topics.json: topicConfigTable: T: perm: expected a 64-bit integer, found '6'"
    )


def test_topics_of_the_store_are_restored() -> None:
    """A topic that has messages but no entry gets one; an entry stays as it is.

    No fewer queues than topics have that producers make: messages may wait for any of them.
    """
    table = make_table()
    table.restore("T", 3)
    table.restore("U", 12)
    table.restore("TBW102", 1)
    table.restore("../x", 1)

    assert table.get("T") == TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8)
    assert table.get("U") == TopicConfig(topic_name="U", read_queue_nums=12, write_queue_nums=12)
    template = table.get("TBW102")
    assert template is not None
    assert template.queue_nums == 8
    assert table.get("../x") is None


def test_a_queue_at_which_something_arrives_is_read() -> None:
    """Whether its topic was forgotten or has fewer queues; producers get no further ones."""
    table = make_table()
    table.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=1))
    before = table.changes
    table.let_read("T", 1)
    assert table.changes == before
    table.let_read("T", 4)
    table.let_read("U", 9)

    assert table.get("T") == TopicConfig(topic_name="T", read_queue_nums=5, write_queue_nums=1)
    assert table.get("U") == TopicConfig(topic_name="U", read_queue_nums=10, write_queue_nums=10)
