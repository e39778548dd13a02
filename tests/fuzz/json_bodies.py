"""JSON bodies of requests and answers."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress

from timermq.broker.consuming.filter import parse_filter
from timermq.broker.refusal import RefusedError
from timermq.cli.broker_link import known_brokers
from timermq.client.errors import MalformedAnswerError
from timermq.remoting.admin_body import decode_properties
from timermq.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    consumer_list,
    decode_consumer_list,
    decode_topic_route,
)
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.lock_body import LockBatch, MessageQueue
from timermq.remoting.registration import (
    RouteVersion,
    decode_registration,
    encode_registration,
)
from timermq.remoting.route_body import BrokerData, QueueData, cluster_info, topic_route

INT64 = range(-(2**63), 2**63)
READERS: tuple[Callable[[bytes], object], ...] = (
    SubscriptionData.decode_check,
    decode_topic_route,
    decode_consumer_list,
    LockBatch.decode,
    lambda data: decode_registration(data, "b", compressed=False),
    lambda data: decode_registration(data, "b", compressed=True),
    lambda data: decode_registration(zlib.compress(data, 1), "b", compressed=True),
    decode_properties,
)


def seeds() -> list[bytes]:
    """One of each body, and heartbeats as C++ writes them."""
    subscription = SubscriptionData(topic="T", sub_string="a || b", sub_version=7)
    consumer = ConsumerData(group_name="G", subscriptions=[subscription])
    heartbeat = HeartbeatData(client_id="c", producer_groups=["P"], consumers=[consumer])
    sql = "a BETWEEN 5 AND 7L OR NOT (b IN ('x', 'y') AND -c < 1.5e3) OR d IS NOT NULL -- e"
    chosen = SubscriptionData(topic="T", sub_string=sql, expression_type="SQL92")
    by_sql = ConsumerData(group_name="G", subscriptions=[chosen])
    queue = MessageQueue(topic="T", broker_name="b", queue_id=0)
    return [
        heartbeat.encode(),
        HeartbeatData(client_id="c", consumers=[by_sql]).encode(),
        LockBatch(client_id="c", consumer_group="G", mq_set=(queue,)).encode(),
        heartbeat.encode().replace(b'"CONSUME_PASSIVELY"', b"1").replace(b":7", b':"7"'),
        b'{"subscriptionData":{"topic":"T","subString":"*","subVersion":1.5}}',
        topic_route(
            [QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6)],
            [BrokerData(broker_name="b", cluster="c", addresses={0: "h:1"})],
        ),
        consumer_list(["a", "b"]),
        cluster_info([BrokerData(broker_name="b", cluster="c", addresses={0: "h:1"})]),
        encode_registration(RouteVersion(counter=1), [{"topicName": "T", "perm": 6}]),
        b"\x00\x00\x00\x02{}\x00\x00\x00\x01\x00\x00\x00\x07T 4 4 6 \x00\x00\x00\x00",
        b"brokerPermission=4\n# no\n",
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1",1:[]}}}}',
    ]


def fuzz_one(data: bytes) -> None:
    """Any bytes are a body, or refused with the connection open."""
    heartbeat = _read(HeartbeatData.decode, data)
    if isinstance(heartbeat, HeartbeatData):
        assert HeartbeatData.decode(heartbeat.encode()) == heartbeat
        for consumer in heartbeat.consumers:
            for one in consumer.subscriptions:
                assert one.sub_version in INT64
                _filter(one)
    for reader in READERS:
        _read(reader, data)
    with suppress(MalformedAnswerError):
        assert all(isinstance(one.address, str) for one in known_brokers(data))


def _read(reader: Callable[[bytes], object], data: bytes) -> object:
    try:
        return reader(data)
    except RemoteProtocolError as error:
        assert error.remark.startswith("BODY: ")
        assert not error.close
        return None


def _filter(subscription: SubscriptionData) -> None:
    try:
        parse_filter(subscription.sub_string, subscription.expression_type)
    except RefusedError as error:
        assert error.rule.startswith("FILTER_")
