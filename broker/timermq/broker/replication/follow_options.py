"""Settings of a broker's role, and of the master that it follows.

Source: Java ``BrokerConfig``, ``MessageStoreConfig``, where a setting has RocketMQ's name.
"""

from __future__ import annotations

import re

import attrs
from attrs.validators import ge, optional

from timermq.timerstore.live_setting import LIVE

from .lease_options import LeaseOptions
from .replication_options import HA_LISTEN_PORT, Confirm
from .role import MASTER_ID, BrokerRole

FIRST_FOLLOWER_ID = 1

ADDRESS = re.compile(r"[^;:\s]+:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5}")
"""Of a broker: ``HOST:PORT``, an IPv6 address in brackets."""

_positive = ge(1)


def _check_address(_: object, attribute: attrs.Attribute[str], value: str | None) -> None:
    if value is not None and ADDRESS.fullmatch(value) is None:
        raise ValueError(f"{attribute.name}: expected HOST:PORT, found {value!r}")


@attrs.define(kw_only=True, on_setattr=attrs.setters.frozen)
class FollowOptions(LeaseOptions):
    """Settings that a broker has of its role; a bad value raises ``ValueError``."""

    broker_role: BrokerRole | None = None
    """None: a master, of which followers are not expected; SLAVE with ``follow``."""
    broker_id: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Its number among the brokers of its name. None: 0 of a master, 1 of a follower."""
    follow: str | None = attrs.field(default=None, validator=_check_address)
    """``HOST:PORT`` at which clients reach the master to follow."""
    ha_master_address: str | None = attrs.field(default=None, validator=_check_address)
    """``HOST:PORT`` at which followers reach the master; None: as the master or a name server
    says."""
    slave_read_enable: bool = False
    """A follower lets consumers read."""
    follow_interval_ms: int = attrs.field(default=2_000, validator=_positive, on_setattr=LIVE)
    """A follower asks its master for consumer offsets and positions so often."""
    follow_tables_interval_ms: int = attrs.field(
        default=10_000, validator=_positive, on_setattr=LIVE
    )
    """… and for topics and groups so often. RocketMQ's slaves ask every minute."""

    def __attrs_post_init__(self) -> None:
        """Refuse what only shows when fields are taken together."""
        super().__attrs_post_init__()
        is_master = self.broker_role not in (None, BrokerRole.SLAVE)
        if self.follow is not None and is_master and self.lease is None:
            assert self.broker_role is not None
            raise ValueError(
                "broker_role: expected SLAVE, or none, of a broker that follows "
                f"{self.follow}, found {self.broker_role.value}"
            )
        role, broker_id = self.first_role, self.broker_id
        if broker_id is not None and role.is_master is not (broker_id == MASTER_ID):
            expected = "0" if role.is_master else "1 or more"
            raise ValueError(
                f"broker_id: expected {expected} with broker_role {role.value}, found {broker_id}"
            )

        if self.lease is not None and self.ha_port is None:
            raise ValueError(
                "ha_listen_port (haListenPort): expected the port at which followers link to this "
                "broker when it leads, with lease, found none"
            )
        if self.confirm is Confirm.REPLICATED and self.ha_port is None:
            raise ValueError(
                "ha_listen_port: expected a port for followers with confirm replicated, found none"
            )

    @property
    def ha_port(self) -> int | None:
        """The port for followers, 0 for a free one; None: the broker listens for none."""
        if self.ha_listen_port is None and self.broker_role is not None:
            return HA_LISTEN_PORT if self.broker_role.is_master else None
        return self.ha_listen_port

    @property
    def first_role(self) -> BrokerRole:
        """The role at the start; with a lease that of a follower, until it holds the lease."""
        if self.lease is not None:
            return BrokerRole.SLAVE
        if self.broker_role is not None:
            return self.broker_role
        return BrokerRole.ASYNC_MASTER if self.follow is None else BrokerRole.SLAVE

    @property
    def lead_role(self) -> BrokerRole:
        """The role that it takes when it comes to lead."""
        if self.broker_role is not None and self.broker_role.is_master:
            return self.broker_role
        is_sync = self.in_sync_replicas > 1
        return BrokerRole.SYNC_MASTER if is_sync else BrokerRole.ASYNC_MASTER

    @property
    def may_found(self) -> bool:
        """Whether it may take a lease that does not exist yet: it is not meant to follow."""
        return self.follow is None and self.broker_role is not BrokerRole.SLAVE

    @property
    def follower_id(self) -> int:
        """Its id as a follower, also of one that begins as a master."""
        return self.broker_id or FIRST_FOLLOWER_ID
