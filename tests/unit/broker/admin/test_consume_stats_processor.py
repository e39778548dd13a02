"""Tests of how far groups have come."""

from __future__ import annotations

import json

import trio
import trio.testing

from broker_rig import Peer, Rig, pull_ext, running_broker, send_ext

WHERE = {"topic": "T", "queueId": "0", "consumerGroup": "G"}
QUEUE = b'{"brokerName":"broker-a","queueId":%d,"topic":"%s"}'


def consumed() -> Rig:
    """Three messages, a second apart; the group has consumed one."""
    rig = Rig()
    for _ in range(3):
        rig.send("T", defaultTopicQueueNums="1")
        rig.clock.time_ms += 1_000
    rig.call(15, {**WHERE, "commitOffset": "1"})
    return rig


async def test_one_group() -> None:
    """Each queue's end and the group's place in it, in Java's form."""
    row = b'{"brokerOffset":3,"consumerOffset":1,"lastTimestamp":1700000000000,"pullOffset":1}'

    assert consumed().call(208, {"consumerGroup": "G"}).body == (
        b'{"consumeTps":0.0,"offsetTable":{' + QUEUE % (0, b"T") + b":" + row + b"}}"
    )


async def test_named_topics() -> None:
    """Also one that the group has not begun; a topic that is not there has no queues."""
    rig = consumed()
    rig.send("U", defaultTopicQueueNums="1")
    body = rig.call(208, {"consumerGroup": "G", "topicList": "U;none"}).body

    assert QUEUE % (0, b"U") in body
    assert QUEUE % (0, b"T") not in body
    assert b'"brokerOffset":1,"consumerOffset":0,"lastTimestamp":0' in body
    one = rig.call(208, {"consumerGroup": "G", "topic": "T"}).body
    assert QUEUE % (0, b"T") in one


async def test_topics_that_members_do_not_subscribe_to_are_left_out() -> None:
    """What a group consumed once says nothing of what it does now."""
    rig = consumed()
    consumer = {"groupName": "G", "subscriptionDataSet": [{"topic": "U", "subString": "*"}]}
    rig.call(34, body=json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode())

    assert rig.call(208, {"consumerGroup": "G"}).body == b'{"consumeTps":0.0,"offsetTable":{}}'


async def test_the_rate_of_a_group(autojump_clock: trio.testing.MockClock) -> None:
    """Messages pulled count, over the last minute."""
    rig = consumed()
    stats = rig.broker.tables.stats
    await stats.sample()
    rig.call(11, pull_ext("T"))
    await trio.sleep(10)
    await stats.sample()

    assert rig.call(208, {"consumerGroup": "G"}).body.startswith(b'{"consumeTps":0.3')
    await trio.sleep(70)
    await stats.sample()
    assert rig.call(208, {"consumerGroup": "G"}).body.startswith(b'{"consumeTps":0.0')


async def test_all_groups(autojump_clock: trio.testing.MockClock) -> None:
    """How much all of them are behind, in Java's form; a group that committed nothing has none."""
    async with running_broker() as running:
        peer, groups = running.connect(), running.broker.tables.groups
        for _ in range(3):
            await peer.call(10, send_ext("T", defaultTopicQueueNums="1"), b"hello")
        for group, offset in (("G", "1"), ("H", "3")):
            groups.find(group)
            await peer.call(15, {**WHERE, "consumerGroup": group, "commitOffset": offset})
        groups.find("new")
        found = (await peer.call(317)).body

        assert found.startswith(b'{"brokerAddr":"127.0.0.1:10911","consumeStatsList":[{"')
        assert b'{"G":[{"consumeTps":0.0,"offsetTable":{' + QUEUE % (0, b"T") + b":{" in found
        assert found.endswith(b'{"new":[]}],"totalDiff":2,"totalInflightDiff":0}')
        ordered = json.loads((await peer.call(317, {"isOrder": "true"})).body)
        assert ordered["totalDiff"] == 0
        assert {"G": []} in ordered["consumeStatsList"]


async def test_others_are_served_while_all_groups_are_looked_at(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Thousands of groups take seconds: who asks a little later is answered first."""
    async with running_broker() as running:
        slow, quick, groups = running.connect(), running.connect(), running.broker.tables.groups
        for number in range(4_000):
            groups.find(f"G{number}")
        answered: list[int] = []

        async def ask(peer: Peer, code: int) -> None:
            assert (await peer.call(code, {"topic": "TBW102", "queueId": "0"})).code == 0
            answered.append(code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, slow, 317)
            for _ in range(20):  # it is under way
                await trio.lowlevel.checkpoint()
            await ask(quick, 30)

        assert answered == [30, 317]


async def test_times_of_a_group() -> None:
    """Store times at the ends of a queue, and how long the oldest unconsumed message waits."""
    rig = consumed()
    spans = json.loads(rig.call(303, {"topic": "T", "group": "G"}).body)["consumeTimeSpanSet"]

    assert spans == [
        {
            "consumeTimeStamp": 1_700_000_000_000,
            "delayTime": 1_000,
            "maxTimeStamp": 1_700_000_002_000,
            "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
            "minTimeStamp": 1_700_000_000_000,
        }
    ]
    assert rig.call(303, {"topic": "none", "group": "G"}).code == 17
