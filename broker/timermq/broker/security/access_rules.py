"""Which rights a request needs: the table of request codes.

A right is to a topic, or to a consumer group, which has the name of its retry topic in the rules.
Codes that are not in the table need an administrator; codes without a processor need nothing, they
are answered with 3. Rights are asked for before anything is looked up, so that an account without
them does not learn what the broker has.

RocketMQ looks at sends, pulls, send-backs, queries by key, heartbeats, members and commits alone,
and lets every account do the rest. The table is stricter where that would open a way
around it: a message that is named by its place alone needs a right to its topic; who names a group
or a topic needs a right to it; the broker's own topics need to be named in the file; lists of
everything, and what changes the broker, are for administrators.

Source: Java ``PlainAccessResource.parse``, ``Permission.ADMIN_CODE``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import attrs
import msgspec

from timermq.pipeline.records.system_topics import TRACE_TOPIC
from timermq.remoting.bodies import BODY_SIZE_MAX, HeartbeatData, SubscriptionData
from timermq.remoting.bulk import OpenJob
from timermq.remoting.cbor import CborError, decode_cbor
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.field import integer
from timermq.remoting.send_batch import decode_items

from ..topic_validator import (
    AUTO_CREATE_TOPIC_KEY_TOPIC,
    is_retry_topic,
    retry_topic,
)
from .plain_acl import ANY, PUB, SOME_TOPIC, SUB

Needs = Iterable[tuple[str, int]]
"""Topics and retry topics with the right that is needed to each."""

TopicAt = Callable[[int], str | None]
"""The topic of the message that begins at a position of the commit log, None without one."""

QUERY_SIZE_MAX = 65_536
"""Bytes of a body that asks for pending timers; a key alone may have 32,767."""


class AdminOnly(Exception):
    """The request is for administrators."""


@attrs.frozen(eq=False)
class AccessRules:
    """The table.

    Args:
        topic_at: Looks a message up.
        reply_topic: That of this cluster.
    """

    topic_at: TopicAt
    reply_topic: str

    def needs(self, command: Command) -> Needs:
        """The rights that a request needs; none: any account is enough.

        Raises:
            AdminOnly: Rights to topics and groups are not enough.
            RemoteProtocolError: Its body is not what its code says.
        """
        rule = _RULES.get(command.code)
        if rule is None:
            raise AdminOnly
        return rule(self, command)

    def send(self, command: Command) -> Needs:
        """10: right to send to the topic."""
        return send_needs(command.ext.get("topic", ""))

    def send_v2(self, command: Command) -> Needs:
        """310 and 320: RocketMQ names the parameters by letters there."""
        return send_needs(command.ext.get("b", ""))

    def send_items(self, command: Command) -> Needs:
        """9001: all topics of the batch, or none of it is taken."""
        topics = {item.topic: None for item in decode_items(command.body)}
        return [need for topic in topics for need in send_needs(topic)]

    def pull(self, command: Command) -> Needs:
        """11, 361, 14, 15: the topic and the group."""
        return _topic(command, SUB), _group(command, "consumerGroup")

    def send_back(self, command: Command) -> Needs:
        """36: the group, and the topic of the message that is named by its place."""
        topic = self.topic_at(integer(command, "offset"))
        group = (retry_topic(command.ext.get("group", "")), SUB)
        return (group,) if topic is None else (group, (topic, SUB))

    def view(self, command: Command) -> Needs:
        """33: the topic of the message; a position without a message needs none."""
        topic = self.topic_at(integer(command, "offset"))
        if topic is None:
            raise AdminOnly
        return ((topic, SUB),)

    def end_transaction(self, command: Command) -> Needs:
        """37: the topic that the half message is for."""
        topic = self.topic_at(integer(command, "commitLogOffset", default=-1))
        if topic is None:
            raise AdminOnly
        return send_needs(topic)

    def read(self, command: Command) -> Needs:
        """12: right to consume from the topic."""
        return (_topic(command, SUB),)

    def look(self, command: Command) -> Needs:
        """29 to 32: either right to the topic, both kinds of clients ask."""
        return (_topic(command, ANY),)

    def bulk_open(self, command: Command) -> Needs:
        """9020: either right to the topics whose queues are asked for; without one, to any."""
        topics = OpenJob.decode(command.body).topics
        return [(topic, ANY) for topic in topics] or [(SOME_TOPIC, PUB)]

    def bulk_stage(self, command: Command) -> Needs:
        """9021: as a send to the topic of the block, which the broker compares."""
        return send_needs(command.ext.get("topic", ""))

    def cancel(self, command: Command) -> Needs:
        """370 and 9005: an account that may send may cancel."""
        return (_topic(command, PUB),)

    def heartbeat(self, command: Command) -> Needs:
        """34: every consumer group and all it subscribes to; producer groups are free."""
        needs: list[tuple[str, int]] = []
        for consumer in HeartbeatData.decode(command.body).consumers:
            needs.append((retry_topic(consumer.group_name), SUB))
            needs += [(one.topic, SUB) for one in consumer.subscriptions]
        return needs

    def unregister(self, command: Command) -> Needs:
        """35: the consumer group, if one is named."""
        return (_group(command, "consumerGroup"),) if command.ext.get("consumerGroup") else ()

    def members(self, command: Command) -> Needs:
        """38: right to consume as the group."""
        return (_group(command, "consumerGroup"),)

    def check_client(self, command: Command) -> Needs:
        """46: the group and the topic of the subscription."""
        group = _json(command.body).get("group")
        subscription = SubscriptionData.decode_check(command.body)
        return (retry_topic(group if isinstance(group, str) else ""), SUB), (
            subscription.topic,
            SUB,
        )

    def lock(self, command: Command) -> Needs:
        """41 and 42: the group and the topics of the queues."""
        fields = _json(command.body)
        group, queues = fields.get("consumerGroup"), fields.get("mqSet")
        needs = [(retry_topic(group if isinstance(group, str) else ""), SUB)]
        for queue in cast("list[object]", queues) if isinstance(queues, list) else ():
            match queue:
                case {"topic": str() as topic}:
                    needs.append((topic, SUB))
                case _:
                    needs.append(("", SUB))
        return needs

    def route(self, command: Command) -> Needs:
        """105: either right; topics that every client asks for are free."""
        topic = command.ext.get("topic", "")
        if topic in (AUTO_CREATE_TOPIC_KEY_TOPIC, TRACE_TOPIC, self.reply_topic):
            return ()
        return ((topic, ANY),)

    def pending(self, command: Command) -> Needs:
        """9002: the topic that is asked for; for all of them an administrator."""
        match _cbor(command.body):
            case {"topic": str() as topic}:
                return ((topic, SUB),)
            case _:
                raise AdminOnly

    def free(self, _command: Command) -> Needs:
        """Nothing more than a signature: any account may ask."""
        return ()


def send_needs(topic: str) -> Needs:
    """Sends: a retry topic by its group's right; every account may write traces."""
    if topic == TRACE_TOPIC:
        return ()
    # A retry topic is the name of its group's rights: consumers hand on what they failed at.
    return ((topic, SUB if is_retry_topic(topic) else PUB),)


