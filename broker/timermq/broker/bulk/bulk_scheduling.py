"""Bulk scheduling of a broker: its jobs, their requests, and the task that ingests."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from timermq.pipeline.run_admission import RunAdmission
from timermq.pipeline.timer_message_store import TimerMessageStore

from ..options import BrokerOptions
from ..sending.message_stamp import MessageStamp
from ..sending.send_checks import SendChecks
from ..topic_config import TopicConfigTable
from .bulk_jobs import BulkJobs
from .bulk_processor import BulkProcessor
from .bulk_topics import BulkTopics
from .ingest_task import IngestTask


@attrs.frozen(eq=False, kw_only=True)
class BulkScheduling:
    """The processor of the jobs' requests, and the task that ingests their rows."""

    processor: BulkProcessor
    ingest_task: IngestTask

    @classmethod
    def build(
        cls,
        *,
        options: BrokerOptions,
        timer_store: TimerMessageStore,
        columns: RunAdmission,
        topics: TopicConfigTable,
        checks: SendChecks,
        stamp: MessageStamp,
        now_ms: Callable[[], int],
    ) -> BulkScheduling:
        """Make both; jobs that an earlier process has left are found here."""
        jobs = BulkJobs(timer_store.store, options, now_ms)
        bulk_topics = BulkTopics(checks, options)
        return cls(
            processor=BulkProcessor(
                jobs=jobs,
                timer_store=timer_store,
                topics=topics,
                options=options,
                stamp=stamp,
                bulk_topics=bulk_topics,
            ),
            ingest_task=IngestTask(
                jobs=jobs,
                timer_store=timer_store,
                columns=columns,
                bulk_topics=bulk_topics,
                stamp=stamp,
            ),
        )
