"""Headers of requests about which replica leads: promotion, planned switch, change of the master.

Source: Java ``NotifyBrokerRoleChangedRequestHeader``; the others are ours.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class PromoteHeader(RequestHeader):
    """A follower is to lead (9030)."""

    force: bool = boolean("force", default=False)
    """Also where messages may be missing, or the master still answers."""
    offset: int | None = integer("offset", default=None)
    """Of a planned switch: the end of the log of the master that hands over, which is waited for.
    None: the master is gone."""
    epoch: int = integer("masterEpoch", default=-1)
    """The newest epoch that the asker knows; -1: none."""


@request_header
class DemoteHeader(RequestHeader):
    """A master is to hand over to a follower (9031)."""

    to: str | None = text("to", default=None)
    """``host:port`` of the follower; None: the only one that the broker's name server knows."""


@request_header
class RoleChangeHeader(RequestHeader):
    """Another replica leads (1008). Java: ``NotifyBrokerRoleChangedRequestHeader``."""

    master_address: str = text("masterAddress")
    master_epoch: int = integer("masterEpoch")
    sync_state_set_epoch: int = integer("syncStateSetEpoch", default=0)
    """Of RocketMQ's controller; it is not looked at."""
    master_broker_id: int = integer("masterBrokerId", default=0)


@request_header
class LogDigestHeader(RequestHeader):
    """Bytes of the commit log of which a replica asks the digest (9032)."""

    offset: int = integer("offset")
    size: int = integer("size")