def _topic(command: Command, right: int) -> tuple[str, int]:
    return command.ext.get("topic", ""), right


def _group(command: Command, name: str) -> tuple[str, int]:
    return retry_topic(command.ext.get(name, "")), SUB


def _cbor(body: bytes) -> object:
    try:
        return decode_cbor(body, size_max=QUERY_SIZE_MAX) if body else None
    except CborError as error:
        raise RemoteProtocolError(ResponseCode.INVALID_PARAMETER, f"BODY: {error}") from error


def _json(body: bytes) -> Mapping[str, Any]:
    if len(body) <= BODY_SIZE_MAX:
        try:
            return _json_decoder.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    raise RemoteProtocolError(ResponseCode.SYSTEM_ERROR, "BODY: expected a JSON object")


_json_decoder = msgspec.json.Decoder(dict[str, Any])

_RULES: Mapping[int, Callable[[AccessRules, Command], Needs]] = {
    RequestCode.SEND_MESSAGE: AccessRules.send,
    RequestCode.SEND_MESSAGE_V2: AccessRules.send_v2,
    RequestCode.SEND_BATCH_MESSAGE: AccessRules.send_v2,
    RequestCode.SEND_MESSAGES: AccessRules.send_items,
    # Whether it may go to its client is asked where that is looked up.
    RequestCode.SEND_REPLY_MESSAGE: AccessRules.free,
    RequestCode.SEND_REPLY_MESSAGE_V2: AccessRules.free,
    RequestCode.PULL_MESSAGE: AccessRules.pull,
    RequestCode.LITE_PULL_MESSAGE: AccessRules.pull,
    RequestCode.QUERY_MESSAGE: AccessRules.read,
    RequestCode.VIEW_MESSAGE_BY_ID: AccessRules.view,
    RequestCode.QUERY_CONSUMER_OFFSET: AccessRules.pull,
    RequestCode.UPDATE_CONSUMER_OFFSET: AccessRules.pull,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: AccessRules.look,
    RequestCode.GET_MAX_OFFSET: AccessRules.look,
    RequestCode.GET_MIN_OFFSET: AccessRules.look,
    RequestCode.GET_EARLIEST_MSG_STORETIME: AccessRules.look,
    RequestCode.HEART_BEAT: AccessRules.heartbeat,
    RequestCode.UNREGISTER_CLIENT: AccessRules.unregister,
    RequestCode.CONSUMER_SEND_MSG_BACK: AccessRules.send_back,
    RequestCode.END_TRANSACTION: AccessRules.end_transaction,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: AccessRules.members,
    RequestCode.LOCK_BATCH_MQ: AccessRules.lock,
    RequestCode.UNLOCK_BATCH_MQ: AccessRules.lock,
    RequestCode.CHECK_CLIENT_CONFIG: AccessRules.check_client,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: AccessRules.route,
    RequestCode.GET_BROKER_CLUSTER_INFO: AccessRules.free,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: AccessRules.free,
    RequestCode.RECALL_MESSAGE: AccessRules.cancel,
    RequestCode.CANCEL_MESSAGE: AccessRules.cancel,
    RequestCode.LIST_PENDING: AccessRules.pending,
    RequestCode.BULK_OPEN: AccessRules.bulk_open,
    RequestCode.BULK_STAGE: AccessRules.bulk_stage,
    RequestCode.BULK_COMMIT: AccessRules.free,
    RequestCode.BULK_STATUS: AccessRules.free,
    RequestCode.BULK_DROP: AccessRules.free,
}
"""Request code to the rights it needs; all other codes are for administrators."""

FREE_CODES = frozenset(_RULES)
"""The codes that are for others than administrators."""
