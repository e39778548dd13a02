"""Tests of the name server's role towards other brokers and operators."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
import trio
import trio.testing

from broker_rig import ADDRESS, RecordingSession, Rig, as_object, running_broker
from timermq.remoting import Command
from timermq.remoting.registration import RouteVersion, body_crc32, encode_registration
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.config_file import load_json

OTHER = {
    "brokerName": "broker-b",
    "brokerAddr": "127.0.0.1:20911",
    "clusterName": "DefaultCluster",
    "brokerId": "0",
    "haServerAddr": "127.0.0.1:20912",
}


def topics(*names: str, nums: int = 4) -> list[dict[str, object]]:
    """Topics as a registration has them."""
    rows = {"readQueueNums": nums, "writeQueueNums": nums, "perm": 6, "topicSysFlag": 0}
    return [{"topicName": name, **rows} for name in names]


def body(*names: str, version: int = 1) -> bytes:
    """The body of a registration."""
    return encode_registration(RouteVersion(version), topics(*names))


def register(rig: Rig, *names: str, **more: str) -> Command:
    """Have the other broker register with these topics."""
    return rig.call(103, {**OTHER, **more}, body(*names))


def route(rig: Rig, topic: str) -> dict[str, Any]:
    """The route of a topic, as the name server tells it."""
    return as_object(json.loads(rig.call(105, {"topic": topic}).body))


async def test_routes_of_all_brokers_are_one() -> None:
    """Ours and those that have registered; each with its address and queues."""
    rig = Rig()
    rig.send("T")
    assert register(rig, "T", "U").code == 0
    found = route(rig, "T")

    assert [one["brokerName"] for one in found["queueDatas"]] == ["broker-a", "broker-b"]
    assert {one["brokerName"]: one["brokerAddrs"] for one in found["brokerDatas"]} == {
        "broker-a": {"0": ADDRESS},
        "broker-b": {"0": "127.0.0.1:20911"},
    }
    assert [one["brokerName"] for one in route(rig, "U")["brokerDatas"]] == ["broker-b"]
    clusters = json.loads(rig.call(106).body)["clusterAddrTable"]
    assert clusters == {"DefaultCluster": ["broker-a", "broker-b"]}
    assert {"T", "U"} <= set(json.loads(rig.call(206).body)["topicList"])
    assert "U" in json.loads(rig.call(224, {"cluster": "DefaultCluster"}).body)["topicList"]
    assert "broker-b" in json.loads(rig.call(304).body)["topicList"]
    members = json.loads(
        rig.call(901, {"clusterName": "DefaultCluster", "brokerName": "broker-b"}).body.replace(
            b"{0:", b'{"0":'
        )
    )
    assert members["brokerMemberGroup"]["brokerAddrs"] == {"0": "127.0.0.1:20911"}


async def test_a_broker_goes_with_its_connection() -> None:
    """And by its goodbye; our own routes stay."""
    rig = Rig()
    other = RecordingSession()
    rig.call(103, OTHER, body("TBW102", "U"), peer=other)
    rig.broker.dispatcher.close(other.session)

    assert rig.call(105, {"topic": "U"}).code == 17
    assert len(route(rig, "TBW102")["queueDatas"]) == 1
    register(rig, "TBW102", "U")
    assert rig.call(104, OTHER).code == 0
    assert rig.call(105, {"topic": "U"}).code == 17


async def test_slaves_are_told_of_their_master() -> None:
    """Where it is, and where they get their messages from."""
    rig = Rig()
    register(rig, "T", "U")
    answer = register(rig, brokerId="1", brokerAddr="127.0.0.1:30911")

    assert answer.ext == {"masterAddr": "127.0.0.1:20911", "haServerAddr": "127.0.0.1:20912"}
    found = route(rig, "T")["brokerDatas"][0]["brokerAddrs"]
    assert found == {"0": "127.0.0.1:20911", "1": "127.0.0.1:30911"}


@pytest.mark.parametrize(
    ("ext", "names", "code", "rule"),
    [
        ({}, ["T"], 1, "FIRST_REGISTRATION"),
        ({"brokerName": "broker-a"}, ["T", "U"], 1, "BROKER_NAME"),
        ({"brokerName": "a/b"}, ["T", "U"], 29, "BROKER_NAME"),
        ({"clusterName": ""}, ["T", "U"], 29, "BROKER_NAME"),
        ({"brokerAddr": "20911"}, ["T", "U"], 29, "BROKER_ADDRESS"),
        ({"brokerId": "-1"}, ["T", "U"], 29, "BROKER_ADDRESS"),
        ({"bodyCrc32": "1"}, ["T", "U"], 1, "BODY_CRC32"),
        ({"compressed": "true"}, ["T", "U"], 1, "BODY"),
    ],
)
async def test_registrations_that_are_refused(
    ext: dict[str, str], names: list[str], code: int, rule: str
) -> None:
    """No broker is registered by them."""
    rig = Rig()
    answer = register(rig, *names, **ext)

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (code, rule)
    assert len(rig.broker.tables.routes) == 0


async def test_a_master_that_was_passed_over_is_told_who_leads() -> None:
    """Its registration is answered, as RocketMQ's name server does, and changes no route."""
    rig = Rig()
    later = encode_registration(RouteVersion(1, 0, 2), topics("T", "U"))
    rig.call(103, OTHER, later)
    answer = register(rig, "T", "U", brokerAddr="127.0.0.1:30911")

    assert (answer.code, answer.ext) == (0, {"masterAddr": "127.0.0.1:20911"})
    assert route(rig, "T")["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:20911"}


