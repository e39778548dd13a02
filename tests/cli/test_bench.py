"""``timermq bench`` and perf/ on a small scale: every question is asked and answered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.program import RunProgram
from timermq.bench.question import Figure, rate_figure
from timermq.cli.bench import QUESTIONS

PERF = Path(__file__).parents[2] / "perf"

ANSWERS = [
    "steady",
    "steady 1024 B",
    "burst",
    "sync",
    "sync flushed",
    "lateness",
    "early",
    "neighbours of a burst",
    "memory of pending",
    "ready after kill -9",
    "idle",
    "steady followed",
    "replication cost",
    "sync replicated",
    "burst followed",
    "catch-up",
]


@pytest.mark.slow
def test_every_question_has_its_answers(timermq: RunProgram) -> None:
    """Real brokers, real sockets, three thousandths of the load; nothing early on any scale."""
    done = timermq("bench", "--scale", "0.003", "--asks", "1", "--json")
    rows = done.rows
    figures = {row["question"]: row for row in rows}

    assert ANSWERS == [row["question"] for row in rows]
    assert 0 == figures["early"]["value"]
    assert figures["steady"]["cpu_us"] != 0
    assert done.code == int(not all(row["passes"] for row in rows))


@pytest.mark.slow
def test_one_question_as_a_table(timermq: RunProgram) -> None:
    """People get a table, with the floor beside the figure."""
    done = timermq("bench", "idle", "--scale", "0.01")

    assert "% of a core" in done.out
    assert len(QUESTIONS) == 10


def test_a_figure_outside_its_floor_does_not_pass() -> None:
    """Rates must be reached, everything else must not be exceeded; without a floor all passes."""
    rate = rate_figure(
        "steady",
        floor=60_000,
        messages=1_000,
        seconds=1,
        cpu_seconds=0.02,
        calibration_ms=2.8,
    )

    assert round(rate.value) == 50_000
    assert not rate.passes
    assert Figure(question="q", value=9, unit="ms", floor=10).passes
    assert not Figure(question="q", value=11, unit="ms", floor=10).passes
    assert Figure(question="q", value=11, unit="ms").passes


@pytest.mark.slow
def test_steps() -> None:
    """The bench of single steps runs and names each of them."""
    done = subprocess.run(
        [sys.executable, str(PERF / "bench_steps.py"), "--count", "300"],
        check=True,
        capture_output=True,
        text=True,
    )

    for name in ("receive", "append", "enqueue", "deliver", "pull", "answer", "calibration"):
        assert name in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="instructions are counted by valgrind")
def test_instructions_have_not_grown() -> None:
    """No step takes more instructions a message than the kept counts say."""
    done = subprocess.run(
        [sys.executable, str(PERF / "instructions.py")],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    steps = {"send", "append", "enqueue", "deliver", "pull", "cancel", "copy"}
    assert steps == set(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "scale", "found"),
    [
        ("bench_burst_lateness.py", ("--count", "500"), "neighbours"),
        ("bench_pending_cost.py", ("--most", "10000", "--count", "200"), "points"),
        ("bench_promises.py", ("--count", "300", "--rounds", "2", "--cpu-only"), "costs"),
        ("record.py", ("replication", "--scale", "0.003"), "answers"),
        ("record.py", ("questions", "sync", "--scale", "0.01", "--asks", "2"), "answers"),
    ],
)
def test_what_the_pages_are_made_from(script: str, scale: tuple[str, ...], found: str) -> None:
    """Every kept result can be measured again; on a small scale it is only printed."""
    done = subprocess.run(
        [sys.executable, str(PERF / script), *scale], check=True, capture_output=True, text=True
    )
    result = json.loads(done.stdout[done.stdout.index("{") :])

    assert result[found]
    assert result["machine"]["calibration_ms"] > 0
