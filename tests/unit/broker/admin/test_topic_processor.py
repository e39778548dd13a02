"""Tests of topics as an operator changes them."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from broker_rig import BROKER, Peer, Rig, as_object, running_broker, send_ext
from timermq.remoting import Command
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import load_json

TOPIC = {"topic": "T", "readQueueNums": "2", "writeQueueNums": "3", "perm": "6"}


def saved_topics(disk: MemoryDisk) -> dict[str, Any]:
    """The table as it stands on the disk."""
    return as_object(as_object(load_json(disk, "/store/config/topics.json"))["topicConfigTable"])


async def put(peer: Peer, **more: str) -> None:
    """Make the topic or change it, with these parameters."""
    assert (await peer.call(17, {**TOPIC, **more})).code == 0


async def test_a_topic_is_made_and_changed(autojump_clock: trio.testing.MockClock) -> None:
    """The answer says that it is on the disk; attributes are changed one by one."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running:
        peer = running.connect()
        await put(peer, attributes="+message.type=DELAY,+reserve.time=5", order="true")

        assert saved_topics(disk)["T"] == {
            "attributes": {"message.type": "DELAY", "reserve.time": "5"},
            "order": True,
            "perm": 6,
            "readQueueNums": 2,
            "topicFilterType": "SINGLE_TAG",
            "topicName": "T",
            "topicSysFlag": 0,
            "writeQueueNums": 3,
        }

        await put(peer, attributes="-reserve.time", perm="4")
        config = json.loads((await peer.call(351, {"topic": "T"})).body)

        assert (config["perm"], config["attributes"]) == (4, {"message.type": "DELAY"})


@pytest.mark.parametrize(
    ("ext", "code", "rule"),
    [
        ({"topic": "a/b"}, 29, "TOPIC_NAME"),
        ({"topic": ""}, 29, "TOPIC_NAME"),
        ({"topic": "TBW102"}, 1, "TOPIC_SYSTEM"),
        ({"topic": "rmq_sys_wheel_timer"}, 1, "TOPIC_SYSTEM"),
        ({"topic": "broker-a"}, 1, "TOPIC_SYSTEM"),
        ({"readQueueNums": "0"}, 29, "TOPIC_CONFIG"),
        ({"writeQueueNums": "65537"}, 29, "TOPIC_CONFIG"),
        ({"perm": "16"}, 29, "TOPIC_CONFIG"),
        ({"attributes": "+cleanup.policy=COMPACTION"}, 29, "TOPIC_ATTRIBUTES"),
        ({"attributes": "message.type=DELAY"}, 29, "TOPIC_ATTRIBUTES"),
        ({"attributes": "+colour=red"}, 29, "TOPIC_ATTRIBUTES"),
        ({"attributes": "-message.type=DELAY"}, 29, "TOPIC_ATTRIBUTES"),
        ({"attributes": "+reserve.time=soon"}, 29, "TOPIC_ATTRIBUTES"),
        ({"perm": "x"}, 1, "FIELD"),
    ],
)
async def test_what_no_topic_can_be(ext: dict[str, str], code: int, rule: str) -> None:
    """The refusal names the rule, and nothing has changed."""
    rig = Rig()
    before = rig.broker.tables.topics.changes
    answer = rig.call(17, {**TOPIC, **ext})

    assert answer.code == code
    assert (answer.remark or "").startswith(f"{rule}: ")
    assert rig.broker.tables.topics.changes == before


async def test_no_room_for_a_further_topic(autojump_clock: trio.testing.MockClock) -> None:
    """The limit holds for operators, too, whose requests come together; topics can be changed."""
    count = len(list(Rig().broker.tables.topics.all()))
    async with running_broker(options=attrs.evolve(BROKER, topics_max=count + 1)) as running:
        peer = running.connect()
        await peer.send(
            *(Command(17, opaque=one, ext={**TOPIC, "topic": f"T{one}"}) for one in (1, 2))
        )
        answers = [await peer.receive() for _ in range(2)]
        assert ["", "TOPICS_MAX"] == sorted(
            (one.remark or "").partition(":")[0] for one in answers if one is not None
        )
        assert len(list(running.broker.tables.topics.all())) == count + 1
        (made,) = [one for one in ("T1", "T2") if running.broker.tables.topics.get(one)]
        assert (await peer.call(17, {**TOPIC, "topic": made})).code == 0


async def test_several_topics_or_none(autojump_clock: trio.testing.MockClock) -> None:
    """A list with one that is refused changes nothing."""
    good = {"topicName": "A", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    async with running_broker() as running:
        peer = running.connect()
        topics = running.broker.tables.topics
        bodies = [
            json.dumps({"topicConfigList": [good, {**good, "topicName": "a/b"}]}).encode(),
            json.dumps({"topicConfigList": [{**good, "perm": "all"}]}).encode(),
            b'{"topicConfigList":[]}',
            b"[]",
        ]

        assert [(await peer.call(18, body=body)).code for body in bodies] == [29, 29, 1, 1]
        assert topics.get("A") is None

        both = json.dumps({"topicConfigList": [good, {**good, "topicName": "B"}]}).encode()

        assert (await peer.call(18, body=both)).code == 0
        assert topics.get("A") is not None
        assert topics.get("B") is not None


async def test_the_whole_table() -> None:
    """All topics with the version of the table."""
    rig = Rig()
    rig.send("T")
    body = json.loads(rig.call(21).body)

    assert body["dataVersion"]["counter"] == 1
    assert body["topicConfigTable"]["T"]["writeQueueNums"] == 4
    assert "T" not in json.loads(rig.call(305).body)["topicList"]
    assert "TBW102" in json.loads(rig.call(305).body)["topicList"]


async def test_the_state_of_a_topic_s_queues() -> None:
    """Keys are queues, printed in place as Java reads them; the rate is that of the last minute."""
    rig = Rig()
    rig.send("T")
    rig.clock.time_ms += 59_000
    rig.send("T")
    rig.send("T")
    answer = rig.call(202, {"topic": "T"})

    assert answer.body.startswith(
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:'
        b'{"lastUpdateTimestamp":1700000059000,"maxOffset":3,"minOffset":0},'
        b'{"brokerName":"broker-a","queueId":1,"topic":"T"}:'
        b'{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0},'
    )
    assert answer.body.endswith(b'},"topicPutTps":0.05}')
    rig.clock.time_ms += 2_000

    assert rig.call(202, {"topic": "T"}).body.endswith(f'"topicPutTps":{2 / 60}}}'.encode())
    assert rig.call(202, {"topic": "none"}).code == 17
    assert rig.call(351, {"topic": "none"}).code == 17


async def test_queues_that_are_only_read_are_shown(autojump_clock: trio.testing.MockClock) -> None:
    """A topic that is to have fewer queues keeps those that are being emptied, as in Java."""
    async with running_broker() as running:
        peer = running.connect()
        await put(peer, readQueueNums="3", writeQueueNums="3")
        await peer.call(10, send_ext("T", queueId="2"), b"hello")
        await put(peer, readQueueNums="3", writeQueueNums="1")
        found = (await peer.call(202, {"topic": "T"})).body

        assert found.count(b'"queueId":') == 3
        assert b'"queueId":2,"topic":"T"}:{"lastUpdateTimestamp":1700000000000,"maxOffset":1' in (
            found
        )
