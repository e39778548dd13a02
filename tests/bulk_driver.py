"""A driver of bulk scheduling for tests: blocks of few rows, and the requests of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from broker_rig import Peer
from signed import sign
from timermq.remoting import Command, ResponseCode
from timermq.remoting.bulk import (
    AskStatus,
    BlockStaged,
    CommitJob,
    DropParts,
    JobOpened,
    JobStatus,
    OpenJob,
    PartsDropped,
    StageBlock,
    bulk_request,
    stage_request,
)
from timermq.remoting.bulk_block import BulkBlock, BulkColumn

_Answer = TypeVar("_Answer", JobOpened, BlockStaged, JobStatus, PartsDropped)


def small_block(
    bodies: Sequence[str],
    *,
    topic: str = "T",
    deliver_ms: int | Sequence[int] = 0,
    keys: Sequence[str] | None = None,
    queue_id: int = 0,
) -> BulkBlock:
    """A block with a row a body."""
    moments = [deliver_ms] * len(bodies) if isinstance(deliver_ms, int) else deliver_ms
    columns = {} if keys is None else {"KEYS": BulkColumn.of([key.encode() for key in keys])}
    return BulkBlock.of(
        topic,
        BulkColumn.of([body.encode() for body in bodies]),
        deliver_ms=np.array(moments, np.int64),
        queue_ids=np.full(len(bodies), queue_id, np.int32),
        properties=columns,
    )


def refusal_in(answer: Command) -> str:
    """The rule by which a request was refused."""
    assert answer.code != ResponseCode.SUCCESS
    return (answer.remark or "").partition(":")[0]


def read(kind: type[_Answer], answer: Command) -> _Answer:
    """Decode the body of an answer that has to be a success."""
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return kind.decode(answer.body)


class Driver:
    """Driver and tasks of one job, over one connection."""

    def __init__(self, peer: Peer, job: str = "J") -> None:
        self.peer = peer
        self.job = job

    async def ask(self, command: Command) -> Command:
        """The answer to a request."""
        await self.peer.send(command)
        answer = await self.peer.receive()
        assert answer is not None
        return answer

    async def open(self, *topics: str) -> JobOpened:
        """BULK_OPEN: open the job for these topics."""
        request = bulk_request(self.job, OpenJob(topics=topics))
        return read(JobOpened, await self.ask(request))

    async def stage(self, part: str, *blocks: BulkBlock) -> BlockStaged:
        """BULK_STAGE of a whole part."""
        staged = BlockStaged(rows=0, is_whole=False)
        for number, block in enumerate(blocks):
            is_last = number == len(blocks) - 1
            staged = read(BlockStaged, await self.stage_block(part, number, block, is_last=is_last))
        return staged

    async def stage_block(
        self, part: str, number: int, block: BulkBlock, *, is_last: bool = False
    ) -> Command:
        """BULK_STAGE: stage one block of a part; the answer may be a refusal."""
        stage = StageBlock(
            job=self.job, part=part, block=number, is_last=is_last, topic=block.topic
        )
        return await self.ask(stage_request(stage, block.encode()))

    async def commit(self, *parts: tuple[str, int], fingerprint: str = "") -> Command:
        """BULK_COMMIT: decide the job by parts and their numbers of rows."""
        wanted = CommitJob(parts=parts, fingerprint=fingerprint)
        return await self.ask(bulk_request(self.job, wanted))

    async def status(self, *, after: int = 0, limit: int = 1000) -> JobStatus:
        """BULK_STATUS: how the job stands, with at most ``limit`` of its refused rows."""
        request = bulk_request(self.job, AskStatus(after=after, limit=limit))
        return read(JobStatus, await self.ask(request))

    async def drop(self, *parts: str, prefix: str = "") -> int:
        """BULK_DROP: drop parts by name or prefix; the number that was dropped."""
        request = bulk_request(self.job, DropParts(parts=parts, prefix=prefix))
        return read(PartsDropped, await self.ask(request)).dropped


class SignedDriver(Driver):
    """One whose requests an account signs."""

    def __init__(self, peer: Peer, account: str, job: str = "J") -> None:
        super().__init__(peer, job)
        self.account = account

    async def ask(self, command: Command) -> Command:
        """The answer to a signed request."""
        return await super().ask(sign(command, self.account))
