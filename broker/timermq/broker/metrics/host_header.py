"""Which hosts the HTTP port answers for, by the header ``Host``.

A page of somebody's can have its own name lead to this address (DNS rebinding): the browser of an
operator who looks at it then reads what only operators should. Such a request has the name of that
page; programs that mean this broker have its address, a short name, or one that the settings tell.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

ALL = "*"


def is_asked_for(host: str | None, names: Collection[str]) -> bool:
    """Whether a request means this broker.

    Args:
        host: The header, with or without a port; None: HTTP/1.0 has none, and no browser speaks it.
        names: Names with a dot that lead here, in small letters; ``*`` is any.
    """
    if host is None or ALL in names:
        return True
    name = _without_port(host.strip().lower()).rstrip(".")
    return "." not in name or _is_address(name) or name.endswith(".localhost") or name in names


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
