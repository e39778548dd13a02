"""Client ids: no account takes that of another, replies to it, or locks and unlocks in its name."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker_rig import (
    BROKER,
    Peer,
    RecordingSession,
    Rig,
    RunningBroker,
    running_broker,
    send_ext,
)
from signed import sign, write_rules
from timermq.broker.options import BrokerOptions
from timermq.broker.topic_config import TopicConfig
from timermq.remoting import Command
from timermq.remoting.bodies import ConsumerData, HeartbeatData
from timermq.remoting.lock_body import LockBatch, MessageQueue

RULES = """accounts:
- {accessKey: victimV, secretKey: hidden-secret, topicPerms: [T=SUB], defaultGroupPerm: SUB}
- {accessKey: accountA, secretKey: hidden-secret, topicPerms: [T=SUB], defaultGroupPerm: SUB}
- {accessKey: replier, secretKey: hidden-secret, topicPerms: [DefaultCluster_REPLY_TOPIC=PUB]}
- {accessKey: operator, secretKey: hidden-secret, admin: true}
"""
ID = "10.0.0.1@7"
NO_RIGHT = (16, "NO_PERMISSION: the request is not signed by an account that may do this")


def guarded_options(directory: Path) -> BrokerOptions:
    """Options of a broker with access control, whose rules are in this directory."""
    return attrs.evolve(BROKER, acl_enable=True, acl_file=write_rules(directory, RULES))


def heartbeat(client_id: str = ID, *, produces: str = "", consumes: str = "") -> bytes:
    """The body of a heartbeat of a client in one group or two."""
    return HeartbeatData(
        client_id=client_id,
        producer_groups=[produces] if produces else [],
        consumers=[ConsumerData(group_name=consumes)] if consumes else [],
    ).encode()


class Room:
    """A broker with access control that stands still, and its topic T."""

    def __init__(self, directory: Path) -> None:
        self.rig = Rig(options=guarded_options(directory))
        self.clients = self.rig.broker.tables.clients
        self.rig.broker.tables.topics.put(TopicConfig(topic_name="T", read_queue_nums=4))

    def ask(
        self,
        who: str,
        code: int,
        body: bytes,
        peer: RecordingSession | None = None,
        ext: dict[str, str] | None = None,
    ) -> Command:
        """The answer to a signed request."""
        peer = peer or RecordingSession()
        (answer,) = self.rig.handle(sign(self.rig.command(code, ext, body), who), peer=peer)
        return answer

    def beat(
        self,
        who: str,
        peer: RecordingSession | None = None,
        *,
        client_id: str = ID,
        produces: str = "",
        consumes: str = "",
    ) -> str:
        """The rule by which a heartbeat is refused; empty when it is not."""
        body = heartbeat(client_id, produces=produces, consumes=consumes)
        return refusal(self.ask(who, 34, body, peer))

    def end(self, peer: RecordingSession) -> None:
        """End the connection of a client."""
        self.rig.broker.dispatcher.close(peer.session)

    def groups(self) -> set[str]:
        """Names of all groups of consumers and producers that are registered."""
        consumers = {one.group for one in self.clients.consumer_groups()}
        return consumers.union(self.clients.producer_groups())


def refusal(answer: Command) -> str:
    """The rule by which a request is refused, with 16; empty when it is not."""
    if answer.code == 0:
        return ""
    assert answer.code == 16
    return (answer.remark or "").partition(":")[0]


@pytest.mark.parametrize(("produces", "consumes"), [("PV", ""), ("", "CV")])
@pytest.mark.parametrize(("wanted", "shared"), [("PA", ""), ("", "CA"), ("PV", "CV"), ("", "")])
async def test_another_account_does_not_take_an_id(
    tmp_path: Path, produces: str, consumes: str, wanted: str, shared: str
) -> None:
    """Whatever it is registered as, and as whatever it is asked for; nothing is registered."""
    room = Room(tmp_path)
    assert room.beat("victimV", produces=produces, consumes=consumes) == ""
    topics = {one.topic_name for one in room.rig.broker.tables.topics.all()}
    registered = room.groups()

    assert room.beat("accountA", produces=wanted, consumes=shared) == "CLIENT_ID"
    assert room.groups() == registered
    assert {one.topic_name for one in room.rig.broker.tables.topics.all()} == topics
    assert room.beat("accountA", client_id="own", produces=wanted, consumes=shared) == ""


async def test_two_accounts_that_ask_for_an_id_in_one_piece(tmp_path: Path) -> None:
    """Also on one connection it is that of who comes first."""
    room = Room(tmp_path)
    answers = room.rig.handle(
        sign(room.rig.command(34, body=heartbeat(produces="PV")), "victimV"),
        sign(room.rig.command(34, body=heartbeat(produces="PA")), "accountA"),
        sign(room.rig.command(34, body=heartbeat(produces="PV")), "victimV"),
    )

    assert [refusal(one) for one in answers] == ["", "CLIENT_ID", ""]
    assert room.groups() == {"PV"}


async def test_a_client_that_comes_back(tmp_path: Path) -> None:
    """Its old connection is half dead: the account takes the id over, and has it to the end."""
    room = Room(tmp_path)
    old, new, newest = RecordingSession(), RecordingSession(), RecordingSession()
    for peer in (old, new):
        assert room.beat("victimV", peer, produces="P") == ""
        assert producer_of(room) is peer.session
    room.end(old)
    assert producer_of(room) is new.session
    assert room.beat("accountA", produces="P") == "CLIENT_ID"
    assert room.beat("victimV", newest, produces="P") == ""
    room.end(newest)
    assert room.beat("accountA", produces="P") == "CLIENT_ID"
    room.end(new)

    assert len(room.clients.ids) == 0
    assert room.beat("accountA", produces="P") == ""


def producer_of(room: Room) -> object:
    """The connection that gets replies to the id."""
    found = room.clients.ids.producer(ID)
    return None if found is None else found[0]


async def test_an_id_that_is_given_up(tmp_path: Path) -> None:
    """By a goodbye to the last group, or a heartbeat with another id, it is free."""
    room = Room(tmp_path)
    peer = RecordingSession()
    assert room.beat("victimV", peer, produces="P", consumes="C") == ""
    room.ask("victimV", 35, b"", peer, {"producerGroup": "P"})
    assert producer_of(room) is None
    assert room.beat("accountA", produces="P") == "CLIENT_ID"
    room.ask("victimV", 35, b"", peer, {"consumerGroup": "C"})
    assert room.beat("accountA", produces="P") == ""

    assert room.beat("victimV", peer, client_id="one", produces="P", consumes="C") == ""
    assert room.beat("victimV", peer, client_id="two", produces="P") == ""
    assert room.beat("accountA", client_id="one") == "CLIENT_ID"
    assert room.beat("victimV", peer, client_id="two", consumes="C") == ""
    assert room.beat("accountA", client_id="one", produces="P") == ""


async def test_who_may_everything_takes_an_id(tmp_path: Path) -> None:
    """It is his until he leaves, then again the account's that is still there."""
    room = Room(tmp_path)
    own, operator = RecordingSession(), RecordingSession()
    assert room.beat("victimV", own, produces="P") == ""
    assert room.beat("operator", operator, consumes="C") == ""
    for who in ("victimV", "accountA"):
        assert room.beat(who, produces="P") == "CLIENT_ID"
    room.end(operator)

    assert room.beat("accountA", produces="P") == "CLIENT_ID"
    assert room.beat("victimV", own, produces="P") == ""


