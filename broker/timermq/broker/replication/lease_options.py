"""Settings of the lease by which brokers of one name choose their master."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from attrs.validators import ge

from ..loopback import is_loopback
from .replication_options import ReplicationOptions

if TYPE_CHECKING:
    from .lease_place import LeasePlace


def _place(lease: str) -> LeasePlace:
    # Imported late: every verb has settings, and few have a lease.
    from .lease_place import LeasePlace

    return LeasePlace.parse(lease)


def _check_place(_: object, __: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None:
        _place(value)


@attrs.define(kw_only=True, on_setattr=attrs.setters.frozen)
class LeaseOptions(ReplicationOptions):
    """Settings that a broker has of its lease; a bad value raises ``ValueError``."""

    lease: str | None = attrs.field(default=None, validator=_check_place)
    """``etcd://HOST:PORT[,HOST:PORT…]/NAME?ttl=SECONDS``, ``etcds`` over TLS: the broker leads
    while it holds the lease, and follows the one that does."""
    lease_margin_ms: int = attrs.field(default=1_000, validator=ge(1))
    """How long before its lease runs out a master stops."""
    lease_user: str | None = None
    """The user of etcd who may read and write the key; None: etcd asks for none."""
    lease_password_file: str | None = None
    """File with the password of the user."""
    lease_tls_trust_cert_path: str | None = None
    """PEM: who may sign the certificate of etcd; None: whom the system trusts."""
    lease_tls_cert_path: str | None = None
    """PEM: the certificate that is shown to etcd."""
    lease_tls_key_path: str | None = None
    """Path of the key in PEM, without a password; None: it is in the file of the certificate."""

    def __attrs_post_init__(self) -> None:
        """Refuse what only shows when fields are taken together."""
        super().__attrs_post_init__()
        if (self.lease_user is None) != (self.lease_password_file is None):
            raise ValueError("lease_user, lease_password_file: expected both or neither, found one")
        if self.lease_tls_key_path is not None and self.lease_tls_cert_path is None:
            raise ValueError("lease_tls_cert_path: expected a certificate to the key, found none")
        if self.lease is None:
            return
        place = _place(self.lease)
        place.timing(self.lease_margin_ms)
        if not place.is_secure:
            self._check_plain()

    @property
    def lease_is_far(self) -> bool:
        """Whether the lease is shared with brokers on other machines."""
        if self.lease is None:
            return False
        return not all(is_loopback(host) for host, _ in _place(self.lease).endpoints)

    def _check_plain(self) -> None:
        if self.lease_tls_trust_cert_path is not None or self.lease_tls_cert_path is not None:
            raise ValueError(
                "lease: expected etcds://, with the certificates of lease_tls_…, found etcd://"
            )
        if self.lease_user is not None and self.lease_is_far:
            raise ValueError(
                "lease: expected etcds://, for the password of lease_user would be sent to another "
                "machine in plain text, found etcd://"
            )
