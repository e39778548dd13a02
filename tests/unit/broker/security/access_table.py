"""Who may do what, written down by hand: accounts, kinds of names, and what each request needs.

Nothing of this is taken from ``access_rules``: it says the same a second time, as
``docs/protocol.md`` says it, so that one of the two may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from timermq.remoting import RequestCode

# -- accounts ------------------------------------------------------------------------------------

OWN_TOPIC, OWN_GROUP = "AsTopic", "AsGroup"
FOREIGN_TOPIC, FOREIGN_GROUP = "VsTopic", "VsGroup"
RETRY, DEAD = "%RETRY%", "%DLQ%"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
TIMER_TOPIC, HALF_TOPIC = "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"
CLOSED_TOPICS = (
    TIMER_TOPIC,
    HALF_TOPIC,
    TRACE_TOPIC,
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "rmq_sys_TIMERMQ_QUARANTINE",
    "rmq_sys_TIMERMQ_LEFT_OUT",
    "rmq_sys_REVIVE_LOG_DefaultCluster",
)
"""The broker's own: rights to all topics are none to them."""


@attrs.frozen(kw_only=True)
class Account:
    """Rights as the file has them: PUB, SUB or both, by topic and by group."""

    topics: Mapping[str, str] = attrs.field(factory=dict[str, str])
    groups: Mapping[str, str] = attrs.field(factory=dict[str, str])
    default_topic: str = ""
    default_group: str = ""
    is_admin: bool = False
    job: str | None = None
    """The bulk job that is its own."""


ACCOUNTS: Mapping[str, Account] = {
    "account-A": Account(topics={OWN_TOPIC: "PUB|SUB"}, groups={OWN_GROUP: "SUB"}, job="job-of-A"),
    "account-V": Account(
        topics={FOREIGN_TOPIC: "PUB|SUB"}, groups={FOREIGN_GROUP: "SUB"}, job="job-of-V"
    ),
    "reader-A": Account(topics={OWN_TOPIC: "SUB"}, groups={OWN_GROUP: "SUB"}),
    "writer-A": Account(topics={OWN_TOPIC: "PUB"}, groups={OWN_GROUP: "PUB"}),
    "all-topics": Account(default_topic="PUB|SUB", default_group="SUB"),
    "own-topics": Account(
        topics=dict.fromkeys(CLOSED_TOPICS, "PUB|SUB"), groups={OWN_GROUP: "SUB"}
    ),
    "powerless": Account(),
    "the-admin": Account(is_admin=True),
}
STRANGERS = ("not-signed", "wrong-signature", "unknown-key")
"""A client whose account is not known."""


def rules(secret: str) -> str:
    """The text of an access file with all accounts, which share one secret."""
    lines = ["accounts:"]
    for key, account in ACCOUNTS.items():
        lines += [f"- accessKey: {key}", f"  secretKey: {secret}"]
        lines.append(f"  admin: {str(account.is_admin).lower()}")
        lines.append(f"  defaultTopicPerm: {account.default_topic or 'DENY'}")
        lines.append(f"  defaultGroupPerm: {account.default_group or 'DENY'}")
        lines.append(f"  topicPerms: [{_pairs(account.topics)}]")
        lines.append(f"  groupPerms: [{_pairs(account.groups)}]")
    return "\n".join(lines) + "\n"


