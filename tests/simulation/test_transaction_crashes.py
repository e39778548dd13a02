"""Transactions, reopened in every state that a crash may leave the disk in.

As ``test_crash_states``, with its selection and limits: each state is opened, what is open there is
committed, and every transaction must have ended once, and as it was told.
"""

from __future__ import annotations

import pytest

from simulation.crash_selection import different_states, files_begun, selected
from simulation.crash_states import CrashStates
from simulation.transaction_workloads import TRANSACTION_WORKLOADS

STATES_MIN = 200
"""States of each workload: a workload that leaves fewer does nothing any more."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSACTION_WORKLOADS)
def test_every_crash_state(name: str) -> None:
    """Committed once, or never; open until then."""
    workload = TRANSACTION_WORKLOADS[name]
    recording = workload.record()
    count, states = different_states(recording, is_sync_flush=workload.files.is_sync_flush)
    directory, begun_min = workload.begins
    begun = files_begun(recording, directory)
    faults = {
        f"{state.event_count} {state.label}": found
        for state in selected(states)
        if (found := workload.faults_in(recording, state))
    }

    assert faults == {}
    assert count >= STATES_MIN
    assert len(begun) >= begun_min


@pytest.mark.slow
def test_a_write_that_a_power_cut_tears() -> None:
    """What ends a transaction is one write: its first sectors may hold the commit, and no mark."""
    workload = TRANSACTION_WORKLOADS["segment of the log"]
    recording = workload.record()
    _, states = different_states(recording, is_sync_flush=workload.files.is_sync_flush)
    torn = [state for state in states if state.label.startswith("torn")]
    founds = [workload.found_in(recording, state) for state in torn]

    assert [found for state in torn if (found := workload.faults_in(recording, state))] == []
    assert any(found.arrived.total() > found.marks for found in founds)


def test_a_store_that_does_not_sync_is_found_out() -> None:
    """With the syncs of the log left out, some state breaks a promise."""
    workload = TRANSACTION_WORKLOADS["end"]
    recording = workload.record().without_syncs()
    states = [one for one in CrashStates(recording.events, only_max=0) if one.label == "none"]

    assert any(workload.faults_in(recording, state) for state in states[-5:])
