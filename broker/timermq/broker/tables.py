"""What the processors share."""

from __future__ import annotations

import attrs

from .broker_rates import BrokerRates
from .client_calls import ClientCalls
from .client_registry import ClientRegistry
from .consumer_offset import ConsumerOffsetTable
from .durable_answers import DurableAnswers
from .long_polling import LongPolling
from .offset_reset import OffsetResets
from .queue_lock import QueueLockTable
from .subscription_group import SubscriptionGroupTable
from .topic_config import TopicConfigTable


@attrs.frozen(eq=False, kw_only=True)
class Tables:
    """The tables of one broker."""

    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    clients: ClientRegistry
    long_polling: LongPolling
    durable: DurableAnswers
    locks: QueueLockTable
    rates: BrokerRates
    resets: OffsetResets = attrs.Factory(OffsetResets)
    calls: ClientCalls = attrs.Factory(ClientCalls)
