"""The processors of operators' requests, and what they alone share.

RocketMQ has them all in one class, ``AdminBrokerProcessor``; here each family has its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.pipeline.clock.clock import WatchedClock
from timermq.pipeline.timer_message_store import TimerMessageStore

from ..dispatcher import Handler
from ..options import BrokerOptions
from ..tables import Tables
from .broker_info_processor import BrokerInfoProcessor
from .connection_list_processor import ConnectionListProcessor
from .consume_stats_processor import ConsumeStatsProcessor
from .group_processor import GroupProcessor
from .offset_reset_processor import OffsetResetProcessor
from .topic_processor import Saved, TopicProcessor


@attrs.frozen(eq=False, kw_only=True)
class AdminProcessors:
    """The processors of operators' requests, one for each family."""

    topic: TopicProcessor
    group: GroupProcessor
    info: BrokerInfoProcessor
    connections: ConnectionListProcessor
    consume_stats: ConsumeStatsProcessor
    offset_reset: OffsetResetProcessor

    @classmethod
    def build(
        cls,
        *,
        options: BrokerOptions,
        tables: Tables,
        timer_store: TimerMessageStore,
        clock: WatchedClock,
        address: str,
        saved: Saved,
    ) -> AdminProcessors:
        """Make all of them; ``saved`` waits until the tables are on the disk."""
        store, topics, groups = timer_store.store, tables.topics, tables.groups
        offsets, clients = tables.offsets, tables.clients
        return cls(
            topic=TopicProcessor(
                options=options,
                timer_store=timer_store,
                topics=topics,
                offsets=offsets,
                resets=tables.resets,
                long_polling=tables.long_polling,
                rates=tables.rates,
                made=tables.topics_made,
                saved=saved,
                now_ms=clock.now_ms,
            ),
            group=GroupProcessor(
                groups=groups,
                topics=topics,
                offsets=offsets,
                resets=tables.resets,
                rates=tables.rates,
                made=tables.groups_made,
                saved=saved,
            ),
            info=BrokerInfoProcessor(
                options=options,
                timer_store=timer_store,
                topics=topics,
                offsets=offsets,
                rates=tables.rates,
                now_ms=clock.now_ms,
                started_ms=clock.now_ms(),
            ),
            connections=ConnectionListProcessor(
                store=store,
                clients=clients,
                offsets=offsets,
                calls=tables.calls,
                now_ms=clock.now_ms,
            ),
            consume_stats=ConsumeStatsProcessor(
                options=options,
                store=store,
                topics=topics,
                groups=groups,
                offsets=offsets,
                clients=clients,
                rates=tables.rates,
                address=address,
            ),
            offset_reset=OffsetResetProcessor(
                options=options,
                store=store,
                topics=topics,
                groups=groups,
                offsets=offsets,
                resets=tables.resets,
                clients=clients,
                long_polling=tables.long_polling,
                saved=saved,
            ),
        )

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            **self.topic.handlers(),
            **self.group.handlers(),
            **self.info.handlers(),
            **self.connections.handlers(),
            **self.consume_stats.handlers(),
            **self.offset_reset.handlers(),
        }
