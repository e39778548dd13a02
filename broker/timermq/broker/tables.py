"""The tables and counters that processors share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import trio

from timermq.pipeline.admission.delay_level import DelayLevels
from timermq.pipeline.records.system_topics import OWN_TOPICS
from timermq.pipeline.timer_message_store import TimerMessageStore
from timermq.timerstore.consume_queue import ConsumeQueue

from .admin.broker_rates import BrokerRates, Totals
from .admin.broker_stats import BrokerStats
from .admin.client_calls import ClientCalls
from .admin.offset_reset import OffsetResets
from .admin.put_times import PutTimes
from .client_registry import ClientRegistry
from .consumer_offset import ConsumerOffsetTable
from .consuming.long_polling import LongPolling
from .consuming.queue_lock import QueueLockTable
from .consuming.subscription_questions import SubscriptionQuestions
from .costly_requests import CostlyRequests
from .durable_answers import DurableAnswers
from .durations import Durations
from .metrics.stored_sizes import StoredSizes
from .namesrv.kv_config import KvConfigTable
from .namesrv.own_broker import OwnBroker
from .namesrv.route_table import RouteTable
from .options import BrokerOptions
from .pool import Pools
from .replication.follow_state import FollowRow, FollowState
from .replication.followers import Followers
from .replication.role import Role
from .subscription_group import SubscriptionGroupTable
from .topic_config import TopicConfigTable


@attrs.frozen(eq=False, kw_only=True)
class Tables:
    """What the processors of one broker share: tables, registries, limits and counters."""

    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    clients: ClientRegistry
    long_polling: LongPolling
    durable: DurableAnswers
    followers: Followers
    locks: QueueLockTable
    rates: BrokerRates
    stats: BrokerStats
    put_times: PutTimes
    routes: RouteTable
    own: OwnBroker
    texts: KvConfigTable
    pools: Pools
    costly: CostlyRequests
    topics_made: Durations[bool]
    """Told apart by whether a topic is one of the broker's own."""
    groups_made: Durations[None]
    calls: ClientCalls
    questions: SubscriptionQuestions
    role: Role
    follow_state: FollowState = attrs.Factory(FollowState)
    """How it stands with the master, if there is one."""
    resets: OffsetResets = attrs.Factory(OffsetResets)

    def restore_topics(self, queues: Iterable[ConsumeQueue]) -> None:
        """Add the topics that only the store knows; see ``TopicConfigTable.restore``."""
        nums: dict[str, int] = {}
        for queue in queues:
            if queue.topic not in OWN_TOPICS:
                nums[queue.topic] = max(nums.get(queue.topic, 0), queue.queue_id + 1)
        for topic, queue_nums in nums.items():
            self.topics.restore(topic, queue_nums)

    def follow_row(self) -> FollowRow | None:
        """How it stands with the master that is followed; None of a master."""
        return None if self.role.is_master else self.follow_state.row(trio.current_time())


def make_tables(
    options: BrokerOptions,
    timer_store: TimerMessageStore,
    now_ms: Callable[[], int],
    address: str,
    ha_address: str,
    work_seconds: Callable[[], float],
) -> Tables:
    """Make the tables of a broker that clients connect to at ``address``; nothing is read yet."""
    pools, costly = Pools.of(options), CostlyRequests(work_seconds)
    calls = ClientCalls()
    clients = ClientRegistry(
        current_time=trio.current_time,
        expired_after=options.channel_expired_timeout_ms / 1000,
    )
    long_polling = LongPolling(
        pools.held_pulls,
        costly,
        held_per_session_max=options.held_pulls_per_connection_max,
    )
    followers = Followers(options, timer_store.store.commit_log, trio.current_time)
    stats = _make_stats(options, timer_store, now_ms)
    levels = DelayLevels.parse(timer_store.options.message_delay_level)
    role = Role(options.first_role, options.follower_id)
    topics = TopicConfigTable(options, now_ms=now_ms, level_max=levels.level_max)
    return Tables(
        topics=topics,
        groups=SubscriptionGroupTable(options, now_ms=now_ms),
        offsets=ConsumerOffsetTable(
            now_ms=now_ms, version_step=options.consumer_offset_update_version_step
        ),
        clients=clients,
        calls=calls,
        questions=SubscriptionQuestions(calls, clients, long_polling.holds),
        pools=pools,
        costly=costly,
        long_polling=long_polling,
        durable=DurableAnswers(
            timer_store.store, options.unflushed_answers_max, stats.put_times, followers
        ),
        followers=followers,
        rates=stats.rates,
        stats=stats,
        put_times=stats.put_times,
        routes=RouteTable(current_time=trio.current_time, options=options),
        role=role,
        own=OwnBroker(
            options=options, topics=topics, address=address, ha_address=ha_address, role=role
        ),
        texts=KvConfigTable(),
        topics_made=Durations(now_ms),
        groups_made=Durations(now_ms),
        locks=QueueLockTable(
            current_time=trio.current_time,
            locks_max=options.queue_locks_max,
            live_seconds=options.rebalance_lock_max_live_ms / 1000,
        ),
    )


def _make_stats(
    options: BrokerOptions, timer_store: TimerMessageStore, now_ms: Callable[[], int]
) -> BrokerStats:
    sizes = StoredSizes()
    sizes.begin(timer_store.store)

    def totals() -> Totals:
        counts = timer_store.counts
        return Totals(
            put=timer_store.store.statistics().put_count,
            user_put=sizes.user_count,
            got=rates.got_count,
            user_got=rates.user_got_count,
            found=rates.found_count,
            missed=rates.missed_count,
            enqueued=counts.enqueued,
            dequeued=counts.delivered + counts.rolled + counts.cancelled,
        )

    rates = BrokerRates(totals, now_ms=now_ms, current_time=trio.current_time)
    return BrokerStats(
        store=timer_store.store,
        rates=rates,
        sizes=sizes,
        put_times=PutTimes(now_ms),
        cluster=options.broker_cluster_name,
        current_time=trio.current_time,
    )
