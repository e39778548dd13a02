"""Tests of consumer groups as an operator changes them."""

from __future__ import annotations

import json

import attrs
import pytest
import trio.testing

from broker_rig import BROKER, Rig, as_object, pull_ext, running_broker, send_ext
from timermq.broker.topic_validator import SYSTEM_GROUPS
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import load_json

GROUP = {"groupName": "G", "retryMaxTimes": 3, "retryQueueNums": 2, "consumeEnable": False}


async def test_a_group_is_made_and_deleted(autojump_clock: trio.testing.MockClock) -> None:
    """Both are on the disk when they are answered; fields that mean nothing here are kept."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        peer = running.connect()
        body = json.dumps({**GROUP, "consumeTimeoutMinute": 7}).encode()

        assert (await peer.call(200, body=body)).code == 0
        table = as_object(load_json(disk, "/store/config/subscriptionGroup.json"))
        assert table["subscriptionGroupTable"]["G"]["consumeTimeoutMinute"] == 7
        found = json.loads((await peer.call(352, {"group": "G"})).body)
        assert (found["retryMaxTimes"], found["consumeEnable"]) == (3, False)

        assert (await peer.call(207, {"groupName": "G"})).code == 0
        table = as_object(load_json(disk, "/store/config/subscriptionGroup.json"))
        assert "G" not in table["subscriptionGroupTable"]
        assert (await peer.call(352, {"group": "G"})).code == 26


@pytest.mark.parametrize(("clean", "left"), [("true", None), ("false", 5)])
async def test_offsets_of_a_deleted_group(
    autojump_clock: trio.testing.MockClock, clean: str, left: int | None
) -> None:
    """They go when that is asked for."""
    async with running_broker() as running:
        peer, offsets = running.connect(), running.broker.tables.offsets
        offsets.commit(group="G", topic="T", queue_id=0, offset=5)
        offsets.commit(group="H", topic="T", queue_id=0, offset=6)
        await peer.call(207, {"groupName": "G", "cleanOffset": clean})

        assert offsets.query(group="G", topic="T", queue_id=0) == left
        assert offsets.query(group="H", topic="T", queue_id=0) == 6


async def test_a_deleted_group_is_counted_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What it got is forgotten with it; what the broker gave in all stays."""
    async with running_broker() as running:
        peer, rates = running.connect(), running.broker.tables.rates
        await peer.call(10, send_ext("T"), b"hello")
        for group in ("G", "H"):
            await peer.call(11, pull_ext("T", group))
        await peer.call(207, {"groupName": "G"})

        assert list(rates.got_by_group) == [("T", "H")]
        assert rates.totals().got == 2


