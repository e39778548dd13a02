"""A file of results, by which a long run goes on where it was ended."""

from __future__ import annotations

from pathlib import Path

from timermq.simulator.seed_results import SeedResults
from timermq.simulator.seeds import SeedResult

RUN_WITH = {"days": 0.5, "brokers": 2, "lease": False, "faults": "kill"}


def result(seed: int, *faults: str) -> SeedResult:
    """What one seed comes to."""
    return SeedResult(
        seed=seed,
        digest=f"{seed:x}",
        faults=faults,
        crashes=1,
        operations=2,
        virtual_ms=3,
        cpu_ms=4,
        counts={"kills": 5},
    )


def test_what_kept_every_promise_is_not_run_again(tmp_path: Path) -> None:
    """A seed that broke one is, and so are those that were not asked for."""
    results = SeedResults(tmp_path / "seeds", RUN_WITH)
    assert [] == list(results.load(range(9)))
    results.add([result(1), result(2, "NOT_LOST")])
    results.add([result(3), result(12)])

    assert [result(1), result(3)] == list(results.load(range(9)))


def test_results_of_other_runs_are_none_of_these(tmp_path: Path) -> None:
    """Runs of other lengths and of more brokers share the file."""
    results = SeedResults(tmp_path / "seeds", RUN_WITH)
    SeedResults(results.path, {**RUN_WITH, "brokers": 3}).add([result(1)])

    assert [] == list(results.load([1]))


def test_a_line_that_was_cut_off_counts_as_none(tmp_path: Path) -> None:
    """As after a run that was killed while it wrote."""
    results = SeedResults(tmp_path / "seeds", RUN_WITH)
    results.add([result(1), result(2)])
    results.path.write_bytes(results.path.read_bytes()[:-9])

    assert [result(1)] == list(results.load([1, 2]))