async def test_without_access_control_the_newest_has_an_id() -> None:
    """Everybody may everything, signed or not."""
    rig = Rig()
    for who in ("victimV", "accountA"):
        peer = RecordingSession()
        (answer,) = rig.handle(sign(rig.command(34, body=heartbeat(produces="P")), who), peer=peer)
        found = rig.broker.tables.clients.ids.producer(ID)

        assert answer.code == 0
        assert found is not None
        assert found[0] is peer.session


QUEUE = MessageQueue(topic="T", broker_name="broker-a", queue_id=0)


def lock(client_id: str = ID) -> bytes:
    """The body of 41 and 42."""
    return LockBatch(client_id=client_id, consumer_group="C", mq_set=(QUEUE,)).encode()


async def test_locks_in_anothers_name(tmp_path: Path) -> None:
    """Neither taken nor given back, by an account that may consume the same."""
    room = Room(tmp_path)
    room.beat("victimV", consumes="C")
    assert refusal(room.ask("accountA", 41, lock())) == "CLIENT_ID"
    assert len(room.rig.broker.tables.locks) == 0

    assert b'"queueId":0' in room.ask("victimV", 41, lock()).body
    assert refusal(room.ask("accountA", 42, lock())) == "CLIENT_ID"
    room.beat("accountA", client_id="own", consumes="C")
    assert room.ask("accountA", 41, lock("own")).body == b'{"lockOKMQSet":[]}'
    assert room.ask("victimV", 42, lock()).code == 0
    assert b'"queueId":0' in room.ask("accountA", 41, lock("own")).body


