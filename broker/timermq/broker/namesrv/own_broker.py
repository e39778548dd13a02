"""This broker as name servers know it: its addresses, and the queues of its topics.

Everything is made from the topic table on the spot, so a topic has a route from the moment it
exists. The template TBW102 has one only while topics may be created, since that is what clients ask
it for.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.remoting.registration import RouteVersion
from timermq.remoting.route_body import BrokerData, QueueData

from ..options import BrokerOptions
from ..replication.role import MASTER_ID, BrokerRole, Role
from ..topic_config import PERM_WRITE, TopicConfig, TopicConfigTable
from ..topic_validator import AUTO_CREATE_TOPIC_KEY_TOPIC

_READ_WRITE = 6


@attrs.define(eq=False, kw_only=True)
class OwnBroker:
    """The route data of this broker."""

    options: BrokerOptions
    topics: TopicConfigTable
    address: str
    """``host:port`` that clients connect to."""
    ha_address: str = ""
    """``host:port`` that followers connect to; empty: they cannot."""
    role: Role = attrs.field(factory=lambda: Role(BrokerRole.ASYNC_MASTER, 1))
    """Whether it is the master of its name."""
    on_rival: Callable[[str], None] = attrs.field(default=lambda _: None, init=False)
    """Called with the address of another broker that registers as the master of this name."""
    is_wiped: bool = attrs.field(default=False, init=False)
    """An operator has taken the write permission away in the name server of our own."""

    def broker_data(self) -> BrokerData:
        """Name, cluster and address, as a route has them; of a follower with its master."""
        addresses = {self.role.broker_id: self.address}
        if not self.role.is_master and self.role.master_address is not None:
            addresses[MASTER_ID] = self.role.master_address
        return BrokerData(
            broker_name=self.options.broker_name,
            cluster=self.options.broker_cluster_name,
            addresses=addresses,
        )

    def queue_data(self, topic: str) -> QueueData | None:
        """The queues of a topic here; None when it has no route."""
        config = self.topics.get(topic)
        hidden = topic == AUTO_CREATE_TOPIC_KEY_TOPIC and not self.options.auto_create_topic_enable
        if config is None or hidden:
            return None
        perm = self.perm(config)
        return QueueData(
            broker_name=self.options.broker_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=perm & ~PERM_WRITE if self.is_wiped else perm,
            topic_sys_flag=config.topic_sys_flag,
        )

    def perm(self, config: TopicConfig) -> int:
        """Permission of clients on a topic: its own within the broker's."""
        return config.perm & (self.options.broker_permission | ~_READ_WRITE)

    def version(self) -> RouteVersion:
        """Version of the topic table, as a registration has it."""
        version = self.topics.data_version
        return RouteVersion(version.counter, version.timestamp, version.state_version)

    def registered_topics(self) -> dict[str, TopicConfig]:
        """The topics as a registration has them: without what ``topics.json`` keeps besides."""
        return {
            config.topic_name: attrs.evolve(config, perm=self.perm(config), rest={})
            for config in self.topics.all()
            if self.queue_data(config.topic_name) is not None
        }
