"""The deletes that wait: which of them can concern what is asked for."""

from __future__ import annotations

import pickle

import attrs
import numpy as np
import pytest

from timermq.pipeline.spark.options import INT64_MAX
from timermq.pipeline.spark.pending_facts import Deletes
from timermq.pipeline.spark.store_view import LogView
from timermq.pipeline.spark.waiting_deletes import WaitingDeletes, delete_rows
from timermq.timerlog.stretch_outline import NO_DELETES

NOWHERE = LogView(directory="/nowhere", segment_size=1 << 20, starts=(), end=0)
NONE = np.empty(0, np.int64)


def waiting(**changed: object) -> WaitingDeletes:
    """Three deletes of slots that their units tell, and one of which only the record does."""
    slots, positions = np.array([4000, 5000, 6000, 9000]), np.array([100, 200, 300, 400])
    rows = delete_rows(slots, positions, np.full(4, 50))
    rows["is_told"][:3] = 1
    made = WaitingDeletes(
        key="plan",
        count=4,
        log=NOWHERE,
        timer_log=NOWHERE,
        read_ms=0,
        precision_ms=1000,
        due_from=0,
        due_to=INT64_MAX,
        handed_over=rows,
        derived_at=NONE,
        handled=NONE,
        cleaned_to=0,
    )
    return attrs.evolve(made, **changed)  # type: ignore[arg-type]  # fields by their names


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [100, 200, 300, 400]),
        ({"read_ms": 5000}, [200, 300, 400]),
        ({"read_ms": 9001}, []),
        ({"due_from": 5001}, [200, 300, 400]),
        ({"due_to": 5001}, [100, 200, 400]),
        ({"due_from": 5001, "due_to": 6000}, [200, 400]),
        ({"handled": np.array([150, 200])}, [100, 300, 400]),
        ({"cleaned_to": 300}, [300, 400]),
    ],
)
def test_those_that_concern(changed: dict[str, object], expected: list[int]) -> None:
    """Of slots that are not read, due when asked for, neither handled nor cleaned."""
    assert expected == waiting(**changed).places()["offset_py"].tolist()


def test_without_any_nothing_is_read() -> None:
    """What there is none of has nothing to say."""
    found = waiting(count=0, handed_over=NO_DELETES).load()

    assert not found
    assert isinstance(found, Deletes)


def test_a_process_reads_once() -> None:
    """A copy of the same plan, as each task gets one, finds what the first has read."""
    first = waiting(key="once")
    again: WaitingDeletes = pickle.loads(pickle.dumps(first))

    assert first.load() is again.load()
    assert first.load() is not waiting(key="twice").load()
