"""Runs many seeds, in several processes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

import attrs

from .draw import draw_scenario
from .replicas.replica_plan import draw_replicas
from .replicas.replica_scenario import ReplicaScenario
from .run import simulate
from .scenario import FaultKind, Scenario


@attrs.frozen(kw_only=True)
class SeedResult:
    """The result of the simulation of one seed."""

    seed: int
    digest: str
    """A hash of its history."""
    faults: tuple[str, ...]
    crashes: int
    operations: int
    virtual_ms: int
    cpu_ms: int
    """Seconds of the processor that it took."""
    counts: Mapping[str, int] = {}
    """The events by name, and their counts."""

    def row(self) -> Mapping[str, object]:
        """The result as one line of text."""
        return attrs.asdict(self)


def draw_plan(
    seed: int,
    *,
    days: float,
    faults: Collection[FaultKind],
    brokers: int = 1,
    has_lease: bool = False,
) -> Scenario | ReplicaScenario:
    """The plan of a seed: of one broker, or of replicas.

    Args:
        seed: Decides everything.
        days: Virtual days.
        faults: The faults of one broker; replicas have their own.
        brokers: 1, 2 or 3.
        has_lease: Whether a lease says which of several leads, in place of an operator.
    """
    if brokers == 1:
        return draw_scenario(seed, days=days, faults=faults)
    return draw_replicas(seed, brokers=brokers, days=days, has_lease=has_lease)


def run_seed(
    seed: int,
    *,
    days: float,
    faults: Collection[FaultKind],
    brokers: int = 1,
    has_lease: bool = False,
) -> SeedResult:
    """Draw a seed and carry it out."""
    begun = time.process_time()
    plan = draw_plan(seed, days=days, faults=faults, brokers=brokers, has_lease=has_lease)
    outcome = simulate(plan)
    return SeedResult(
        seed=seed,
        digest=outcome.digest,
        faults=outcome.faults,
        crashes=outcome.crashes,
        operations=outcome.operations,
        virtual_ms=outcome.virtual_ms,
        counts=outcome.counts,
        cpu_ms=round((time.process_time() - begun) * 1000),
    )


def run_seeds(
    seeds: Iterable[int],
    *,
    days: float,
    faults: Collection[FaultKind],
    jobs: int = 1,
    brokers: int = 1,
    has_lease: bool = False,
) -> Iterator[SeedResult]:
    """Results as they come: with several processes not in the order of the seeds.

    Args:
        seeds: Which.
        days: Virtual days of each.
        faults: What may go wrong.
        jobs: Processes.
        brokers: Brokers of one name.
        has_lease: Whether a lease says which of several leads.
    """
    run = partial(
        run_seed, days=days, faults=frozenset(faults), brokers=brokers, has_lease=has_lease
    )
    if jobs == 1:
        yield from map(run, seeds)
        return
    # Not a fork: each begins with a clean interpreter, whatever this one has loaded.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            for done in as_completed([pool.submit(run, seed) for seed in seeds]):
                yield done.result()
        finally:
            # A caller that does not want the rest need not wait for it.
            pool.shutdown(cancel_futures=True)
