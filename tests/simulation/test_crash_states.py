"""Short workloads, reopened in every state that a crash may leave the disk in.

Each change of the disk is recorded, and behind each the store is opened as a kill or a power cut
leaves it: unsynced writes lost one by one, in groups and torn, names and lengths lost. The service
then runs until all is due. ``CRASH_STATES=all`` looks at all of them, some ten thousand; the plain
test takes every kill and an even selection of the others.
"""

from __future__ import annotations

import os

import pytest

from simulation.crash_states import CrashState, CrashStates
from simulation.crash_workloads import WORKLOADS, Workload
from simulation.recording_disk import Named, Recording

LOOKS_AT_ALL = os.environ.get("CRASH_STATES") == "all"
ONLY_MAX = 12 if LOOKS_AT_ALL else 3
"""Unsynced writes that are lost, or survive, one by one."""

SELECTED = 1 << 30 if LOOKS_AT_ALL else 45
"""States of power cuts that are looked at, of each workload."""

STATES_MIN = 500
"""States of each workload: a workload that leaves fewer does nothing any more."""

OPENED_MIN = 45
"""Different ones that are opened."""


def different_states(workload: Workload, recording: Recording) -> tuple[int, list[CrashState]]:
    """How many states there are, and one of each that are the same to the next process.

    Of the same files the latest state counts, for most is acknowledged by then. What survives a
    kill need not survive a power cut, if nothing is synced.
    """
    count = 0
    states: dict[tuple[bytes, bool], CrashState] = {}
    for state in CrashStates(recording.events, only_max=ONLY_MAX):
        count += 1
        is_kill = state.is_kill and not workload.files.is_sync_flush
        states[state.digest(), is_kill] = state
    return count, list(states.values())


def selected(states: list[CrashState]) -> list[CrashState]:
    """Every kill, and power cuts evenly."""
    kills = [state for state in states if state.is_kill]
    cuts = [state for state in states if not state.is_kill]
    step = max(len(cuts) // SELECTED, 1)
    return kills + cuts[::step]


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_crash_state(name: str) -> None:
    """Acknowledged and not cancelled: it comes once, whole, not early; the queues are dense."""
    workload = WORKLOADS[name]
    recording = workload.record()
    count, states = different_states(workload, recording)
    opened = selected(states)
    directory, begun_min = workload.begins
    begun = [
        path
        for event in recording.events
        if isinstance(event, Named)
        for path, inode in event.names.items()
        if f"/{directory}" in path and inode is not None
    ]
    faults = {
        f"{state.event_count} {state.label}": found
        for state in opened
        if (found := workload.faults_in(recording, state))
    }

    assert faults == {}
    assert count >= STATES_MIN
    assert len(opened) >= OPENED_MIN
    assert len(begun) >= begun_min
