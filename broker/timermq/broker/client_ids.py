"""The account of a client id: the one whose connections are registered under it.

Clients choose their ids, and other requests name them: replies go to an id, queues are locked for
one. So an id belongs to an account as long as a connection of it is registered under it, as a
producer or as a consumer. The account may take it to a new connection, as a client does that comes
back while its old connection is half dead; another one may not. Who may everything takes any id.

RocketMQ gives an id to the newest heartbeat, from any client.
"""

from __future__ import annotations

from collections import Counter

import attrs

from timermq.remoting.codes import ResponseCode

from .refusal import RefusedError
from .session import Session
from .speaker import Speaker

Place = tuple[Session, str]
"""A connection, and a group that it is in."""


@attrs.define(eq=False)
class _Holders:
    """The connections registered under one id, and their account."""

    accounts: Counter[str] = attrs.Factory(Counter[str])
    """Account to its registrations: one account's, and those of who may everything."""
    producers: dict[Place, Speaker] = attrs.Factory(dict[Place, Speaker])
    """The places at which it produces; that of the newest heartbeat is the last."""


class ClientIds:
    """The ids of all connected clients."""

    def __init__(self) -> None:
        self._holders: dict[str, _Holders] = {}

    def __len__(self) -> int:
        """Number of ids that belong to an account."""
        return len(self._holders)

    def check(self, client_id: str, speaker: Speaker) -> None:
        """See to it that no other account has an id.

        Raises:
            RefusedError: One has it, or who may everything (16).
        """
        holders = self._holders.get(client_id)
        if holders is None or not speaker.account:
            return
        if any(account != speaker.account for account in holders.accounts):
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "CLIENT_ID",
                f"expected an id of your own, found {ascii(client_id)[:260]}, which another "
                "account has",
            )

    def producer(self, client_id: str) -> tuple[Session, Speaker] | None:
        """The connection of its newest heartbeat as a producer, and who registered it there."""
        holders = self._holders.get(client_id)
        if holders is None or not holders.producers:
            return None
        place = next(reversed(holders.producers))
        return place[0], holders.producers[place]

    def join(self, client_id: str, speaker: Speaker, produces_at: Place | None = None) -> None:
        """A heartbeat has registered a client; one that was there in its place has left before."""
        holders = self._holders.setdefault(client_id, _Holders())
        holders.accounts[speaker.account] += 1
        if produces_at is not None:
            holders.producers[produces_at] = speaker

    def leave(self, client_id: str, speaker: Speaker, produces_at: Place | None = None) -> None:
        """A client that has joined with the same is registered no more."""
        holders = self._holders[client_id]
        holders.accounts[speaker.account] -= 1
        if not holders.accounts[speaker.account]:
            del holders.accounts[speaker.account]
        if produces_at is not None:
            del holders.producers[produces_at]
        if not holders.accounts:
            del self._holders[client_id]
