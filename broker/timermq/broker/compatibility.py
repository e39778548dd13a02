"""Every request code of RocketMQ and ours: what it does here, and what shows it.

docs/protocol.md has this as a table, and a test holds it against the handlers: a code that gets a
handler gets a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from timermq.remoting.codes import RequestCode


@attrs.frozen
class Row:
    """The row of one request code in docs/protocol.md."""

    what: str
    """Its effect, or the difference from RocketMQ."""
    shown_by: str
    """A module of tests that names the code, without ``tests/`` and ``.py``."""


SERVED: Mapping[RequestCode, Row] = {
    RequestCode.SEND_MESSAGE: Row(
        "one message; C++ says `batch=1` for many", "interop/test_real_clients"
    ),
    RequestCode.PULL_MESSAGE: Row(
        "long polling; filters by tag and by SQL92", "interop/test_java_consumers"
    ),
    RequestCode.QUERY_MESSAGE: Row(
        "by unique key, or by key up to `max_msgs_num_batch` messages (64)", "interop/test_mqadmin"
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: Row("", "unit/broker/consuming/test_offset_processor"),
    RequestCode.UPDATE_CONSUMER_OFFSET: Row("", "unit/broker/consuming/test_offset_processor"),
    RequestCode.UPDATE_AND_CREATE_TOPIC: Row(
        "answered when it is on the disk; COMPACTION and BatchCQ are refused",
        "interop/test_mqadmin",
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: Row(
        "all of them or none", "unit/broker/admin/test_topic_processor"
    ),
    RequestCode.GET_ALL_TOPIC_CONFIG: Row(
        "whole, or page by page from 5.4 on", "unit/broker/admin/test_table_page"
    ),
    RequestCode.UPDATE_BROKER_CONFIG: Row(
        "settings that can change live, until the next start; RocketMQ rewrites its file",
        "interop/test_mqadmin",
    ),
    RequestCode.GET_BROKER_CONFIG: Row("", "interop/test_mqadmin"),
    RequestCode.GET_BROKER_RUNTIME_INFO: Row(
        "all of RocketMQ's names; see below", "unit/broker/admin/test_runtime_info"
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Row("", "unit/broker/consuming/test_offset_processor"),
    RequestCode.GET_MAX_OFFSET: Row("", "unit/broker/consuming/test_offset_processor"),
    RequestCode.GET_MIN_OFFSET: Row("", "unit/broker/consuming/test_offset_processor"),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Row("", "unit/broker/consuming/test_offset_processor"),
    RequestCode.VIEW_MESSAGE_BY_ID: Row("", "interop/test_mqadmin"),
    RequestCode.HEART_BEAT: Row(
        "its second version is not offered", "unit/broker/consuming/test_client_processor"
    ),
    RequestCode.UNREGISTER_CLIENT: Row("", "unit/broker/consuming/test_client_processor"),
    RequestCode.CONSUMER_SEND_MSG_BACK: Row(
        "a message again later, or to the dead letters; see below",
        "interop/test_java_consumers",
    ),
    RequestCode.LOCK_BATCH_MQ: Row(
        "for 60 s from the last renewal, or from a restart of the broker; a client that is gone "
        "keeps its queues so long",
        "interop/test_java_groups",
    ),
    RequestCode.UNLOCK_BATCH_MQ: Row("", "interop/test_java_groups"),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Row("", "interop/test_java_groups"),
    RequestCode.GET_ALL_CONSUMER_OFFSET: Row("", "unit/broker/admin/test_broker_info_processor"),
    RequestCode.GET_ALL_DELAY_OFFSET: Row("", "unit/broker/admin/test_broker_info_processor"),
    RequestCode.CHECK_CLIENT_CONFIG: Row("", "interop/test_java_consumers"),
    RequestCode.GET_TIMER_CHECK_POINT: Row("", "unit/broker/admin/test_broker_info_processor"),
    RequestCode.GET_TIMER_METRICS: Row("", "unit/broker/admin/test_broker_info_processor"),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Row("", "unit/broker/namesrv/test_route_processor"),
    RequestCode.GET_BROKER_CLUSTER_INFO: Row("", "interop/test_mqadmin"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Row("", "interop/test_mqadmin"),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Row(
        "whole, or page by page from 5.4 on", "unit/broker/admin/test_table_page"
    ),
    RequestCode.GET_TOPIC_STATS_INFO: Row(
        "the rate is counted in the queues, as far back as they reach", "interop/test_mqadmin"
    ),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: Row("", "interop/test_mqadmin"),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: Row("", "interop/test_mqadmin"),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Row("", "interop/test_mqadmin"),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Row("", "interop/test_mqadmin"),
    RequestCode.GET_CONSUME_STATS: Row(
        "offsets pulled are given as offsets committed", "interop/test_mqadmin"
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER: Row(
        "refused while messages wait for their moment", "interop/test_mqadmin"
    ),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Row(
        "consumers learn it at once, their held pulls are answered", "interop/test_mqadmin"
    ),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Row(
        "asks the members (221)", "unit/broker/admin/test_connection_list_processor"
    ),
    RequestCode.GET_TOPICS_BY_CLUSTER: Row("", "unit/broker/namesrv/test_route_processor"),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Row(
        "all of them or none", "unit/broker/admin/test_group_processor"
    ),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Row("", "interop/test_mqadmin"),
    RequestCode.QUERY_CONSUME_TIME_SPAN: Row("", "unit/broker/admin/test_consume_stats_processor"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: Row("", "unit/broker/namesrv/test_route_processor"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Row(
        "", "unit/broker/admin/test_topic_processor"
    ),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Row(
        "by the rules of the background, at once", "interop/test_mqadmin"
    ),
    RequestCode.GET_CONSUMER_RUNNING_INFO: Row("asks the client", "interop/test_mqadmin"),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: Row("asks the client", "interop/test_mqadmin"),
    RequestCode.SEND_MESSAGE_V2: Row("", "interop/test_real_clients"),
    RequestCode.CLONE_GROUP_OFFSET: Row(
        "refused while the group has members", "unit/broker/admin/test_offset_reset_processor"
    ),
    RequestCode.VIEW_BROKER_STATS_DATA: Row(
        "nine statistics; see below", "unit/broker/admin/test_broker_stats"
    ),
    RequestCode.CLEAN_UNUSED_TOPIC: Row("", "interop/test_mqadmin"),
    RequestCode.GET_BROKER_CONSUME_STATS: Row("", "interop/test_mqadmin"),
    RequestCode.SEND_BATCH_MESSAGE: Row(
        "parts get the properties of the batch that they have not themselves, also a delay",
        "unit/broker/sending/test_send_reader",
    ),
    RequestCode.GET_ALL_PRODUCER_INFO: Row("", "interop/test_mqadmin"),
    RequestCode.DELETE_EXPIRED_COMMITLOG: Row(
        "by the rules of the background, in its hours", "interop/test_mqadmin"
    ),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: Row(
        "", "unit/broker/admin/test_connection_list_processor"
    ),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Row(
        "", "unit/broker/admin/test_connection_list_processor"
    ),
    RequestCode.GET_TOPIC_CONFIG: Row("", "interop/test_mqadmin"),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Row("", "unit/broker/admin/test_group_processor"),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Row(
        "answered when it is on the disk; holds for pulls that bring their filter, too",
        "interop/test_admin_calls",
    ),
    RequestCode.SET_MESSAGE_REQUEST_MODE: Row(
        "PULL, which changes nothing; POP is refused with 3", "interop/test_admin_calls"
    ),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: Row(
        "none: all groups pull", "unit/broker/admin/test_request_mode_processor"
    ),
    RequestCode.GET_BROKER_EPOCH_CACHE: Row(
        "also of a broker without replicas, which has no epochs",
        "unit/broker/replication/test_succession_processor",
    ),
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: Row(
        "from the replica that leads: a higher epoch ends the lead of this one",
        "unit/broker/replication/test_succession_processor",
    ),
    RequestCode.PROMOTE: Row(
        "ours: a follower is to lead", "unit/broker/replication/test_succession_processor"
    ),
    RequestCode.DEMOTE: Row("ours: hands over to a follower, without a gap", "interop/test_pair"),
    RequestCode.LOG_DIGEST: Row(
        "ours: by which a follower compares its log, before it copies",
        "unit/broker/replication/test_succession_processor",
    ),
    RequestCode.GET_BROKER_HA_STATUS: Row("", "interop/test_java_slave"),
    RequestCode.RESET_MASTER_FLUSH_OFFSET: Row(
        "changes nothing, as on any master", "interop/test_admin_calls"
    ),
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: Row(
        "kept until the stop; nothing is throttled, as in RocketMQ by default",
        "interop/test_admin_calls",
    ),
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: Row("", "interop/test_admin_calls"),
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: Row("", "interop/test_admin_calls"),
    RequestCode.SET_COMMITLOG_READ_MODE: Row(
        "0, which changes nothing; the kernel always reads ahead", "interop/test_admin_calls"
    ),
    RequestCode.LITE_PULL_MESSAGE: Row("", "interop/test_java_consumers"),
    RequestCode.END_TRANSACTION: Row(
        "once, whichever half message of it is named; another ending is refused; see below",
        "interop/test_transactions",
    ),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Row(
        "of messages in `TRANS_CHECK_MAX_TIME_TOPIC` alone, each time a new transaction",
        "interop/test_admin_calls",
    ),
    RequestCode.RECALL_MESSAGE: Row(
        "on by default; says `too_late` and `not_found`", "interop/test_real_clients"
    ),
    RequestCode.DELETE_TOPIC_IN_BROKER_LIST: Row(
        "all of them or none; refused while messages wait for their moment",
        "unit/broker/admin/test_topic_deletion_processor",
    ),
    RequestCode.DELETE_SUBSCRIPTION_GROUP_LIST: Row(
        "all of them or none", "unit/broker/admin/test_group_processor"
    ),
    RequestCode.SEND_MESSAGES: Row(
        "ours: messages of any topics in CBOR, each succeeds or fails on its own",
        "unit/broker/sending/test_send_reader",
    ),
    RequestCode.LIST_PENDING: Row(
        "ours: pending messages, page by page, in CBOR: `rows` in the order of slots, and `next`, "
        "which the next request gives as `after`",
        "unit/broker/pending/test_pending_processor",
    ),
    RequestCode.WATCH: Row(
        "ours: snapshots of the broker, pushed; see below",
        "unit/broker/watching/test_watch_processor",
    ),
    RequestCode.UNWATCH: Row(
        "ours: no more snapshots", "unit/broker/watching/test_watch_processor"
    ),
    RequestCode.CANCEL_MESSAGE: Row(
        "ours: cancels or moves a pending message, by handle, unique key or key; answers a verdict",
        "unit/broker/pending/test_cancel_processor",
    ),
    RequestCode.EXPLAIN_MESSAGE: Row(
        "ours: the history of one message, as the log has it, and its state now, in CBOR",
        "unit/broker/pending/test_explain_processor",
    ),
    RequestCode.BULK_OPEN: Row(
        "ours: begins a job of bulk scheduling; see below", "unit/broker/bulk/test_bulk_processor"
    ),
    RequestCode.BULK_STAGE: Row(
        "ours: a block of columns; the last one of a part is answered when it is on the disk",
        "unit/broker/bulk/test_bulk_processor",
    ),
    RequestCode.BULK_COMMIT: Row(
        "ours: commits a job, once", "unit/broker/bulk/test_bulk_processor"
    ),
    RequestCode.BULK_STATUS: Row(
        "ours: rows ingested and refused", "unit/broker/bulk/test_bulk_processor"
    ),
    RequestCode.BULK_DROP: Row(
        "ours: lets go of parts that will not be committed", "unit/broker/bulk/test_bulk_processor"
    ),
    RequestCode.CLOCK: Row(
        "ours: the broker's wall clock; with `accept=true` it is taken as right; see below",
        "unit/broker/watching/test_clock_processor",
    ),
    RequestCode.LIST_QUARANTINE: Row(
        "ours: messages that could not be delivered; see below",
        "unit/broker/pending/test_quarantine_processor",
    ),
    RequestCode.SHOW_QUARANTINE: Row("ours", "unit/broker/pending/test_quarantine_processor"),
    RequestCode.RETRY_QUARANTINE: Row("ours", "unit/broker/pending/test_quarantine_processor"),
    RequestCode.DROP_QUARANTINE: Row("ours", "unit/broker/pending/test_quarantine_processor"),
    RequestCode.PUT_KV_CONFIG: Row("", "unit/broker/namesrv/test_name_server_processor"),
    RequestCode.GET_KV_CONFIG: Row("", "unit/broker/namesrv/test_name_server_processor"),
    RequestCode.DELETE_KV_CONFIG: Row("", "unit/broker/namesrv/test_name_server_processor"),
    RequestCode.REGISTER_BROKER: Row("", "interop/test_cluster"),
    RequestCode.UNREGISTER_BROKER: Row("", "interop/test_cluster"),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Row(
        "for this broker until it is added again", "interop/test_mqadmin"
    ),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Row(
        "this broker keeps its topics", "interop/test_mqadmin"
    ),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Row(
        "", "unit/broker/namesrv/test_name_server_processor"
    ),
    RequestCode.GET_KVLIST_BY_NAMESPACE: Row("", "unit/broker/namesrv/test_name_server_processor"),
    RequestCode.UPDATE_NAMESRV_CONFIG: Row(
        "the broker's settings, as 25 changes them", "interop/test_admin_calls"
    ),
    RequestCode.GET_NAMESRV_CONFIG: Row(
        "the broker's settings", "unit/broker/namesrv/test_name_server_processor"
    ),
    RequestCode.QUERY_CONSUME_QUEUE: Row("64 units at most", "interop/test_mqadmin"),
    RequestCode.QUERY_DATA_VERSION: Row("", "unit/broker/namesrv/test_name_server_processor"),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Row("", "interop/test_mqadmin"),
    RequestCode.GET_BROKER_MEMBER_GROUP: Row("", "unit/broker/namesrv/test_name_server_processor"),
    RequestCode.BROKER_HEARTBEAT: Row("", "unit/broker/namesrv/test_name_server_processor"),
    RequestCode.SEND_REPLY_MESSAGE: Row(
        "handed to the client that asked; no copy is stored",
        "unit/broker/sending/test_reply_processor",
    ),
    RequestCode.SEND_REPLY_MESSAGE_V2: Row(
        "handed to the client that asked; no copy is stored", "interop/test_request_reply"
    ),
}
"""Codes that have a handler: answered for real, but for what says otherwise."""

ASKED: Mapping[RequestCode, Row] = {
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Row("", "interop/test_request_reply"),
    RequestCode.CHECK_TRANSACTION_STATE: Row(
        "to one producer of the group; see below", "interop/test_transactions"
    ),
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Row(
        "to all members, the newcomer too", "unit/broker/test_client_registry"
    ),
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: Row(
        "to broadcasting members only", "unit/broker/admin/test_offset_reset_processor"
    ),
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: Row(
        "", "unit/broker/admin/test_connection_list_processor"
    ),
    RequestCode.REGISTER_BROKER: Row(
        "to name servers: every 30 s, and at once when topics change",
        "unit/broker/namesrv/test_name_server_link",
    ),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Row(
        "of name servers, before a registration: whether another broker has taken the name",
        "unit/broker/namesrv/test_name_server_link",
    ),
    RequestCode.UNREGISTER_BROKER: Row(
        "to name servers at a stop", "unit/broker/namesrv/test_name_server_link"
    ),
}
"""Sent by the broker, to clients and name servers."""

_ACL_1_CODES = (
    "UPDATE_AND_CREATE_ACL_CONFIG",
    "DELETE_ACL_CONFIG",
    "GET_BROKER_CLUSTER_ACL_INFO",
    "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG",
    "GET_BROKER_CLUSTER_ACL_CONFIG",
)
"""From 50 on; up to RocketMQ 5.2."""
_ACL_2_CODES = tuple(
    f"AUTH_{verb}_{what}"
    for what in ("USER", "ACL")
    for verb in ("CREATE", "UPDATE", "DELETE", "GET", "LIST")
)
"""From 3001 on."""
_ACCOUNTS = "accounts stand in `plain_acl.yml`"

_CONTROLLER_CODES = (
    "CONTROLLER_ALTER_SYNC_STATE_SET",
    "CONTROLLER_ELECT_MASTER",
    "CONTROLLER_REGISTER_BROKER",
    "CONTROLLER_GET_REPLICA_INFO",
    "CONTROLLER_GET_METADATA_INFO",
    "CONTROLLER_GET_SYNC_STATE_DATA",
    "GET_BROKER_EPOCH_CACHE",
    "NOTIFY_BROKER_ROLE_CHANGED",
    "UPDATE_CONTROLLER_CONFIG",
    "GET_CONTROLLER_CONFIG",
    "CLEAN_BROKER_DATA",
    "CONTROLLER_GET_NEXT_BROKER_ID",
    "CONTROLLER_APPLY_BROKER_ID",
)
"""In the order of codes, from 1001 on: of replicas, and of the controller that chooses masters."""

_LITE_CODES = (
    "POP_LITE_MESSAGE",
    "LITE_SUBSCRIPTION_CTL",
    "ACK_LITE_MESSAGE",
    "NOTIFY_UNSUBSCRIBE_LITE",
    "GET_BROKER_LITE_INFO",
    "GET_PARENT_TOPIC_INFO",
    "GET_LITE_TOPIC_INFO",
    "GET_LITE_CLIENT_INFO",
    "GET_LITE_GROUP_INFO",
    "TRIGGER_LITE_DISPATCH",
)
"""From 200,070 on: topics of 5.5 for many short-lived sessions."""

REFUSED: Mapping[int, tuple[str, str]] = {
    13: ("QUERY_BROKER_OFFSET", "RocketMQ does not serve it either"),
    22: ("GET_TOPIC_CONFIG_LIST", "RocketMQ does not serve it either"),
    23: ("GET_TOPIC_NAME_LIST", "RocketMQ does not serve it either"),
    27: ("TRIGGER_DELETE_FILES", "RocketMQ does not serve it either"),
    47: ("GET_CLIENT_CONFIG", "RocketMQ does not serve it either"),
    **{code: (name, _ACCOUNTS) for code, name in enumerate(_ACL_1_CODES, 50)},
    209: ("SUSPEND_CONSUMER", "RocketMQ does not serve it either"),
    210: ("RESUME_CONSUMER", "RocketMQ does not serve it either"),
    211: ("RESET_CONSUMER_OFFSET_IN_CONSUMER", "RocketMQ does not serve it either"),
    212: ("RESET_CONSUMER_OFFSET_IN_BROKER", "RocketMQ does not serve it either"),
    213: ("ADJUST_CONSUMER_THREAD_POOL", "RocketMQ does not serve it either"),
    214: ("WHO_CONSUME_THE_MESSAGE", "RocketMQ does not serve it either"),
    301: ("REGISTER_FILTER_SERVER", "filter servers were removed from RocketMQ"),
    302: ("REGISTER_MESSAGE_FILTER_CLASS", "filter servers were removed from RocketMQ"),
    308: ("QUERY_CORRECTION_OFFSET", "no tool asks for it"),
    311: ("GET_UNIT_TOPIC_LIST", "no units"),
    312: ("GET_HAS_UNIT_SUB_TOPIC_LIST", "no units"),
    313: ("GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", "no units"),
    354: ("CHECK_ROCKSDB_CQ_WRITE_PROGRESS", "no RocksDB"),
    355: ("EXPORT_ROCKSDB_CONFIG_TO_JSON", "no RocksDB"),
    400: ("QUERY_ASSIGNMENT", "no POP: clients assign queues themselves"),
    513: ("UPDATE_AND_CREATE_STATIC_TOPIC", "no static topics"),
    902: ("ADD_BROKER", "no broker containers"),
    903: ("REMOVE_BROKER", "no broker containers"),
    905: ("NOTIFY_MIN_BROKER_ID_CHANGE", "no replicas"),
    906: ("EXCHANGE_BROKER_HA_INFO", "no replicas"),
    **{
        code: (name, "no controller")
        for code, name in enumerate(_CONTROLLER_CODES, 1_001)
        if name not in ("GET_BROKER_EPOCH_CACHE", "NOTIFY_BROKER_ROLE_CHANGED")
    },
    **{code: (name, _ACCOUNTS) for code, name in enumerate(_ACL_2_CODES, 3_001)},
    5_001: ("SWITCH_TIMER_ENGINE", "one engine, without RocksDB"),
    200_050: ("POP_MESSAGE", "no POP"),
    200_051: ("ACK_MESSAGE", "no POP"),
    200_052: ("PEEK_MESSAGE", "no POP"),
    200_053: ("CHANGE_MESSAGE_INVISIBLETIME", "no POP"),
    200_054: ("NOTIFICATION", "no POP"),
    200_055: ("POLLING_INFO", "no POP"),
    200_056: ("POP_ROLLBACK", "no POP"),
    **{code: (name, "no lite topics") for code, name in enumerate(_LITE_CODES, 200_070)},
    200_151: ("BATCH_ACK_MESSAGE", "no POP"),
}
"""Codes of RocketMQ that are answered with 3, and why."""


def compatibility_rows() -> Iterator[tuple[int, str, str, str, str]]:
    """Code, name, how, what, shown by; in the order of codes."""
    rows = [(int(code), code.name, "yes", row.what, row.shown_by) for code, row in SERVED.items()]
    rows += [(int(code), code.name, "asks", row.what, row.shown_by) for code, row in ASKED.items()]
    rows += [(code, name, "3", why, "") for code, (name, why) in REFUSED.items()]
    yield from sorted(rows)
