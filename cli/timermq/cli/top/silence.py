"""A broker that answers no more while its connection stands: its process or machine is stopped.

It is said long before the connection counts as lost: until then what is seen last looks like now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import trio

from timermq.client import Watch
from timermq.remoting import Snapshot

from .. import formatting

SILENCE_SHOWN = 2.0
"""Seconds without a snapshot, which come four times a second, until it is said."""


async def next_snapshot(watch: Watch, address: str, now_ms: Callable[[], int]) -> Snapshot:
    """The next snapshot; one that does not come in time is told of on standard error, once.

    Args:
        watch: Of a broker.
        address: The broker's.
        now_ms: The wall clock.

    Raises:
        ClientError: As ``Watch.receive``; in a group.

    Cancellation: nothing is lost.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_tell, address, now_ms())
        snapshot = await watch.receive()
        nursery.cancel_scope.cancel()
    return snapshot


async def _tell(address: str, since_ms: int) -> None:
    await trio.sleep(SILENCE_SHOWN)
    since = formatting.clock_time(since_ms, None)
    print(f"timermq: {address}: no answer since {since}; waiting", file=sys.stderr, flush=True)