async def test_a_rival_of_this_broker_is_looked_at() -> None:
    """It registers as the master of this name: it may lead since later."""
    rig = Rig()
    rivals: list[str] = []
    rig.broker.tables.own.on_rival = rivals.append
    answer = register(rig, "T", "U", brokerName="broker-a")

    assert (answer.code, rivals) == (1, [OTHER["brokerAddr"]])
    register(rig, "T", "U", brokerName="broker-a", brokerId="1", brokerAddr="127.0.0.1:30911")
    assert len(rivals) == 1


async def test_checksums_and_packed_bodies() -> None:
    """Both are taken as RocketMQ's brokers may send them."""
    rig = Rig()
    data = body("T", "U")

    assert rig.call(103, {**OTHER, "bodyCrc32": str(body_crc32(data))}, data).code == 0
    empty = b"\x00\x00\x00\x02{}" + bytes(12)
    assert rig.call(103, {**OTHER, "compressed": "true"}, zlib.compress(empty)).code == 0


async def test_a_broker_that_registers_with_itself() -> None:
    """Its routes are here already."""
    rig = Rig()
    answer = register(rig, "T", "U", brokerName="broker-a", brokerAddr=ADDRESS)

    assert answer.code == 0
    assert len(rig.broker.tables.routes) == 0


async def test_versions() -> None:
    """A broker asks whether it has to register; both are signs of life."""
    rig = Rig()
    asked = json.dumps({"counter": 1, "timestamp": 0, "stateVersion": 0}).encode()

    assert rig.call(322, OTHER, asked).ext == {"changed": "true"}
    register(rig, "T", "U")
    answer = rig.call(322, OTHER, asked)
    assert answer.ext == {"changed": "false"}
    assert json.loads(answer.body)["counter"] == 1
    assert rig.call(322, OTHER, asked.replace(b"1", b"2")).ext == {"changed": "true"}
    assert rig.call(904, OTHER).code == 0


