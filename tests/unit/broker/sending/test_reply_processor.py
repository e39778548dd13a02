"""Tests of request-reply: replies handed to the client that asked, limits, and refusals."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing

from broker_rig import ADDRESS, Peer, Rig, RunningBroker, running_broker
from timermq.broker.sending import reply_processor
from timermq.remoting import Command

PROPERTIES = "CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01asker\x02MSG_TYPE\x01reply\x02"
LONG = {
    "producerGroup": "P",
    "topic": "DefaultCluster_REPLY_TOPIC",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "-1",
    "sysFlag": "0",
    "bornTimestamp": "1700000000000",
    "flag": "0",
    "properties": PROPERTIES,
}
SHORT = dict(zip("abcdefghi", LONG.values(), strict=True))


async def asker(running: RunningBroker) -> Peer:
    """A client that waits for replies."""
    peer = running.connect()
    groups = [{"groupName": "Asking"}]
    await peer.call(34, body=json.dumps({"clientID": "asker", "producerDataSet": groups}).encode())
    return peer


@pytest.mark.parametrize(("code", "ext"), [(324, LONG), (325, SHORT)])
async def test_a_reply_is_handed_over(
    autojump_clock: trio.testing.MockClock, code: int, ext: dict[str, str]
) -> None:
    """The client gets it with all that it needs; the replier is answered when it has."""
    async with running_broker() as running:
        client, replier = await asker(running), running.connect()
        await replier.send(Command(code, opaque=9, ext=ext, body=b"pong"))
        pushed = await client.receive()
        assert pushed is not None
        assert (pushed.code, pushed.is_oneway, pushed.body) == (326, False, b"pong")
        assert pushed.ext == {
            **LONG,
            "bornHost": "127.0.0.1:40000",
            "queueId": "0",
            "reconsumeTimes": "0",
            "storeHost": ADDRESS,
            "storeTimestamp": pushed.ext["storeTimestamp"],
            "unitMode": "false",
        }
        await client.send(pushed.answer(0))
        answer = await replier.receive()

        assert answer is not None
        assert (answer.code, answer.opaque) == (0, 9)
        assert answer.ext["queueOffset"] == "0"


async def test_a_client_that_does_not_take_its_reply(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The replier is told: refused, silent, or gone."""
    async with running_broker() as running:
        client, replier = await asker(running), running.connect()
        await replier.send(Command(324, opaque=1, ext=LONG))
        pushed = await client.receive()
        assert pushed is not None
        await client.send(pushed.answer(1, remark="too late"))
        refused = await replier.receive()
        assert refused is not None
        assert refused.remark == "REPLY_REFUSED: the client answered 1: 'too late'"

        await replier.send(Command(324, opaque=2, ext=LONG))
        silent = await replier.receive()
        assert silent is not None
        assert silent.code == 207

        await replier.send(Command(324, opaque=3, ext=LONG))
        await client.receive()
        await client.stream.aclose()
        gone = await replier.receive()
        assert gone is not None
        assert gone.code == 206
        assert (await replier.call(324, LONG)).code == 1


@pytest.mark.parametrize(
    ("ext", "code", "rule"),
    [
        ({"topic": "T"}, 17, "REPLY_TOPIC"),
        ({"properties": "REPLY_TO_CLIENT\x01stranger\x02"}, 1, "REPLY_TO_CLIENT"),
        ({"properties": ""}, 1, "REPLY_TO_CLIENT"),
        ({"properties": "x" * 32_768}, 13, "BODY_SIZE"),
        ({"queueId": "x"}, 1, "FIELD"),
    ],
)
async def test_what_is_no_reply(ext: dict[str, str], code: int, rule: str) -> None:
    """The refusal names the rule."""
    answer = Rig().call(324, {**LONG, **ext})

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (code, rule)


async def test_replies_under_way_are_limited(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond its share a client's are refused as busy; each that ends makes room."""
    monkeypatch.setattr(reply_processor, "REPLIES_MAX", 4)
    async with running_broker() as running:
        await asker(running)
        replier = running.connect()
        await replier.send(*(Command(324, opaque=number, ext=LONG) for number in range(3)))
        answers = [await replier.receive() for _ in range(3)]
        found = [(one.opaque, one.code) for one in answers if one is not None]

        assert found[0] == (2, 2)
        assert sorted(found[1:]) == [(0, 207), (1, 207)]
        await trio.sleep(1)
        late = Command(324, opaque=5, ext=LONG)
        await replier.send(late)
        answer = await replier.receive()
        assert answer is not None
        assert answer.code == 207


async def test_a_client_s_newest_connection_gets_the_reply(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The end of an older one does not hide it."""
    async with running_broker() as running:
        old, new = await asker(running), await asker(running)
        await old.stream.aclose()
        await trio.sleep(1)
        replier = running.connect()
        await replier.send(Command(324, opaque=1, ext=LONG))
        pushed = await new.receive()

        assert pushed is not None
        assert pushed.code == 326
