"""Headers of brokers and operators to a name server: registrations, permissions, texts.

Source: Java ``RegisterBrokerRequestHeader`` and others, named at each class.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class BrokerHeader(RequestHeader):
    """Which broker leaves (104) or asks for the version of its topics (322).

    Java: ``UnRegisterBrokerRequestHeader``, ``QueryDataVersionRequestHeader``.
    """

    broker_address: str = text("brokerAddr")
    """``host:port`` that clients connect to."""
    broker_id: int = integer("brokerId", default=0)
    """0: the master."""
    broker_name: str = text("brokerName")
    cluster_name: str = text("clusterName")


@request_header
class RegisterBrokerHeader(BrokerHeader):
    """Which broker registers (103), and how. Java: ``RegisterBrokerRequestHeader``."""

    body_crc32: int = integer("bodyCrc32", default=0)
    """0: none."""
    compressed: bool = boolean("compressed", default=False)
    """The body is in RocketMQ's packed form."""
    enable_acting_master: bool = boolean("enableActingMaster", default=False)
    ha_address: str = text("haServerAddr", default="")
    """The address for its slaves."""
    heartbeat_timeout_ms: int | None = integer("heartbeatTimeoutMillis", default=None)
    """How long it may be silent; None: as long as the name server lets brokers."""


@request_header
class BrokerNameHeader(RequestHeader):
    """A broker by its name (205, 327, 901, 904).

    Java: ``WipeWritePermOfBrokerRequestHeader``, ``AddWritePermOfBrokerRequestHeader``,
    ``GetBrokerMemberGroupRequestHeader``, ``BrokerHeartbeatRequestHeader``.
    """

    broker_name: str = text("brokerName")
    broker_id: int = integer("brokerId", default=0)
    cluster_name: str = text("clusterName", default="")


@request_header
class KvConfigHeader(RequestHeader):
    """A text of a name server (101, 102). Java: ``GetKVConfigRequestHeader`` and its like."""

    namespace: str = text("namespace")
    key: str = text("key")


@request_header
class PutKvConfigHeader(RequestHeader):
    """A text for a name server (100). Java: ``PutKVConfigRequestHeader``."""

    namespace: str = text("namespace")
    key: str = text("key")
    value: str = text("value")


@request_header
class KvNamespaceHeader(RequestHeader):
    """The texts of a namespace (219). Java: ``GetKVListByNamespaceRequestHeader``."""

    namespace: str = text("namespace")
