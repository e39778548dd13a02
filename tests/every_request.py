"""A good request of every code that is served, about whatever it is to name.

Tests of access control and of frames ask for all of them: a code that is new belongs in here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import attrs
import cbor2

from broker_rig import pull_ext, send_ext
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting import RequestCode, WatchView
from timermq.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from timermq.remoting.bulk import AskStatus, CommitJob, DropParts, OpenJob, StageBlock
from timermq.remoting.bulk_block import BulkBlock, BulkColumn
from timermq.remoting.lock_body import LockBatch, MessageQueue
from timermq.remoting.registration import RouteVersion, encode_registration
from timermq.remoting.send_batch import SendItem, encode_items
from timermq.remoting.send_header import SendHeader
from timermq.timerstore.batch import BatchPart, join_batch

BROKER_NAME = "broker-a"
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
EVER_MS = 1 << 62
ANOTHER_BROKER = {
    "brokerName": "broker-b",
    "brokerAddr": "127.0.0.1:20911",
    "clusterName": "DefaultCluster",
    "brokerId": "0",
    "haServerAddr": "127.0.0.1:20912",
}


@attrs.frozen(kw_only=True)
class Subject:
    """What a request names; each takes of it what its code has."""

    topic: str
    group: str = "G"
    producer_group: str = "P"
    queue_id: int = 0
    queue_offset: int = 0
    place: int = 0
    """A position in the commit log."""
    unique_key: str = "U"
    """Of a message, or of a transaction."""
    slot_ms: int = 0
    """When a message with a recall handle is due."""
    job: str = "J"
    part: str = "p"
    client_id: str = "c"
    properties: str = ""
    """Of messages, in RocketMQ's text."""
    body: bytes = b"hello"
    """Of messages."""

    @property
    def recall_handle(self) -> str:
        """As a producer was given it."""
        return encode_handle(self.topic, BROKER_NAME, self.slot_ms + 1, self.unique_key)

    @property
    def message_id(self) -> str:
        """That of the message at the place."""
        return f"7F00000100002A9F{self.place & (1 << 64) - 1:016X}"


Made = tuple[dict[str, str], bytes]
"""Parameters and body."""
Maker = Callable[[Subject], Made]


def _header(one: Subject, *, topic: str | None = None, batch: bool = False) -> dict[str, str]:
    return SendHeader(
        topic=one.topic if topic is None else topic,
        queue_id=one.queue_id,
        producer_group=one.producer_group,
        properties=one.properties.encode("utf-8", "surrogatepass"),
        batch=batch,
    ).to_v2()


def _send(one: Subject) -> Made:
    ext = send_ext(one.topic, one.properties, queueId=str(one.queue_id))
    return {**ext, "producerGroup": one.producer_group}, one.body


def _send_batch(one: Subject) -> Made:
    part = BatchPart(0, one.body, one.properties.encode())
    return _header(one, batch=True), join_batch([part])


def _send_items(one: Subject) -> Made:
    item = SendItem(one.topic, one.queue_id, 0, one.properties.encode(), one.body)
    return {}, encode_items([item])


def _reply_properties(one: Subject) -> str:
    return f"REPLY_TO_CLIENT\x01{one.client_id}\x02CORRELATION_ID\x01{one.unique_key}\x02"


def _reply(one: Subject) -> Made:
    return send_ext(REPLY_TOPIC, _reply_properties(one)), one.body


def _reply_v2(one: Subject) -> Made:
    return _header(attrs.evolve(one, properties=_reply_properties(one)), topic=REPLY_TOPIC), b"r"


def _pull(one: Subject) -> Made:
    more = {"queueId": str(one.queue_id), "queueOffset": str(one.queue_offset)}
    return pull_ext(one.topic, one.group, **more), b""


def _query(one: Subject) -> Made:
    ext = {"topic": one.topic, "key": one.unique_key, "maxNum": "32"}
    return {**ext, "beginTimestamp": "0", "endTimestamp": str(EVER_MS)}, b""


def _queue(one: Subject) -> dict[str, str]:
    return {"topic": one.topic, "queueId": str(one.queue_id)}


def _group_queue(one: Subject) -> dict[str, str]:
    return {**_queue(one), "consumerGroup": one.group}


def _heartbeat(one: Subject) -> Made:
    subscription = SubscriptionData(topic=one.topic, sub_version=7)
    consumer = ConsumerData(group_name=one.group, subscriptions=[subscription])
    groups = [one.producer_group]
    data = HeartbeatData(client_id=one.client_id, producer_groups=groups, consumers=[consumer])
    return {}, data.encode()


