"""The lead of a broker as its lease says, by its succession; and the lease of its settings."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Awaitable, Callable

import attrs
import structlog
import trio

from ..namesrv.name_server_link import OpenStream
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..security.tls import client_context
from ..security.watched_files import read_password
from .etcd_lease import EtcdLease, EtcdUser
from .json_posts import JsonPosts
from .lease import LeaseError
from .lease_place import LeasePlace
from .succession import Succession

log = structlog.get_logger("timermq.broker.replication.leased_lead")


@attrs.frozen(eq=False)
class LeasedLead:
    """What a broker does when its lease begins and ends (``LeasedBroker``)."""

    succession: Succession
    park: Callable[[], Awaitable[None]]
    """Lets the broker write nothing more; it may stop already."""
    confirmed: Callable[[], int]
    """The end of the part of the log that the followers in sync have."""
    holder_epoch: Callable[[], int]
    """The epoch of the record in the lease."""

    def known_epoch(self) -> int:
        """The highest epoch that stands in the broker's list."""
        return max(self.succession.epochs.epochs.last_number, 0)

    def log_end(self) -> int:
        """The end of the commit log."""
        return self.succession.store.commit_log.max_offset

    async def take_lead(self, epoch: int) -> None:
        """Lead in an epoch: a new one, or the last one again behind an outage of the engine.

        Cancellation: it leads all the same, soon.
        """
        await self.succession.lead_in(epoch)

    async def stop_leading(self) -> None:
        """Park; what was under way is written when it returns.

        Cancellation: it is parked all the same, soon.
        """
        await self.park()

    def follow_holder(self, address: str | None) -> None:
        """Go to the broker that holds the lease, in another life if it is another one."""
        if address is None or address == self.succession.address:
            return
        try:
            self.succession.see(address, self.holder_epoch())
        except RefusedError as error:
            log.error("the holder of the lease is not followed", reason=error.remark)


def lease_of(options: BrokerOptions, open_stream: OpenStream = trio.open_tcp_stream) -> EtcdLease:
    """The engine that the settings name; nothing is asked yet.

    Args:
        options: Settings of the broker, with a lease.
        open_stream: Opens a connection to the engine.

    Raises:
        TlsError: The certificates cannot be used.
    """
    assert options.lease is not None
    place = LeasePlace.parse(options.lease)
    tls = functools.partial(_context, options) if place.is_secure else None
    if tls is not None:
        tls()  # files that cannot be used are an error at the start
    user = None
    if options.lease_user is not None and options.lease_password_file is not None:
        path = options.lease_password_file
        user = EtcdUser(options.lease_user, lambda: read_password(path).decode())
    return EtcdLease(
        [JsonPosts(host, port, tls, open_stream) for host, port in place.endpoints],
        place.key(options.broker_name),
        user=user,
        request_ms=place.timing(options.lease_margin_ms).request_ms,
    )


async def holder_of(
    options: BrokerOptions, open_stream: OpenStream = trio.open_tcp_stream
) -> str | None:
    """Address of the broker that holds the lease, before a start; None if it is not known.

    Args:
        options: Settings of the broker, with a lease.
        open_stream: Opens a connection to the engine.

    Cancellation: nothing has changed.
    """
    lease = lease_of(options, open_stream)
    try:
        record = (await lease.read()).record
    except LeaseError as error:
        log.warning("the lease is not known at the start", reason=str(error))
        return None
    finally:
        await lease.aclose()
    return None if record is None else record.holder


def _context(options: BrokerOptions) -> ssl.SSLContext:
    return client_context(
        options.lease_tls_trust_cert_path, options.lease_tls_cert_path, options.lease_tls_key_path
    )