async def test_the_retry_topic_grows_with_its_group(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It has as many queues as the group is to have, and never loses one."""
    async with running_broker() as running:
        peer, topics = running.connect(), running.broker.tables.topics
        topics.create_in_send_back("%RETRY%G", 1)
        for nums, expected in ((3, 3), (2, 3)):
            await peer.call(200, body=json.dumps({**GROUP, "retryQueueNums": nums}).encode())
            config = topics.get("%RETRY%G")

            assert config is not None
            assert config.read_queue_nums == config.write_queue_nums == expected


@pytest.mark.parametrize(
    ("body", "code", "rule"),
    [
        ({"groupName": "a/b"}, 29, "GROUP_NAME"),
        ({}, 29, "GROUP_NAME"),
        ({**GROUP, "retryQueueNums": -1}, 29, "GROUP_CONFIG"),
        ({**GROUP, "retryMaxTimes": -2}, 29, "GROUP_CONFIG"),
        ({**GROUP, "consumeEnable": 1}, 29, "GROUP_CONFIG"),
        ([], 1, "BODY"),
    ],
)
async def test_what_no_group_can_be(body: object, code: int, rule: str) -> None:
    """The refusal names the rule."""
    answer = Rig().call(200, body=json.dumps(body).encode())

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (code, rule)


async def test_several_groups_or_none(autojump_clock: trio.testing.MockClock) -> None:
    """A list with one that is refused changes nothing."""
    async with running_broker() as running:
        peer, groups = running.connect(), running.broker.tables.groups
        bad = json.dumps({"groupConfigList": [GROUP, {"groupName": "a/b"}]}).encode()
        good = json.dumps({"groupConfigList": [GROUP, {"groupName": "H"}]}).encode()

        assert (await peer.call(225, body=bad)).code == 29
        assert groups.get("G") is None
        assert (await peer.call(225, body=good)).code == 0
        assert groups.get("G") is not None
        assert groups.get("H") is not None


@pytest.mark.parametrize(("clean", "left"), [(True, None), (False, 5)])
async def test_several_groups_are_deleted(
    autojump_clock: trio.testing.MockClock, clean: bool, left: int | None
) -> None:
    """All of them, or none when one is the broker's own; offsets go when that is asked for."""
    async with running_broker() as running:
        peer, tables = running.connect(), running.broker.tables
        tables.offsets.commit(group="G", topic="T", queue_id=0, offset=5)
        for group in ("G", "H", "I"):
            tables.groups.find(group)

        def listed(*names: str) -> bytes:
            return json.dumps({"groupNameList": names, "cleanOffset": clean}).encode()

        assert (await peer.call(5003, body=listed("G", "TOOLS_CONSUMER"))).code == 29
        assert tables.groups.get("G") is not None
        assert (await peer.call(5003, body=listed("G", "H", "none"))).code == 0
        assert [tables.groups.get(one) is None for one in "GHI"] == [True, True, False]
        assert tables.offsets.query(group="G", topic="T", queue_id=0) == left


async def test_the_whole_table() -> None:
    """All groups with the version of the table; RocketMQ's own cannot be deleted."""
    rig = Rig()
    rig.broker.tables.groups.find("G")
    body = json.loads(rig.call(201).body)

    assert body["dataVersion"]["counter"] == 1
    assert body["subscriptionGroupTable"]["G"]["retryMaxTimes"] == 16
    assert rig.call(207, {"groupName": "TOOLS_CONSUMER"}).code == 29


async def test_no_room_for_a_further_group(autojump_clock: trio.testing.MockClock) -> None:
    """The limit holds for operators, too, whose requests come together; groups can be changed."""
    options = attrs.evolve(BROKER, subscription_groups_max=len(SYSTEM_GROUPS) + 1)
    async with running_broker(options=options) as running:
        peer, groups = running.connect(), running.broker.tables.groups
        bodies = [json.dumps({**GROUP, "groupName": one}).encode() for one in ("G", "H")]
        await peer.send(*(Command(200, opaque=at, body=body) for at, body in enumerate(bodies, 7)))
        answers = [await peer.receive() for _ in bodies]
        assert ["", "GROUPS_MAX"] == sorted(
            (one.remark or "").partition(":")[0] for one in answers if one is not None
        )
        assert len(list(groups.all())) == len(SYSTEM_GROUPS) + 1
        again = bodies[0 if groups.get("G") else 1]
        assert (await peer.call(200, body=again)).code == 0


async def test_no_room_for_a_larger_retry_topic(autojump_clock: trio.testing.MockClock) -> None:
    """The limit of queues holds for retry topics; a list that passes it is refused as a whole."""
    async with running_broker(options=attrs.evolve(BROKER, queues_max=9)) as running:
        peer, tables = running.connect(), running.broker.tables
        for group in ("G", "H"):
            tables.topics.create_in_send_back(f"%RETRY%{group}", 1)

        def listed(nums: int) -> bytes:
            groups = [{"groupName": one, "retryQueueNums": nums} for one in ("G", "H")]
            return json.dumps({"groupConfigList": groups}).encode()

        refused = await peer.call(225, body=listed(5))
        assert (refused.remark or "").startswith("QUEUES_MAX: no room for %RETRY%G: ")
        assert tables.groups.get("G") is None
        assert (await peer.call(225, body=listed(4))).code == 0
        config = tables.topics.get("%RETRY%H")
        assert config is not None
        assert config.read_queue_nums == 4


async def test_no_room_for_several_groups(autojump_clock: trio.testing.MockClock) -> None:
    """A list that has no room is refused as a whole; a group that it names twice counts once."""
    options = attrs.evolve(BROKER, subscription_groups_max=len(SYSTEM_GROUPS) + 1)
    async with running_broker(options=options) as running:
        peer, groups = running.connect(), running.broker.tables.groups

        def listed(*names: str) -> bytes:
            return json.dumps({"groupConfigList": [{"groupName": one} for one in names]}).encode()

        refused = await peer.call(225, body=listed("G", "H"))
        assert (refused.remark or "").startswith("GROUPS_MAX: no room for G and 1 more: ")
        assert len(list(groups.all())) == len(SYSTEM_GROUPS)
        assert (await peer.call(225, body=listed("G", "G"))).code == 0
