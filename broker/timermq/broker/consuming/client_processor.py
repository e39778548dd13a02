"""Clients that come and go: heartbeat (34), goodbye (35), members (38), subscriptions (46).

Source: Java ``ClientManageProcessor``, ``ConsumerManageProcessor``.
"""

from __future__ import annotations

import attrs

from timermq.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from timermq.remoting.client_header import ConsumersHeader, UnregisterHeader
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command

from ..client_registry import ClientRegistry, ConsumerHeartbeat, Subscription
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..session import Session
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfigTable
from ..topic_validator import group_fault, retry_topic
from .filter import parse_filter
from .subscription_questions import SubscriptionQuestions


@attrs.frozen(eq=False, kw_only=True)
class ClientProcessor:
    """Answers heartbeats, goodbyes, and questions for members and subscriptions."""

    options: BrokerOptions
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    clients: ClientRegistry
    questions: SubscriptionQuestions

    def heartbeat(self, session: Session, command: Command) -> Command:
        """Register what the client says it is; its consumer groups get their retry topics."""
        data = HeartbeatData.decode(command.body)
        self.clients.ids.check(data.client_id, session.speaker)
        consumer_groups = [one.group_name for one in data.consumers]
        self._check_count(self.clients.groups_with(session, data.producer_groups, consumer_groups))
        for name in (*data.producer_groups, *consumer_groups):
            fault = group_fault(name)
            if fault is not None:
                raise RefusedError(ResponseCode.INVALID_PARAMETER, "GROUP_NAME", fault)
        for group in data.producer_groups:
            self.clients.register_producer(session, data.client_id, group)
        for consumer in data.consumers:
            self._register(session, data, consumer)
        return command.answer(ResponseCode.SUCCESS)

    def _check_count(self, found: int) -> None:
        """Refuse a heartbeat that would give its connection too many groups."""
        most = self.options.client_groups_max
        if found > most:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "CLIENT_GROUPS_MAX",
                f"expected at most {most} groups, found {found}",
            )

    def unregister(self, session: Session, command: Command) -> Command:
        """Forget the groups that the client names."""
        header = UnregisterHeader.of(command)
        if header.producer_group:
            self.clients.unregister_producer(session, header.producer_group)
        if header.consumer_group:
            self.clients.unregister_consumer(session, header.consumer_group)
        return command.answer(ResponseCode.SUCCESS)

    def consumer_list(self, _session: Session, command: Command) -> Command:
        """The ids of a group's members: the same list, in the same order, for each of them."""
        group = ConsumersHeader.of(command).consumer_group
        info = self.clients.consumer_group(group)
        if info is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "GROUP_NOT_ONLINE",
                f"no consumer of group {ascii(group)[:130]} is registered",
            )
        return command.answer(ResponseCode.SUCCESS, body=info.consumer_list)

    def check_client_config(self, _session: Session, command: Command) -> Command:
        """Whether the broker can filter by a subscription that a client is about to use."""
        subscription = SubscriptionData.decode_check(command.body)
        parse_filter(
            subscription.sub_string,
            subscription.expression_type,
            property_filter_enable=self.options.enable_property_filter,
        )
        return command.answer(ResponseCode.SUCCESS)

    def _register(self, session: Session, data: HeartbeatData, consumer: ConsumerData) -> None:
        group = self.groups.find(consumer.group_name)
        self.topics.create_in_send_back(
            retry_topic(group.group_name), max(group.retry_queue_nums, 1), session.owner
        )
        self.clients.register_consumer(
            session,
            data.client_id,
            ConsumerHeartbeat(
                group=group.group_name,
                consume_type=consumer.consume_type,
                message_model=consumer.message_model,
                consume_from_where=consumer.consume_from_where,
                subscriptions=[Subscription.of(one) for one in consumer.subscriptions],
                without_sub=data.without_sub,
                notify=group.notify_consumer_ids_changed_enable,
            ),
        )
        self.questions.told(session, group.group_name)
