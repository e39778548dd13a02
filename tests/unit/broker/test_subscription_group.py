"""Tests of the consumer groups."""

from pathlib import Path

import attrs
import pytest

from broker_rig import BROKER, as_object
from fakes import START_MS
from golden_stores import GoldenStores
from timermq.broker.consuming.retry_policy import ExponentialRetryPolicy
from timermq.broker.options import BrokerOptions
from timermq.broker.refusal import RefusedError
from timermq.broker.subscription_group import SubscriptionGroupTable
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.config_file import parse_json
from timermq.timerstore.fastjson import fastjson


def make_table(options: BrokerOptions = BROKER) -> SubscriptionGroupTable:
    """A table as a new broker has it."""
    return SubscriptionGroupTable(options, now_ms=lambda: START_MS)


def test_a_group_is_made_on_first_use() -> None:
    """A new group has RocketMQ's defaults, and a second look finds the same one."""
    table = make_table()
    told: list[str] = []
    table.on_change(lambda: told.append("changed"))
    group = table.find("g")

    assert (group.retry_max_times, group.retry_queue_nums) == (16, 1)
    assert group.consume_enable
    assert table.find("g") is group
    assert told == ["changed"]


def test_groups_are_not_made_when_that_is_off() -> None:
    """Then only the system's own groups come to be; others do not exist (26)."""
    table = make_table(BrokerOptions(auto_create_subscription_group=False))

    with pytest.raises(RefusedError) as caught:
        table.find("g")

    assert caught.value.code is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert caught.value.remark == "GROUP_NOT_EXIST: subscription group g does not exist"
    assert table.find("CID_RMQ_SYS_NEW").group_name == "CID_RMQ_SYS_NEW"


@pytest.mark.parametrize("group", ["", "a/b", "..", "x" * 121])
def test_illegal_names_are_refused(group: str) -> None:
    """A group's name becomes part of a topic's, and so of a path."""
    with pytest.raises(RefusedError) as caught:
        make_table().find(group)

    assert caught.value.code is ResponseCode.INVALID_PARAMETER
    assert caught.value.rule == "GROUP_NAME"


def test_the_table_is_bounded() -> None:
    """One group too many is refused and says so."""
    table = make_table(BrokerOptions(subscription_groups_max=8))

    with pytest.raises(RefusedError) as caught:
        table.find("g")

    assert caught.value.remark == "GROUPS_MAX: no room for g: the table holds 8 groups"


def test_a_java_file_goes_through_unchanged(golden_stores: GoldenStores) -> None:
    """What Java wrote is read and written with the same values, its own fields among them."""
    text = Path(golden_stores["g4"].root, "config/subscriptionGroup.json").read_text()
    data = parse_json(text)
    table = make_table()
    table.load(data)

    assert table.to_json() == data


def test_a_new_group_is_written_as_java_writes_one(golden_stores: GoldenStores) -> None:
    """A group made here has the fields and values of one made by Java."""
    text = Path(golden_stores["g4"].root, "config/subscriptionGroup.json").read_text()
    java = as_object(parse_json(text))["subscriptionGroupTable"]["G_work_5ed1"]
    group = make_table().find("G_work_5ed1")

    assert group.to_json() == java
    assert list(group.to_json()) == sorted(java)


def test_a_changed_group_replaces_the_old_one() -> None:
    """An operator's change counts from then on."""
    table = make_table()
    table.put(attrs.evolve(table.find("g"), retry_max_times=3))

    assert table.find("g").retry_max_times == 3
    assert "g" in {group.group_name for group in table.all()}


def test_a_policy_is_read_and_stays_in_the_file() -> None:
    """Between tries a group waits as its own policy says; the file keeps what stands there."""
    table = make_table()
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 250, "max": 1000}}
    table.load({"subscriptionGroupTable": {"g": {"groupRetryPolicy": policy}, "h": {}}})
    groups = as_object(table.to_json())["subscriptionGroupTable"]

    assert table.find("g").retry_policy == ExponentialRetryPolicy(initial=250, max=1000)
    assert table.find("h").retry_policy is None
    assert groups["g"]["groupRetryPolicy"] == policy


def test_a_group_is_forbidden_to_read_a_topic() -> None:
    """In RocketMQ's bits, so that a broker of each reads what the other has written."""
    table = make_table()
    table.find("G")
    for topic in ("T", "U"):
        table.set_readable("G", topic, readable=False)
    counter = table.data_version.counter
    table.set_readable("G", "T", readable=False)

    assert table.data_version.counter == counter
    assert as_object(table.to_json())["forbiddenTable"] == {"G": {"T": 4, "U": 4}}
    read = make_table()
    read.load(parse_json(fastjson(table.to_json()), table.path))
    assert [read.is_readable("G", topic) for topic in ("T", "U", "V")] == [False, False, True]
    read.set_readable("G", "T", readable=True)
    assert read.forbidden() == {"G": {"U": 4}}
    read.delete("G")
    assert read.forbidden() == {}


def test_other_bits_of_a_forbidden_group_stay() -> None:
    """RocketMQ has one of them for a right to read."""
    table = make_table()
    table.load({"subscriptionGroupTable": {}, "forbiddenTable": {"G": {"T": 5, "U": 1}}})
    table.set_readable("G", "T", readable=True)

    assert table.forbidden() == {"G": {"T": 1, "U": 1}}
    assert table.is_readable("G", "U")
