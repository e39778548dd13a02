"""Rounds one after the other: pauses, targets that refuse for a while, and what ends them."""

from __future__ import annotations

import pytest
import trio

from backup_rig import BackupRig, refusal
from small_store import ROOT, open_store, put_bodies
from timermq.backup.ship_loop import PAUSE_MAX_MS, ship_on, ship_once
from timermq.backup.target import BackupError


class Pauses:
    """Sleeps that take no time, up to a number of them."""

    def __init__(self) -> None:
        self.slept_ms: list[int] = []
        self.scope = trio.CancelScope()
        self.rounds_max = 0

    async def __call__(self, pause_ms: int) -> None:
        """Note a pause; the last one ends the shipping."""
        self.slept_ms.append(pause_ms)
        if len(self.slept_ms) == self.rounds_max:
            self.scope.cancel()
        await trio.lowlevel.checkpoint()


async def test_a_target_that_refuses_for_a_while() -> None:
    """The pauses grow up to a limit; then all is shipped, and the pause is the usual one."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), "one", "two")
    pauses = Pauses()
    pauses.rounds_max = 9

    async def sleep_ms(pause_ms: int) -> None:
        rig.target.left = 2 if len(pauses.slept_ms) < 6 else -1
        await pauses(pause_ms)

    rig.target.left, rig.target.error = 0, refusal
    with pauses.scope:
        await ship_on(rig.shipper(), 1000, sleep_ms)

    assert [2000, 4000, 8000, 16_000, PAUSE_MAX_MS, PAUSE_MAX_MS] == pauses.slept_ms[:6]
    assert [1000, 1000] == pauses.slept_ms[-2:]
    assert ["one", "two"] == await rig.restored_bodies()


async def test_what_a_retry_does_not_change_ends_it() -> None:
    """The backup of another store stays as it is, and the shipper says so at once."""
    rig = BackupRig()
    put_bodies(open_store(rig.disk, rig.clock), "one")
    await rig.target.target.put("manifest", b"no manifest")
    pauses = Pauses()

    with pytest.raises(BackupError, match="/backup: manifest: expected the digest it states"):
        await ship_on(rig.shipper(), 1000, pauses)
    assert [] == pauses.slept_ms


async def test_shipping_once_looks_twice_at_a_doubtful_end() -> None:
    """A record that stays damaged is shipped with what stands behind it, in one go."""
    rig = BackupRig()
    store = open_store(rig.disk, rig.clock)
    put_bodies(store, *(f"body-{number}" for number in range(6)))
    rig.disk.open(f"{ROOT}/commitlog/{0:020d}").write(4, b"????")
    shipped = await ship_once(rig.shipper())

    assert (store.commit_log.max_offset, True) == (shipped.end, shipped.is_settled)
