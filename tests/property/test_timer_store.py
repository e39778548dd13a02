"""The timer store beside a heap of due times, through sends, recalls, sleeps and crashes.

What is compared, and what may be lost in which ending, is told in ``simulation.timer_lives``. The
wheels have ten and twenty slots and roll after three and six, a segment of the log holds three
records, one of the timer log four units, a queue's file five: wraps, rolls, blanks and slots that
are read in passes come up in the first steps.
"""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.timer_lives import (
    CROWDED_WHEEL,
    OUTAGE_MAX_MS,
    SMALL_WHEEL,
    TINY_WHEEL,
    Cancel,
    Ending,
    Life,
    Plan,
    Send,
    SendBeside,
    SetBack,
    Sleep,
    SleepUntil,
    Step,
    fault_in,
)
from timermq.pipeline.records.deduplication import AlreadyDone
from timermq.pipeline.records.delivered_message import DueMessage
from timermq.pipeline.stages.dequeue_get_message import DequeueGetMessage
from timermq.pipeline.stages.dequeue_put_message import DequeuePutMessage
from timermq.pipeline.stages.early_messages import EarlyMessages
from timermq.pipeline.stages.open_slot import OpenSlot
from timermq.pipeline.stages.timer_request import DeliverBatch, Requests
from timermq.pipeline.state.fresh_cancels import FreshCancels
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.store_options import FlushDiskType

PICKS = st.integers(0, 5)
AHEAD = st.one_of(
    st.integers(-2, 3),
    st.integers(900, 1_100),
    st.integers(0, 3_000),
    st.integers(3_000, 60_000),
    st.sampled_from([1_000, 2_000, 3_000]),
)
"""Milliseconds: past, now, near, about a slot, many windows away."""

SENDS = st.one_of(
    st.builds(Send, st.lists(AHEAD, min_size=1, max_size=4).map(tuple)),
    st.builds(SendBeside, PICKS),
)
SLEEPS = st.one_of(
    st.builds(Sleep, st.one_of(st.just(1), st.integers(0, 2_500), st.integers(2_500, 40_000))),
    st.builds(SleepUntil, PICKS, st.integers(-1, 1)),
)
CANCELS = st.builds(Cancel, PICKS)
WHEELS = st.sampled_from([TINY_WHEEL, SMALL_WHEEL])
SETS_BACK = st.builds(SetBack, st.integers(1, 5_000))


def plans(
    steps: st.SearchStrategy[Step],
    *,
    endings: st.SearchStrategy[Ending],
    down_ms: st.SearchStrategy[int],
    wheels: st.SearchStrategy[TimerOptions] = WHEELS,
    ring_laps: bool = False,
    by_topic: bool = False,
) -> st.SearchStrategy[Plan]:
    """Up to four lives of up to six steps."""
    lives = st.builds(
        Life,
        steps=st.lists(steps, max_size=6).map(tuple),
        ending=endings,
        last_ms=st.integers(0, 3_000),
        last_turns=st.integers(0, 12),
        torn=st.none() | st.integers(0, 1 << 16),
        down_ms=down_ms,
    )
    return st.builds(
        Plan,
        lives=st.lists(lives, min_size=1, max_size=4).map(tuple),
        flush_disk_type=st.sampled_from(FlushDiskType),
        wheel=wheels,
        ring_laps=st.just(ring_laps),
        by_topic=st.just(by_topic),
    )


@given(
    plans(
        st.one_of(SENDS, SLEEPS, CANCELS),
        endings=st.sampled_from(Ending),
        down_ms=st.integers(0, OUTAGE_MAX_MS),
    )
)
@pytest.mark.slow
def test_the_store_does_as_the_heap_says(plan: Plan) -> None:
    """Whatever ends a process, and when: on time, in order, once, and not if cancelled."""
    assert fault_in(plan) is None


@given(
    plans(
        st.one_of(SENDS, SLEEPS, CANCELS),
        endings=st.sampled_from(Ending),
        down_ms=st.integers(0, OUTAGE_MAX_MS),
        wheels=st.just(CROWDED_WHEEL),
        by_topic=True,
    )
)
@pytest.mark.slow
def test_topics_that_take_turns(plan: Plan) -> None:
    """With every batch full, the same holds for each topic."""
    assert fault_in(plan) is None


