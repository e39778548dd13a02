"""The wall clock under watch: what a jump, a drift or a stop makes of the time that counts."""

from __future__ import annotations

import pytest

from fakes import START_MS
from timermq.pipeline.clock.clock_watch import (
    ClockEvent,
    ClockEventKind,
    ClockFault,
    ClockState,
    ClockStatus,
    ClockWatch,
)

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
YEAR_MS = 365 * DAY_MS
DOUBT_MS = 10 * MINUTE_MS


class Machine:
    """Two clocks and the watch over them."""

    def __init__(self, *, persisted_ms: int = 0, wall_ms: int = START_MS) -> None:
        self.events: list[ClockEvent] = []
        self.watch = ClockWatch(step_max_ms=HOUR_MS, doubt_ms=DOUBT_MS, tell=self.events.append)
        self.wall_ms, self.steady_ms = wall_ms, 0.0
        self.watch.begin(wall_ms, 0.0, persisted_ms=persisted_ms)

    def after(self, elapsed_ms: int, *, step_ms: int = 0) -> int:
        """The time that counts, so much later and with the clock set."""
        self.steady_ms += elapsed_ms
        self.wall_ms += elapsed_ms + step_ms
        return self.watch.look(self.wall_ms, self.steady_ms)

    @property
    def status(self) -> ClockStatus:
        """The state of the clock at the last look."""
        return self.watch.status()

    def kinds(self) -> list[ClockEventKind]:
        """Kinds of the events that the watch has told, in order."""
        return [event.kind for event in self.events]


def test_a_clock_that_runs_is_safe() -> None:
    """Without a jump the wall clock counts, and nothing is told."""
    machine = Machine()

    assert START_MS + DAY_MS == machine.after(DAY_MS)
    assert "SAFE" == str(machine.status.state)
    assert [] == machine.events


@pytest.mark.parametrize("step_ms", [1, 99, -1, -99])
def test_slewing_is_no_step(step_ms: int) -> None:
    """A small correction counts at once and is none of the steps."""
    machine = Machine()

    assert START_MS + 1_000 + step_ms == machine.after(1_000, step_ms=step_ms)
    assert (0, 0) == (machine.status.steps_forward, machine.status.steps_backward)


@pytest.mark.parametrize("step_ms", [100, 1_000, HOUR_MS, -100, -1_000, -HOUR_MS])
def test_a_plausible_step_counts_at_once(step_ms: int) -> None:
    """Up to the bound a jump is counted and told, and the state stays SAFE."""
    machine = Machine()

    assert START_MS + 3_000 + step_ms == machine.after(3_000, step_ms=step_ms)
    assert "SAFE" == str(machine.status.state)
    assert [(ClockEventKind.STEPPED, step_ms)] == [(one.kind, one.by_ms) for one in machine.events]
    assert (step_ms > 0, step_ms < 0) == (
        machine.status.steps_forward,
        machine.status.steps_backward,
    )


@pytest.mark.parametrize("step_ms", [HOUR_MS + 1, 3 * DAY_MS, YEAR_MS])
def test_a_jump_far_ahead_is_held_back(step_ms: int) -> None:
    """Beyond the bound time goes on as before, until the jump has stood for so long."""
    machine = Machine()

    assert START_MS + 1_000 == machine.after(1_000, step_ms=step_ms)
    assert (ClockState.UNSAFE, ClockFault.FORWARD, step_ms, DOUBT_MS) == (
        machine.status.state,
        machine.status.fault,
        machine.status.off_ms,
        machine.status.believed_in_ms,
    )
    assert START_MS + DOUBT_MS == machine.after(DOUBT_MS - 1_000)
    assert START_MS + 1_000 + DOUBT_MS + step_ms == machine.after(1_000)
    assert "SAFE" == str(machine.status.state)
    assert "has stood for 600000 ms" == machine.events[-1].reason


def test_a_clock_that_comes_back() -> None:
    """A jump that is undone within the doubt was never there."""
    machine = Machine()
    machine.after(1_000, step_ms=YEAR_MS)

    assert START_MS + 3_000 == machine.after(2_000, step_ms=-YEAR_MS)
    assert "SAFE" == str(machine.status.state)
    assert "back" == next(one.reason for one in machine.events if one.reason)


def test_a_jump_ahead_is_accepted() -> None:
    """The operator says that the clock is right."""
    machine = Machine()
    machine.after(1_000, step_ms=YEAR_MS)
    machine.watch.accept()

    assert "SAFE" == str(machine.status.state)
    assert START_MS + YEAR_MS + 2_000 == machine.after(1_000)


def test_a_second_jump_is_doubted_anew() -> None:
    """How long it has stood counts from the newest long jump; a short one changes nothing."""
    machine = Machine()
    machine.after(1_000, step_ms=YEAR_MS)
    machine.after(DOUBT_MS - 1_000, step_ms=DAY_MS)
    machine.after(1_000, step_ms=500)

    assert DOUBT_MS - 1_000 == machine.status.believed_in_ms


