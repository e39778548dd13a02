"""Bulk jobs of a simulation: any client runs any of them, from its beginning, as often as planned.

What a driver was told is kept for all of them: a job has one moment, is decided once, and counts
never fewer rows than before. Its rows are messages like others, known by a key, since the broker
makes their unique keys. What became of them is told when the job is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import attrs
import numpy as np
import trio

from timermq.client.history import Ack, Event, Refused, Send
from timermq.remoting import Command, ResponseCode
from timermq.remoting.bulk import (
    AskStatus,
    CommitJob,
    JobOpened,
    JobState,
    JobStatus,
    OpenJob,
    StageBlock,
    bulk_request,
    stage_request,
)
from timermq.remoting.bulk_block import BulkBlock, BulkColumn

from ..steps import Item, Schedule, When, unique_key
from .staged_clock import StagedClock
from .staged_link import StagedLink
from .staged_message import body_of

DIFFERS = "BULK_JOB_DIFFERS"
BLOCK_ROWS = 4
PART_ROWS = 10
SETTLE_MAX = 400
"""Seconds that a job is waited for in the end."""
REFUSED_MAX = 1_000


@attrs.define(eq=False)
class BulkLedger:
    """The answers to drivers about the jobs of one simulation."""

    tell: Callable[[Event], None]
    complain: Callable[[str], None]
    counts: Counter[str]
    job_ms: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    decided: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    """Job to the variant of its rows that counts."""
    adopted: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    parts: dict[str, tuple[Item, ...]] = attrs.field(
        factory=dict[str, tuple[Item, ...]], init=False
    )
    """By the name of each part that was staged."""
    runs: int = attrs.field(default=0, init=False)
    _sent: set[tuple[str, int]] = attrs.field(factory=set[tuple[str, int]], init=False)

    def opened(self, step: Schedule, opened: JobOpened, *, was_decided: bool) -> None:
        """A job was opened, or was there; ``was_decided`` as the request left."""
        first_ms = self.job_ms.setdefault(step.job, opened.job_ms)
        if opened.job_ms != first_ms:
            self.complain(f"job {step.job} had the moment {first_ms}, found {opened.job_ms}")
        if opened.state is JobState.OPEN and was_decided:
            self.complain(f"the decision about job {step.job} was lost")

    def decide(self, step: Schedule) -> None:
        """The rows of this run count."""
        variant = self.decided.setdefault(step.job, step.variant)
        if variant != step.variant:
            self.complain(f"job {step.job} has rows {variant}, rows {step.variant} were taken too")

    def refuse(self, step: Schedule, rule: str) -> None:
        """Complain if a job refused the very rows that it had taken."""
        if rule == DIFFERS and self.decided.get(step.job) == step.variant:
            self.complain(f"job {step.job}: {DIFFERS}, and the rows are the same")

    def look(self, job: str, status: JobStatus, adopted: int) -> None:
        """How far a job is; so many rows it had adopted as the request left."""
        if status.adopted < adopted:
            self.complain(f"job {job} had {adopted} rows adopted, found {status.adopted}")
        self.adopted[job] = max(status.adopted, self.adopted.get(job, 0))

    def send(self, step: Schedule, now_ms: int) -> None:
        """Rows are about to be handed over, once for all runs."""
        if (step.job, step.variant) in self._sent:
            return
        self._sent.add((step.job, step.variant))
        for item in step.rows:
            moment_ms = self.moment_ms(step.job, item)
            self.tell(
                Send(
                    at_ms=now_ms,
                    who=f"job-{step.job}",
                    message_id=unique_key(item.number),
                    topic=item.topic,
                    queue=item.queue_id,
                    deliver_ms=moment_ms or None,
                )
            )

    def settle(self, step: Schedule, refused: Counter[int], now_ms: int) -> None:
        """A job is done: tell what became of these rows."""
        if (step.job, step.variant) not in self._sent:
            return
        counts = self.decided.get(step.job) == step.variant
        for item in step.rows:
            name, who = unique_key(item.number), f"job-{step.job}"
            if not counts or refused[item.number]:
                rule = "REFUSED_ROW" if counts else DIFFERS
                self.tell(Refused(at_ms=now_ms, who=who, message_id=name, rule=rule))
                continue
            moment_ms = self.moment_ms(step.job, item)
            # Its place is not told: without a moment it was any time ago.
            self.tell(
                Ack(
                    at_ms=now_ms,
                    who=who,
                    message_id=name,
                    queue=item.queue_id,
                    offset=0,
                    deliver_ms=None if moment_ms else 0,
                )
            )

    def moment_ms(self, job: str, item: Item) -> int:
        """The moment of a row; 0: at once."""
        return self.job_ms[job] + item.ahead_ms if item.when is When.AT else 0


@attrs.define(eq=False)
class StagedBulk:
    """The jobs as one client runs them."""

    link: StagedLink
    clock: StagedClock
    ledger: BulkLedger

    async def run(self, step: Schedule) -> None:
        """Run a job from its beginning, until it is decided or a request is not answered."""
        ledger, was_decided = self.ledger, step.job in self.ledger.decided
        answer = await self._ask(
            step, bulk_request(step.job, OpenJob(topics=(step.rows[0].topic,)))
        )
        if answer is None:
            return
        opened = JobOpened.decode(answer.body)
        ledger.opened(step, opened, was_decided=was_decided)
        if opened.state is not JobState.OPEN:
            await self._look(step)
            return
        ledger.send(step, self.clock.now_ms())
        parts = await self._stage(step)
        if parts is None:
            return
        wanted = CommitJob(parts=tuple(parts), fingerprint=_fingerprint(step))
        answer = await self._ask(step, bulk_request(step.job, wanted))
        if answer is not None:
            ledger.decide(step)
            ledger.look(step.job, JobStatus.decode(answer.body), 0)
            ledger.counts["bulk: handed over"] += 1

    async def settle(self, steps: Sequence[Schedule]) -> None:
        """Run each job to its end, and tell what became of all rows."""
        for step in steps:
            await self.run(step)
        for step in steps:
            refused = Counter[int]()
            if self.ledger.decided.get(step.job) == step.variant:
                refused = await self._wait_done(step)
            self.ledger.settle(step, refused, self.clock.now_ms())

    async def _wait_done(self, step: Schedule) -> Counter[int]:
        """Numbers of the refused rows of a job, once it is done."""
        for _ in range(SETTLE_MAX):
            status = await self._look(step)
            if status is not None and status.state is JobState.DONE:
                if status.adopted + status.refused != len(step.rows):
                    self.ledger.complain(
                        f"job {step.job} has {len(step.rows)} rows, found {status.adopted} "
                        f"adopted and {status.refused} refused"
                    )
                self.ledger.counts["bulk: rows adopted"] += status.adopted
                for _, _, rule, _ in status.refused_rows:
                    self.ledger.counts[f"bulk refuses: {rule}"] += 1
                return Counter(
                    self.ledger.parts[part][row].number for part, row, _, _ in status.refused_rows
                )
            await trio.sleep(1)
        self.ledger.complain(f"job {step.job} is not done after {SETTLE_MAX} s")
        return Counter()

    async def _look(self, step: Schedule) -> JobStatus | None:
        """Ask how far a job is that is decided, by the rows of this run."""
        adopted = self.ledger.adopted.get(step.job, 0)
        wanted = AskStatus(limit=REFUSED_MAX, fingerprint=_fingerprint(step))
        answer = await self._ask(step, bulk_request(step.job, wanted))
        if answer is None:
            return None
        status = JobStatus.decode(answer.body)
        if status.state is not JobState.OPEN:
            self.ledger.decide(step)
        self.ledger.look(step.job, status, adopted)
        return status

    async def _stage(self, step: Schedule) -> list[tuple[str, int]] | None:
        """Stage all rows; None where a block was not taken."""
        self.ledger.runs += 1
        run = self.ledger.runs  # others begin while this one waits for answers
        parts: list[tuple[str, int]] = []
        for nth, start in enumerate(range(0, len(step.rows), PART_ROWS)):
            rows = step.rows[start : start + PART_ROWS]
            name = f"run{run}-{nth}"
            self.ledger.parts[name] = rows
            for number, at in enumerate(range(0, len(rows), BLOCK_ROWS)):
                stage = StageBlock(
                    job=step.job,
                    part=name,
                    block=number,
                    is_last=at + BLOCK_ROWS >= len(rows),
                    topic=rows[0].topic,
                )
                block = self._block(step.job, rows[at : at + BLOCK_ROWS])
                if await self._ask(step, stage_request(stage, block)) is None:
                    return None
            parts.append((name, len(rows)))
        return parts

    def _block(self, job: str, rows: tuple[Item, ...]) -> bytes:
        moments = [self.ledger.moment_ms(job, item) for item in rows]
        names = BulkColumn.of([unique_key(item.number).encode() for item in rows])
        return BulkBlock.of(
            rows[0].topic,
            BulkColumn.of([body_of(item) for item in rows]),
            deliver_ms=np.array(moments, np.int64),
            queue_ids=np.array([item.queue_id for item in rows], np.int32),
            properties={"KEYS": names},
        ).encode()

    async def _ask(self, step: Schedule, command: Command) -> Command | None:
        """The answer to a request that was granted."""
        answers = await self.link.ask([command])
        answer = answers[0] if answers else None
        if answer is None or answer.code == ResponseCode.SUCCESS:
            return answer
        rule = (answer.remark or "").partition(":")[0]
        self.ledger.refuse(step, rule)
        return None


def _fingerprint(step: Schedule) -> str:
    return f"rows-{step.variant}"
