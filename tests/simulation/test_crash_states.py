"""Short workloads, reopened in every state that a crash may leave the disk in.

Each change of the disk is recorded, and behind each the store is opened as a kill or a power cut
leaves it: unsynced writes lost one by one, in groups and torn, names and lengths lost. The service
then runs until all is due. ``CRASH_STATES=all`` looks at all of them, some ten thousand; the plain
test takes every kill and an even selection of the others.
"""

from __future__ import annotations

import pytest

from simulation.crash_selection import different_states, files_begun, selected
from simulation.crash_workloads import WORKLOADS

STATES_MIN = 500
"""States of each workload: a workload that leaves fewer does nothing any more."""

OPENED_MIN = 45
"""Different ones that are opened."""


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_crash_state(name: str) -> None:
    """Acknowledged and not cancelled: it comes once, whole, not early; the queues are dense."""
    workload = WORKLOADS[name]
    recording = workload.record()
    count, states = different_states(recording, is_sync_flush=workload.files.is_sync_flush)
    opened = selected(states)
    directory, begun_min = workload.begins
    begun = files_begun(recording, directory)
    faults = {
        f"{state.event_count} {state.label}": found
        for state in opened
        if (found := workload.faults_in(recording, state))
    }

    assert faults == {}
    assert count >= STATES_MIN
    assert len(opened) >= OPENED_MIN
    assert len(begun) >= begun_min