@given(
    plans(
        st.one_of(SENDS, SLEEPS, CANCELS, SETS_BACK),
        endings=st.just(Ending.CLOSE),
        down_ms=st.integers(-3_000, OUTAGE_MAX_MS),
    )
)
@pytest.mark.slow
def test_a_clock_that_is_set_back(plan: Plan) -> None:
    """Messages wait for the clock, and what was sent meanwhile comes on time."""
    assert fault_in(plan) is None


@given(
    plans(
        st.one_of(SENDS, SLEEPS, CANCELS),
        endings=st.sampled_from(Ending),
        down_ms=st.integers(OUTAGE_MAX_MS, 60_000),
        ring_laps=True,
    )
)
@pytest.mark.slow
def test_outages_longer_than_the_ring(plan: Plan) -> None:
    """Everything still comes once, not early, and in the order of its moments."""
    assert fault_in(plan) is None


# -- what the model found ---------------------------------------------------------------------


def test_a_kill_and_a_clock_that_is_set_back() -> None:
    """What was delivered before the kill is not delivered again when its moment comes again."""
    plan = Plan(
        lives=(
            Life(steps=(Send((1,)), Sleep(1)), ending=Ending.KILL, down_ms=-2_020),
            Life(steps=(Send((2_000,)),), ending=Ending.CLOSE, last_ms=2_570),
        ),
        wheel=SMALL_WHEEL,
    )

    assert fault_in(plan) is None


def test_a_cancel_after_a_kill_and_a_clock_that_is_set_back() -> None:
    """A timer that was linked in the slot open before the kill is cancelled all the same."""
    plan = Plan(
        lives=(
            Life(steps=(SetBack(1_269), Send((2_000, 1_067))), ending=Ending.KILL),
            Life(steps=(Cancel(1),), ending=Ending.CLOSE),
        ),
        wheel=SMALL_WHEEL,
    )

    assert fault_in(plan) is None


def test_a_synced_delivery_is_shown_at_once() -> None:
    """A roll shortly before the moment is no reason to be late when queues wait for syncs."""
    plan = Plan(
        lives=(Life(steps=(Send((3_001,)),), ending=Ending.CLOSE, down_ms=2_502),),
        flush_disk_type=FlushDiskType.SYNC_FLUSH,
    )

    assert fault_in(plan) is None


# -- the model catches what is wrong ----------------------------------------------------------

ORDINARY = Plan(
    lives=(
        Life(
            steps=(Send((1_701, 1_700, 2_500)), Cancel(2), SleepUntil(0, -1), Sleep(1)),
            ending=Ending.KILL,
        ),
    )
)
"""Two messages are delivered out of the order of sending, one is cancelled, a kill follows."""


def test_the_ordinary_plan() -> None:
    """Without a fault it passes: the tests below show what theirs changes."""
    assert fault_in(ORDINARY) is None


def test_a_millisecond_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release before its moment, with the last gates left open."""
    take_due = OpenSlot.take_due

    def take_early(slot: OpenSlot, now_ms: int, count_max: int) -> Requests:
        return take_due(slot, now_ms + 1, count_max)

    async def no_gate(stage: DequeuePutMessage, due: list[DueMessage]) -> None:
        del stage, due

    def none_early(held: EarlyMessages, batch: DeliverBatch, now_ms: int) -> bool:
        del held, batch, now_ms
        return False

    monkeypatch.setattr(OpenSlot, "take_due", take_early)
    monkeypatch.setattr(EarlyMessages, "are_in", none_early)
    monkeypatch.setattr(DequeuePutMessage, "_gate", no_gate)

    assert fault_in(ORDINARY) == "at 1700 ms: 0 came at 1700000001700, due at 1700000001701"


def test_a_repeated_delivery_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that does not look for what was delivered."""

    def nothing_done(
        done: AlreadyDone, offsets: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> object:
        return np.zeros(len(offsets), np.bool_)

    monkeypatch.setattr(AlreadyDone, "dequeue_repeats", nothing_done)

    assert fault_in(ORDINARY) == "at 1701 ms: delivered: expected [1, 0], found [1, 0, 1, 0]"


def test_a_cancelled_delivery_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages that do not look for deletes, nor for cancels."""

    def keep(*args: object) -> bool:
        return False

    monkeypatch.setattr(DequeueGetMessage, "_left_out", keep)
    monkeypatch.setattr(FreshCancels, "cover", keep)
    # In one life: the next one knows the cancel by its origin.
    plan = attrs.evolve(ORDINARY, lives=(attrs.evolve(ORDINARY.lives[0], last_ms=2_000),))

    assert fault_in(plan) == "at 3701 ms: delivered before: expected [1, 0], found [1, 0, 2]"
