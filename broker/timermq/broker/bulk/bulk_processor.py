"""BULK_OPEN, BULK_STAGE, BULK_COMMIT, BULK_STATUS, BULK_DROP: see ``timermq.remoting.bulk``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from timermq.pipeline.admission.run_request import OWN_PROPERTIES_SIZE_MAX
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.remoting.bulk import (
    PARTS_MAX,
    AskStatus,
    BlockStaged,
    BulkLimits,
    CommitJob,
    DropParts,
    JobOpened,
    JobStatus,
    OpenJob,
    PartsDropped,
    StageBlock,
    job_of,
)
from timermq.remoting.bulk_block import BLOCK_SIZE_MAX, ROWS_MAX
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command

from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..options import BrokerOptions
from ..refusal import RefusedError
from ..sending.message_stamp import MessageStamp
from ..session import Session
from ..speaker import Speaker
from ..topic_config import TopicConfigTable
from .block_rows import own_size
from .bulk_job import BulkJob
from .bulk_jobs import BulkJobs, not_open
from .bulk_topics import BulkTopics
from .staged_part import StagedPart


@attrs.frozen(eq=False, kw_only=True)
class BulkProcessor:
    """Answers the requests of bulk jobs."""

    jobs: BulkJobs
    timer_store: TimerMessageStore
    topics: TopicConfigTable
    options: BrokerOptions
    stamp: MessageStamp
    bulk_topics: BulkTopics

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.BULK_OPEN: self.open,
            RequestCode.BULK_STAGE: self.stage,
            RequestCode.BULK_COMMIT: self.commit,
            RequestCode.BULK_STATUS: self.status,
            RequestCode.BULK_DROP: self.drop,
        }

    def open(self, session: Session, command: Command) -> None:
        """Begin a job, or say how far it is; answered when its moment is durable."""
        name, asked, speaker = job_of(command), OpenJob.decode(command.body), session.speaker

        async def work() -> Command:
            job = await self.jobs.open(name, asked.owner, speaker.account)
            self._check_account(speaker, job)
            configs = {topic: self.topics.get(topic) for topic in asked.topics}
            opened = JobOpened(
                state=job.state,
                job_ms=job.job_ms,
                limits=self.limits(),
                queue_counts={
                    topic: 0 if config is None else config.queue_nums
                    for topic, config in configs.items()
                },
                refused_topics=self._refused_topics(speaker, asked.topics),
            )
            return command.answer(ResponseCode.SUCCESS, body=opened.encode())

        answer_later(session, command, work)

    def stage(self, session: Session, command: Command) -> Command | None:
        """Take a block; the last one is answered when the part is durable."""
        stage = StageBlock.of(command)
        job = self._job(session, stage.job)
        part = self.jobs.stage(stage, command.body)
        if not part.has_last:
            return _staged(command, part)

        async def work() -> Command:
            await self.jobs.finish(job, stage.part, part)
            return _staged(command, part)

        answer_later(session, command, work)
        return None

    def commit(self, session: Session, command: Command) -> None:
        """Commit a job; answered when its commit is durable, this one or an earlier one."""
        job, wanted = self._job(session, job_of(command)), CommitJob.decode(command.body)
        born_host, may_send = session.born_host, session.speaker.may_send

        async def work() -> Command:
            taken = await self.jobs.commit(job, wanted, born_host=born_host, may_send=may_send)
            return _status(command, attrs.evolve(job.status(), taken=taken))

        answer_later(session, command, work)

    def status(self, session: Session, command: Command) -> Command:
        """How far a job is, and some of its refused rows."""
        job, asked = self._job(session, job_of(command)), AskStatus.decode(command.body)
        self._check_right(session.speaker, job)
        job.check_fingerprint(asked.fingerprint)
        refused_rows = job.refused_rows(self.timer_store.store.disk)
        rows, following = refused_rows.page(asked.after, asked.limit)
        return _status(
            command, attrs.evolve(job.status(), refused_rows=tuple(rows), next=following)
        )

    def drop(self, session: Session, command: Command) -> None:
        """Let parts of an open job go."""
        job, asked = self._job(session, job_of(command)), DropParts.decode(command.body)

        async def work() -> Command:
            dropped = await self.jobs.drop(job, asked.parts, asked.prefix)
            return command.answer(ResponseCode.SUCCESS, body=PartsDropped(dropped=dropped).encode())

        answer_later(session, command, work)

    def limits(self) -> BulkLimits:
        """The limits of rows, blocks and parts, from the settings of store, timer and broker."""
        store, timer = self.timer_store.store.options, self.timer_store.options
        return BulkLimits(
            precision_ms=timer.timer_precision_ms,
            delay_max_ms=timer.timer_max_delay_sec * 1000 if timer.timer_wheel_enable else 0,
            level_ms=store.delay_levels_ms,
            body_size_max=store.max_message_size,
            properties_size_max=OWN_PROPERTIES_SIZE_MAX,
            own_properties_size=own_size(self.stamp.own),
            block_size_max=BLOCK_SIZE_MAX,
            block_rows_max=ROWS_MAX,
            part_size_max=self.options.bulk_staged_size_max,
            parts_max=PARTS_MAX,
        )

    def _refused_topics(self, speaker: Speaker, topics: Iterable[str]) -> dict[str, str]:
        """Topics that no row can go to, whenever it is ingested, each with the remark."""
        found: dict[str, str] = {}
        for topic in topics:
            try:
                if not speaker.may_send(topic):
                    raise RefusedError(
                        ResponseCode.NO_PERMISSION, "NO_PERMISSION", f"no right to send to {topic}"
                    )
                self.bulk_topics.queues(topic)
            except RefusedError as error:
                if not self.bulk_topics.is_for_a_while(error):
                    found[topic] = error.remark
        return found

    def _job(self, session: Session, name: str) -> BulkJob:
        """A job that who speaks may work on.

        Raises:
            RefusedError: There is none of his; another's is not told from none.
        """
        job = self.jobs.get(name)
        self._check_account(session.speaker, job)
        return job

    @staticmethod
    def _check_account(speaker: Speaker, job: BulkJob) -> None:
        """Refuse another account's job; one without an account is for who may send to all of it."""
        account = speaker.account
        if not account or job.account == account:
            return
        if job.account or not job.topics or not all(map(speaker.may_send, job.topics)):
            raise not_open(job.name)

    @staticmethod
    def _check_right(speaker: Speaker, job: BulkJob) -> None:
        if not all(map(speaker.may_send, job.topics)):
            raise RefusedError(
                ResponseCode.NO_PERMISSION, "NO_PERMISSION", "no right to send to a topic of it"
            )


def _staged(command: Command, part: StagedPart) -> Command:
    staged = BlockStaged(rows=part.rows, is_whole=part.is_whole)
    return command.answer(ResponseCode.SUCCESS, body=staged.encode())


def _status(command: Command, status: JobStatus) -> Command:
    return command.answer(ResponseCode.SUCCESS, body=status.encode())
