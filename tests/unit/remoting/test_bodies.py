"""JSON bodies as clients were seen to write and to read them."""

from __future__ import annotations

import json

import pytest

from timermq.remoting.bodies import (
    ITEMS_MAX,
    BodyFormatError,
    ConsumerData,
    HeartbeatData,
    QueueRoute,
    SubscriptionData,
    consumer_list,
    decode_consumer_list,
    decode_topic_route,
    topic_list,
)
from timermq.remoting.codes import ResponseCode
from timermq.remoting.route_body import BrokerData, QueueData, cluster_info, topic_route

CPP_HEARTBEAT = b"""{"clientID":"13994-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,
"consumeType":1,"groupName":"CID-X","messageModel":1,"subscriptionDataSet":[{"subString":"*",
"subVersion":"1795224437390","topic":"%RETRY%CID-X"},{"codeSet":[0,0],"subString":"tagA || tagB",
"subVersion":"1795224661860","tagsSet":["tagA","tagB"],"topic":"TopicA"}]}]}"""
JAVA_HEARTBEAT = (
    b'{"clientID":"192.0.2.2@10843#3497247162357","consumerDataSet":[{"consumeFromWhere":'
    b'"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"CID-J",'
    b'"messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],'
    b'"expressionType":"TAG","subString":"*","subVersion":1795226979990,"tagsSet":[],'
    b'"topic":"TopicA"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":'
    b'[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
)
JAVA_DATA = HeartbeatData(
    client_id="192.0.2.2@10843#3497247162357",
    producer_groups=["CLIENT_INNER_PRODUCER"],
    consumers=[
        ConsumerData(
            group_name="CID-J",
            subscriptions=[SubscriptionData(topic="TopicA", sub_version=1795226979990)],
        )
    ],
)
GO_HEARTBEAT = (
    b'{"clientID":"192.0.2.2@17828","producerDataSet":[{"groupName":"PID-G"}],"consumerDataSet":[]}'
)
ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-py",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":'
    b'[{"brokerName":"broker-py","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)


def test_cpp_heartbeat() -> None:
    """C++ writes enumerations as numbers and the version as text, and leaves fields out."""
    retry = SubscriptionData(topic="%RETRY%CID-X", sub_version=1795224437390)
    wanted = SubscriptionData(topic="TopicA", sub_string="tagA || tagB", sub_version=1795224661860)

    expected = HeartbeatData(
        client_id="13994-127.0.0.1@DEFAULT",
        producer_groups=[],
        consumers=[ConsumerData(group_name="CID-X", subscriptions=[retry, wanted])],
    )
    assert expected == HeartbeatData.decode(CPP_HEARTBEAT)


def test_java_heartbeat_in_both_directions() -> None:
    """Our heartbeat has the very bytes of Java's."""
    assert JAVA_DATA == HeartbeatData.decode(JAVA_HEARTBEAT)
    assert JAVA_HEARTBEAT == JAVA_DATA.encode()


def test_go_heartbeat() -> None:
    """A producer alone has no consumers."""
    expected = HeartbeatData(client_id="192.0.2.2@17828", producer_groups=["PID-G"], consumers=[])

    assert expected == HeartbeatData.decode(GO_HEARTBEAT)


def test_heartbeat_without_subscriptions() -> None:
    """Heartbeat v2 says so, and ``null`` stands for an empty list."""
    body = b'{"clientID":"c","withoutSub":true,"consumerDataSet":null}'

    expected = HeartbeatData(client_id="c", producer_groups=[], consumers=[], without_sub=True)
    assert expected == HeartbeatData.decode(body)


def test_tags_are_split() -> None:
    """A subscription of several tags lists them, without the blanks."""
    one = SubscriptionData(topic="T", sub_string="a || b||c ")

    assert ["a", "b", "c"] == one.to_json()["tagsSet"]


def test_check_of_a_subscription() -> None:
    """The body of CHECK_CLIENT_CONFIG is read as one subscription."""
    body = b'{"clientId":"c","group":"g","subscriptionData":{"topic":"T","subString":"a > 1",'
    body += b'"expressionType":"SQL92"}}'

    expected = SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92")
    assert expected == SubscriptionData.decode_check(body)


