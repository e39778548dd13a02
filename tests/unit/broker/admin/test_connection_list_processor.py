"""Tests of who is connected, and of questions handed on to clients."""

from __future__ import annotations

import json
from collections.abc import Callable

import trio
import trio.testing

from broker_rig import Peer, Rig, RunningBroker, running_broker, send_ext
from timermq.remoting import Command

HEARTBEAT = json.dumps(
    {
        "clientID": "c1",
        "producerDataSet": [{"groupName": "P"}],
        "consumerDataSet": [
            {
                "groupName": "G",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": [{"topic": "T", "subString": "a || b", "subVersion": 5}],
            }
        ],
    }
).encode()


async def test_members_of_groups() -> None:
    """What heartbeats said; a group without members is refused."""
    rig = Rig()
    rig.call(34, body=HEARTBEAT)
    found = json.loads(rig.call(203, {"consumerGroup": "G"}).body)
    connection = {
        "clientAddr": "127.0.0.1:40000",
        "clientId": "c1",
        "language": "JAVA",
        "version": 479,
    }

    assert found["connectionSet"] == [connection]
    assert (found["consumeFromWhere"], found["consumeType"], found["messageModel"]) == (
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_PASSIVELY",
        "CLUSTERING",
    )
    assert found["subscriptionTable"]["T"]["tagsSet"] == ["a", "b"]
    assert json.loads(rig.call(204, {"producerGroup": "P"}).body) == {"connectionSet": [connection]}
    assert json.loads(rig.call(328).body)["data"]["P"][0]["remoteIP"] == "127.0.0.1"
    assert rig.call(203, {"consumerGroup": "none"}).code == 206
    assert rig.call(204, {"producerGroup": "none"}).code == 1


async def test_who_consumes_what() -> None:
    """Groups with members, and those that have committed something."""
    rig = Rig()
    rig.call(34, body=HEARTBEAT)
    rig.broker.tables.offsets.commit(group="gone", topic="T", queue_id=0, offset=1)

    assert json.loads(rig.call(300, {"topic": "T"}).body) == {"groupList": ["G", "gone"]}
    assert json.loads(rig.call(343, {"group": "gone"}).body) == {"topicList": ["T"]}
    known = json.loads(rig.call(345, {"group": "G", "topic": "T"}).body)
    assert known["subscriptionData"]["subString"] == "a || b"
    unknown = json.loads(rig.call(345, {"group": "G", "topic": "U"}).body)
    assert unknown == {"group": "G", "topic": "U"}


async def ask(
    running: RunningBroker, question: Command, reply: Callable[[Command], Command | None]
) -> tuple[Command, Command]:
    """What a client was asked because of an operator's question, and what the operator got."""
    client, admin = running.connect(), running.connect()
    await client.call(34, body=HEARTBEAT)
    assert await client.receive() is not None  # the news that it has joined
    await admin.send(question)
    asked = await client.receive()
    assert asked is not None
    answer = reply(asked)
    if answer is not None:
        await client.send(answer)
    answered = await admin.receive()
    assert answered is not None
    return asked, answered


async def test_running_info_is_the_client_s(autojump_clock: trio.testing.MockClock) -> None:
    """Question and answer are handed on as they are."""
    ext = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "false"}
    async with running_broker() as running:
        asked, answered = await ask(
            running,
            Command(307, opaque=1, ext=ext),
            lambda asked: asked.answer(0, body=b'{"mqTable":{{"queueId":0}:{}}}'),
        )

        assert (asked.code, asked.ext, asked.is_response) == (307, ext, False)
        assert (answered.code, answered.opaque) == (0, 1)
        assert answered.body == b'{"mqTable":{{"queueId":0}:{}}}'


async def test_who_asks_is_not_handed_on(autojump_clock: trio.testing.MockClock) -> None:
    """With an administrator's signature a client could do what it may not itself."""
    secret = {"AccessKey": "admin01", "Signature": "x", "SecurityToken": "t", "OnsChannel": "c"}
    members = {"consumerGroup": "G", "clientId": "c1"}
    async with running_broker() as running:
        asked, _ = await ask(
            running, Command(307, opaque=1, ext=members | secret), lambda asked: asked.answer(0)
        )
        queues = {"topic": "T", "group": "G"}
        also_asked, _ = await ask(
            running, Command(223, opaque=1, ext=queues | secret), lambda asked: asked.answer(0)
        )

    assert (asked.ext, also_asked.ext) == (members, queues)


async def test_a_message_is_consumed_on_request(autojump_clock: trio.testing.MockClock) -> None:
    """The client gets the record that the id names."""
    async with running_broker() as running:
        sent = await running.connect().call(10, send_ext("T"), b"hello")
        ext = {"consumerGroup": "G", "clientId": "c1", "msgId": sent.ext["msgId"]}
        asked, answered = await ask(
            running, Command(309, opaque=1, ext=ext), lambda asked: asked.answer(1, remark="no")
        )

        assert b"hello" in asked.body
        assert (answered.code, answered.remark) == (1, "no")


async def test_a_client_that_is_silent(autojump_clock: trio.testing.MockClock) -> None:
    """The operator is told after ten seconds."""
    ext = {"consumerGroup": "G", "clientId": "c1"}
    async with running_broker() as running:
        _, answered = await ask(running, Command(307, opaque=1, ext=ext), lambda _: None)

        assert (answered.code, (answered.remark or "")[:13]) == (207, "CLIENT_SILENT")
        assert trio.current_time() >= 10


async def test_a_client_that_leaves_before_it_answers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The operator is told at once."""
    async with running_broker() as running:
        client, admin = running.connect(), running.connect()
        await client.call(34, body=HEARTBEAT)
        await client.receive()
        await admin.send(Command(307, opaque=1, ext={"consumerGroup": "G", "clientId": "c1"}))
        await client.receive()
        await client.stream.aclose()
        answered = await admin.receive()

        assert answered is not None
        assert (answered.code, (answered.remark or "")[:11]) == (206, "CLIENT_GONE")
        assert trio.current_time() < 10


async def test_queues_of_all_members(autojump_clock: trio.testing.MockClock) -> None:
    """Tables keyed by queues are put together, member by member."""
    table = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}'
    async with running_broker() as running:
        asked, answered = await ask(
            running,
            Command(223, opaque=1, ext={"topic": "T", "group": "G"}),
            lambda asked: asked.answer(0, body=table),
        )

        assert (asked.code, asked.ext) == (221, {"topic": "T", "group": "G"})
        assert b"".join(answered.body.split()) == (
            b'{"consumerTable":{"c1":{{"brokerName":"b","queueId":0,"topic":"T"}:7}},'
            b'"messageQueueTable":{}}'
        )


async def test_questions_that_no_client_can_answer() -> None:
    """An unknown client, a group without members, an id of no message."""
    rig = Rig()
    rig.call(34, body=HEARTBEAT)
    member = {"consumerGroup": "G", "clientId": "c1"}

    assert rig.call(307, {**member, "clientId": "c2"}).code == 206
    assert rig.call(307, {**member, "consumerGroup": "none"}).code == 206
    assert rig.call(223, {"topic": "T", "group": "none"}).code == 206
    assert rig.call(309, {**member, "msgId": "x"}).code == 1
    assert rig.call(309, {**member, "msgId": "7F00000100002A9F0000000000000000"}).code == 1


async def test_an_answer_that_no_call_waits_for_is_dropped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The connection goes on behind an answer to no request."""
    async with running_broker() as running:
        peer: Peer = running.connect()
        await peer.send(Command(0, opaque=77, flag=1))

        assert (await peer.call(206)).code == 0
