"""How far many seeds are, where there is no terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from timermq.simulator.plans.base_plan import DAY_MS
from timermq.simulator.progress import SEEDS_A_LINE, Progress
from timermq.simulator.seeds import SeedResult


def result(seed: int, *faults: str) -> SeedResult:
    """What a day of two crashes and 3,000 operations in two seconds comes to."""
    return SeedResult(
        seed=seed,
        digest="",
        faults=faults,
        crashes=2,
        operations=3_000,
        virtual_ms=DAY_MS,
        cpu_ms=2_000,
    )


def test_a_line_now_and_then() -> None:
    """Each tells of all seeds so far, and single ones do not matter."""
    shown = StringIO()
    with Progress(2 * SEEDS_A_LINE, Console(file=shown)) as progress:
        for seed in range(SEEDS_A_LINE + 1):
            progress.add(result(seed, *(["NOT_LOST"] if seed == 3 else [])))

    assert [
        "timermq: simulate: 25 seeds, 25.0 virtual days, 50 crashes, 75000 operations, "
        "50 s of the processor with 1500 operations in each, 1 broken"
    ] == shown.getvalue().splitlines()


def test_what_is_told_comes_at_once() -> None:
    """A seed that fails is named when it has failed, as it is written."""
    shown = StringIO()
    with Progress(2, Console(file=shown)) as progress:
        progress.tell("seed 3 [queue 0]: NOT_LOST")

        assert "timermq: simulate: seed 3 [queue 0]: NOT_LOST\n" == shown.getvalue()
