"""Settings of the broker, in RocketMQ's words where it has them.

Source: Java ``BrokerConfig``, ``NettyServerConfig``. Settings of our own are at the end:
every limit of the server, with its unit.
"""

from __future__ import annotations

import enum
import platform
import re

import attrs
from attrs.validators import and_, ge, le

from timermq.timerstore.live_setting import LIVE

from .loopback import is_loopback, may_be_loopback
from .replication.follow_options import ADDRESS, FollowOptions

WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - named in order to be refused
"""Hosts to listen on that no client can connect to."""

VIP_DISTANCE = 2
"""Ports from the VIP channel's up to the broker's. Source: Java ``MixAll.brokerVIPChannel``."""

STOP_TIMEOUT_MS = 10_000
"""Default bound of a graceful stop."""

PERM_READ = 4
PERM_WRITE = 2


class TransactionDelay(enum.Enum):
    """The treatment of a transactional message that asks for a moment."""

    REFUSE = "refuse"
    AT_COMMIT = "at commit"
    """The delay begins when the transaction is committed."""


_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
_positive = ge(1)
_port = and_(ge(0), le(65_535))


class TlsMode(enum.Enum):
    """Which connections the port accepts."""

    DISABLED = "disabled"
    """Connections with TLS are refused."""
    PERMISSIVE = "permissive"
    """Connections with and without TLS."""
    ENFORCING = "enforcing"
    """Connections without TLS are refused."""


class TlsClientAuth(enum.Enum):
    """Whether clients show a certificate."""

    NONE = "none"
    """They are not asked."""
    OPTIONAL = "optional"
    """They are asked; one that is shown must be good."""
    REQUIRE = "require"


