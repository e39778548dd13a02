"""Bulk scheduling of a broker: its jobs, their requests, and the task that ingests."""

from __future__ import annotations

import attrs

from ..broker_parts import BrokerParts
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
    def build(cls, parts: BrokerParts) -> BulkScheduling:
        """Make both; jobs that an earlier process has left are found here."""
        jobs = BulkJobs(parts.store, parts.options, parts.now_ms)
        bulk_topics = BulkTopics(parts.checks, parts.options)
        return cls(
            processor=parts.make(BulkProcessor, jobs=jobs, bulk_topics=bulk_topics),
            ingest_task=IngestTask(
                jobs=jobs,
                timer_store=parts.timer_store,
                run_admission=parts.run_admission,
                bulk_topics=bulk_topics,
                stamp=parts.stamp,
            ),
        )
