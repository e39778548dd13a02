"""Failed logins: counted by the address they come from, answered late, logged once a minute.

The answer to each further failure of an address comes later, up to two seconds, which is below the
time that clients wait for answers: a client with a wrong configuration still learns why. How many
answers are held is bounded too (``delayed_refusals``), so that opening connections or not waiting
does not help. A client that has logged in is never slowed by others of its address.

The table is bounded: the address that has been quiet for longest is forgotten first.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

import attrs
import structlog
import trio

from ..session import Answer, Session
from .delayed_refusals import DelayedRefusals
from .log_limit import LogLimit
from .white_address import parse_address

DELAY_MIN = 0.1
DELAY_MAX = 2.0
"""Seconds that the answer to the first failure is late, and to any; it doubles in between."""
FORGOTTEN_AFTER = 600.0
"""Seconds without a failure after which an address counts from 0 again."""
ADDRESSES_MAX = 4_096
"""Addresses of which failed logins are counted at a time."""
PREFIX6 = 64
"""Bits of an IPv6 address that count: the rest is the peer's own to choose."""

_DOUBLINGS_MAX = 10

log = structlog.get_logger("timermq.broker.security.failed_logins")


@attrs.define(eq=False)
class _Failures:
    """How often an address has failed to log in, and when last."""

    last_at: float
    count: int = 0
    """Since it was last forgotten."""
    log_limit: LogLimit = attrs.field(factory=LogLimit)


class FailedLogins:
    """The table.

    Args:
        late: Where the answers wait.
    """

    def __init__(self, late: DelayedRefusals) -> None:
        self._late = late
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()
        self.count = 0
        """Failed logins so far."""
        self.last_at: float | None = None
        """trio's time of the last one."""

    def add(self, session: Session, answer: Answer | None, reason: str) -> None:
        """Note a request without a valid signature, and answer it late.

        Args:
            session: Whose connection it came on.
            answer: What it is to be told, in a while; None for a one-way request.
            reason: For the log; without anything that the peer has sent.
        """
        self.count += 1
        self.last_at = trio.current_time()
        peer = peer_of(session.remote_address)
        failures = self._failures(peer)
        failures.count += 1
        self._tell(peer, failures, reason)
        delay = min(DELAY_MIN * 2.0 ** min(failures.count - 1, _DOUBLINGS_MAX), DELAY_MAX)
        self._late.hold(peer, session, answer, delay)

    def _failures(self, peer: str) -> _Failures:
        now = trio.current_time()
        failures = self._addresses.get(peer)
        if failures is None:
            failures = self._addresses[peer] = _Failures(now)
            if len(self._addresses) > ADDRESSES_MAX:
                self._addresses.popitem(last=False)
        elif now - failures.last_at > FORGOTTEN_AFTER:
            failures.count = 0
        failures.last_at = now
        self._addresses.move_to_end(peer)
        return failures

    def _tell(self, peer: str, failures: _Failures, reason: str) -> None:
        if count := failures.log_limit.take():
            log.warning("logins failed", remote=peer, failures=count, reason=reason)


def host_of(remote_address: str) -> str:
    """The host of an address ``host:port``."""
    return remote_address.rpartition(":")[0]


def peer_of(remote_address: str) -> str:
    """The peer that failures of a connection count for: its address, of IPv6 the network."""
    host = host_of(remote_address)
    address = parse_address(host)
    if isinstance(address, ipaddress.IPv6Address) and not address.is_loopback:
        return str(ipaddress.ip_network((int(address), PREFIX6), strict=False))
    return host if address is None else str(address)