BROKER = BrokerData(
    broker_name="broker-py", cluster="DefaultCluster", addresses={0: "127.0.0.1:10911"}
)


def test_route_in_both_directions() -> None:
    """The route has the very bytes of RocketMQ's name server."""
    queues = QueueData(broker_name="broker-py", read_queue_nums=4, write_queue_nums=4, perm=6)

    assert ROUTE == topic_route([queues], [BROKER])
    assert [
        QueueRoute(
            broker_name="broker-py",
            address="127.0.0.1:10911",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
        )
    ] == decode_topic_route(ROUTE)


def test_route_without_a_master() -> None:
    """A broker of which only slaves are left has no address to send to."""
    (route,) = decode_topic_route(ROUTE.replace(b'"0":', b'"1":'))

    assert "" == route.address


def test_cluster_info() -> None:
    """The cluster has one broker."""
    broker = json.loads(ROUTE)["brokerDatas"][0]

    expected = {
        "brokerAddrTable": {"broker-py": broker},
        "clusterAddrTable": {"DefaultCluster": ["broker-py"]},
    }
    assert expected == json.loads(cluster_info([BROKER]))


def test_lists() -> None:
    """Members of a group and names of topics are plain lists."""
    assert b'{"consumerIdList":["cid1","cid2"]}' == consumer_list(["cid1", "cid2"])
    assert ["cid1", "cid2"] == decode_consumer_list(consumer_list(["cid1", "cid2"]))
    assert b'{"topicList":["a"]}' == topic_list(["a"])
    assert b'{"topicList":[],"brokerAddr":"x:1"}' == topic_list([], broker_addr="x:1")


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ("[]", "heartbeat: expected an object, found list"),
        ("{}", "clientID: expected text, found None"),
        ('{"clientID":1}', "clientID: expected text, found 1"),
        ('{"clientID":"c","producerDataSet":{}}', "producerDataSet: expected a list, found dict"),
        ('{"clientID":"c","producerDataSet":[1]}', "producer: expected an object, found int"),
        ('{"clientID":"c","consumerDataSet":[{}]}', "groupName: expected text, found None"),
        (
            '{"clientID":"c","producerDataSet":[' + "1," * ITEMS_MAX + "1]}",
            "producerDataSet: expected at most 10000 items, found 10001",
        ),
        (
            '{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":2}]}',
            "messageModel: expected one of BROADCASTING, CLUSTERING, found 2",
        ),
    ],
)
def test_refused_heartbeats(fields: str, remark: str) -> None:
    """What is wrong is named; the connection goes on."""
    with pytest.raises(BodyFormatError) as caught:
        HeartbeatData.decode(fields.encode())

    assert f"BODY: {remark}" == caught.value.remark
    assert (ResponseCode.SYSTEM_ERROR, False) == (caught.value.code, caught.value.close)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'"\\ud800"', b"NaN", b"[" * 100_000])
def test_no_json(body: bytes) -> None:
    """What is not JSON is refused, half surrogates and endless nesting too."""
    with pytest.raises(BodyFormatError, match="heartbeat: expected JSON, found "):
        HeartbeatData.decode(body)


@pytest.mark.parametrize(
    "version", ["true", "1.0", '"x"', '"--1"', '""', "9223372036854775808", '"9223372036854775808"']
)
def test_refused_version(version: str) -> None:
    """A subscription's version is a 64-bit number, bare or as text."""
    body = '{"subscriptionData":{"topic":"T","subVersion":%s}}'

    with pytest.raises(BodyFormatError, match="subVersion: expected a 64-bit number, found "):
        SubscriptionData.decode_check((body % version).encode())


def test_size_is_limited() -> None:
    """Lists of lists become a hundred times their size: what is large is not parsed at all."""
    body = b'{"clientID":"c","x":[' + b"[]," * 700_000 + b"0]}"

    with pytest.raises(BodyFormatError, match="heartbeat: expected at most 2097152 bytes, found"):
        HeartbeatData.decode(body)