def _send_back(one: Subject) -> Made:
    ext = {"group": one.group, "offset": str(one.place), "delayLevel": "3"}
    return {**ext, "originTopic": one.topic, "originMsgId": one.unique_key}, b""


def _end_transaction(one: Subject) -> Made:
    names = {"msgId": one.unique_key, "transactionId": one.unique_key}
    places = {"tranStateTableOffset": str(one.queue_offset), "commitLogOffset": str(one.place)}
    return {"producerGroup": one.producer_group, "commitOrRollback": "8", **names, **places}, b""


def _locks(one: Subject) -> Made:
    queue = MessageQueue(topic=one.topic, broker_name=BROKER_NAME, queue_id=one.queue_id & 0xFFFF)
    batch = LockBatch(client_id=one.client_id, consumer_group=one.group, mq_set=(queue,))
    return {}, batch.encode()


def _check_client(one: Subject) -> Made:
    subscription = SubscriptionData(topic=one.topic).to_json()
    fields = {"clientId": one.client_id, "group": one.group, "subscriptionData": subscription}
    return {}, json.dumps(fields).encode()


def _recall(one: Subject) -> Made:
    names = {"producerGroup": one.producer_group, "recallHandle": one.recall_handle}
    return {"topic": one.topic, **names}, b""


def _stage(one: Subject) -> Made:
    name = {"job": one.job, "part": one.part, "topic": one.topic}
    # A block has a topic, which the broker compares with the parameter.
    block = BulkBlock.of(one.topic[:64] or "T", BulkColumn.of([one.body]))
    return StageBlock(block=0, is_last=True, **name).to_ext(), block.encode()


