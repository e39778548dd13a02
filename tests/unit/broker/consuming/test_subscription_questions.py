"""Pulls ahead of every heartbeat: their client is asked what it subscribes to, and they wait."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import BROKER, PROPERTIES, Peer, RunningBroker, pull_ext, running_broker, send_ext
from timermq.broker.consuming.filter import ALL
from timermq.broker.consuming.long_polling import HeldPull
from timermq.broker.consuming.subscription_questions import (
    ANSWER_SECONDS,
    GONE_MAX,
    HOLD_SECONDS,
    REST,
)
from timermq.broker.options import BrokerOptions
from timermq.remoting import Command, LanguageCode
from timermq.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from timermq.timerstore.record import decode_record

OLD, NEW = 5, 6


def subscription(version: int, tags: str = "TagB", topic: str = "T") -> SubscriptionData:
    """The subscription of a consumer, for tag B unless said otherwise."""
    return SubscriptionData(topic=topic, sub_string=tags, sub_version=version)


def heartbeat(*subscriptions: SubscriptionData, client_id: str = "c1") -> bytes:
    """A consumer in group G."""
    consumer = ConsumerData(group_name="G", subscriptions=subscriptions)
    return HeartbeatData(client_id=client_id, consumers=[consumer]).encode()


def running_info(*subscriptions: SubscriptionData) -> bytes:
    """What a Java client tells of itself, with a table that is no JSON."""
    told = json.dumps([one.to_json() for one in subscriptions])
    return f'{{"mqTable":{{{{"queueId":0}}:{{}}}},"subscriptionSet":{told}}}'.encode()


def pull(opaque: int, version: int = NEW, sys_flag: int = 2, **more: str) -> Command:
    """A pull by the group's subscription, held while there is nothing to give."""
    ext = pull_ext("T", subVersion=str(version), sysFlag=str(sys_flag), subscription="")
    return Command(11, opaque=opaque, language=LanguageCode.JAVA, ext={**ext, **more})


@attrs.frozen
class Stage:
    """A broker, and a member of G that has told its old subscription: to tag A."""

    running: RunningBroker
    client: Peer
    sender: Peer

    async def next(self) -> Command:
        """What the client is sent next."""
        found = await self.client.receive()
        assert found is not None
        return found

    async def question(self) -> Command:
        """The question that the client is asked next."""
        asked = await self.next()
        assert (asked.code, asked.is_response) == (307, False)
        assert asked.ext == {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "false"}
        return asked

    async def answer(self, question: Command, *subscriptions: SubscriptionData) -> None:
        """Have the client tell what it subscribes to."""
        await self.client.send(question.answer(0, body=running_info(*subscriptions)))

    async def store(self, body: bytes, tag: str = "TagB", topic: str = "T") -> None:
        """Send a message, of tag B unless said otherwise."""
        properties = f"{PROPERTIES}TAGS\x01{tag}\x02"
        assert (await self.sender.call(10, send_ext(topic, properties), body)).code == 0

    @property
    def held(self) -> int:
        """How many pulls are held."""
        return self.running.broker.tables.long_polling.held


@asynccontextmanager
async def staged(options: BrokerOptions = BROKER) -> AsyncGenerator[Stage]:
    """The stage, with a message of tag A and then one of tag B."""
    async with running_broker(options=options) as running:
        stage = Stage(running, running.connect(), running.connect())
        await stage.store(b"a", "TagA")
        await stage.store(b"b", "TagB")
        await stage.client.send(Command(34, body=heartbeat(subscription(OLD, "TagA"))))
        # It is told that it has joined, before the answer.
        assert [(await stage.next()).code for _ in range(2)] == [40, 0]
        yield stage


def bodies(answer: Command) -> list[bytes]:
    """Bodies of the messages in an answer, one after the other."""
    found, left = list[bytes](), answer.body
    while left:
        size = int.from_bytes(left[:4], "big")
        found.append(decode_record(left[:size]).body)
        left = left[size:]
    return found


async def test_a_newer_pull_waits_for_the_answer(autojump_clock: MockClock) -> None:
    """It gets what the newer subscription wants, without a refusal before."""
    async with staged() as stage:
        await stage.client.send(pull(1))
        await stage.answer(await stage.question(), subscription(NEW))
        answer = await stage.next()

        assert (answer.opaque, answer.code, bodies(answer)) == (1, 0, [b"b"])
        assert trio.current_time() < REST


async def test_an_older_answer_serves_no_pull(autojump_clock: MockClock) -> None:
    """Who tells an older version is refused as ever; what it told does not count either."""
    async with staged() as stage:
        await stage.client.send(pull(1))
        await stage.answer(await stage.question(), subscription(OLD - 1))
        refused = await stage.next()
        served = await stage.client.call(11, pull(2, OLD).ext)

        assert (refused.code, refused.opaque) == (25, 1)
        assert refused.remark == (
            "SUBSCRIPTION_NOT_LATEST: the subscription of T is of version 5, the pull of 6"
        )
        assert bodies(served) == [b"a"]
        assert stage.held == 0


