"""`timermq clock`: the state of a running broker's clock, and the word that it is right."""

from __future__ import annotations

import pytest

from cli.program import RunProgram
from fakes import START_MS
from interop.serving import Broker
from timermq.cli.clock import lines
from timermq.remoting.clock_report import ClockReport

REPORT = ClockReport(
    state="UNSAFE",
    fault="forward",
    now_ms=START_MS,
    wall_ms=START_MS + 7_200_000,
    off_ms=7_200_000,
    since_ms=START_MS - 1_000,
    believed_in_ms=599_000,
    steps_forward=1,
    steps_backward=2,
    last_step_ms=7_200_000,
    last_step_at_ms=START_MS - 1_000,
    drift_ppm=-12.34,
    read_ms=START_MS,
    rewinds=True,
)


@pytest.mark.parametrize("deed", [[], ["status"], ["accept"]])
def test_a_clock_that_is_safe(timermq: RunProgram, broker: Broker, deed: list[str]) -> None:
    """It says so, and to accept it changes nothing."""
    ran = timermq("clock", *deed, "--namesrv", broker.namesrv, "--json")

    (row,) = ran.rows
    assert (0, broker.listen, "SAFE", None) == (
        ran.code,
        row["address"],
        row["state"],
        row["fault"],
    )
    assert row["now_ms"] == row["wall_ms"]


def test_what_people_are_told() -> None:
    """The state, what comes of it, how long, and what has happened."""
    said = "\n".join(lines("127.0.0.1:10911", REPORT))

    assert said.startswith("127.0.0.1:10911  clock UNSAFE\n  the wall clock was set ahead;")
    assert "believed in 9m59s" in said
    assert "steps       1 forward, 2 back; last +2h at " in said
    assert "drift       -12.3 ppm" in said
    assert "brought back" in said


def test_a_usage_error(timermq: RunProgram) -> None:
    """Another word is refused in one line."""
    ran = timermq("clock", "melt")

    assert (2, "") == (ran.code, ran.out)


def test_one_broker_of_several(timermq: RunProgram, broker: Broker) -> None:
    """A clock is accepted where it was looked at; an address that is not there is told."""
    flags = ("--namesrv", broker.namesrv, "--json")
    ran = timermq("clock", "accept", "--broker", broker.listen, *flags)
    other = timermq("clock", "accept", "--broker", "127.0.0.1:1", *flags)

    assert [broker.listen] == [row["address"] for row in ran.rows]
    text = f"argument --broker: expected one of {broker.listen}, found 127.0.0.1:1"
    assert (2, f"timermq: {text}\n") == (other.code, other.err)