def _topic(one: Subject, **more: str) -> Made:
    nums = {"readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    return {"topic": one.topic, "defaultTopic": "TBW102", **nums, **more}, b""


def _topics(one: Subject) -> Made:
    row = {"topicName": one.topic, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    return {}, json.dumps({"topicConfigList": [row]}).encode()


def _group_fields(one: Subject) -> dict[str, object]:
    return {"groupName": one.group, "retryMaxTimes": 3, "retryQueueNums": 2}


def _registration(one: Subject) -> Made:
    nums = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0}
    rows = [{"topicName": topic, **nums} for topic in (one.topic, "TBW102")]
    return ANOTHER_BROKER, encode_registration(RouteVersion(1), rows)


def _route_rows(one: Subject) -> Made:
    row = {"brokerName": "broker-b", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    return {"topic": one.topic}, json.dumps({"queueDatas": [row]}).encode()


def _member(one: Subject) -> Made:
    names = {"consumerGroup": one.group, "clientId": one.client_id, "msgId": one.message_id}
    return {**names, "topic": one.topic, "brokerName": BROKER_NAME}, b""


def _nothing(_one: Subject) -> Made:
    return {}, b""


MAKERS: Mapping[int, Maker] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: lambda one: (_header(one), one.body),
    RequestCode.SEND_BATCH_MESSAGE: _send_batch,
    RequestCode.SEND_MESSAGES: _send_items,
    RequestCode.SEND_REPLY_MESSAGE: _reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: _reply_v2,
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.LITE_PULL_MESSAGE: _pull,
    RequestCode.QUERY_MESSAGE: _query,
    RequestCode.QUERY_CONSUMER_OFFSET: lambda one: (_group_queue(one), b""),
    RequestCode.UPDATE_CONSUMER_OFFSET: lambda one: (
        {**_group_queue(one), "commitOffset": str(one.queue_offset + 1)},
        b"",
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda one: ({**_queue(one), "timestamp": "1"}, b""),
    RequestCode.GET_MAX_OFFSET: lambda one: (_queue(one), b""),
    RequestCode.GET_MIN_OFFSET: lambda one: (_queue(one), b""),
    RequestCode.GET_EARLIEST_MSG_STORETIME: lambda one: (_queue(one), b""),
    RequestCode.VIEW_MESSAGE_BY_ID: lambda one: ({"offset": str(one.place)}, b""),
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: lambda one: (
        {"clientID": one.client_id, "consumerGroup": one.group},
        b"",
    ),
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.END_TRANSACTION: _end_transaction,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: lambda one: ({"consumerGroup": one.group}, b""),
    RequestCode.LOCK_BATCH_MQ: _locks,
    RequestCode.UNLOCK_BATCH_MQ: _locks,
    RequestCode.CHECK_CLIENT_CONFIG: _check_client,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda one: ({"topic": one.topic}, b""),
    RequestCode.GET_BROKER_CLUSTER_INFO: _nothing,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _nothing,
    RequestCode.RECALL_MESSAGE: _recall,
    RequestCode.CANCEL_MESSAGE: lambda one: (
        {"topic": one.topic, "uniqueKey": one.unique_key},
        b"",
    ),
    RequestCode.LIST_PENDING: lambda one: ({}, cbor2.dumps({"topic": one.topic, "limit": 9})),
    RequestCode.BULK_OPEN: lambda one: (
        {"job": one.job},
        OpenJob(topics=(one.topic,)).encode(),
    ),
    RequestCode.BULK_STAGE: _stage,
    RequestCode.BULK_COMMIT: lambda one: ({"job": one.job}, CommitJob(parts=()).encode()),
    RequestCode.BULK_STATUS: lambda one: ({"job": one.job}, AskStatus().encode()),
    RequestCode.BULK_DROP: lambda one: ({"job": one.job}, DropParts(parts=(one.part,)).encode()),
    # -- what is an operator's -------------------------------------------------------------------
    RequestCode.UPDATE_AND_CREATE_TOPIC: _topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _topics,
    RequestCode.DELETE_TOPIC_IN_BROKER: lambda one: ({"topic": one.topic}, b""),
    RequestCode.DELETE_TOPIC_IN_BROKER_LIST: lambda one: (
        {},
        json.dumps({"topicList": [one.topic]}).encode(),
    ),
    RequestCode.GET_TOPIC_STATS_INFO: lambda one: ({"topic": one.topic}, b""),
    RequestCode.GET_TOPIC_CONFIG: lambda one: ({"topic": one.topic}, b""),
    RequestCode.GET_ALL_TOPIC_CONFIG: _nothing,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _nothing,
    RequestCode.CLEAN_UNUSED_TOPIC: _nothing,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda one: (
        {},
        json.dumps(_group_fields(one)).encode(),
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: lambda one: (
        {},
        json.dumps({"groupConfigList": [_group_fields(one)]}).encode(),
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: lambda one: (
        {"groupName": one.group, "cleanOffset": "true"},
        b"",
    ),
    RequestCode.DELETE_SUBSCRIPTION_GROUP_LIST: lambda one: (
        {},
        json.dumps({"groupNameList": [one.group], "cleanOffset": True}).encode(),
    ),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: lambda one: ({"group": one.group}, b""),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _nothing,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: lambda one: (
        {"group": one.group, "topic": one.topic, "readable": "true"},
        b"",
    ),
    RequestCode.SET_MESSAGE_REQUEST_MODE: lambda one: (
        {},
        json.dumps({"topic": one.topic, "consumerGroup": one.group, "mode": "PULL"}).encode(),
    ),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: _nothing,
    RequestCode.GET_BROKER_HA_STATUS: _nothing,
    RequestCode.RESET_MASTER_FLUSH_OFFSET: lambda _: ({"masterFlushOffset": "0"}, b""),
    RequestCode.GET_BROKER_EPOCH_CACHE: _nothing,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: lambda _: (
        # Of the broker itself, which is no news.
        {"masterAddress": "127.0.0.1:10911", "masterEpoch": "1", "masterBrokerId": "0"},
        b"",
    ),
    RequestCode.LOG_DIGEST: lambda one: ({"offset": str(one.place), "size": "1"}, b""),
    RequestCode.PROMOTE: _nothing,
    RequestCode.DEMOTE: _nothing,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: lambda one: ({}, f"{one.group}=1024".encode()),
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: lambda one: ({}, one.group.encode()),
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: _nothing,
    RequestCode.SET_COMMITLOG_READ_MODE: lambda _: ({"READ_AHEAD_MODE": "0"}, b""),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: lambda one: ({"msgId": one.message_id}, b""),
    RequestCode.UPDATE_BROKER_CONFIG: lambda _: ({}, b"recallMessageEnable=false"),
    RequestCode.GET_BROKER_CONFIG: _nothing,
    RequestCode.GET_BROKER_RUNTIME_INFO: _nothing,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _nothing,
    RequestCode.GET_ALL_DELAY_OFFSET: _nothing,
    RequestCode.GET_TIMER_CHECK_POINT: _nothing,
    RequestCode.GET_TIMER_METRICS: _nothing,
    RequestCode.VIEW_BROKER_STATS_DATA: lambda one: (
        {"statsName": "TOPIC_PUT_NUMS", "statsKey": one.topic},
        b"",
    ),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: _nothing,
    RequestCode.DELETE_EXPIRED_COMMITLOG: _nothing,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: lambda one: ({"consumerGroup": one.group}, b""),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: lambda one: (
        {"producerGroup": one.producer_group},
        b"",
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: _nothing,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: lambda one: ({"topic": one.topic}, b""),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: lambda one: ({"group": one.group}, b""),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: lambda one: (
        {"group": one.group, "topic": one.topic},
        b"",
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: _member,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _member,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: lambda one: (
        {"group": one.group, "topic": one.topic},
        b"",
    ),
    RequestCode.GET_CONSUME_STATS: lambda one: (
        {"consumerGroup": one.group, "topic": one.topic},
        b"",
    ),
    RequestCode.GET_BROKER_CONSUME_STATS: lambda _: ({"isOrder": "false"}, b""),
    RequestCode.QUERY_CONSUME_TIME_SPAN: lambda one: (
        {"topic": one.topic, "group": one.group},
        b"",
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: lambda one: (
        {"topic": one.topic, "group": one.group, "timestamp": "0", "isForce": "true"},
        b"",
    ),
    RequestCode.CLONE_GROUP_OFFSET: lambda one: (
        {"srcGroup": one.group, "destGroup": f"{one.group}-2", "topic": one.topic},
        b"",
    ),
    RequestCode.QUERY_CONSUME_QUEUE: lambda one: (
        {**_queue(one), "index": str(one.queue_offset), "count": "1"},
        b"",
    ),
    RequestCode.LIST_QUARANTINE: _nothing,
    RequestCode.SHOW_QUARANTINE: lambda _: ({}, cbor2.dumps({"id": 0})),
    RequestCode.RETRY_QUARANTINE: lambda _: ({}, cbor2.dumps({"id": 0})),
    RequestCode.DROP_QUARANTINE: lambda _: ({}, cbor2.dumps({"id": 0, "by": "somebody"})),
    RequestCode.EXPLAIN_MESSAGE: lambda one: (
        {},
        cbor2.dumps({"id": one.unique_key, "topic": one.topic or None}),
    ),
    RequestCode.WATCH: lambda _: ({}, WatchView().encode()),
    RequestCode.UNWATCH: _nothing,
    RequestCode.CLOCK: lambda _: ({"accept": "true"}, b""),
    # -- what is a name server's -----------------------------------------------------------------
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _nothing,
    RequestCode.GET_TOPICS_BY_CLUSTER: lambda _: ({"cluster": "DefaultCluster"}, b""),
    RequestCode.GET_BROKER_MEMBER_GROUP: lambda _: (
        {"clusterName": "DefaultCluster", "brokerName": BROKER_NAME},
        b"",
    ),
    RequestCode.REGISTER_BROKER: _registration,
    RequestCode.UNREGISTER_BROKER: lambda _: (ANOTHER_BROKER, b""),
    RequestCode.QUERY_DATA_VERSION: lambda _: (
        ANOTHER_BROKER,
        json.dumps(RouteVersion(1).to_json()).encode(),
    ),
    RequestCode.BROKER_HEARTBEAT: lambda _: (ANOTHER_BROKER, b""),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: lambda one: ({"topic": one.topic}, b""),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _route_rows,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: lambda _: ({"brokerName": BROKER_NAME}, b""),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: lambda _: ({"brokerName": BROKER_NAME}, b""),
    RequestCode.PUT_KV_CONFIG: lambda _: ({"namespace": "N", "key": "k", "value": "v"}, b""),
    RequestCode.GET_KV_CONFIG: lambda _: ({"namespace": "N", "key": "k"}, b""),
    RequestCode.DELETE_KV_CONFIG: lambda _: ({"namespace": "N", "key": "k"}, b""),
    RequestCode.GET_KVLIST_BY_NAMESPACE: lambda _: ({"namespace": "N"}, b""),
    RequestCode.GET_NAMESRV_CONFIG: _nothing,
    RequestCode.UPDATE_NAMESRV_CONFIG: lambda _: ({}, b"recallMessageEnable=false"),
}
"""Request code to what makes its parameters and body."""
