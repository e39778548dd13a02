"""The processors of operators' requests, and what they alone share.

RocketMQ has them all in one class, ``AdminBrokerProcessor``; here each family has its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ..broker_parts import BrokerParts
from ..dispatcher import Handler
from .broker_info_processor import BrokerInfoProcessor
from .cold_data_processor import ColdDataProcessor
from .connection_list_processor import ConnectionListProcessor
from .consume_stats_processor import ConsumeStatsProcessor
from .group_processor import GroupProcessor
from .offset_reset_processor import OffsetResetProcessor
from .replica_processor import ReplicaProcessor
from .request_mode_processor import RequestModeProcessor
from .runtime_info import RuntimeInfo
from .topic_deletion_processor import TopicDeletionProcessor
from .topic_processor import Saved, TopicProcessor


@attrs.frozen(eq=False, kw_only=True)
class AdminProcessors:
    """The processors of operators' requests, one for each family."""

    topic: TopicProcessor
    topic_deletion: TopicDeletionProcessor
    group: GroupProcessor
    info: BrokerInfoProcessor
    connections: ConnectionListProcessor
    consume_stats: ConsumeStatsProcessor
    offset_reset: OffsetResetProcessor
    replica: ReplicaProcessor
    cold_data: ColdDataProcessor
    request_mode: RequestModeProcessor

    @classmethod
    def build(cls, parts: BrokerParts, saved: Saved) -> AdminProcessors:
        """Make all of them; ``saved`` waits until the tables are on the disk."""
        make, tables = parts.make, parts.tables
        return cls(
            topic=make(TopicProcessor, made=tables.topics_made, saved=saved),
            topic_deletion=make(TopicDeletionProcessor, saved=saved),
            group=make(GroupProcessor, made=tables.groups_made, saved=saved),
            info=make(BrokerInfoProcessor, runtime=make(RuntimeInfo, started_ms=parts.now_ms())),
            connections=make(ConnectionListProcessor),
            consume_stats=make(ConsumeStatsProcessor),
            offset_reset=make(OffsetResetProcessor, saved=saved),
            replica=make(ReplicaProcessor),
            cold_data=make(ColdDataProcessor),
            request_mode=make(RequestModeProcessor),
        )

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            **self.topic.handlers(),
            **self.topic_deletion.handlers(),
            **self.group.handlers(),
            **self.info.handlers(),
            **self.connections.handlers(),
            **self.consume_stats.handlers(),
            **self.offset_reset.handlers(),
            **self.replica.handlers(),
            **self.cold_data.handlers(),
            **self.request_mode.handlers(),
        }
