"""What the simulation knows of the parts of its bulk jobs."""

from __future__ import annotations

from collections import Counter
from random import Random

import trio
import trio.testing

from timermq.client.history import Event
from timermq.remoting import Command, RequestCode, ResponseCode
from timermq.remoting.bulk import BulkLimits, CommitJob, JobOpened, JobState, JobStatus
from timermq.simulator.scenario import NetworkPlan
from timermq.simulator.staged.staged_bulk import PART_ROWS, BulkLedger, StagedBulk
from timermq.simulator.staged.staged_clock import StagedClock
from timermq.simulator.staged.staged_link import StagedLink
from timermq.simulator.staged.staged_network import StagedNetwork
from timermq.simulator.steps import Item, Schedule

LIMITS = BulkLimits(
    precision_ms=100,
    delay_max_ms=0,
    level_ms=(),
    body_size_max=0,
    properties_size_max=0,
    own_properties_size=0,
    block_size_max=0,
    block_rows_max=0,
    part_size_max=0,
    parts_max=0,
)


class Link(StagedLink):
    """Grants everything, a second later."""

    def __init__(self) -> None:
        network = StagedNetwork(Random(1), NetworkPlan())
        super().__init__(network, lambda: None, Counter[str](), lambda _: None)
        self.parts: tuple[str, ...] = ()
        """Those that were handed over."""

    async def ask(self, commands: list[Command]) -> list[Command | None] | None:
        """Grant the one request after a second, and note what was handed over."""
        await trio.sleep(1)
        (request,) = commands
        body = b""
        if request.code == RequestCode.BULK_OPEN:
            body = JobOpened(state=JobState.OPEN, job_ms=1, limits=LIMITS, queue_counts={}).encode()
        elif request.code == RequestCode.BULK_COMMIT:
            self.parts = tuple(name for name, _ in CommitJob.decode(request.body).parts)
            body = JobStatus(state=JobState.COMMITTED, job_ms=1).encode()
        return [request.answer(ResponseCode.SUCCESS, body=body)]


def job(name: str, first: int) -> Schedule:
    """A job of three parts."""
    rows = [Item(number=first + nth, topic="A", queue_id=0) for nth in range(3 * PART_ROWS)]
    return Schedule(at_ms=0, job=name, variant=0, rows=tuple(rows))


async def test_parts_of_two_jobs_that_are_staged_at_a_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A part is known by its name, so each has one of its own: refused rows are told by it."""
    told = list[Event]()
    ledger = BulkLedger(told.append, lambda _: None, Counter[str]())
    jobs, links = [job("J0", 700_000), job("J1", 701_000)], [Link(), Link()]

    async def run(step: Schedule, link: Link, after: float) -> None:
        await trio.sleep(after)
        await StagedBulk(link, StagedClock(), ledger).run(step)

    async with trio.open_nursery() as nursery:
        for at, (step, link) in enumerate(zip(jobs, links, strict=True)):
            nursery.start_soon(run, step, link, 2.5 * at)

    for step, link in zip(jobs, links, strict=True):
        assert step.rows == tuple(row for name in link.parts for row in ledger.parts[name])