def _check_name(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    # Broker and cluster give their names to topics, and topics to directories.
    if _NAME.fullmatch(value) is None:
        raise ValueError(
            f"{attribute.name}: expected 1 to 127 of the characters % | a-z A-Z 0-9 _ -, "
            f"found {value!r}"
        )


def _check_addresses(_: object, attribute: attrs.Attribute[str], value: str | None) -> None:
    for address in () if value is None else value.split(";"):
        if ADDRESS.fullmatch(address) is None:
            raise ValueError(f"{attribute.name}: expected HOST:PORT;…, found {value!r}")


@attrs.define(kw_only=True, on_setattr=attrs.setters.frozen)
class BrokerOptions(FollowOptions):
    """How the broker presents itself and what it allows; a bad value raises ``ValueError``.

    All that is not ``LIVE`` is frozen.
    """

    broker_name: str = attrs.field(default="broker-a", validator=_check_name)
    broker_cluster_name: str = attrs.field(default="DefaultCluster", validator=_check_name)
    region_id: str = attrs.field(default="DefaultRegion", validator=_check_name)
    """Value of the property MSG_REGION."""
    trace_on: bool = True
    """Value of the property TRACE_ON: clients with tracing write traces when it is true."""

    listen_host: str = "127.0.0.1"
    listen_port: int = attrs.field(default=10_911, validator=_port)
    """0: a free one."""
    vip_listen_enable: bool | None = None
    """Listen on the port two below ``listen_port`` as well: RocketMQ's VIP channel, to which some
    clients send. None: if that port is free, and ``listen_port`` is not 0."""
    namesrv_addr: str | None = attrs.field(default=None, validator=_check_addresses)
    """Name servers to register with: ``HOST:PORT``, divided by ``;``."""
    namesrv_brokers_max: int = attrs.field(default=1_024, validator=_positive)
    """Brokers that may register here; one more is refused."""
    namesrv_listen_enable: bool | None = None
    """Serve as name server on a port of its own as well; the broker port answers both roles. None:
    unless there are others to register with."""
    namesrv_listen_host: str = "127.0.0.1"
    namesrv_listen_port: int = attrs.field(default=9_876, validator=_port)
    """0: a free one."""
    advertised_host: str | None = None
    """IPv4 address or name that clients connect to; None: ``listen_host``."""
    advertised_port: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(and_(ge(1), le(65_535)))
    )
    """None: ``listen_port``."""

    default_topic_queue_nums: int = attrs.field(default=8, validator=and_(ge(1), le(1024)))
    auto_create_topic_enable: bool = attrs.field(default=True, on_setattr=LIVE)
    auto_create_subscription_group: bool = attrs.field(default=True, on_setattr=LIVE)
    enable_property_filter: bool = attrs.field(default=True, on_setattr=LIVE)
    """SQL92 filters, which read each message that they look at. RocketMQ's default is false."""
    broker_permission: int = attrs.field(default=6, validator=and_(ge(0), le(7)), on_setattr=LIVE)
    """Bits: 4 read, 2 write."""
    recall_message_enable: bool = attrs.field(default=True, on_setattr=LIVE)
    """RocketMQ's default is false; this broker exists to cancel delayed messages, too."""
    allow_recall_when_broker_not_writeable: bool = attrs.field(default=True, on_setattr=LIVE)
    start_accept_send_request_time_stamp: int = attrs.field(
        default=0, validator=ge(0), on_setattr=LIVE
    )
    """Epoch milliseconds before which sends are refused."""
    reject_transaction_message: bool = attrs.field(default=False, on_setattr=LIVE)
    transaction_time_out_ms: int = attrs.field(default=6_000, validator=ge(0), on_setattr=LIVE)
    """Age from which on producers are asked about an open transaction."""
    transaction_check_interval_ms: int = attrs.field(
        default=30_000, validator=_positive, on_setattr=LIVE
    )
    transaction_check_max: int = attrs.field(default=15, validator=ge(0), on_setattr=LIVE)
    """Times that they are asked; then the transaction is discarded."""
    transaction_delay: TransactionDelay = TransactionDelay.REFUSE
    """RocketMQ takes such messages and mangles them."""
    rebalance_lock_max_live_ms: int = attrs.field(default=60_000, validator=ge(35_000))
    """How long an orderly consumer has a queue to itself that it does not renew: RocketMQ's system
    property ``rocketmq.broker.rebalance.lockMaxLiveTime``. Clients renew every 20 s, and are at
    work for 30 s without: less would let two of them at one queue."""
    flush_consumer_offset_interval_ms: int = attrs.field(default=5_000, validator=_positive)
    consumer_offset_update_version_step: int = attrs.field(default=500, validator=_positive)
    """Commits between two new data versions of the offset table."""
    server_channel_max_idle_time_seconds: int = attrs.field(default=120, validator=_positive)
    """A connection without traffic in either direction is closed after this."""
    channel_expired_timeout_ms: int = attrs.field(default=120_000, validator=_positive)
    """A client without heartbeat is forgotten and its connection closed after this."""

    acl_enable: bool = False
    """Let through only requests that an account with the rights for them has signed, or that come
    from a white address."""
    acl_file: str | None = None
    """RocketMQ's ``plain_acl.yml``; files under ``acl/`` beside it count as well."""
    tls_server_mode: TlsMode = TlsMode.PERMISSIVE
    """Which connections are taken; TLS needs a certificate."""
    tls_server_cert_path: str | None = None
    """PEM: the certificate, and behind it those that lead to its issuer."""
    tls_server_key_path: str | None = None
    """Path of the key in PEM; None: it is in the file of the certificate."""
    tls_server_key_password_path: str | None = None
    """File with the password of the key."""
    tls_server_need_client_auth: TlsClientAuth = TlsClientAuth.NONE
    tls_server_trust_cert_path: str | None = None
    """PEM: who may sign the certificates of clients."""
    namesrv_tls_enable: bool = False
    """Speak TLS to the name servers that this broker registers with."""
    replica_tls_enable: bool = False
    """Speak TLS to the ports for clients of other replicas."""
    tls_client_trust_cert_path: str | None = None
    """PEM: who may sign their certificates; None: whom the system trusts."""
    tls_client_cert_path: str | None = None
    """PEM: the certificate that is shown to them."""
    tls_client_key_path: str | None = None
    """Path of the key in PEM, without a password; None: it is in the file of the certificate."""
    credentials_file: str | None = None
    """File with the account that signs requests to other replicas and to name servers, in the form
    of RocketMQ's ``tools.yml``. Replicas want an administrator's."""

    connections_max: int = attrs.field(default=8_192, validator=_positive)
    """Open connections on all ports; one more is closed at once. An address may have as many as are
    left, so half of them when it is alone."""
    first_request_timeout_seconds: int = attrs.field(default=30, validator=_positive)
    """A new connection that has brought no request that may be done is closed after this."""
    frame_size_max: int = attrs.field(default=16 << 20, validator=ge(1024))
    """Bytes of one frame."""
    receive_size: int = attrs.field(default=65_536, validator=_positive)
    """Bytes read from a socket at a time; above 128 KiB each read maps and unmaps memory."""
    unfinished_frames_size_max: int = attrs.field(default=256 << 20, validator=ge(1 << 20))
    """Bytes received of frames that are not whole or not worked on, of all connections, beyond
    64 KiB of each. An address may have as much as is left; its connection that wants more is
    closed."""
    unread_output_size_max: int = attrs.field(default=64 << 20, validator=ge(1024))
    """Bytes a connection's peer may leave unread before one answer more closes it; a single answer
    may be larger. Requests of a connection rest from a sixteenth of it on, so that only answers
    of held pulls can reach it."""
    unread_outputs_size_max: int = attrs.field(default=256 << 20, validator=ge(1 << 20))
    """Bytes that all peers together may leave unread. An address may have as much as is left;
    connections of it that have left something unread rest meanwhile. When nothing is left, one
    answer more closes a connection whose peer has left 64 KiB unread."""
    unflushed_answers_max: int = attrs.field(default=65_536, validator=_positive)
    """With SYNC_FLUSH: requests that may await their flush before connections rest."""
    held_pulls_max: int = attrs.field(default=131_072, validator=_positive)
    """Pulls held for later; one more is answered with SYSTEM_BUSY. An account, without one an
    address, may have as many as are left."""
    held_pulls_per_connection_max: int = attrs.field(default=16_384, validator=_positive)
    pull_suspend_ms_max: int = attrs.field(default=20_000, validator=_positive, on_setattr=LIVE)
    """Longest time that a pull is held, even if the client allows more: it gives up after 30 s."""
    pull_error_delay_ms: int = attrs.field(default=1_000, validator=ge(0), on_setattr=LIVE)
    """How long an error is held back from a C++ consumer, which asks again without a pause."""
    connection_tasks_max: int = attrs.field(default=8, validator=_positive, on_setattr=LIVE)
    """Long requests (LIST_PENDING) that work for one connection at a time."""
    topics_max: int = attrs.field(default=65_536, validator=_positive, on_setattr=LIVE)
    """Topics in the table; no more are created on request."""
    queues_max: int = attrs.field(default=262_144, validator=_positive)
    """Queues of all topics but the broker's own; no more are made on request. Each is an open file:
    ``serve`` lowers it to what the process may open beside its connections."""
    subscription_groups_max: int = attrs.field(default=32_768, validator=_positive, on_setattr=LIVE)
    queue_locks_max: int = attrs.field(default=262_144, validator=_positive)
    """Queues locked by orderly consumers; a lock takes some 300 bytes."""
    client_groups_max: int = attrs.field(default=256, validator=_positive, on_setattr=LIVE)
    """Producer and consumer groups of one connection, over all of its heartbeats; and ids that it
    gives as a producer."""
    transactions_max: int = attrs.field(default=100_000, validator=_positive, on_setattr=LIVE)
    """Open transactions; one more is refused with SYSTEM_BUSY. Each takes some 150 bytes."""
    batch_count_max: int = attrs.field(default=1_024, validator=_positive, on_setattr=LIVE)
    """Messages in one batch request. It is stored as a whole: so many take five milliseconds or
    more, in which nothing else goes on."""
    query_size_max: int = attrs.field(default=8 << 20, validator=_positive, on_setattr=LIVE)
    """Bytes of records in the answer to a query; at least one record is given."""
    pending_count_max: int = attrs.field(default=10_000, validator=_positive, on_setattr=LIVE)
    """Rows in one answer to LIST_PENDING."""
    metrics_listen_enable: bool = False
    """Serve ``/metrics``, ``/healthz`` and ``/readyz`` over HTTP on a port of their own."""
    metrics_listen_host: str = "127.0.0.1"
    metrics_listen_port: int = attrs.field(default=5_557, validator=_port)
    """0: a free one."""
    metrics_hosts: str = ""
    """Names with a dot by which that port is asked for, divided by ``;``: a name is not answered
    that only a foreign page has lead here. Addresses, short names and this machine's are."""
    metrics_connections_max: int = attrs.field(default=16, validator=_positive)
    """Connections to that port; one more is closed at once."""
    metrics_series_max: int = attrs.field(default=500, validator=_positive)
    """Topics or groups of one metric; the rest, the smallest, is added up under ``*``."""
    bulk_jobs_max: int = attrs.field(default=1_024, validator=_positive)
    """Jobs of bulk scheduling that are not done; one more is answered with SYSTEM_BUSY."""
    bulk_staged_size_max: int = attrs.field(default=64 << 30, validator=_positive)
    """Bytes of all parts that are staged; one more block is answered with SYSTEM_BUSY."""
    bulk_open_hours: int = attrs.field(default=48, validator=_positive)
    """An open job is forgotten after so many hours without a request for it."""
    bulk_remembered_hours: int = attrs.field(default=720, validator=_positive)
    """How long a job that is done is remembered: so long a rerun changes nothing."""
    bulk_remembered_max: int = attrs.field(default=10_000, validator=_positive)
    """Jobs that are done and remembered; the oldest are forgotten first."""
    watchers_max: int = attrs.field(default=16, validator=_positive, on_setattr=LIVE)
    """Connections that are sent snapshots (WATCH); one more is answered with SYSTEM_BUSY."""

    def __attrs_post_init__(self) -> None:
        """Refuse what only shows when fields are taken together."""
        super().__attrs_post_init__()
        if self.vip_listen_enable and 0 < self.listen_port <= VIP_DISTANCE:
            raise ValueError(
                f"listen_port: expected 0 or a port above {VIP_DISTANCE} with vip_listen_enable, "
                f"found {self.listen_port}"
            )
        if self.acl_enable and not self.acl_file:
            raise ValueError(
                "acl_file: expected the path of plain_acl.yml with acl_enable, found none"
            )
        if self.tls_server_cert_path is None:
            if self.tls_server_mode is TlsMode.ENFORCING:
                raise ValueError(
                    "tls_server_cert_path: expected a certificate with tls_server_mode enforcing, "
                    "found none"
                )
            if self.tls_server_key_path is not None:
                raise ValueError(
                    "tls_server_cert_path: expected a certificate to the key, found none"
                )
        if (
            self.tls_server_need_client_auth is not TlsClientAuth.NONE
            and self.tls_server_trust_cert_path is None
        ):
            raise ValueError(
                "tls_server_trust_cert_path: expected who signs the certificates of clients, with "
                f"tls_server_need_client_auth {self.tls_server_need_client_auth.name}, found none"
            )
        if self.tls_client_key_path is not None and self.tls_client_cert_path is None:
            raise ValueError("tls_client_cert_path: expected a certificate to the key, found none")
        if self.advertised_host in WILDCARD_HOSTS or (
            self.advertised_host is None and self.listen_host in WILDCARD_HOSTS
        ):
            raise ValueError(
                "advertised_host: expected an address that clients can connect to, "
                f"found {self.advertised_host!r} with listen_host {self.listen_host!r}"
            )

    @property
    def own_address(self) -> str:
        """``host:port`` that others are told, before a port is bound: 0 is then not known yet."""
        host = self.advertised_host or self.listen_host
        return f"{host}:{self.advertised_port or self.listen_port}"

    def open_addresses(self) -> list[str]:
        """Addresses beyond loopback that are served without access control.

        That of the VIP channel is not among them: it is open when the broker's is.
        """
        if self.acl_enable:
            return []
        addresses = [(self.listen_host, self.listen_port)]
        if self.serves_namesrv:
            addresses.append((self.namesrv_listen_host, self.namesrv_listen_port))
        return [f"{host}:{port}" for host, port in addresses if not is_loopback(host)]

    def address_fault(self) -> str | None:
        """Why clients would not reach the address that this broker gives them; None if they may.

        For a start of the broker: a store can be read with any address in its settings.
        """
        host = self.advertised_host or self.listen_host
        if may_be_loopback(self.listen_host) and not may_be_loopback(host):
            return (
                f"listen_host (bindAddress): expected an address that {host}, which is advertised "
                f"(advertised_host, brokerIP1), leads to, such as {host} or 0.0.0.0, "
                f"found {self.listen_host!r}, which only this machine reaches"
            )
        far = [one for one in self.namesrv_addresses if not may_be_loopback(one.rpartition(":")[0])]
        if self.lease_is_far and may_be_loopback(host):
            return (
                "advertised_host (brokerIP1): expected an address at which the other brokers of "
                f"the lease {self.lease} reach this one, found {host!r}, which is each one's own"
            )
        # Loopback that a setting names is meant: name server and broker in containers, with their
        # ports forwarded to a developer's machine.
        if far and self.advertised_host is None and may_be_loopback(host):
            return (
                "advertised_host (brokerIP1): expected an address at which clients of the name "
                f"server {far[0]} reach this broker, and listen_host (bindAddress) to match, "
                f"found none, and listen_host {host!r}, which only this machine reaches"
            )
        return None

    @property
    def serves_namesrv(self) -> bool:
        """Whether there is a port of its own for the name server's role."""
        if self.namesrv_listen_enable is None:
            return self.namesrv_addr is None
        return self.namesrv_listen_enable

    @property
    def namesrv_addresses(self) -> list[str]:
        """The name servers to register with, each once."""
        return (
            [] if self.namesrv_addr is None else list(dict.fromkeys(self.namesrv_addr.split(";")))
        )

    @property
    def registers_with(self) -> list[str]:
        """The name servers to register with; a follower without any has its master."""
        addresses = self.namesrv_addresses
        return addresses if addresses or self.follow is None else [self.follow]

    @property
    def metrics_names(self) -> frozenset[str]:
        """The names with a dot by which the HTTP port is asked for, in small letters."""
        named = (*self.metrics_hosts.split(";"), platform.node(), self.advertised_host or "")
        return frozenset(name.strip().lower() for name in named) - {""}

    @property
    def is_writeable(self) -> bool:
        """Whether the broker's permission lets messages in."""
        return bool(self.broker_permission & PERM_WRITE)

    @property
    def is_readable(self) -> bool:
        """Whether the broker's permission lets messages out."""
        return bool(self.broker_permission & PERM_READ)


