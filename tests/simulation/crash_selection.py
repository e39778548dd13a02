"""Which crash states a test opens: of equal ones one, every kill, and power cuts evenly.

With ``CRASH_STATES=all`` in the environment all of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from simulation.crash_states import CrashState, CrashStates
from simulation.recording_disk import Named, Recording

LOOKS_AT_ALL = os.environ.get("CRASH_STATES") == "all"
ONLY_MAX = 12 if LOOKS_AT_ALL else 3
"""Unsynced writes that are lost, or survive, one by one."""

SELECTED = 1 << 30 if LOOKS_AT_ALL else 45
"""States of power cuts that are looked at, of each workload."""


def different_states(recording: Recording, *, is_sync_flush: bool) -> tuple[int, list[CrashState]]:
    """How many states there are, and one of each that are the same to the next process.

    Of the same files the latest state counts, for most is acknowledged by then. What survives a
    kill need not survive a power cut, if nothing is synced.
    """
    count = 0
    states: dict[tuple[bytes, bool], CrashState] = {}
    for state in CrashStates(recording.events, only_max=ONLY_MAX):
        count += 1
        states[state.digest(), state.is_kill and not is_sync_flush] = state
    return count, list(states.values())


def selected(states: Sequence[CrashState]) -> list[CrashState]:
    """Every kill, and power cuts evenly."""
    kills = [state for state in states if state.is_kill]
    cuts = [state for state in states if not state.is_kill]
    step = max(len(cuts) // SELECTED, 1)
    return kills + cuts[::step]


def files_begun(recording: Recording, directory: str) -> list[str]:
    """The files below a directory that were begun in a recording."""
    return [
        path
        for event in recording.events
        if isinstance(event, Named)
        for path, inode in event.names.items()
        if f"/{directory}" in path and inode is not None
    ]
