"""Settings of the replication link, and of what a master asks of its followers.

Source: Java ``MessageStoreConfig``, where a setting has RocketMQ's name.
"""

from __future__ import annotations

import enum

import attrs
from attrs.validators import and_, ge, le, optional

from timermq.timerstore.live_setting import LIVE

from .ha_frames import BODY_SIZE_MAX

HA_LISTEN_PORT = 10_912
"""RocketMQ's port of the replication link."""

FRAME_HEADS_SIZE = 64
"""Bytes of a slave's buffer that are left for the head of a transfer."""

_positive = ge(1)


class Confirm(enum.Enum):
    """The replicas that must have a message before consumers and timers see it."""

    OWN = "own"
    """This broker alone."""
    REPLICATED = "replicated"
    """All that are in sync."""


@attrs.define(kw_only=True, on_setattr=attrs.setters.frozen)
class ReplicationOptions:
    """Settings that a broker has of its replicas; a bad value raises ``ValueError``."""

    ha_listen_port: int | None = attrs.field(
        default=None, validator=optional(and_(ge(0), le(65_535)))
    )
    """The port that followers connect to. None: 10912 if ``broker_role`` says that this
    broker is a master, and else no port. 0: a free one."""
    ha_listen_host: str | None = None
    """The address that followers connect to; None: ``listen_host``."""
    ha_followers_max: int = attrs.field(default=16, validator=_positive)
    """Links of followers; one more is closed at once."""
    ha_send_heartbeat_interval_ms: int = attrs.field(
        default=5_000, validator=_positive, on_setattr=LIVE
    )
    """A link with nothing to send gets a frame without bytes after this."""
    ha_housekeeping_interval_ms: int = attrs.field(
        default=20_000, validator=_positive, on_setattr=LIVE
    )
    """A link on which nothing arrives for so long is closed."""
    ha_transfer_batch_size: int = attrs.field(
        default=1 << 20,
        validator=and_(ge(1_024), le(BODY_SIZE_MAX - FRAME_HEADS_SIZE)),
        on_setattr=LIVE,
    )
    """Bytes of the log in one frame, at most. RocketMQ's default is 32 KiB."""
    ha_pinned_size_max: int = attrs.field(default=16 << 30, validator=ge(0), on_setattr=LIVE)
    """Bytes of the log that cleaning leaves for followers that have not got them."""
    ha_max_gap_not_in_sync: int = attrs.field(
        default=256 << 20, validator=_positive, on_setattr=LIVE
    )
    """A send does not wait for a follower that is so many bytes behind or more."""
    ha_max_time_slave_not_catchup_ms: int = attrs.field(
        default=15_000, validator=_positive, on_setattr=LIVE
    )
    """A follower that has not had all for so long is out of sync."""
    in_sync_replicas: int = attrs.field(default=1, validator=_positive, on_setattr=LIVE)
    """With SYNC_MASTER: replicas that have a message before its sender is answered, this broker
    among them."""
    min_in_sync_replicas: int = attrs.field(default=1, validator=_positive, on_setattr=LIVE)
    """Sends are refused while fewer replicas are in sync, this broker among them."""
    slave_timeout_ms: int = attrs.field(default=3_000, validator=_positive, on_setattr=LIVE)
    """How long an answer waits for followers."""
    confirm: Confirm = Confirm.OWN
    """Who must have a message before consumers and timers see it."""
    ha_plain_enable: bool = False
    """Let replicas beyond this machine link without TLS, as RocketMQ's do."""
    ha_secret_file: str | None = None
    """File with the secret that replicas share: one that does not know it is refused, RocketMQ's
    slaves among them."""
    ha_tls_cert_path: str | None = None
    """PEM: the certificate that replicas show each other, and those that lead to its issuer."""
    ha_tls_key_path: str | None = None
    """Path of the key in PEM, without a password; None: it is in the file of the certificate."""
    ha_tls_trust_cert_path: str | None = None
    """PEM: who may sign the certificates of replicas."""

    def __attrs_post_init__(self) -> None:
        """Refuse what only shows when fields are taken together."""
        if (self.ha_tls_cert_path is None) != (self.ha_tls_trust_cert_path is None):
            raise ValueError(
                "ha_tls_cert_path, ha_tls_trust_cert_path: expected both or neither, since each "
                "replica checks the other, found one"
            )
        if self.ha_tls_key_path is not None and self.ha_tls_cert_path is None:
            raise ValueError("ha_tls_cert_path: expected a certificate to the key, found none")
