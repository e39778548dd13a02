"""Rounds of a shipper one after the other, for as long as its process runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from .shipper import Shipped, Shipper
from .target import TargetError

log = structlog.get_logger("timermq.backup.ship_loop")

PAUSE_MAX_MS = 30_000
"""Pause between two tries of a target that refuses, at most."""
SETTLING_ROUNDS = 3
"""Rounds of ``ship_once`` at most: a served log may end within a record, but hardly twice."""


async def ship_once(shipper: Shipper) -> Shipped:
    """Ship what is there now.

    Raises:
        TargetError: The target refused.
        BackupError: It is no target for this store.
        OSError: The disk of the store failed.
    """
    shipped = await shipper.round()
    for _ in range(SETTLING_ROUNDS - 1):
        if shipped.is_settled:
            break
        shipped = await shipper.round()
    return shipped


async def ship_on(
    shipper: Shipper, every_ms: int, sleep_ms: Callable[[int], Awaitable[None]]
) -> None:
    """Ship until cancelled; a target that refuses is asked again, after growing pauses.

    Args:
        shipper: Of the store.
        every_ms: Pause between two rounds.
        sleep_ms: Waits so many milliseconds.

    Raises:
        BackupError: It is no target for this store.
        OSError: The disk of the store failed.

    Cancellation: the backup is as the last manifest says.
    """
    pause_ms, fails = every_ms, False
    while True:
        try:
            shipped = await shipper.round()
        except TargetError as error:
            pause_ms = min(max(pause_ms, every_ms) * 2, max(PAUSE_MAX_MS, every_ms))
            log.error("nothing shipped", error=str(error), next_try_ms=pause_ms)
            fails = True
        else:
            pause_ms = every_ms
            if fails:
                log.info("ships again", end=shipped.end)
            fails = False
        await sleep_ms(pause_ms)
