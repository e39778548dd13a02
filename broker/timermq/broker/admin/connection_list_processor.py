"""Connected clients (203, 204, 328), consumers of topics (300, 343, 345), questions to clients.

What only a client knows (its queues 221, its state 307, what its listener makes of a message 309)
is asked of the client, and its answer handed on as it is.

Source: Java ``AdminBrokerProcessor``, ``Broker2Client``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import cast

import attrs
import trio

from timermq.remoting.bodies import SubscriptionData
from timermq.remoting.client_header import (
    ConsumeDirectlyHeader,
    ConsumersHeader,
    ConsumerStatusHeader,
    ProducersHeader,
    RunningInfoHeader,
)
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.group_header import GroupHeader, GroupTopicHeader
from timermq.remoting.queue_json import encode_json
from timermq.remoting.topic_header import TopicHeader
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.fastjson import fastjson, parse_json
from timermq.timerstore.message_id import parse_offset_message_id
from timermq.timerstore.message_lookup import look_message_by_offset
from timermq.timerstore.message_store import MessageStore

from ..client_registry import ClientChannelInfo, ClientRegistry, ConsumerGroupInfo, Subscription
from ..consumer_offset import ConsumerOffsetTable
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..refusal import RefusedError
from ..session import Session
from .client_calls import ClientCalls


@attrs.frozen(eq=False, kw_only=True)
class ConnectionListProcessor:
    """Answers which clients are connected and consume, and asks them about themselves."""

    store: MessageStore
    clients: ClientRegistry
    offsets: ConsumerOffsetTable
    calls: ClientCalls
    now_ms: Callable[[], int]

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups_of_topic,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    def consumers(self, _session: Session, command: Command) -> Command:
        """The members of a consumer group and what they subscribe to (203)."""
        info = self._online(ConsumersHeader.of(command).consumer_group)
        body = {
            "connectionSet": [_connection(*member) for member in info.members.items()],
            "consumeFromWhere": info.consume_from_where,
            "consumeType": info.consume_type,
            "messageModel": info.message_model,
            "subscriptionTable": {
                topic: _subscription(one) for topic, one in info.subscriptions.items()
            },
        }
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))

    def producers(self, _session: Session, command: Command) -> Command:
        """The members of a producer group (204)."""
        group = ProducersHeader.of(command).producer_group
        members = self.clients.producers(group)
        if not members:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "GROUP_NOT_ONLINE",
                f"no producer of group {ascii(group)[:130]} is registered",
            )
        body = {"connectionSet": [_connection(*member) for member in members.items()]}
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))

    def all_producers(self, _session: Session, command: Command) -> Command:
        """The members of all producer groups (328)."""
        now, now_ms = trio.current_time(), self.now_ms()
        data = {
            group: [
                {
                    "clientId": info.client_id,
                    "language": info.language.name,
                    "lastUpdateTimestamp": now_ms - round((now - info.last_update) * 1000),
                    "remoteIP": session.remote_address.rpartition(":")[0],
                    "version": info.version,
                }
                for session, info in self.clients.producers(group).items()
            ]
            for group in self.clients.producer_groups()
        }
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"data": data}))

    def groups_of_topic(self, _session: Session, command: Command) -> Command:
        """The groups that consume a topic or have consumed it (300)."""
        topic = TopicHeader.of(command).topic
        online = {
            info.group for info in self.clients.consumer_groups() if topic in info.subscriptions
        }
        groups = sorted(online.union(self.offsets.groups_of(topic)))
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"groupList": groups}))

    def topics_of_group(self, _session: Session, command: Command) -> Command:
        """The topics that a group has consumed (343)."""
        topics = self.offsets.topics_of(GroupHeader.of(command).group)
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"topicList": topics}))

    def subscription(self, _session: Session, command: Command) -> Command:
        """The subscription of a group to a topic (345)."""
        header = GroupTopicHeader.of(command)
        group, topic = header.group, header.topic
        info = self.clients.consumer_group(group)
        one = None if info is None else info.subscriptions.get(topic)
        body: dict[str, object] = {"group": group, "topic": topic}
        if one is not None:
            body = {"group": group, "subscriptionData": _subscription(one), "topic": topic}
        return command.answer(ResponseCode.SUCCESS, body=encode_json(body))

    def running_info(self, session: Session, command: Command) -> None:
        """The running information of a consumer: its queues, threads, counters (307)."""
        header = RunningInfoHeader.of(command)
        member = self._member(header.consumer_group, header.client_id)
        self._forward(session, command, member, b"")

    def consume_directly(self, session: Session, command: Command) -> None:
        """Have a consumer's listener work on one message, and say what came of it (309)."""
        header = ConsumeDirectlyHeader.of(command)
        member = self._member(header.consumer_group, header.client_id)
        message_id = header.message_id
        try:
            _, offset = parse_offset_message_id(message_id)
            record = look_message_by_offset(self.store, offset)
        except ValueError:
            record = None
        if record is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "MESSAGE_NOT_FOUND",
                f"no message here has the id {ascii(message_id)[:130]}",
            )
        self._forward(session, command, member, record)

    def consumer_status(self, session: Session, command: Command) -> None:
        """The queues of a topic that each member of a group holds, and how far it is (223)."""
        header = ConsumerStatusHeader.of(command)
        group, only = header.group, header.client_addr
        members = {
            member: info.client_id
            for member, info in self._online(group).members.items()
            if not only or info.client_id == only
        }

        async def ask() -> Command:
            tables: dict[str, object] = {}

            async def ask_one(member: Session, client_id: str) -> None:
                code, ext = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(command.ext)
                # Who does not answer is left out: C++ never does.
                with contextlib.suppress(RefusedError):
                    answer = await self.calls.call(member, code, ext)
                    tables[client_id] = _queue_table(answer.body)

            async with trio.open_nursery() as nursery:
                for member, client_id in members.items():
                    nursery.start_soon(ask_one, member, client_id)
            body = fastjson({"consumerTable": tables, "messageQueueTable": {}})
            return command.answer(ResponseCode.SUCCESS, body=body.encode())

        answer_later(session, command, ask)

    def _forward(self, session: Session, command: Command, member: Session, body: bytes) -> None:
        """Ask a client the same and hand its answer on."""

        async def ask() -> Command:
            answer = await self.calls.call(member, command.code, dict(command.ext), body)
            return command.answer(
                answer.code, remark=answer.remark, ext=answer.ext, body=answer.body
            )

        answer_later(session, command, ask)

    def _online(self, group: str) -> ConsumerGroupInfo:
        info = self.clients.consumer_group(group)
        if info is None:
            raise RefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                "GROUP_NOT_ONLINE",
                f"no consumer of group {ascii(group)[:130]} is registered",
            )
        return info

    def _member(self, group: str, client_id: str) -> Session:
        for session, info in self._online(group).members.items():
            if info.client_id == client_id:
                return session
        raise RefusedError(
            ResponseCode.CONSUMER_NOT_ONLINE,
            "CLIENT_NOT_ONLINE",
            f"no client {ascii(client_id)[:130]} is registered in group {group}",
        )


def _queue_table(body: bytes) -> object:
    """The object-keyed table in a client's answer; empty when it is something else."""
    try:
        found = parse_json(body.decode())
    except (StoreFormatError, UnicodeDecodeError):
        return {}
    fields = cast("dict[object, object]", found) if isinstance(found, dict) else {}
    table = fields.get("messageQueueTable")
    return cast("dict[object, object]", table) if isinstance(table, dict) else {}


def _connection(session: Session, info: ClientChannelInfo) -> dict[str, object]:
    return {
        "clientAddr": session.remote_address,
        "clientId": info.client_id,
        "language": info.language.name,
        "version": info.version,
    }


def _subscription(one: Subscription) -> dict[str, object]:
    return SubscriptionData(
        topic=one.topic,
        sub_string=one.sub_string,
        expression_type=one.expression_type,
        sub_version=one.sub_version,
    ).to_json()
