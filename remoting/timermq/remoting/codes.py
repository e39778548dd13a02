"""Codes of requests, responses and languages. Source: Java ``RequestCode``, ``ResponseCode``."""

from __future__ import annotations

import enum

VERSION = 479
"""The version that we report: RocketMQ 5.3.3. Clients learn from it that the broker is recent."""

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2


class RequestCode(enum.IntEnum):
    """The codes of requests: RocketMQ's, and ours from 9001 on."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    UPDATE_AND_CREATE_TOPIC_LIST = 18
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ALL_DELAY_OFFSET = 45
    CHECK_CLIENT_CONFIG = 46
    GET_TIMER_CHECK_POINT = 60
    GET_TIMER_METRICS = 61
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    RESET_CONSUMER_CLIENT_OFFSET = 220
    GET_CONSUMER_STATUS_FROM_CLIENT = 221
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    GET_TOPICS_BY_CLUSTER = 224
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    GET_CONSUMER_RUNNING_INFO = 307
    CONSUME_MESSAGE_DIRECTLY = 309
    SEND_MESSAGE_V2 = 310
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    SEND_BATCH_MESSAGE = 320
    QUERY_CONSUME_QUEUE = 321
    QUERY_DATA_VERSION = 322
    RESUME_CHECK_HALF_MESSAGE = 323
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_ALL_PRODUCER_INFO = 328
    DELETE_EXPIRED_COMMITLOG = 329
    QUERY_TOPICS_BY_CONSUMER = 343
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345
    GET_TOPIC_CONFIG = 351
    GET_SUBSCRIPTIONGROUP_CONFIG = 352
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353
    LITE_PULL_MESSAGE = 361
    RECALL_MESSAGE = 370
    SET_MESSAGE_REQUEST_MODE = 401
    GET_ALL_MESSAGE_REQUEST_MODE = 402
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904
    GET_BROKER_HA_STATUS = 907
    RESET_MASTER_FLUSH_OFFSET = 908
    GET_BROKER_EPOCH_CACHE = 1007
    NOTIFY_BROKER_ROLE_CHANGED = 1008
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG = 2001
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG = 2002
    GET_COLD_DATA_FLOW_CTR_INFO = 2003
    SET_COMMITLOG_READ_MODE = 2004
    DELETE_TOPIC_IN_BROKER_LIST = 5002
    DELETE_SUBSCRIPTION_GROUP_LIST = 5003
    SEND_MESSAGES = 9001
    """Ours: messages for any topics in one frame, CBOR (``send_batch``)."""
    LIST_PENDING = 9002
    """Ours: what waits on the wheel, in pages, CBOR."""
    WATCH = 9003
    """Ours: snapshots of the broker, pushed until UNWATCH or the end, CBOR (``watch``)."""
    UNWATCH = 9004
    """Ours: no more snapshots."""
    CANCEL_MESSAGE = 9005
    """Ours: cancels a pending message, or gives it another moment, with a verdict."""
    EXPLAIN_MESSAGE = 9006
    """Ours: the life of one message, and how it stands, CBOR."""
    LIST_QUARANTINE = 9010
    """Ours: what could not be delivered, and why, in pages, CBOR."""
    SHOW_QUARANTINE = 9011
    """Ours: one message of that with its record, CBOR."""
    RETRY_QUARANTINE = 9012
    """Ours: sends one of that again, with a verdict, CBOR."""
    DROP_QUARANTINE = 9013
    """Ours: lets one of that go, with a verdict, CBOR."""
    CLOCK = 9007
    """Ours: what the broker thinks of its wall clock, and the operator's word on it, CBOR."""
    BULK_OPEN = 9020
    """Ours: begins a job of bulk scheduling, or says how it stands, CBOR (``bulk``)."""
    BULK_STAGE = 9021
    """Ours: a block of a part of a job (``bulk_block``)."""
    BULK_COMMIT = 9022
    """Ours: the parts that make the job: decides it, once, CBOR."""
    BULK_STATUS = 9023
    """Ours: how far a job is, and rows that were refused, in pages, CBOR."""
    BULK_DROP = 9024
    """Ours: lets parts go that were not handed over, CBOR."""
    PROMOTE = 9030
    """Ours: a follower is to lead."""
    DEMOTE = 9031
    """Ours: a master hands over to a follower, and follows it."""
    LOG_DIGEST = 9032
    """Ours: the digest of bytes of the commit log, by which replicas compare."""


class ResponseCode(enum.IntEnum):
    """The result of a request; 0 is success."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    FLOW_CONTROL = 215
    ILLEGAL_OPERATION = 604
    LMQ_QUOTA_EXCEEDED = 2017
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 2018


class LanguageCode(enum.IntEnum):
    """The language of a client; JSON headers carry the name, the others the number."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13

    @classmethod
    def of_name(cls, name: str) -> LanguageCode:
        """The code of a name; unknown names are OTHER."""
        return _LANGUAGES.get(name, cls.OTHER)

    @classmethod
    def of_number(cls, number: int) -> LanguageCode:
        """The code of a number; unknown numbers are OTHER."""
        return cls(number) if 0 <= number <= cls.NODE_JS else cls.OTHER


_LANGUAGES = dict(LanguageCode.__members__)
"""By name, looked at by every header: an enumeration makes a new table each time."""
