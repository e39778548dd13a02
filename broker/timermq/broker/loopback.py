"""Loopback: which hosts are this machine, as far as their text tells.

Two questions are asked, and a doubt counts against each: whether something stays on this machine
(``is_loopback``, which lets it pass without TLS or an account), and whether only this machine gets
there (``may_be_loopback``, which refuses an address that others are to reach).
"""

from __future__ import annotations

import ipaddress

LOCALHOST = "localhost"


def is_loopback_address(text: str) -> bool:
    """Whether it is a numeric address of loopback, also an IPv4 one in IPv6."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays on this machine: an address, or the name for it."""
    return is_loopback_address(host) or host.lower() == LOCALHOST


def may_be_loopback(host: str) -> bool:
    """Whether other machines may not get there: also names below ``localhost``."""
    return is_loopback(host) or host.lower().endswith(f".{LOCALHOST}")
