"""Tests of offsets that an operator sets."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
import trio.testing

from broker_rig import Peer, RecordingSession, Rig, pull_ext, running_broker, send_ext
from timermq.remoting import LanguageCode

RESET = {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"}
WHERE = {"topic": "T", "queueId": "0", "consumerGroup": "G"}


def heartbeat(model: str = "CLUSTERING") -> bytes:
    """A consumer of T in group G."""
    subscription = {"topic": "T", "subString": "*", "subVersion": 1}
    consumer = {
        "groupName": "G",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": model,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    return json.dumps({"clientID": "c1", "consumerDataSet": [consumer]}).encode()


async def prepared(peer: Peer, *, count: int = 3) -> None:
    """A topic with messages that the group has consumed."""
    for _ in range(count):
        await peer.call(10, send_ext("T"), b"hello")
    await peer.call(15, {**WHERE, "commitOffset": str(count)})


async def test_a_group_learns_of_a_reset_from_its_next_pull(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its commits of the old place count again when it has; the place is told once."""
    async with running_broker() as running:
        peer = running.connect()
        await prepared(peer)
        answer = await peer.call(222, RESET)

        assert answer.body == (
            b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:0,'
            b'{"brokerName":"broker-a","queueId":1,"topic":"T"}:0,'
            b'{"brokerName":"broker-a","queueId":2,"topic":"T"}:0,'
            b'{"brokerName":"broker-a","queueId":3,"topic":"T"}:0}}'
        )
        assert (await peer.call(15, {**WHERE, "commitOffset": "3"})).code == 0
        assert (await peer.call(14, WHERE)).ext == {"offset": "0"}
        commits = pull_ext("T", queueOffset="3", sysFlag="5", commitOffset="3")
        moved = await peer.call(11, commits)
        assert (moved.code, moved.ext["nextBeginOffset"]) == (21, "0")
        assert (await peer.call(11, pull_ext("T"))).code == 0
        assert (await peer.call(15, {**WHERE, "commitOffset": "2"})).code == 0
        assert (await peer.call(14, WHERE)).ext == {"offset": "2"}


async def test_a_held_pull_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """A consumer that waits for the next message need not wait for it."""
    async with running_broker() as running:
        peer, admin = running.connect(), running.connect()
        await prepared(peer)
        await peer.send(Rig().command(11, pull_ext("T", queueOffset="3", sysFlag="6")))
        await admin.call(222, RESET)
        moved = await peer.receive()

        assert moved is not None
        assert (moved.code, moved.ext["nextBeginOffset"]) == (21, "0")
        assert trio.current_time() < 1


@pytest.mark.parametrize(
    ("ext", "expected"),
    [
        ({"timestamp": "-1"}, 3),
        ({"timestamp": "1"}, 0),
        ({"queueId": "0", "offset": "2"}, 2),
        ({"queueId": "0", "timestamp": "99999999999999"}, 3),
    ],
)
async def test_targets(
    autojump_clock: trio.testing.MockClock, ext: Mapping[str, str], expected: int
) -> None:
    """By time, by number, or the end."""
    async with running_broker() as running:
        peer = running.connect()
        await prepared(peer)
        await peer.call(222, {**RESET, **ext})

        assert (await peer.call(14, WHERE)).ext == {"offset": str(expected)}


@pytest.mark.parametrize(
    ("ext", "code"),
    [
        ({"topic": "none"}, 17),
        ({"group": "none"}, 26),
        ({"queueId": "4"}, 29),
        ({"queueId": "0", "offset": "4"}, 1),
        ({"offset": "0"}, 29),
    ],
)
async def test_resets_that_make_no_sense(
    autojump_clock: trio.testing.MockClock, ext: Mapping[str, str], code: int
) -> None:
    """Nothing is changed by them."""
    async with running_broker() as running:
        peer = running.connect()
        await prepared(peer)

        assert (await peer.call(222, {**RESET, **ext})).code == code
        assert (await peer.call(14, WHERE)).ext == {"offset": "3"}


@pytest.mark.parametrize(
    ("language", "body"),
    [
        (
            LanguageCode.JAVA,
            b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:0}}',
        ),
        (
            LanguageCode.CPP,
            b'{"offsetTable":[{"brokerName":"broker-a","queueId":0,"topic":"T","offset":0}]}',
        ),
    ],
)
async def test_broadcasting_members_are_told(language: LanguageCode, body: bytes) -> None:
    """They keep their offsets themselves; each reads the form of its language."""
    rig = Rig()
    rig.broker.tables.topics.create_in_send("T", default_topic="TBW102", default_topic_queue_nums=1)
    member = RecordingSession(language=language)
    rig.call(34, body=heartbeat("BROADCASTING"), peer=member)
    rig.call(222, RESET)
    (push,) = member.sent

    assert (push.code, push.is_oneway, push.body) == (220, True, body)
    assert push.ext == {"topic": "T", "group": "G", "timestamp": "0", "isForce": "true"}
    assert len(rig.broker.tables.resets) == 0


async def test_offsets_after_another_group(autojump_clock: trio.testing.MockClock) -> None:
    """Of one topic or of all; not while the group has members."""
    async with running_broker() as running:
        peer, offsets = running.connect(), running.broker.tables.offsets
        for topic in ("T", "U"):
            offsets.commit(group="from", topic=topic, queue_id=1, offset=7)

        assert (
            await peer.call(314, {"srcGroup": "from", "destGroup": "A", "topic": "T"})
        ).code == 0
        assert offsets.topics_of("A") == ["T"]
        assert (await peer.call(314, {"srcGroup": "from", "destGroup": "B"})).code == 0
        assert offsets.topics_of("B") == ["T", "U"]
        assert offsets.offsets(group="B", topic="U") == {1: 7}

        await running.connect().call(34, body=heartbeat())
        refused = await peer.call(314, {"srcGroup": "from", "destGroup": "G"})
        assert (refused.remark or "").startswith("GROUP_ONLINE: ")


async def test_deletions_forget_resets(autojump_clock: trio.testing.MockClock) -> None:
    """Of a topic and of a group that are gone."""
    async with running_broker() as running:
        peer = running.connect()
        await prepared(peer)
        await peer.call(222, RESET)
        await peer.call(215, {"topic": "T"})

        assert len(running.broker.tables.resets) == 0

        await prepared(peer)
        await peer.call(222, RESET)
        await peer.call(207, {"groupName": "G", "cleanOffset": "true"})

        assert len(running.broker.tables.resets) == 0
