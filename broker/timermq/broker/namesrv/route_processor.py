"""The name server's role: where topics are (105), the cluster (106), topic lists (206, 224, 304).

Answers put together this broker, which is always there, and those that have registered here
(``route_table``).

Source: Java ``ClientRequestProcessor``, ``DefaultRequestProcessor`` of the name server.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.remoting.bodies import topic_list
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.name_server_header import BrokerNameHeader
from timermq.remoting.queue_json import encode_json
from timermq.remoting.route_body import BrokerData, cluster_info, topic_route
from timermq.remoting.topic_header import ClusterTopicsHeader, TopicHeader

from ..dispatcher import Handler
from ..refusal import RefusedError
from ..session import Session
from ..topic_validator import SYSTEM_TOPICS
from .own_broker import OwnBroker
from .route_table import RouteTable


@attrs.frozen(eq=False, kw_only=True)
class RouteProcessor:
    """Answers routes, clusters and lists of topics."""

    own: OwnBroker
    routes: RouteTable

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route_info,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_BROKER_MEMBER_GROUP: self.broker_members,
        }

    def route_info(self, _session: Session, command: Command) -> Command:
        """The brokers and queues of a topic (105)."""
        topic = TopicHeader.of(command).topic
        own = self.own.queue_data(topic)
        others = self.routes.queues(topic)
        if own is not None:
            others = [one for one in others if one.broker_name != own.broker_name]
        queues = [*([] if own is None else [own]), *others]
        if not queues:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                "TOPIC_NOT_EXIST",
                f"no route of topic {ascii(topic)[:260]}",
            )
        names = {one.broker_name for one in queues}
        brokers = [one for one in self._brokers() if one.broker_name in names]
        return command.answer(ResponseCode.SUCCESS, body=topic_route(queues, brokers))

    def cluster_info(self, _session: Session, command: Command) -> Command:
        """The clusters and their brokers (106)."""
        return command.answer(ResponseCode.SUCCESS, body=cluster_info(self._brokers()))

    def all_topics(self, _session: Session, command: Command) -> Command:
        """The names of all topics (206)."""
        names = sorted(self._own_topics() | self.routes.topics())
        return command.answer(ResponseCode.SUCCESS, body=topic_list(names))

    def topics_by_cluster(self, _session: Session, command: Command) -> Command:
        """The names of a cluster's topics (224)."""
        cluster = ClusterTopicsHeader.of(command).cluster
        names = self.routes.topics(cluster)
        if cluster == self.own.options.broker_cluster_name:
            names |= self._own_topics()
        return command.answer(ResponseCode.SUCCESS, body=topic_list(sorted(names)))

    def system_topics(self, _session: Session, command: Command) -> Command:
        """The names of RocketMQ's own topics (304), with those of clusters and brokers."""
        brokers = self._brokers()
        names = {*SYSTEM_TOPICS, *(one.cluster for one in brokers)}
        names.update(one.broker_name for one in brokers)
        body = topic_list(sorted(names), broker_addr=self.own.address)
        return command.answer(ResponseCode.SUCCESS, body=body)

    def broker_members(self, _session: Session, command: Command) -> Command:
        """The addresses of one broker name: the master and its slaves (901)."""
        header = BrokerNameHeader.of(command)
        name = header.broker_name
        found = next((one for one in self._brokers() if one.broker_name == name), None)
        group: dict[str, object] = {
            "brokerAddrs": {} if found is None else dict(sorted(found.addresses.items())),
            "brokerName": name,
            "cluster": header.cluster_name,
        }
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"brokerMemberGroup": group}))

    def _brokers(self) -> list[BrokerData]:
        """This broker with those of its name, and the others."""
        own, others = self.own.broker_data(), self.routes.brokers()
        for one in others:
            if one.broker_name == own.broker_name:
                own = attrs.evolve(own, addresses={**one.addresses, **own.addresses})
        return [own, *(one for one in others if one.broker_name != own.broker_name)]

    def _own_topics(self) -> set[str]:
        return {config.topic_name for config in self.own.topics.all()}