async def test_a_topic_that_no_heartbeat_has_told(autojump_clock: MockClock) -> None:
    """The client is asked too; of topics that none of its pulls names, nothing is learnt."""
    async with staged() as stage:
        await stage.store(b"u", topic="U")
        await stage.client.send(pull(1, topic="U"))
        told = (subscription(NEW, topic="U"), subscription(NEW, topic="V"), subscription(NEW))
        await stage.answer(await stage.question(), *told)
        answer = await stage.next()
        group = stage.running.broker.tables.clients.consumer_group("G")

        assert bodies(answer) == [b"u"]
        assert group is not None
        assert {one.topic: one.sub_version for one in group.subscriptions.values()} == {
            "T": OLD,
            "U": NEW,
        }


async def test_all_pulls_wait_for_one_question(autojump_clock: MockClock) -> None:
    """A client pulls from all of its queues at once."""
    async with staged() as stage:
        await stage.client.send(*[pull(1 + queue, queueId=str(queue)) for queue in range(4)])
        question = await stage.question()
        await stage.answer(question, subscription(NEW))
        first = await stage.next()
        await stage.client.send(pull(9, sys_flag=0, queueId="1"))
        second = await stage.next()

        assert (first.opaque, bodies(first)) == (1, [b"b"])
        assert (second.opaque, second.code) == (9, 19)
        assert stage.held == 3


async def test_one_question_a_second(autojump_clock: MockClock) -> None:
    """The next newer pull waits until the client may be asked again."""
    async with staged() as stage:
        await stage.client.send(pull(1))
        await stage.answer(await stage.question(), subscription(NEW))
        await stage.next()
        asked_at = trio.current_time()
        await stage.client.send(pull(2, NEW + 1))
        question = await stage.question()

        assert trio.current_time() == pytest.approx(asked_at + REST, abs=0.1)
        await stage.answer(question, subscription(NEW + 1))
        assert bodies(await stage.next()) == [b"b"]


async def test_a_silent_client_is_refused(autojump_clock: MockClock) -> None:
    """After some seconds, and with no second question meanwhile."""
    async with staged() as stage:
        await stage.client.send(pull(1), pull(2, queueId="1"))
        await stage.question()
        refused = [await stage.next(), await stage.next()]

        assert [(one.opaque, one.code) for one in refused] == [(1, 25), (2, 25)]
        assert ANSWER_SECONDS <= trio.current_time() <= HOLD_SECONDS
        assert stage.held == 0


@pytest.mark.parametrize(
    ("code", "body"), [(1, b""), (3, b""), (0, b""), (0, b'{"subscriptionSet":[{]')]
)
async def test_a_client_that_tells_nothing(
    code: int, body: bytes, autojump_clock: MockClock
) -> None:
    """Refused at once: an old client, or one whose answer is no JSON."""
    async with staged() as stage:
        await stage.client.send(pull(1))
        await stage.client.send((await stage.question()).answer(code, body=body))

        assert (await stage.next()).code == 25
        assert trio.current_time() < REST


async def test_a_heartbeat_meanwhile(autojump_clock: MockClock) -> None:
    """What it tells is as good as an answer; what it does not tell is waited for."""
    async with staged() as stage:
        await stage.client.send(pull(1), pull(2, NEW + 1, queueId="1"))
        question = await stage.question()
        beat = Command(34, opaque=3, body=heartbeat(subscription(NEW)))
        await stage.client.send(beat)
        answers = [await stage.next(), await stage.next()]

        assert {one.opaque: one.code for one in answers} == {1: 0, 3: 0}
        assert stage.held == 1
        await stage.answer(question, subscription(NEW + 1))
        await stage.client.send(pull(4, NEW + 1))
        assert ((await stage.next()).opaque, stage.held) == (4, 1)


async def test_pulls_that_cannot_be_held_are_not_kept(autojump_clock: MockClock) -> None:
    """They are refused at once, and the client is not asked for them."""
    async with staged(attrs.evolve(BROKER, held_pulls_per_connection_max=1)) as stage:
        await stage.client.send(*[pull(1 + queue, queueId=str(queue)) for queue in range(4)])
        found = [await stage.next() for _ in range(4)]

        assert sorted((one.code, one.opaque) for one in found if one.code == 25) == [
            (25, 2), (25, 3), (25, 4)
        ]  # fmt: skip
        assert stage.running.broker.tables.questions.waiting == 1