async def test_write_permissions() -> None:
    """Of another broker until it registers a change, of our own until they are given back."""
    rig = Rig()
    register(rig, "T", "U")

    assert rig.call(205, {"brokerName": "broker-b"}).ext == {"wipeTopicCount": "2"}
    assert route(rig, "T")["queueDatas"][0]["perm"] == 4
    assert rig.call(327, {"brokerName": "broker-b"}).ext == {"addTopicCount": "2"}
    assert route(rig, "T")["queueDatas"][0]["perm"] == 6
    assert int(rig.call(205, {"brokerName": "broker-a"}).ext["wipeTopicCount"]) > 2
    assert route(rig, "TBW102")["queueDatas"][0]["perm"] == 5
    rig.call(327, {"brokerName": "broker-a"})
    assert route(rig, "TBW102")["queueDatas"][0]["perm"] == 7
    assert rig.call(205, {"brokerName": "none"}).ext == {"wipeTopicCount": "0"}


async def test_topics_of_others_are_noted_and_forgotten() -> None:
    """Ours are those that we have."""
    rig = Rig()
    rig.send("T")
    register(rig, "T", "U")
    row = {"brokerName": "broker-b", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    noted = rig.call(217, {"topic": "V"}, json.dumps({"queueDatas": [row]}).encode())

    assert noted.code == 0
    assert route(rig, "V")["queueDatas"][0]["readQueueNums"] == 2
    assert rig.call(217, {"topic": "a/b"}, b"{}").code == 29
    assert rig.call(216, {"topic": "T"}).code == 0
    assert [one["brokerName"] for one in route(rig, "T")["queueDatas"]] == ["broker-a"]
    assert rig.call(216, {"topic": "U", "clusterName": "other"}).code == 0
    assert rig.call(105, {"topic": "U"}).code == 0
    assert rig.call(216, {"topic": "U", "clusterName": "DefaultCluster"}).code == 0
    assert rig.call(105, {"topic": "U"}).code == 17


async def test_silent_brokers_expire(autojump_clock: trio.testing.MockClock) -> None:
    """After 120 seconds, or what they ask for; their connections are closed."""
    async with running_broker() as running:
        peer, hasty, admin = running.connect(), running.connect(), running.connect()
        await peer.call(103, OTHER, body("T", "U"))
        more = {"brokerName": "broker-c", "heartbeatTimeoutMillis": "10000"}
        await hasty.call(103, {**OTHER, **more}, body("V", "W"))
        await trio.sleep(16)
        assert (await admin.call(105, {"topic": "V"})).code == 17
        assert await hasty.receive() is None
        await trio.sleep(80)
        await peer.call(904, OTHER)
        await admin.call(206)
        await trio.sleep(80)
        assert (await admin.call(105, {"topic": "T"})).code == 0
        await trio.sleep(50)
        assert (await admin.call(105, {"topic": "T"})).code == 17


async def test_texts_of_operators(autojump_clock: trio.testing.MockClock) -> None:
    """They are on the disk when they are answered."""
    disk = MemoryDisk()
    key = {"namespace": "N", "key": "k"}
    async with running_broker(disk=disk) as running:
        peer = running.connect()

        assert (await peer.call(100, {**key, "value": "v"})).code == 0
        saved = as_object(load_json(disk, "/store/config/kvConfig.json"))
        assert saved == {"configTable": {"N": {"k": "v"}}}
        assert (await peer.call(101, key)).ext == {"value": "v"}
        assert json.loads((await peer.call(219, {"namespace": "N"})).body) == {"table": {"k": "v"}}
        assert (await peer.call(102, key)).code == 0
        assert (await peer.call(101, key)).code == 22
        assert (await peer.call(219, {"namespace": "none"})).code == 22


async def test_settings_of_the_name_server() -> None:
    """Those of the broker: what changes live there changes here, all or nothing."""
    rig = Rig()

    assert b"brokerName=broker-a" in rig.call(319).body
    assert rig.call(318, body=b"recallMessageEnable=false\na=b").code == 29
    assert rig.broker.options.recall_message_enable
    assert rig.call(318, body=b"recallMessageEnable=false").code == 0
    assert not rig.broker.options.recall_message_enable
    assert b"recallMessageEnable=false" in rig.call(319).body
