"""Whatever the clocks do: the time that counts is never ahead, and never gets stuck."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.clock.clock_watch import STOPPED_MS, ClockEvent, ClockEventKind, ClockWatch

STEP_MAX_MS, DOUBT_MS = 10_000, 30_000
START_MS = 1_000_000

MOVES = st.lists(
    st.tuples(
        st.integers(1, 20_000),
        st.one_of(st.just(0), st.integers(-200, 200), st.integers(-100_000, 100_000)),
        st.sampled_from(["", "", "", "accept"]),
    ),
    max_size=30,
)


@given(MOVES, st.integers(0, 2 * START_MS))
def test_never_ahead_and_always_believed_in_the_end(
    moves: list[tuple[int, int, str]], persisted_ms: int
) -> None:
    """Never ahead of the wall clock; SAFE means equal to it; after a quiet while it counts."""
    told: list[ClockEvent] = []
    watch = ClockWatch(step_max_ms=STEP_MAX_MS, doubt_ms=DOUBT_MS, tell=told.append)
    wall_ms, steady_ms = START_MS, 0.0
    watch.begin(wall_ms, steady_ms, persisted_ms=persisted_ms)
    for elapsed_ms, step_ms, deed in moves:
        steady_ms += elapsed_ms
        wall_ms += elapsed_ms + step_ms
        now_ms = watch.look(wall_ms, steady_ms)
        if deed == "accept":
            watch.accept()
            now_ms = watch.look(wall_ms, steady_ms)
            assert watch.status().fault is None or watch.status().fault == "stopped"
        assert now_ms <= wall_ms
        assert (now_ms == wall_ms) or watch.status().fault == "forward"
        assert (watch.status().believed_in_ms or 0) <= DOUBT_MS
    for _ in range(DOUBT_MS // 1_000 + 2):
        steady_ms += 1_000
        wall_ms += 1_000
        watch.look(wall_ms, steady_ms)

    assert wall_ms == watch.look(wall_ms, steady_ms)
    assert watch.status().fault in (None, "backward")
    unsafe = [one for one in told if one.kind is ClockEventKind.UNSAFE]
    safe = [one for one in told if one.kind is ClockEventKind.SAFE]
    assert len(safe) <= len(unsafe)


@given(st.lists(st.tuples(st.integers(1, 2 * STOPPED_MS), st.integers(-10_000, 10_000))))
def test_short_steps_are_seen_at_once(moves: list[tuple[int, int]]) -> None:
    """While no jump is longer than the bound, the wall clock counts whatever it does."""
    watch = ClockWatch(step_max_ms=STEP_MAX_MS, doubt_ms=DOUBT_MS)
    wall_ms, steady_ms = START_MS, 0.0
    watch.begin(wall_ms, steady_ms, persisted_ms=0)
    for elapsed_ms, step_ms in moves:
        steady_ms += elapsed_ms
        wall_ms += elapsed_ms + step_ms

        assert wall_ms == watch.look(wall_ms, steady_ms)
