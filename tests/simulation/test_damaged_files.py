"""Damage at rest in files that can be made again: the store delivers as if nothing had happened.

The store is that of a killed broker: some messages have arrived, one was cancelled, some wait.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from simulation.crash_states import CrashState, CrashStates
from simulation.crash_workloads import WORKLOADS, Outcome
from simulation.staged_service import MADE_FROM_LOG
from timermq.simulator.disks.disk_damage import draw_damage
from timermq.timerstore.file_family import FileFamily

WORKLOAD = WORKLOADS["kill and recovery"]
EXPECTED = [0, 2, 3, 4]
"""All that were sent; 1 was cancelled."""

FAMILIES = [
    *MADE_FROM_LOG,
    FileFamily.ABORT,
]


@cache
def killed() -> tuple[CrashState, CrashState, int]:
    """What the killed broker left, what was there half-way, and when."""
    recording = WORKLOAD.record()
    kills = [one for one in CrashStates(recording.events, only_max=0) if one.is_kill]
    return kills[-1], kills[len(kills) // 2], recording.times[-1]


def served(family: FileFamily, seed: int) -> Outcome:
    """What was delivered after a damage."""
    state, earlier, now_ms = killed()
    damage = draw_damage(
        Random(seed), state.files, "/store", families=[family], earlier=earlier.files
    )
    assert damage is not None
    content = bytearray(state.files[damage.path])
    content[damage.offset : damage.offset + len(damage.after)] = damage.after
    damaged = CrashState(
        state.event_count, "all", state.files | {damage.path: bytes(content)}, state.directories
    )
    return WORKLOAD.reopen(damaged, now_ms, now_ms + 5_000)


@pytest.mark.parametrize("family", FAMILIES)
def test_damage_makes_no_wrong_delivery(family: FileFamily) -> None:
    """The log has all that these files say: each message comes once, whole, none is lost."""
    outcomes = [served(family, seed) for seed in range(12)]

    assert [EXPECTED] * 12 == [sorted(number for number, _ in one.arrived) for one in outcomes]
    assert [] == [fault for one in outcomes for fault in one.faults]