async def test_pulls_whose_time_was_up_are_not_kept(autojump_clock: MockClock) -> None:
    """Of a silent client with many groups, whose turns come minutes later."""
    groups = [f"G{number}" for number in range(20)]
    at_once, turns = 50, 6
    async with staged() as stage:
        consumers = [
            ConsumerData(group_name=one, subscriptions=[subscription(OLD)]) for one in groups
        ]
        beat = HeartbeatData(client_id="c1", consumers=consumers).encode()
        await stage.client.send(Command(34, opaque=5, body=beat))
        while not (answer := await stage.next()).is_response or answer.opaque != 5:
            pass
        for one in groups[:-1]:
            await stage.client.send(pull(7, consumerGroup=one))
        opaque = 100
        for _ in range(turns):
            last = range(opaque, opaque + at_once)
            await stage.client.send(*[pull(one, consumerGroup=groups[-1]) for one in last])
            left = set(last)
            while left:
                left.discard((await stage.next()).opaque)
            opaque += at_once

        assert stage.running.broker.tables.questions.waiting <= 3 * at_once + GONE_MAX


async def test_a_pull_at_the_end_of_the_rest(autojump_clock: MockClock) -> None:
    """Its client is asked, whichever of pull and end comes first in that moment."""
    async with staged() as stage:
        tables = stage.running.broker.tables
        group = tables.clients.consumer_group("G")
        assert group is not None
        (session,) = group.members
        went_on = list[HeldPull]()
        for opaque in range(16):
            held = HeldPull(
                session=session,
                command=pull(opaque),
                group="G",
                topic="T",
                queue_id=0,
                first_offset=0,
                offset=0,
                count_max=1,
                message_filter=ALL,
            )
            tables.questions.ask(held, NEW + opaque, went_on.append)
            with trio.fail_after(3 * REST):
                await stage.answer(await stage.question(), subscription(NEW + opaque))
            while held not in went_on:
                await trio.lowlevel.checkpoint()
            # The moment in which the client's task would end.
            await trio.sleep(REST)


async def test_the_cpp_client_is_not_asked(autojump_clock: MockClock) -> None:
    """Its answer is no JSON: it is refused a moment later, as it is ever."""
    async with staged() as stage:
        await stage.client.send(attrs.evolve(pull(1), language=LanguageCode.CPP))

        assert (await stage.next()).code == 25
        assert trio.current_time() == pytest.approx(BROKER.pull_error_delay_ms / 1000, abs=0.1)


async def test_a_connection_without_room_for_a_task(autojump_clock: MockClock) -> None:
    """Who keeps the broker busy already is refused at once."""
    async with staged(attrs.evolve(BROKER, connection_tasks_max=1)) as stage:
        ask = Command(307, opaque=9, ext={"consumerGroup": "G", "clientId": "c1"})
        await stage.client.send(ask)
        assert (await stage.next()).code == 307
        await stage.client.send(pull(1))

        assert (await stage.next()).code == 25


async def test_from_the_answer_on_it_is_held_as_any_other(autojump_clock: MockClock) -> None:
    """What arrives wakes it; and its own time counts from when it came."""
    async with staged() as stage:
        await stage.client.send(pull(1, queueOffset="2", suspendTimeoutMillis="9000"))
        await trio.sleep(4)
        await stage.answer(await stage.question(), subscription(NEW))
        await trio.sleep(2)
        await stage.store(b"later")
        woken = await stage.next()
        asked_at = trio.current_time()
        await stage.client.send(pull(2, NEW + 1, queueOffset="3", suspendTimeoutMillis="9000"))
        await stage.answer(await stage.question(), subscription(NEW + 1))
        ended = await stage.next()

        assert (woken.opaque, bodies(woken)) == (1, [b"later"])
        assert (ended.opaque, ended.code) == (2, 19)
        assert trio.current_time() == pytest.approx(asked_at + 9, abs=0.3)


async def test_what_a_pull_asks_besides(autojump_clock: MockClock) -> None:
    """Its offset is committed once it is served; one that is not to be held is answered at once."""
    async with staged() as stage:
        offsets = stage.running.broker.tables.offsets
        await stage.client.send(pull(1, sys_flag=1, queueOffset="2", commitOffset="2"))
        question = await stage.question()
        before = offsets.query(group="G", topic="T", queue_id=0)
        await stage.answer(question, subscription(NEW))
        answer = await stage.next()

        assert (answer.code, answer.ext["nextBeginOffset"]) == (19, "2")
        assert (before, offsets.query(group="G", topic="T", queue_id=0)) == (None, 2)


async def test_a_client_that_goes(autojump_clock: MockClock) -> None:
    """With its connection question and pulls end; the broker has room for the next."""
    async with staged() as stage:
        await stage.client.send(pull(1))
        await stage.question()
        assert stage.held == 1
        await stage.client.stream.aclose()
        await trio.sleep(REST)

        assert stage.held == 0
        assert stage.running.broker.tables.clients.consumer_group("G") is None