def _pairs(rights: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={right}" for name, right in rights.items())


# -- names ---------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Name:
    """A topic and a group that a request names, and the message that it names by its place."""

    topic: str
    group: str = OWN_GROUP
    goes_to: str | None = None
    """Where the message at the place goes; None: there is none."""
    job: str = "job-of-A"

    def __str__(self) -> str:
        return f"{self.topic!r} and {self.group!r}"


def _whole(topic: str, group: str = OWN_GROUP, job: str = "job-of-A") -> Name:
    return Name(topic=topic, group=group, goes_to=topic, job=job)


OWN = _whole(OWN_TOPIC)
FOREIGN = _whole(FOREIGN_TOPIC, FOREIGN_GROUP, "job-of-V")
WAITING = Name(topic=TIMER_TOPIC, goes_to=FOREIGN_TOPIC)
"""The place is that of a timer of V."""
UNDECIDED = Name(topic=HALF_TOPIC, goes_to=FOREIGN_TOPIC)
"""That of a half message of V."""
NAMES = (
    OWN,
    FOREIGN,
    _whole(OWN_TOPIC, FOREIGN_GROUP),
    _whole(FOREIGN_TOPIC, OWN_GROUP, "job-of-V"),
    _whole(RETRY + OWN_GROUP),
    _whole(RETRY + FOREIGN_GROUP, FOREIGN_GROUP),
    _whole(RETRY + FOREIGN_GROUP),
    _whole(DEAD + OWN_GROUP),
    _whole(DEAD + FOREIGN_GROUP, FOREIGN_GROUP),
    _whole(DEAD + FOREIGN_GROUP),
    WAITING,
    UNDECIDED,
    *(_whole(topic) for topic in CLOSED_TOPICS if topic not in (TIMER_TOPIC, HALF_TOPIC)),
    Name(topic="TBW102"),
    Name(topic="BenchmarkTest"),
    Name(topic="rmq_sys_TRACE_DATA_c"),
    Name(topic=REPLY_TOPIC),
    Name(topic=OWN_TOPIC, group="CID_RMQ_SYS_TRANS"),
    Name(topic=OWN_TOPIC.upper(), group=OWN_GROUP.upper()),
    Name(topic="StrangeTopic", group="StrangeGroup", job="job-of-none"),
    Name(topic="", group=""),
)

# -- what a request needs ------------------------------------------------------------------------

PUB, SUB, EITHER = "PUB", "SUB", "PUB or SUB"


@attrs.frozen
class Need:
    """A right to a topic; one to a group is one to its retry topic."""

    right: str
    topic: str


Needs = Callable[[Name], Iterator[Need] | None]
"""Of a name; None: an administrator."""


def _send(name: Name) -> Iterator[Need]:
    yield from _to(name.topic)


def _to(topic: str) -> Iterator[Need]:
    if topic != TRACE_TOPIC:
        yield Need(SUB if topic.startswith(RETRY) else PUB, topic)


def _group(name: Name) -> Iterator[Need]:
    yield Need(SUB, RETRY + name.group)


def _topic_and_group(name: Name) -> Iterator[Need]:
    yield Need(SUB, name.topic)
    yield from _group(name)


def _send_back(name: Name) -> Iterator[Need]:
    yield from _group(name)
    if name.goes_to is not None:
        yield Need(SUB, name.goes_to)


def _view(name: Name) -> Iterator[Need] | None:
    return None if name.goes_to is None else iter([Need(SUB, name.goes_to)])


def _end(name: Name) -> Iterator[Need] | None:
    return None if name.goes_to is None else _to(name.goes_to)


def _publish(name: Name) -> Iterator[Need]:
    yield Need(PUB, name.topic)


def _consume(name: Name) -> Iterator[Need]:
    yield Need(SUB, name.topic)


def _look(name: Name) -> Iterator[Need]:
    yield Need(EITHER, name.topic)


def _route(name: Name) -> Iterator[Need]:
    if name.topic not in ("TBW102", TRACE_TOPIC, REPLY_TOPIC):
        yield Need(EITHER, name.topic)


def _account(_: Name) -> Iterator[Need]:
    yield from ()


def _reply(_: Name) -> Iterator[Need]:
    yield Need(PUB, REPLY_TOPIC)


def _administrator(_: Name) -> None:
    return None


_FOR_ACCOUNTS: Mapping[int, Needs] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send,
    RequestCode.SEND_BATCH_MESSAGE: _send,
    RequestCode.SEND_MESSAGES: _send,
    RequestCode.SEND_REPLY_MESSAGE: _reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: _reply,
    RequestCode.PULL_MESSAGE: _topic_and_group,
    RequestCode.LITE_PULL_MESSAGE: _topic_and_group,
    RequestCode.QUERY_CONSUMER_OFFSET: _topic_and_group,
    RequestCode.UPDATE_CONSUMER_OFFSET: _topic_and_group,
    RequestCode.HEART_BEAT: _topic_and_group,
    RequestCode.CHECK_CLIENT_CONFIG: _topic_and_group,
    RequestCode.LOCK_BATCH_MQ: _topic_and_group,
    RequestCode.UNLOCK_BATCH_MQ: _topic_and_group,
    RequestCode.UNREGISTER_CLIENT: lambda name: _group(name) if name.group else _account(name),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _group,
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.END_TRANSACTION: _end,
    RequestCode.QUERY_MESSAGE: _consume,
    RequestCode.VIEW_MESSAGE_BY_ID: _view,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _look,
    RequestCode.GET_MAX_OFFSET: _look,
    RequestCode.GET_MIN_OFFSET: _look,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _look,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.GET_BROKER_CLUSTER_INFO: _account,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _account,
    RequestCode.RECALL_MESSAGE: _publish,
    RequestCode.CANCEL_MESSAGE: _publish,
    RequestCode.LIST_PENDING: _consume,
    RequestCode.BULK_OPEN: _look,
    RequestCode.BULK_STAGE: _send,
    RequestCode.BULK_COMMIT: _account,
    RequestCode.BULK_STATUS: _account,
    RequestCode.BULK_DROP: _account,
}
_FOR_ADMINISTRATORS = (
    *(RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST),
    *(RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_TOPIC_CONFIG),
    *(RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.CLEAN_UNUSED_TOPIC),
    *(RequestCode.DELETE_TOPIC_IN_BROKER_LIST, RequestCode.DELETE_SUBSCRIPTION_GROUP_LIST),
    *(RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER),
    *(RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG),
    *(RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.VIEW_BROKER_STATS_DATA),
    *(RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET),
    *(RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS),
    *(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, RequestCode.DELETE_EXPIRED_COMMITLOG),
    *(RequestCode.PUT_KV_CONFIG, RequestCode.GET_KV_CONFIG, RequestCode.DELETE_KV_CONFIG),
    *(RequestCode.GET_KVLIST_BY_NAMESPACE, RequestCode.GET_NAMESRV_CONFIG),
    *(RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.QUERY_DATA_VERSION),
    *(RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.BROKER_HEARTBEAT),
    *(RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.REGISTER_TOPIC_IN_NAMESRV),
    *(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
    *(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_TOPICS_BY_CLUSTER),
    RequestCode.GET_BROKER_MEMBER_GROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    *(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG),
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    *(RequestCode.GET_CONSUMER_CONNECTION_LIST, RequestCode.GET_PRODUCER_CONNECTION_LIST),
    *(RequestCode.GET_ALL_PRODUCER_INFO, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO),
    *(RequestCode.QUERY_TOPICS_BY_CONSUMER, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER),
    *(RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY),
    *(RequestCode.GET_CONSUME_STATS, RequestCode.GET_BROKER_CONSUME_STATS),
    *(RequestCode.QUERY_CONSUME_TIME_SPAN, RequestCode.QUERY_CONSUME_QUEUE),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.CLONE_GROUP_OFFSET,
    *(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, RequestCode.SET_MESSAGE_REQUEST_MODE),
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    *(RequestCode.GET_BROKER_HA_STATUS, RequestCode.RESET_MASTER_FLUSH_OFFSET),
    *(RequestCode.GET_BROKER_EPOCH_CACHE, RequestCode.NOTIFY_BROKER_ROLE_CHANGED),
    *(RequestCode.LOG_DIGEST, RequestCode.PROMOTE, RequestCode.DEMOTE),
    *(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG),
    *(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, RequestCode.SET_COMMITLOG_READ_MODE),
    RequestCode.RESUME_CHECK_HALF_MESSAGE,
    *(RequestCode.EXPLAIN_MESSAGE, RequestCode.WATCH, RequestCode.UNWATCH, RequestCode.CLOCK),
    *(RequestCode.LIST_QUARANTINE, RequestCode.SHOW_QUARANTINE),
    *(RequestCode.RETRY_QUARANTINE, RequestCode.DROP_QUARANTINE),
)
NEEDS: Mapping[int, Needs] = {
    **dict.fromkeys(_FOR_ADMINISTRATORS, _administrator),
    **_FOR_ACCOUNTS,
}
"""Every code that is served."""

NOT_SERVED = (
    *(RequestCode.CHECK_TRANSACTION_STATE, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED),
    *(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT),
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    *(0, 13, 50, 354, 9008, 9999, 20_050, 32_767),
)
"""What the broker itself asks of clients, and what no account has."""

JOB_CODES = frozenset(
    {
        RequestCode.BULK_OPEN,
        RequestCode.BULK_STAGE,
        RequestCode.BULK_COMMIT,
        RequestCode.BULK_STATUS,
        RequestCode.BULK_DROP,
    }
)
"""Requests about a job, which is its account's alone."""


REPLY_CODES = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
"""Replies, which reach clients of one's own account without a right."""

CLIENT_CODES = (
    *REPLY_CODES,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
)
"""Requests that name a client which is connected; in others clients name themselves."""


def client_of(name: Name) -> str:
    """The account whose client a reply of this name is for."""
    return "account-V" if name.job == "job-of-V" else "account-A"


def is_let_through(code: int, name: Name, who: str) -> bool:
    """Whether a request is to be done, as far as rights go."""
    account = ACCOUNTS.get(who)
    if account is None or account.is_admin or code in NOT_SERVED:
        return account is not None
    if code in REPLY_CODES and who == client_of(name):
        return True
    needs = NEEDS[code](name)
    return needs is not None and all(_has(account, need) for need in needs)


def _has(account: Account, need: Need) -> bool:
    if need.topic.startswith(RETRY):
        owned = account.groups.get(need.topic.removeprefix(RETRY), account.default_group)
    else:
        is_closed = need.topic.startswith("rmq_sys_") or need.topic in CLOSED_TOPICS
        is_closed = is_closed and not need.topic.startswith("rmq_sys_TRACE_DATA_")
        owned = account.topics.get(need.topic, "" if is_closed else account.default_topic)
    rights = owned.split("|")
    return need.right in rights or (need.right == EITHER and bool(owned))
