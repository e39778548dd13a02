"""The name server's role: where topics are (105), the cluster (106), topic lists (206, 224, 304).

Routes are made from the topic table on the spot, so a topic has one from the moment it exists. The
template TBW102 has a route only while topics may be created, since that is what clients ask it for.

Source: Java ``ClientRequestProcessor``, ``DefaultRequestProcessor`` of the name server.
"""

from __future__ import annotations

import attrs

from timermq.remoting.bodies import cluster_info, topic_list, topic_route
from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.field import text

from .options import BrokerOptions
from .refusal import RefusedError
from .session import Session
from .topic_config import TopicConfigTable
from .topic_validator import AUTO_CREATE_TOPIC_KEY_TOPIC, SYSTEM_TOPICS


@attrs.frozen(eq=False, kw_only=True)
class RouteProcessor:
    """The processor."""

    options: BrokerOptions
    topics: TopicConfigTable
    address: str
    """``host:port`` that clients connect to."""

    def route_info(self, _session: Session, command: Command) -> Command:
        """The brokers and queues of a topic: this broker, if it has the topic (105)."""
        topic = text(command, "topic")
        config = self.topics.get(topic)
        hidden = topic == AUTO_CREATE_TOPIC_KEY_TOPIC and not self.options.auto_create_topic_enable
        if config is None or hidden:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                "TOPIC_NOT_EXIST",
                f"no route of topic {ascii(topic)[:260]}",
            )
        body = topic_route(
            broker_name=self.options.broker_name,
            cluster=self.options.broker_cluster_name,
            address=self.address,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm & (self.options.broker_permission | ~_READ_WRITE),
            topic_sys_flag=config.topic_sys_flag,
        )
        return command.answer(ResponseCode.SUCCESS, body=body)

    def cluster_info(self, _session: Session, command: Command) -> Command:
        """The clusters and their brokers (106)."""
        body = cluster_info(
            broker_name=self.options.broker_name,
            cluster=self.options.broker_cluster_name,
            address=self.address,
        )
        return command.answer(ResponseCode.SUCCESS, body=body)

    def all_topics(self, _session: Session, command: Command) -> Command:
        """The names of all topics (206)."""
        names = sorted(config.topic_name for config in self.topics.all())
        return command.answer(ResponseCode.SUCCESS, body=topic_list(names))

    def topics_by_cluster(self, _session: Session, command: Command) -> Command:
        """The names of a cluster's topics (224): all of them, or none for another cluster."""
        if text(command, "cluster") != self.options.broker_cluster_name:
            return command.answer(ResponseCode.SUCCESS, body=topic_list([]))
        return self.all_topics(_session, command)

    def system_topics(self, _session: Session, command: Command) -> Command:
        """The names of RocketMQ's own topics (304)."""
        names = sorted({*SYSTEM_TOPICS, self.options.broker_cluster_name, self.options.broker_name})
        return command.answer(
            ResponseCode.SUCCESS, body=topic_list(names, broker_addr=self.address)
        )


_READ_WRITE = 6
