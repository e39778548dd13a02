"""Bulk scheduling of a broker: its jobs, the door for them, and the task that adopts."""

from __future__ import annotations

import attrs

from ..broker_parts import BrokerParts
from .adopter import Adopter
from .bulk_jobs import BulkJobs
from .bulk_processor import BulkProcessor
from .topic_gate import TopicGate


@attrs.frozen(eq=False, kw_only=True)
class BulkScheduling:
    """The parts."""

    processor: BulkProcessor
    adopter: Adopter

    @classmethod
    def build(cls, parts: BrokerParts) -> BulkScheduling:
        """Make all of it; jobs that a process before has left are found here."""
        jobs = BulkJobs(parts.store, parts.options, parts.now_ms)
        gate = TopicGate(parts.checks, parts.options)
        return cls(
            processor=parts.make(BulkProcessor, jobs=jobs, gate=gate),
            adopter=Adopter(
                jobs=jobs,
                timer_store=parts.timer_store,
                columns=parts.columns,
                gate=gate,
                stamp=parts.stamp,
            ),
        )
