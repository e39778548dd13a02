"""Addresses that only this machine reaches, as settings and peers name them."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, as far as its text tells.

    Args:
        host: A name or an address; IPv6 with brackets or without.
    """
    host = host.strip("[]").partition("%")[0].lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