_UNDERSCORE = re.compile(r"_([a-z0-9])")

# Java: BrokerConfig, MessageStoreConfig, NettyServerConfig.
JAVA_NAMES = {
    "advertised_host": "brokerIP1",
    "channel_expired_timeout_ms": "channelExpiredTimeout",
    "check_crc_on_recover": "checkCRCOnRecover",
    "clean_resource_interval_ms": "cleanResourceInterval",
    "file_reserved_time_hours": "fileReservedTime",
    "ha_housekeeping_interval_ms": "haHousekeepingInterval",
    "ha_max_time_slave_not_catchup_ms": "haMaxTimeSlaveNotCatchup",
    "ha_send_heartbeat_interval_ms": "haSendHeartbeatInterval",
    "flush_consumer_offset_interval_ms": "flushConsumerOffsetInterval",
    "flush_interval_commit_log_ms": "flushIntervalCommitLog",
    "flush_interval_consume_queue_ms": "flushIntervalConsumeQueue",
    "listen_host": "bindAddress",
    "metrics_listen_host": "metricsPromExporterHost",
    "metrics_listen_port": "metricsPromExporterPort",
    "slave_timeout_ms": "slaveTimeout",
    "sync_flush_timeout_ms": "syncFlushTimeout",
    "transaction_check_interval_ms": "transactionCheckInterval",
    "transaction_time_out_ms": "transactionTimeOut",
}
"""Our names that do not lead to RocketMQ's by rule."""


def java_name(key: str) -> str:
    """RocketMQ's name of a setting: ``flush_disk_type`` is ``flushDiskType``."""
    return JAVA_NAMES.get(key) or _UNDERSCORE.sub(lambda found: found[1].upper(), key)
