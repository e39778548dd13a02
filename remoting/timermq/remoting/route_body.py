"""Routes and clusters as a name server answers them: which broker has which queues, and where.

Source: Java ``TopicRouteData``, ``BrokerData``, ``QueueData``, ``ClusterInfo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from .queue_json import encode_json


@attrs.frozen(kw_only=True)
class BrokerData:
    """A broker and its addresses."""

    broker_name: str
    cluster: str
    addresses: Mapping[int, str]
    """Broker id to ``host:port``; 0 is the master."""
    enable_acting_master: bool = False

    def to_json(self) -> dict[str, object]:
        """Java's fields. Go splits the text of brokerAddrs itself: flat and without blanks."""
        return {
            "brokerAddrs": {str(one): self.addresses[one] for one in sorted(self.addresses)},
            "brokerName": self.broker_name,
            "cluster": self.cluster,
            "enableActingMaster": self.enable_acting_master,
        }


@attrs.frozen(kw_only=True)
class QueueData:
    """The queues of a topic on one broker."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0

    def to_json(self) -> dict[str, object]:
        """The queues as JSON, with the fields of Java's ``QueueData``."""
        return {
            "brokerName": self.broker_name,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }


def topic_route(queues: Iterable[QueueData], brokers: Iterable[BrokerData]) -> bytes:
    """The route of one topic: its queues, and the brokers that they are on."""
    return encode_json(
        {
            "brokerDatas": [one.to_json() for one in brokers],
            "filterServerTable": {},
            "queueDatas": [one.to_json() for one in queues],
        }
    )


def cluster_info(brokers: Iterable[BrokerData]) -> bytes:
    """All brokers, and which cluster each belongs to."""
    named = {one.broker_name: one for one in brokers}
    clusters: dict[str, list[str]] = {}
    for one in named.values():
        clusters.setdefault(one.cluster, []).append(one.broker_name)
    return encode_json(
        {
            "brokerAddrTable": {name: one.to_json() for name, one in named.items()},
            "clusterAddrTable": clusters,
        }
    )