@pytest.mark.parametrize("step_ms", [-HOUR_MS - 1, -3 * DAY_MS, -YEAR_MS])
def test_a_jump_far_back(step_ms: int) -> None:
    """The wall clock counts at once; UNSAFE until it is where it was."""
    machine = Machine()

    assert START_MS + 1_000 + step_ms == machine.after(1_000, step_ms=step_ms)
    assert (ClockFault.BACKWARD, step_ms) == (machine.status.fault, machine.status.off_ms)
    machine.after(-step_ms - 1)
    assert "UNSAFE" == str(machine.status.state)
    machine.after(1)
    assert "SAFE" == str(machine.status.state)
    assert "caught up" == machine.events[-1].reason


def test_back_and_forth() -> None:
    """A clock that was back for a while and returns is no jump ahead."""
    machine = Machine()
    machine.after(1_000, step_ms=-YEAR_MS)

    assert START_MS + 61_000 == machine.after(60_000, step_ms=YEAR_MS)
    assert "SAFE" == str(machine.status.state)


def test_back_and_too_far_forth() -> None:
    """From behind, a jump beyond where the clock was is held back like any other."""
    machine = Machine()
    machine.after(1_000, step_ms=-DAY_MS)

    assert START_MS + 2_000 - DAY_MS == machine.after(1_000, step_ms=YEAR_MS)
    assert ClockFault.FORWARD == machine.status.fault


def test_a_jump_back_is_accepted() -> None:
    """The operator says that the clock is right now, and was wrong before."""
    machine = Machine()
    machine.after(1_000, step_ms=-YEAR_MS)
    machine.watch.accept()

    assert "SAFE" == str(machine.status.state)
    assert START_MS + 2_000 - YEAR_MS == machine.after(1_000)
    assert "SAFE" == str(machine.status.state)


def test_a_start_behind_the_store() -> None:
    """A clock that is behind what the store knows is UNSAFE; from there on any time will do."""
    machine = Machine(wall_ms=86_000, persisted_ms=START_MS)
    assert (ClockFault.BACKWARD, 86_000 - START_MS) == (
        machine.status.fault,
        machine.status.off_ms,
    )
    machine.after(1_000, step_ms=START_MS + YEAR_MS)

    assert "SAFE" == str(machine.status.state)


def test_a_start_after_an_outage() -> None:
    """A clock that is ahead of the store is right, however far."""
    machine = Machine(wall_ms=START_MS + YEAR_MS, persisted_ms=START_MS)

    assert "SAFE" == str(machine.status.state)


def test_a_stopped_clock() -> None:
    """A wall clock that stands still is found after five seconds, and again when it goes on."""
    machine = Machine()
    machine.after(1_000)
    machine.after(4_999, step_ms=-4_999)
    assert "SAFE" == str(machine.status.state)
    machine.after(1, step_ms=-1)
    assert ("UNSAFE", "stopped") == (str(machine.status.state), str(machine.status.fault))
    machine.after(1_000)

    assert (ClockState.SAFE, 1) == (machine.status.state, machine.status.steps_backward)


def test_a_stop_of_the_process_is_no_step() -> None:
    """Both clocks go on while the process is stopped, or the machine asleep."""
    machine = Machine()

    assert START_MS + 8 * HOUR_MS == machine.after(8 * HOUR_MS)
    assert [] == machine.events


def test_a_leap_second() -> None:
    """A second that comes twice is a small step; one that is smeared over a day is none."""
    machine = Machine()
    machine.after(1_000, step_ms=-1_000)
    assert "SAFE" == str(machine.status.state)
    for _ in range(1_000):
        machine.after(86_400, step_ms=-1)

    assert 1 == machine.status.steps_backward
    assert [ClockEventKind.STEPPED] == machine.kinds()


@pytest.mark.parametrize(("ppm", "told"), [(500, False), (-500, False), (2_000, True)])
def test_drift_is_measured(ppm: int, told: bool) -> None:
    """A steady difference shows in millionths; only a large one is told."""
    machine = Machine()
    for _ in range(1_201):
        machine.after(1_000, step_ms=ppm // 1_000 if abs(ppm) >= 1_000 else 0)
        if abs(ppm) < 1_000:
            machine.after(1_000, step_ms=ppm // 500)

    assert machine.status.drift_ppm == pytest.approx(ppm, abs=3)
    assert told == (ClockEventKind.DRIFTS in machine.kinds())
    assert "SAFE" == str(machine.status.state)


def test_steps_are_not_drift() -> None:
    """What was set is left out of the drift."""
    machine = Machine()
    for minute in range(12):
        machine.after(MINUTE_MS, step_ms=1_000 if minute % 2 else -1_000)
    machine.after(MINUTE_MS)

    assert 0 == machine.status.drift_ppm