async def test_locks_in_two_accounts_names_in_one_piece(tmp_path: Path) -> None:
    """Each request is its own account's, on one connection too."""
    room = Room(tmp_path)
    room.beat("victimV", consumes="C")
    answers = room.rig.handle(
        sign(room.rig.command(41, body=lock()), "accountA"),
        sign(room.rig.command(41, body=lock()), "victimV"),
        sign(room.rig.command(42, body=lock()), "accountA"),
        sign(room.rig.command(42, body=lock()), "operator"),
    )

    assert [refusal(one) for one in answers] == ["CLIENT_ID", "", "CLIENT_ID", ""]


@asynccontextmanager
async def waiting(directory: Path) -> AsyncGenerator[tuple[RunningBroker, Peer]]:
    """A broker that serves, and a client of V that waits for replies."""
    async with running_broker(options=guarded_options(directory)) as running:
        client = running.connect()
        await client.send(sign(Command(34, body=heartbeat(produces="P")), "victimV"))
        assert await client.receive() is not None
        yield running, client


def reply(client_id: str = ID, code: int = 324, opaque: int = 0) -> Command:
    """A reply to a client, as Go (324) and Java (325) send it."""
    properties = f"CORRELATION_ID\x01c\x02REPLY_TO_CLIENT\x01{client_id}\x02"
    long = send_ext("DefaultCluster_REPLY_TOPIC", properties, producerGroup="R")
    short = dict(zip("abcdefghi", long.values(), strict=True))
    return Command(code, opaque=opaque, ext=long if code == 324 else short, body=b"pong")


@pytest.mark.parametrize("code", [324, 325])
@pytest.mark.parametrize("who", ["victimV", "replier", "operator"])
async def test_who_may_reply(
    tmp_path: Path, autojump_clock: MockClock, who: str, code: int
) -> None:
    """The client's own account, one with the right to the reply topic, who may everything."""
    async with waiting(tmp_path) as (running, client):
        peer = running.connect()
        await peer.send(sign(reply(code=code), who))
        pushed = await client.receive()
        assert pushed is not None
        assert (pushed.code, pushed.body) == (326, b"pong")
        await client.send(pushed.answer(0))
        answer = await peer.receive()

        assert answer is not None
        assert answer.code == 0


@pytest.mark.parametrize("code", [324, 325])
async def test_who_may_not_learns_nothing(
    tmp_path: Path, autojump_clock: MockClock, code: int
) -> None:
    """A client of others is not told from one that is not there, by answer or by time."""
    async with waiting(tmp_path) as (running, client):
        peer, answers, begun = running.connect(), list[Command | None](), trio.current_time()
        for client_id in (ID, "stranger", ""):
            await peer.send(sign(reply(client_id, code), "accountA"))
            answers.append(await peer.receive())
        (first, *others) = answers
        assert first is not None
        assert (first.code, first.remark) == NO_RIGHT
        assert others == [first, first]
        assert trio.current_time() == begun

        with trio.move_on_after(60) as nothing:
            await client.receive()
        assert nothing.cancelled_caught


async def test_with_the_right_it_is_told_that_no_client_is_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Or in one's own name: then there is nothing to hide, but the right is missing."""
    async with waiting(tmp_path) as (running, _):
        told: dict[str, str] = {}
        for who in ("replier", "operator", "victimV"):
            peer = running.connect()
            await peer.send(sign(reply("stranger"), who))
            answer = await peer.receive()
            assert answer is not None
            told[who] = f"{answer.code} {(answer.remark or '').partition(':')[0]}"

        assert told == {
            "replier": "1 REPLY_TO_CLIENT",
            "operator": "1 REPLY_TO_CLIENT",
            "victimV": "16 NO_PERMISSION",
        }


async def test_a_reply_before_one_with_the_right(tmp_path: Path, autojump_clock: MockClock) -> None:
    """In one piece on one connection: the first one has the rights of its own account."""
    async with waiting(tmp_path) as (running, client):
        peer = running.connect()
        await peer.send(sign(reply(opaque=1), "accountA"), sign(reply(opaque=2), "replier"))
        refused = await peer.receive()
        assert refused is not None
        assert (refused.opaque, refused.code, refused.remark) == (1, *NO_RIGHT)
        pushed = await client.receive()
        assert pushed is not None
        await client.send(pushed.answer(0))
        answer = await peer.receive()

        assert answer is not None
        assert (answer.opaque, answer.code) == (2, 0)


async def test_an_account_s_own_clients_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    """What an account is refused for another's client it may for its own."""
    async with waiting(tmp_path) as (running, _):
        own, peer = running.connect(), running.connect()
        await own.send(sign(Command(34, body=heartbeat("own", produces="P")), "accountA"))
        assert await own.receive() is not None
        await peer.send(sign(reply("own"), "accountA"))
        pushed = await own.receive()

        assert pushed is not None
        assert "REPLY_TO_CLIENT\x01own\x02" in pushed.ext["properties"]
