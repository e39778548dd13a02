"""The lease: one record, kept by an engine of consensus, that says which broker of a pair leads.

The engine does two things: it gives the record with its version, and it replaces the record of a
version that is still the newest. Everything else, such as when a lease has run out and who may take
it, is decided by the brokers from these answers (``lease_state``). So an engine needs no clock, and
another one is a class of two methods.
"""

from __future__ import annotations

import json
from typing import Protocol, cast

import attrs

from .epochs import EPOCH_MAX

RECORD_SIZE_MAX = 65_536
"""Bytes of a record: it names the brokers of one pair."""


class LeaseError(Exception):
    """The engine did not answer, or not as expected; whether it did what was asked is open."""


@attrs.frozen(kw_only=True)
class LeaseRecord:
    """The lease as the engine keeps it."""

    holder: str
    """Address ``host:port`` of the broker that leads, or led last."""
    instance: str
    """Drawn by the holder when it started: a broker that was killed and started is another one."""
    epoch: int
    """The fencing number: each broker that takes the lease writes a greater one."""
    ttl_ms: int
    """How long the record holds from when the holder began to write it, at most."""
    renewals: int = 0
    """Times that the holder has renewed it: so each record differs from the one before."""
    is_given_up: bool = False
    """The holder leads no more, and has written nothing since."""
    position: int = 0
    """End of the part of the commit log that all in sync have: a log that ends before it is another
    one, as of a machine that was replaced."""
    in_sync: frozenset[int] = frozenset()
    """``brokerId`` of each follower that has all that was acknowledged: one of them leads next."""

    def encode(self) -> bytes:
        """JSON with sorted keys, UTF-8."""
        return json.dumps(
            {
                "holder": self.holder,
                "instance": self.instance,
                "epoch": self.epoch,
                "ttlMs": self.ttl_ms,
                "renewals": self.renewals,
                "givenUp": self.is_given_up,
                "position": self.position,
                "inSync": sorted(self.in_sync),
            },
            sort_keys=True,
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> LeaseRecord:
        """The record of what the engine gives.

        Raises:
            LeaseError: Another program has written something else in its place.
        """
        if len(data) > RECORD_SIZE_MAX:
            raise LeaseError(f"lease: expected {RECORD_SIZE_MAX} bytes at most, found {len(data)}")
        try:
            fields: object = json.loads(data)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise LeaseError(f"lease: expected a record of timermq in JSON, found {data[:80]!r}")
        table = cast("dict[str, object]", fields)
        in_sync = cast("list[object]", table["inSync"]) if _has_list(table, "inSync") else [None]
        if not all(type(one) is int for one in in_sync):
            raise LeaseError(f"lease: expected a list of ids in inSync, found {data[:200]!r}")
        return cls(
            holder=_text(table, "holder"),
            instance=_text(table, "instance"),
            epoch=_number(table, "epoch", EPOCH_MAX),
            ttl_ms=_number(table, "ttlMs", 2**31),
            renewals=_number(table, "renewals", 2**63),
            is_given_up=table.get("givenUp") is True,
            position=_number(table, "position", 2**63),
            in_sync=frozenset(cast("list[int]", in_sync)),
        )


@attrs.frozen
class Stored:
    """A record, or that there is none, with the version to replace it by."""

    record: LeaseRecord | None
    version: str
    """Of the engine's kind; compared for equality alone."""


class Lease(Protocol):
    """An engine that keeps the record."""

    async def read(self) -> Stored:
        """The newest record: no answer is older than what was written before it was asked for.

        Raises:
            LeaseError: There is no such answer.

        Cancellation: nothing has changed.
        """
        ...

    async def replace(self, record: LeaseRecord, version: str) -> tuple[bool, Stored]:
        """Replace the record of a version, if that is the newest.

        Returns:
            Whether it was replaced, and what is kept now.

        Raises:
            LeaseError: Whether it was replaced is open.

        Cancellation: as ``LeaseError``; it may even be replaced later, if its version is the newest
        then.
        """
        ...


def _has_list(table: dict[str, object], key: str) -> bool:
    return isinstance(table.get(key), list)


def _text(table: dict[str, object], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise LeaseError(f"lease: expected a text in {key}, found {value!r}")
    return value


def _number(table: dict[str, object], key: str, value_max: int) -> int:
    value = table.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= value_max:
        raise LeaseError(f"lease: expected 0 to {value_max} in {key}, found {str(value)[:80]}")
    return value
