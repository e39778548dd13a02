"""The place of a lease: what ``--lease`` names, ``etcd://HOST:PORT[,HOST:PORT…]/NAME?ttl=SECONDS``.

``etcds`` is the same over TLS. The key is ``NAME/brokerName``: brokers of one name share a lease.
"""

from __future__ import annotations

import re
import urllib.parse

import attrs

from .lease_timing import LeaseTiming

DEFAULT_TTL_S = 10
FORM = "etcd://HOST:PORT[,HOST:PORT…]/NAME?ttl=SECONDS, or etcds:// over TLS"

_ENDPOINT = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\[\]:@\s]+):([0-9]{1,5})")


@attrs.frozen(kw_only=True)
class LeasePlace:
    """An engine, and the name of a lease there."""

    endpoints: tuple[tuple[str, int], ...]
    """Hosts and ports."""
    name: str
    """The first part of the key."""
    is_secure: bool
    """Whether it is spoken to over TLS."""
    ttl_ms: int

    @classmethod
    def parse(cls, url: str) -> LeasePlace:
        """The place that a URL names.

        Raises:
            ValueError: It has another form.
        """
        scheme, _, rest = url.partition("://")
        hosts, _, tail = rest.partition("/")
        name, _, query = tail.partition("?")
        if scheme not in ("etcd", "etcds") or not name:
            raise ValueError(f"lease: expected {FORM}, found {url!a:.200}")
        endpoints: list[tuple[str, int]] = []
        for one in hosts.split(","):
            found = _ENDPOINT.fullmatch(one)
            if found is None or not 0 < int(found[2]) <= 65_535:
                raise ValueError(
                    f"lease: expected HOST:PORT, found {one!a:.100}; a user stands in lease_user"
                )
            endpoints.append((found[1].strip("[]"), int(found[2])))
        return cls(
            endpoints=tuple(endpoints),
            name=urllib.parse.unquote(name),
            is_secure=scheme == "etcds",
            ttl_ms=_ttl_ms(query),
        )

    def key(self, broker_name: str) -> str:
        """The key of the brokers of one name."""
        return f"{self.name}/{broker_name}"

    def timing(self, margin_ms: int) -> LeaseTiming:
        """The times of this lease; ValueError if the margin leaves a holder no time."""
        return LeaseTiming(ttl_ms=self.ttl_ms, margin_ms=margin_ms)


def _ttl_ms(query: str) -> int:
    fields = urllib.parse.parse_qs(query, keep_blank_values=True)
    if unknown := fields.keys() - {"ttl"}:
        raise ValueError(f"lease: expected ttl alone behind the name, found {min(unknown)!a:.100}")
    text = fields.get("ttl", [str(DEFAULT_TTL_S)])[-1]
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) is None:
        raise ValueError(f"lease: expected seconds in ttl, found {text!a:.100}")
    return round(float(text) * 1000)
