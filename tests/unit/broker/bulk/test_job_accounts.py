"""Whose a job is: no account decides, fills, empties or crowds out that of another."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
from trio.testing import MockClock

from broker_rig import BROKER, RunningBroker, running_broker
from bulk_driver import SignedDriver, read, refusal_in, small_block
from signed import write_rules
from timermq.remoting.bulk import (
    AskStatus,
    CommitJob,
    DropParts,
    JobStatus,
    OpenJob,
    bulk_request,
)

RULES = """accounts:
- {accessKey: victimV, secretKey: hidden-secret, topicPerms: [V=PUB|SUB, T=PUB]}
- {accessKey: accountA, secretKey: hidden-secret, topicPerms: [A=PUB|SUB, T=PUB]}
- {accessKey: powerless, secretKey: hidden-secret, topicPerms: [V=SUB]}
- {accessKey: operator, secretKey: hidden-secret, admin: true}
"""


@asynccontextmanager
async def guarded(directory: Path, jobs_max: int = 100) -> AsyncGenerator[RunningBroker]:
    """A broker with access control."""
    path = write_rules(directory, RULES)
    options = attrs.evolve(BROKER, acl_enable=True, acl_file=path, bulk_jobs_max=jobs_max)
    async with running_broker(options=options) as running:
        yield running


async def test_anothers_job(tmp_path: Path, autojump_clock: MockClock) -> None:
    """It is not decided by a commit of nothing, not filled, emptied or shown."""
    async with guarded(tmp_path) as running:
        own = SignedDriver(running.connect(), "victimV")
        await own.open("V")
        await own.stage("a", small_block(["row"], topic="V"))
        for account in ("accountA", "powerless"):
            other = SignedDriver(running.connect(), account)
            for request in (CommitJob(parts=()), DropParts(parts=("a",)), AskStatus()):
                assert refusal_in(await other.ask(bulk_request("J", request))) == "BULK_JOB"
        other = SignedDriver(running.connect(), "accountA")
        block = small_block(["foreign"], topic="A")
        assert refusal_in(await other.stage_block("b", 0, block, is_last=True)) == "BULK_JOB"
        assert refusal_in(await other.ask(bulk_request("J", OpenJob(topics=("A",))))) == "BULK_JOB"
        status = read(JobStatus, await own.commit(("a", 1)))

        assert (status.rows, status.taken) == (1, True)


async def test_an_operator_may(tmp_path: Path, autojump_clock: MockClock) -> None:
    """An administrator also commits jobs of others."""
    async with guarded(tmp_path) as running:
        await SignedDriver(running.connect(), "victimV").open("V")
        operator = SignedDriver(running.connect(), "operator")

        assert read(JobStatus, await operator.commit()).taken


async def test_who_may_send_nowhere_opens_no_job(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Nor by naming no topic."""
    async with guarded(tmp_path) as running:
        driver = SignedDriver(running.connect(), "powerless")

        assert (await driver.ask(bulk_request("J", OpenJob()))).code == 16


async def test_an_account_leaves_room_for_others(tmp_path: Path, autojump_clock: MockClock) -> None:
    """It has as many jobs as are left for others; another one opens its own still."""
    async with guarded(tmp_path, jobs_max=8) as running:
        peer = running.connect()
        answers = [
            await SignedDriver(peer, "accountA").ask(bulk_request(f"A{n}", OpenJob(topics=("A",))))
            for n in range(6)
        ]
        await SignedDriver(running.connect(), "victimV").open("V")

        assert [answer.code for answer in answers] == [0, 0, 0, 0, 2, 2]
        assert refusal_in(answers[-1]) == "BULK_JOBS_MAX"
